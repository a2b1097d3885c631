#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# The original of an environment is the LMDB that the calling module brings with it: extensions with an LMDB inside
# that has visible names, that is bound to itself, or that is of version 1.0; and extensions linked with a library
# beside them.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cc=${CC:-gcc}
sources=$top_srcdir/tests/compat
bundle="$sources/bundled_lmdb.c $sources/bundled_names.c hidden.o"
flags="-fPIC -O2 -I$top_srcdir/lib -I$top_srcdir/tests -shared -Wl,--exclude-libs,ALL"
cd "$scratch"
# An LMDB states its version in one string; bundled_lmdb.c replaces the archive's string by its own.
sed 's/LMDB \(0\.9\.[0-9]*: (\)/lmdb \1/' "$top_builddir/lib/origin/liborigin.a" > bundled.a
archive=bundled.a
$cc -fPIC -fvisibility=hidden -c -o hidden.o "$top_srcdir/tests/data/origin_stderr.c"

# module FILE FLAG...: builds an extension with LMDB inside.
module() {
	file=$1
	shift
	# shellcheck disable=SC2086
	$cc $flags -o "$file" "$sources/bundled_module.c" $bundle "$@" "$archive" -pthread
}
module visible.so
module twin.so -DBUNDLED_MAJOR=0 -DBUNDLED_MINOR=9 -DBUNDLED_PATCH=31
module functions.so -Wl,-Bsymbolic-functions
# LMDB 1.0 inside an extension that compiles only mdb.c and midl.c: without the functions of module.c.
echo '{ local: mdb_mod*; };' > without_module
module later.so -DBUNDLED_MAJOR=1 -DBUNDLED_MINOR=0 -DBUNDLED_PATCH=1 "$sources/bundled_later.c" "$sources/later_names.c" \
	-Wl,--version-script=without_module
module later_functions.so -DBUNDLED_MAJOR=1 -DBUNDLED_MINOR=0 -DBUNDLED_PATCH=1 -Wl,-Bsymbolic-functions
module earlier.so -DBUNDLED_MAJOR=0 -DBUNDLED_MINOR=9 -DBUNDLED_PATCH=16
module development.so -DBUNDLED_MAJOR=0 -DBUNDLED_MINOR=9 -DBUNDLED_PATCH=70
$cc -fPIC -shared -o system.so "$sources/bundled_module.c" -llmdb
# A library of another name, as conda has it; a module and a program are linked with it.
mkdir beside
# shellcheck disable=SC2086
$cc $flags -Wl,-soname,liblmdb.so -o beside/liblmdb.so $bundle "$archive" -pthread
$cc -fPIC -shared -o linked.so "$sources/bundled_module.c" -Lbeside -llmdb -Wl,-rpath,"$scratch/beside"
$cc -o program "$sources/bundled_program.c" -ldl -pthread
$cc -o direct -DDIRECT "$sources/bundled_program.c" "$sources/bundled_module.c" -Lbeside -llmdb -pthread \
	-Wl,-rpath,"$scratch/beside"

# run NAME WHAT MODULE...: without lmdbio, then with it; both outputs must be the same.
run() {
	name=$1 what=$2
	shift 2
	rm -f data*
	timeout 300 "${program:-./program}" "$what" data "$@" > plain 2> err || echo "ended with $?" >> plain
	with_lmdbio "$@"
	same "${name}_gives_the_same" plain out
}

# with_lmdbio MODULE...: with lmdbio only, or with the libraries that $preload names.
with_lmdbio() {
	rm -f data*
	rc=0
	LD_PRELOAD=${preload:-$dropin} LMDBIO_VERBOSE=1 timeout 300 "${program:-./program}" "$what" data "$@" \
		> out 2> err || rc=$?
	judge "${name}_ends_well" test $rc -eq 0
	test $rc -eq 0 || cat err
}

# served VERSION PLACE: whether the banner names that version and place.
served() {
	grep -q "the original is LMDB $1, .*$2\$" err
}

run visible all ./visible.so
judge visible_is_its_own_original served 0.9.35 visible.so
judge visible_reports_its_version grep -q '^version 0.9.35, LMDB 0.9.3' out
# Of a writable environment the module's LMDB makes all seven copies, of a read-only one the four that copy the whole
# file.
judge visible_has_written_and_copied_itself grep -q '^opens 10, copies 11, puts 3005$' err
judge visible_read_only_is_read_by_lmdbio grep -q 'data: read by lmdbio' err
judge visible_writable_is_forwarded grep -q 'data: forwarded, it is opened for writing' err
judge visible_has_no_other_original test "$(grep -c 'the original is' err)" -eq 1

