# SPDX-License-Identifier: OLDAP-2.8
# Functions for tests that fetch from Debian's mirror, with package lists, caches and a dpkg status of their own: the
# system's packages stay as they are. Sourced after harness.sh.
# shellcheck shell=sh
# shellcheck disable=SC2154

# own_apt COMMAND...: apt-get with the mirror's lists only. Their signatures are verified; a mirror that is weeks
# behind is accepted.
own_apt() {
	apt-get -q -o Dir::Etc::sourcelist="$scratch/apt/sources.list" -o Dir::Etc::sourceparts="$scratch/apt/parts" \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$scratch/apt/parts" \
		-o Dir::State="$scratch/apt/state" -o Dir::State::status=/dev/null -o Dir::Cache="$scratch/apt/cache" \
		-o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin \
		-o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=2 \
		-o APT::Update::Error-Mode=any -o Acquire::Check-Valid-Until=false "$@"
}

# mirror_open deb|deb-src RELEASE...: reads the lists of these releases, or skips the test if there is no mirror.
mirror_open() {
	kind=$1
	shift
	# shellcheck disable=SC2016
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
		awk '$2 == "Debian" && $3 == "main" && $1 ~ /debian\/$/ { print $1; exit }')
	mirror=${mirror:-http://deb.debian.org/debian/}
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	[ -e "$keys" ] || skip "no $keys: nothing of Debian's mirror can be verified"
	mkdir -p "$scratch/apt/state/lists/partial" "$scratch/apt/cache/archives/partial" "$scratch/apt/parts"
	for release in "$@"; do
		echo "$kind [signed-by=$keys] $mirror $release main"
	done > "$scratch/apt/sources.list"
	own_apt update > "$scratch/update" 2>&1 || {
		tail -n 5 "$scratch/update"
		grep -q 'Could not resolve\|Could not connect\|Temporary failure\|Unable to connect\|Network is unreachable' \
			"$scratch/update" && skip "$mirror cannot be reached"
		echo "NOT OK the lists of $mirror"
		exit 1
	}
}
