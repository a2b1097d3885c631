#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# OpenLDAP's server and tools, which have an LMDB of their own inside, answer under lmdbio-run as without it.
#
# Debian's packages are fetched and unpacked, not installed.
# shellcheck disable=SC2317 # answers(): judge calls it
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source=../tools/mirror.sh
. "$top_srcdir/tests/tools/mirror.sh"
need apt-get dpkg-deb
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[ -n "$release" ] || skip "this system is no release of Debian"
mirror_open deb "$release"
cd "$scratch"

# fetched PACKAGE...: unpacks the packages, and those of their libraries that are not installed here, into files/.
fetched() {
	packages=$(own_apt -o Dir::State::status=/var/lib/dpkg/status -s --no-install-recommends install "$@" |
		sed -n 's/^Inst \([^ ]*\) .*/\1/p')
	mkdir -p debs files
	# shellcheck disable=SC2086 # one word for each package
	(cd debs && own_apt download "$@" $packages) &&
		for deb in debs/*.deb; do dpkg-deb -x "$deb" files; done
}
fetched slapd ldap-utils > log 2>&1 || {
	tail -n 5 log
	skip "$mirror has no packages of OpenLDAP for $release"
}
files=$scratch/files
slapd=$files/usr/sbin/slapd
LD_LIBRARY_PATH=$(find "$files" -name '*.so.*' -exec dirname {} + | sort -u | tr '\n' ':')
export LD_LIBRARY_PATH LDAPNOINIT=1 LMDBIO_NODE="$scratch" LMDBIO_VERBOSE=1
url=ldapi://$(echo "$scratch/socket" | sed 's,/,%2F,g')

cat > slapd.conf <<END
include $files/etc/ldap/schema/core.schema
modulepath $(dirname "$(find "$files" -name back_mdb.so)")
moduleload back_mdb
pidfile $scratch/pid
database mdb
suffix "dc=example,dc=org"
directory $scratch/db
maxsize 67108864
index objectClass eq
sizelimit unlimited
END
awk 'BEGIN {
	print "dn: dc=example,dc=org\nobjectClass: organization\nobjectClass: dcObject\ndc: example\no: example\n"
	for (i = 1; i <= 2000; i++)
		printf "dn: cn=%d,dc=example,dc=org\nobjectClass: device\ncn: %d\ndescription: entry %d\n\n", i, i, i
}' > in.ldif

ldap() {
	"$files/usr/bin/ldapsearch" -x -LLL -H "$url" -b dc=example,dc=org "$@"
}

# answers OUT WAY...: fills a new directory, prints it with slapcat, and asks the server.
answers() {
	out=$1
	shift
	rm -rf db
	mkdir db
	"$@" "$slapd" -Tadd -f slapd.conf -l in.ldif 2> "$out.add" &&
		"$@" "$slapd" -Tcat -f slapd.conf 2> "$out.err" | sed '/^entryCSN\|^entryUUID\|Timestamp:/d' > "$out" ||
		return 1
	"$@" "$slapd" -d 0 -f slapd.conf -h "$url" 2> "$out.server" &
	server=$!
	trap 'kill "$server" 2> /dev/null || true; wait; rm -rf "$scratch"' EXIT
	until ldap -s base > answered 2>&1; do
		kill -0 "$server" || return 1
	done
	ldap '(cn=1*)' >> "$out" || return 1
	grep "$dropin" "/proc/$server/maps" > "$out.maps" || true
	kill "$server"
	wait "$server"
}
judge original_answers answers plain env
judge lmdbio_answers answers served "$lmdbio_run" --
same answers_are_the_same plain served
judge slapcat_and_server_have_given_all test "$(grep -c '^dn: cn=[0-9]*,dc=example,dc=org$' plain)" -eq 3111
judge slapcat_has_its_own_original grep -q 'the original is LMDB 0\.9\.[0-9]*, .*back_mdb' served.err
judge slapcat_reads_by_lmdbio grep -q 'db: read by lmdbio' served.err
judge server_has_lmdbio_in_it test -s served.maps
judge server_without_lmdbio_has_none test ! -s plain.maps
finish
