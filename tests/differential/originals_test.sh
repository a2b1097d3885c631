#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Answers follow the original, whichever it is: the comparisons with the original run once more with
# the liblmdb.a of each Debian release that the mirror has.
#
# apt works with lists, caches and a status of its own here; the system's packages stay as they are.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need apt-get dpkg-deb make objcopy
[ -x "$top_builddir/tests/differential/answers_test" ] || skip "the comparisons were not built"
unset MAKEFLAGS MFLAGS MAKELEVEL
releases="bookworm trixie sid"
operations=${DIFF_OPERATIONS:-150000}
[ -z "${TESTS_LONG:-}" ] || operations=5000000
unset TESTS_LONG
export TMPDIR="$scratch"

# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
	awk '$2 == "Debian" && $3 == "main" && $1 ~ /debian\/$/ { print $1; exit }')
mirror=${mirror:-http://deb.debian.org/debian/}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keys" ] || skip "no $keys: nothing of Debian's mirror can be verified"
mkdir -p "$scratch/apt/state/lists/partial" "$scratch/apt/cache/archives/partial" "$scratch/apt/parts"
for release in $releases; do
	echo "deb [signed-by=$keys] $mirror $release main"
done > "$scratch/apt/sources.list"

# own_apt COMMAND...: apt-get on the mirror's lists alone.
own_apt() {
	apt-get -q -o Dir::Etc::sourcelist="$scratch/apt/sources.list" -o Dir::Etc::sourceparts="$scratch/apt/parts" \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$scratch/apt/parts" \
		-o Dir::State="$scratch/apt/state" -o Dir::State::status=/dev/null -o Dir::Cache="$scratch/apt/cache" \
		-o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=2 \
		-o APT::Update::Error-Mode=any "$@"
}
own_apt update > "$scratch/update" 2>&1 || {
	tail -n 5 "$scratch/update"
	grep -q 'Could not resolve\|Could not connect\|Temporary failure\|Unable to connect\|Network is unreachable' \
		"$scratch/update" && skip "$mirror cannot be reached"
	echo "NOT OK the lists of $mirror"
	exit 1
}

# original RELEASE: its liblmdb.a, under private names, in $scratch/RELEASE/liborigin.a.
original() {
	mkdir -p "$scratch/$1/deb"
	(cd "$scratch/$1/deb" && own_apt download "liblmdb-dev/$1") > "$scratch/$1/log" 2>&1 &&
		dpkg-deb -x "$scratch/$1"/deb/*.deb "$scratch/$1/files" &&
		archive=$(find "$scratch/$1/files" -name liblmdb.a) &&
		sh "$top_srcdir/lib/origin/private_names.sh" nm objcopy "$archive" "$scratch/$1/liborigin.a" &&
		# A newer release's archive refers to what this system's libc may not have yet.
		objcopy --redefine-sym __isoc23_strtol=strtol "$scratch/$1/liborigin.a"
}

# run NAME PROGRAM: what it says of all that it did goes into the log.
run() {
	rc=0
	"$2" > "$scratch/out" 2>&1 || rc=$?
	grep ' operations on ' "$scratch/out" || tail -n 1 "$scratch/out"
	[ "$rc" = 0 ] || grep -A 6 'FAILED\|NOT OK\|WRONG' "$scratch/out" || tail -n 20 "$scratch/out"
	judge "$1" test "$rc" = 0
}

for release in $releases; do
	if ! original "$release"; then
		tail -n 5 "$scratch/$release/log"
		judge "${release}_has_an_original" false
		continue
	fi
	version=$(strings -a "$scratch/$release/liborigin.a" | sed -n 's/^LMDB \(0\.9\.[0-9]*\): .*/\1/p')
	if ! make -s -C "$top_builddir" compare-with ORIGIN_DIR="$scratch/$release" > "$scratch/log" 2>&1; then
		tail -n 20 "$scratch/log"
		judge "${release}_is_linked" false
		continue
	fi
	echo "-- $release: LMDB $version"
	judge "${release}_is_an_original_of_0.9" test -n "$version"
	run "${release}_answers_what_the_table_says" "$scratch/$release/answers_test"
	export DIFF_OPERATIONS="$operations" DIFF_SEED=41
	run "${release}_operations_agree" "$scratch/$release/differential"
	export DIFF_OPERATIONS="$((operations / 5))" LMDBIO_STORE=arena
	run "${release}_operations_on_an_arena_agree" "$scratch/$release/differential"
	unset LMDBIO_STORE
	run "${release}_beside_a_writer_agrees" "$scratch/$release/writers_test"
done
finish
