#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Builds the Debian packages in a bare Debian 12 and a bare Debian 13, and installs, runs and purges
# them in another bare system of the same release.
#
# usage: tests/tools/packages_test.sh [RELEASE...]   bookworm and trixie if none is named
# One of the long tests: it makes the systems with debootstrap.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need debootstrap unshare git
[ "$(id -u)" -eq 0 ] || skip "debootstrap wants root"
unset MAKEFLAGS MFLAGS CFLAGS LDFLAGS
cd "$scratch"
mkdir blocks

mirror=$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" && $2 ~ /^http/ { print $2; exit }' \
	/etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2> /dev/null) || :
mirror=${mirror:-http://deb.debian.org/debian}

# inside NAME SYSTEM COMMANDS: one case, run in that system. Its mounts go when the commands end; the mounts of other
# programs are detached at once, so that none of them stays busy for as long as the commands run.
# shellcheck disable=SC2016
inside() {
	status "$release: $1" 0 env -i LC_ALL=C HOME=/root TERM=dumb DEBIAN_FRONTEND=noninteractive \
		PATH=/usr/sbin:/usr/bin:/sbin:/bin unshare --mount --pid --fork --kill-child bash -euc '
			mount --bind "$0" "$0"
			mount -t proc proc "$0/proc"
			mount --bind /dev "$0/dev"
			mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"
			mount -t tmpfs shm "$0/dev/shm"
			cd "$0"
			pivot_root . mnt
			umount -l /mnt
			cd /
			exec sh -euc "$1"' "$2" "$3"
}

# README's line in two halves: one system builds the packages, another one installs them. apt must not ask anything
# there.
/usr/bin/python3 "$top_srcdir/tests/docs/page_blocks.py" "$top_srcdir/README.md" blocks > out
sed -i 's/apt /&-y -q --no-install-recommends /g' blocks/deb.sh # README.md's blocks/deb.sh
judge README_builds_and_installs grep -q '^apt .* build-dep \./ && dpkg-buildpackage .* && apt .* install [^&]*$' blocks/deb.sh
build_line=$(sed 's/ && apt .* install .*//' blocks/deb.sh) install_line=$(sed 's/.* && //' blocks/deb.sh)

# of_release: all cases of $release.
of_release() {
	local bare=$scratch/$release build=$scratch/$release-build

	status "$release: bare system is made" 0 debootstrap --variant=minbase "$release" "$bare" "$mirror"
	[ "$rc" -eq 0 ] || return 0
	cp /etc/apt/apt.conf.d/*proxy* "$bare/etc/apt/apt.conf.d/" 2> /dev/null || :
	cp /etc/resolv.conf "$bare/etc/"
	cp -a "$bare" "$build"
	mkdir "$build/src" "$build/src/lmdbio"
	(cd "$top_srcdir" && git ls-files -z | xargs -0 cp --parents -t "$build/src/lmdbio")
	inside "packages to build with install" "$build" 'apt-get update -q
		apt-get install -y --no-install-recommends build-essential lintian'
	inside "packages are built" "$build" "cd /src/lmdbio && $build_line"
	inside "lintian finds nothing" "$build" 'cd /src && lintian --allow-root --fail-on warning \
		--suppress-tags initial-upload-closes-no-bugs ./*.changes'
	cat out
	mkdir "$bare/root/checkout"
	cp "$build"/src/*.deb "$bare/root/" || return 0
	rm -rf "$build"
	inside "packages install" "$bare" "apt-get update -q && cd /root/checkout && $install_line &&
		apt-get install -y --no-install-recommends python3-lmdb"
	inside "lmdbio takes effect" "$bare" 'lmdbio-run --check=run -- python3 -c "import lmdb"'
	inside "packages read" "$bare" 'cd /root && python3 -c "
import lmdb
with lmdb.open(\"set\", map_size=1 << 24) as env, env.begin(write=True) as txn:
    for i in range(100): txn.put(b\"%04d\" % i, b\"v\" * 1000)" && lmdbio-check set && python3 -c "
import lmdbio
with lmdbio.Loader(\"set\", 10, seed=1) as loader:
    assert sum(len(b) for b in loader.epoch(0)) == 100"'
	inside "packages are purged" "$bare" \
		'apt-get purge -y liblmdbio lmdbio-tools lmdbio-mpi liblmdbio-dev python3-lmdbio'
	# shellcheck disable=SC2016
	inside "nothing is left" "$bare" \
		'test -z "$(find /usr /etc /var/lib -path /var/lib/dpkg -prune -o -name "*lmdbio*" -print)"'
	rm -rf "$bare"
}

[ $# -gt 0 ] || set -- bookworm trixie
for release; do
	of_release
done
finish