judge visible_environments_are_lmdbio_s sh -c 'grep -q "^serves 1$" err && grep -q "^serves 2$" err &&
	! grep -q "^serves 0$" err'

run functions all ./functions.so
judge functions_bound_to_themselves_are_not_reached sh -c '! grep -q lmdbio err'

for other in earlier later development; do
	run "$other" all ./$other.so
	judge "${other}_is_left_to_itself" grep -q "is left to itself: .*$other.so" err
	judge "${other}_has_handles_of_its_own" sh -c '! grep -q "^serves [12]$" err'
	judge "${other}_is_read_by_itself" sh -c '! grep -q "read by lmdbio" err'
done

# As lmdbio-run starts it: the library for LMDB 1.0 has all names that this module's commit refers to.
preload=$dropin:${dropin%0}1
run later_beside_both all ./later.so
judge later_beside_both_is_left_to_itself grep -q 'is left to itself: .*later.so' err
unset preload

run system all ./system.so
judge system_has_the_built_in_original served '[0-9.]*' 'built in'

run linked all ./linked.so
judge linked_has_the_library_beside served 0.9.35 beside/liblmdb.so
program=./direct
run direct all -
judge direct_has_the_library_beside served 0.9.35 beside/liblmdb.so
program=./program

run deep deep ./visible.so
run crossing crossing ./visible.so ./system.so
judge crossing_has_both_originals sh -c \
	'grep -q "LMDB 0.9.35, .*visible.so" err && grep -q "built in" err'
run twins crossing ./visible.so ./twin.so
judge twins_have_an_original_each sh -c \
	'grep -q "LMDB 0.9.35, .*visible.so" err && grep -q "LMDB 0.9.31, .*twin.so" err'
# Without lmdbio this program crashes: the module's LMDB is unloaded while its environment is open.
name=closing what=closing
with_lmdbio ./visible.so ./system.so
judge closing_reads_all test "$(grep -c "^$(grep -m 1 records out)$" out)" -eq 7
run fork fork ./visible.so
judge fork_is_read_by_lmdbio grep -q 'data: read by lmdbio' err
run locked locked ./visible.so
judge locked_keeps_the_lock grep -q '^lock is gone: 0$' out
run threads threads ./visible.so
LMDBIO_DISABLE=1
export LMDBIO_DISABLE
run disabled all ./visible.so
judge disabled_has_its_own_original grep -q 'LMDB 0.9.35, .*visible.so; disabled' err
unset LMDBIO_DISABLE

# checked NAME EXPECTED-CODE EXPECTED-WORDS PROGRAM WHAT MODULE: what lmdbio-run says about it.
checked() {
	name=$1 code=$2 words=$3
	shift 3
	rm -f data*
	rc=0
	"$lmdbio_run" --check=run -- "$1" "$2" data "$3" > out 2> err || rc=$?
	judge "check_of_${name}_ends_with_${code}" test $rc -eq "$code"
	judge "check_of_${name}_says_why" grep -q "$words" out
}
built_in=$(grep -a -o 'LMDB [0-9.]*: (' "$core" | sed -n '1s/LMDB \(.*\): (/\1/p')
checked system 0 "system.so was bound to lmdbio; LMDB $built_in inside lmdbio" ./program all ./system.so
checked visible 0 'visible.so was bound to lmdbio; its own LMDB 0.9.35 opens' ./program all ./visible.so
judge check_of_visible_knows_no_other_lmdb sh -c '! grep -q "but " out'
checked linked 0 'linked.so was bound to lmdbio; LMDB .* of .*beside/liblmdb.so opens' ./program all ./linked.so
checked functions 1 'functions.so exports an LMDB of its own (0.9.35) .* link it with liblmdb.so.0' \
	./program all ./functions.so
mkdir -p lmdb && cp functions.so lmdb/cpython.so
checked python 1 'LMDB_FORCE_SYSTEM=1 pip install' ./program all ./lmdb/cpython.so
checked earlier 1 'earlier.so carries LMDB 0.9.16, which lmdbio leaves to itself: start the program without lmdbio$' \
	./program all ./earlier.so
# How an LMDB 1.0 inside is recognised, and what it does with files of either format.
does='that LMDB reads and writes data files of LMDB 1.0, and refuses those of LMDB 0.9 (MDB_INVALID)$'
checked later 1 "later.so carries LMDB 1.0.1, which lmdbio leaves to itself: start the program without lmdbio; $does" \
	./program all ./later.so
checked later_functions 1 "later_functions.so exports an LMDB of its own (1.0.1) .*: link it with liblmdb.so.1 instead; $does" \
	./program all ./later_functions.so
finish
