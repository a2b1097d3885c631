#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks which names the drop-in exports, and what it may need to load.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need nm readelf ldd
cd "$scratch"

# The 69 names are those that the original's functions are declared under.
sed -n 's/^[FP](.*\(mdb_[a-z0-9_]*\), (.*/\1/p' "$top_srcdir/lib/origin/origin_functions.def" |
	sed 's/,.*//' | sort > original
judge the_list_has_69_names test "$(wc -l < original)" -eq 69
{
	cat original
	printf '%s\n' mdb_env_copy3 mdb_env_copyfd3
} | sort > expected
nm -D --defined-only "$dropin" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort -u > exported
grep -v '^lmdbio_' exported > exported.mdb || true
same exports_the_original_and_two_names expected exported.mdb
judge exports_no_private_original sh -c '! grep -q "^lmdbio_orig_" exported'
readelf -Wd "$dropin" > dynamic
judge soname_is_that_of_debian grep -q 'SONAME.*\[liblmdb\.so\.0\]' dynamic
judge has_no_text_relocations sh -c '! grep -q TEXTREL dynamic'
judge is_bound_at_load grep -q 'BIND_NOW\|NOW' dynamic
judge is_bound_to_itself grep -q SYMBOLIC dynamic
sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' dynamic | grep -v -x -e 'libc\.so\.[0-9]*' \
	-e 'libpthread\.so\.[0-9]*' -e 'libdl\.so\.[0-9]*' -e 'libzstd\.so\.[0-9]*' \
	-e 'ld-linux.*' -e 'liburing.*' > foreign || true
judge needs_libc_zstd_and_liburing_at_most test ! -s foreign
judge loads_no_mpi sh -c "! ldd '$dropin' | grep -qi -e mpi -e ucx"
readelf -Wl "$dropin" > segments
judge stack_is_not_executable sh -c '! grep "GNU_STACK" segments | grep -q "RWE"'

# The system's own library is the one that the loader finds without us.
system=$(PATH=/sbin:/usr/sbin:$PATH ldconfig -p | awk '$1 == "liblmdb.so.0" { print $NF; exit }')
if [ -n "$system" ]; then
	nm -D --defined-only "$system" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort -u > system.names
	comm -23 system.names exported > lost
	judge exports_all_that_the_system_s_does test ! -s lost
	if command -v abidiff >/dev/null; then
		rc=0
		# 4: something was added, and that is all that may be.
		abidiff --no-show-locs "$system" "$dropin" > abidiff.out 2>&1 || rc=$?
		judge abidiff_finds_additions_alone test $rc -eq 0 -o $rc -eq 4
		test $rc -eq 0 -o $rc -eq 4 || cat abidiff.out
		judge abidiff_finds_nothing_removed sh -c \
			'! grep -E "(^|[^0-9])[1-9][0-9]* (Removed|Changed)" abidiff.out'
	else
		not_run abidiff_finds_additions_alone "no abigail-tools"
	fi
else
	not_run exports_all_that_the_system_s_does "no system liblmdb.so.0"
fi
finish
