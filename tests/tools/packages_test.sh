#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Builds the Debian packages, and installs, runs and purges them in a bare system of the same release.
#
# One of the long tests: it makes the system with debootstrap.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need dpkg-buildpackage dh debootstrap lintian
[ "$(id -u)" -eq 0 ] || skip "debootstrap wants root"
# shellcheck source=/dev/null
. /etc/os-release
unset MAKEFLAGS MFLAGS CFLAGS LDFLAGS
cd "$scratch"

mkdir lmdbio
(cd "$top_srcdir" && git ls-files -z | xargs -0 cp --parents -t "$scratch/lmdbio")
status packages_are_built 0 env -C lmdbio dpkg-buildpackage -us -uc -b
tail -n 5 err
status lintian_finds_nothing 0 lintian --allow-root --fail-on warning --suppress-tags initial-upload-closes-no-bugs ./*.changes
cat out
mirror=$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" && $2 ~ /^http/ { print $2; exit }' \
	/etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2> /dev/null)
status bare_system_is_made 0 debootstrap --variant=minbase "$VERSION_CODENAME" bare "$mirror"
cp /etc/apt/apt.conf.d/* bare/etc/apt/apt.conf.d/ 2> /dev/null || :
cp ./*.deb bare/root/
rm -f bare/root/*dbgsym*
inside() {
	status "$1" 0 chroot bare sh -euc "$2"
}
inside packages_install 'apt-get update -q && apt-get install -y --no-install-recommends /root/*.deb python3-lmdb'
inside lmdbio_takes_effect 'lmdbio-run --check=run -- python3 -c "import lmdb"'
inside package_reads 'cd /root && python3 -c "
import lmdb
with lmdb.open(\"set\", map_size=1 << 24) as env, env.begin(write=True) as txn:
    for i in range(100): txn.put(b\"%04d\" % i, b\"v\" * 1000)" && lmdbio-check set && python3 -c "
import lmdbio
with lmdbio.Loader(\"set\", 10, seed=1) as loader:
    assert sum(len(b) for b in loader.epoch(0)) == 100"'
inside packages_are_purged 'apt-get purge -y liblmdbio lmdbio-tools lmdbio-mpi liblmdbio-dev python3-lmdbio'
inside nothing_is_left 'test -z "$(find /usr /etc /var/lib -path /var/lib/dpkg -prune -o -name "*lmdbio*" -print)"'
finish
