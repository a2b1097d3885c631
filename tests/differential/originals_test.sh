#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Answers follow the original, whichever release it is: the comparisons with the original run again with the liblmdb.a
# of each Debian release that the mirror has.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source=../tools/mirror.sh
. "$top_srcdir/tests/tools/mirror.sh"
need apt-get dpkg-deb make objcopy
[ -x "$top_builddir/tests/differential/answers_test" ] || skip "the comparisons were not built"
unset MAKEFLAGS MFLAGS MAKELEVEL
# This system's own release is left out: the comparisons themselves use it.
releases=
for release in bookworm trixie sid; do
	grep -qsx "VERSION_CODENAME=$release" /etc/os-release || releases="$releases $release"
done
operations=${DIFF_OPERATIONS:-50000}
[ -z "${TESTS_LONG:-}" ] || operations=5000000
unset TESTS_LONG
export TMPDIR="$scratch"

# shellcheck disable=SC2086
mirror_open deb $releases

# original RELEASE: puts its liblmdb.a, under private names, into $scratch/RELEASE/liborigin.a.
original() {
	mkdir -p "$scratch/$1/deb"
	(cd "$scratch/$1/deb" && own_apt download "liblmdb-dev/$1") > "$scratch/$1/log" 2>&1 &&
		dpkg-deb -x "$scratch/$1"/deb/*.deb "$scratch/$1/files" &&
		archive=$(find "$scratch/$1/files" -name liblmdb.a) &&
		sh "$top_srcdir/lib/origin/private_names.sh" nm objcopy "$archive" "$scratch/$1/liborigin.a" &&
		# A newer release's archive refers to functions that this system's libc may not have yet.
		objcopy --redefine-sym __isoc23_strtol=strtol "$scratch/$1/liborigin.a"
}

# run NAME PROGRAM: one case; all of its output goes into the log.
run() {
	rc=0
	"$2" > "$scratch/out" 2>&1 || rc=$?
	grep ' operations on ' "$scratch/out" || tail -n 1 "$scratch/out"
	[ "$rc" = 0 ] || tail -n 60 "$scratch/out"
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
