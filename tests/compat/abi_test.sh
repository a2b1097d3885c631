#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks which names the drop-in exports, and which libraries it needs.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need nm readelf ldd
cd "$scratch"

# The original's functions are declared under 69 names.
sed -n 's/^[FP](.*\(mdb_[a-z0-9_]*\), (.*/\1/p' "$top_srcdir/lib/origin/origin_functions.def" \
	"$top_srcdir/lib/origin/origin_lists.def" |
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
judge needs_the_core_of_its_release grep -q "NEEDED.*\[${core##*/}\]" dynamic
# shellcheck disable=SC2016
judge looks_for_the_core_beside_itself grep -q 'RUNPATH.*\[$ORIGIN[]:]' dynamic
sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' dynamic | grep -v -x -e "${core##*/}" -e 'libc\.so\.[0-9]*' \
	-e 'libpthread\.so\.[0-9]*' -e 'libdl\.so\.[0-9]*' -e 'libzstd\.so\.[0-9]*' \
	-e 'ld-linux.*' -e 'liburing.*' > foreign || true
judge needs_libc_zstd_and_liburing_at_most test ! -s foreign
judge loads_no_mpi sh -c "! ldd '$dropin' | grep -qi -e mpi -e ucx"
readelf -Wl "$dropin" > segments
judge stack_is_not_executable sh -c '! grep "GNU_STACK" segments | grep -q "RWE"'

# The core exports no name that a program may have, and binds its own calls to itself.
readelf -Wd "$core" > dynamic
judge core_has_the_soname_of_its_release grep -q "SONAME.*\[${core##*/}\]" dynamic
judge core_has_no_text_relocations sh -c '! grep -q TEXTREL dynamic'
judge core_is_bound_at_load grep -q 'BIND_NOW\|NOW' dynamic
judge core_is_bound_to_itself grep -q SYMBOLIC dynamic
sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' dynamic | grep -v -x -e 'libc\.so\.[0-9]*' \
	-e 'libpthread\.so\.[0-9]*' -e 'libdl\.so\.[0-9]*' -e 'libzstd\.so\.[0-9]*' \
	-e 'ld-linux.*' -e 'liburing.*' > foreign || true
judge core_needs_libc_zstd_and_liburing_at_most test ! -s foreign
nm -D --defined-only "$core" | awk '$2 != "A" { print $3 }' > core.names
release=$("$lmdbio_run" --version | sed 's/.* //')
judge core_shows_something test -s core.names
judge core_shows_private_names_alone sh -c \
	"! grep -v '^lmdbio_\(core\|orig_mdb\)_[a-z0-9_]*@@LMDBIO_PRIVATE_$release\$' core.names"
# It exports exactly the names that the libraries and commands use, in a build that has all of them.
sed -n 's/^lmdbio_core_\(.*\)@@.*/\1/p' core.names | sort > shown
sed -n 's/^#pragma redefine_extname \([a-z0-9_]*\) lmdbio_core_\1$/\1/p' "$top_srcdir/lib/core_names.h" > listed
sort -c listed || judge core_names_are_listed_in_order false
same core_shows_the_names_that_are_listed listed shown
if [ -e "$top_builddir/compat/.libs/liblmdbio-mpi.so.0" ] && [ -e "$top_builddir/tools/lmdbio-stat" ] &&
	[ -e "$top_builddir/tools/lmdbio-top" ]; then
	for file in "$top_builddir"/compat/.libs/*.so.[01] "$top_builddir"/tools/lmdbio-*; do
		nm -D --undefined-only "$file" 2> /dev/null
	done | sed -n 's/.* U lmdbio_core_\([a-z0-9_]*\)@.*/\1/p' | sort -u > used
	same core_shows_what_is_used_alone used shown
else
	not_run core_shows_what_is_used_alone "a build without MPI, jansson or ncurses"
fi

# The system's own library is the one that the loader finds without lmdbio.
system=$(PATH=/sbin:/usr/sbin:$PATH ldconfig -p | awk '$1 == "liblmdb.so.0" { print $NF; exit }')
if [ -n "$system" ]; then
	nm -D --defined-only "$system" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort -u > system.names
	comm -23 system.names exported > lost
	judge exports_all_that_the_system_s_does test ! -s lost
	if command -v abidiff >/dev/null; then
		rc=0
		# Status 4 says that something was added; nothing else may differ.
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
