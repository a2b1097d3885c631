#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# A program that was built for LMDB 1.0 loads lmdbio's liblmdb.so.1: it reads data files of both formats with LMDB
# 1.0's answers, and an LMDB 1.0 does the rest, if there is one. LMDBIO_TEST_LMDB1 names a real one for comparison.
# shellcheck disable=SC2086 # $way, $flags, $stand_in: words of a command
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need nm readelf
cc=${CC:-gcc}
sources=$top_srcdir/tests/compat
testdb=$top_builddir/tests/data/lmdbio-testdb
later=${dropin%0}1
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
real=${LMDBIO_TEST_LMDB1:-}
unset LMDBIO_TEST_LMDB1
cd "$scratch"
LMDBIO_LMDB1=none
export LMDBIO_LMDB1

# --- the names -----------------------------------------------------------------------------------
sed -n 's/^[FP](.*\(mdb_[a-z0-9_]*\), (.*/\1/p' "$top_srcdir/lib/origin/origin_functions.def" \
	"$top_srcdir/lib/origin/origin_lists.def" \
	"$top_srcdir/lib/origin/later_functions.def" | sed 's/,.*//' | sort > names
judge the_lists_have_88_names test "$(sort -u names | wc -l)" -eq 88
printf '%s\n' mdb_env_copy3 mdb_env_copyfd3 | sort -m - names > expected
nm -D --defined-only "$later" | awk '$2 != "A" { print $3 }' | sort > exported
grep '^mdb_' exported > exported.mdb || true
same exports_lmdb_1_0_and_two_names expected exported.mdb
nm -D --defined-only "$dropin" | awk '{ print $3 }' | grep '^lmdbio_' | sort > hints
grep -v '^mdb_' exported > exported.other || true
same exports_the_hints_of_the_other_library hints exported.other
readelf -Wd "$later" > dynamic
judge soname_is_that_of_lmdb_1_0 grep -q 'SONAME.*\[liblmdb\.so\.1\]' dynamic
judge needs_the_core_of_its_release grep -q "NEEDED.*\[${core##*/}\]" dynamic
judge is_bound_to_itself grep -q SYMBOLIC dynamic
judge has_no_text_relocations sh -c '! grep -q TEXTREL dynamic'

# --- a library that stands in for an LMDB 1.0 ------------------------------------------------------
sed 's/LMDB \(0\.9\.[0-9]*: (\)/lmdb \1/' "$top_builddir/lib/origin/liborigin.a" > bundled.a
$cc -fPIC -fvisibility=hidden -c -o hidden.o "$top_srcdir/tests/data/origin_stderr.c"
flags="-fPIC -O2 -w -I$top_srcdir/lib -I$top_srcdir/tests -DBUNDLED_MAJOR=1 -DBUNDLED_MINOR=0 -DBUNDLED_PATCH=1"
mkdir original
$cc $flags -c "$sources/later_original.c" "$sources/later_names.c" "$sources/bundled_lmdb.c" "$sources/bundled_names.c"
stand_in="-Wl,--exclude-libs,ALL later_original.o later_names.o bundled_lmdb.o bundled_names.o hidden.o bundled.a -pthread"
$cc -shared -Wl,-soname,liblmdb.so.1 -o original/liblmdb.so.1 $stand_in
$cc -O1 -I"$top_srcdir/lib" -o program "$sources/later_program.c" original/liblmdb.so.1
$cc -O1 -I"$top_srcdir/lib" -o calls "$sources/later_calls.c" original/liblmdb.so.1
# The same calls from a module with an LMDB 1.0 inside: they reach a library that is preloaded.
$cc $flags -shared -o inside.so "$sources/later_calls.c" $stand_in
cat > inside.c <<'END'
#include <dlfcn.h>
int main(int argc, char **argv)
{
	void *module = dlopen("./inside.so", RTLD_NOW);
	int (*run)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "main") : 0;
	return run ? run(argc, argv) : 2;
}
END
$cc -o inside inside.c
# The same functions from the library for LMDB 0.9: what its program does in the same environment.
printf '%s\n' '#include <lmdb.h>' '#include <stdio.h>' 'int main(int argc, char **argv)' '{' 'MDB_env *env; int major;' \
	'(void)argc; mdb_version(&major, NULL, NULL);' 'if (mdb_env_create(&env)) return 1;' \
	'printf("%d %d %d\n", major, mdb_env_open(env, argv[1], 0, 0644), mdb_env_get_maxkeysize(env));' \
	'mdb_env_close(env); return 0; }' > earlier.c
$cc -o earlier earlier.c -llmdb

# preloaded LIBRARIES COMMAND..., found COMMAND...: runs the command with these libraries preloaded, or with ours in
# the path.
preloaded() {
	LD_PRELOAD=$1
	shift
	env LD_PRELOAD="$LD_PRELOAD" "$@"
}
found() {
	env LD_LIBRARY_PATH="${later%/*}" "$@"
}

# --- reading -----------------------------------------------------------------------------------------
for kind in plain named,dupsort named,dupsort,dupfixed,integerkey8 named,mixed,keys300; do
	rm -rf db later
	"$testdb" --flags=$kind db > made || continue
	"$testdb" --flags=$kind --later later > /dev/null
	status "${kind}_of_0_9_is_read" 0 found LMDBIO_VERBOSE=1 ./program dump db
	judge "${kind}_of_0_9_is_read_by_lmdbio" grep -q 'db: read by lmdbio' err
	cp out db.out
	status "${kind}_of_1_0_is_read" 0 found LMDBIO_VERBOSE=1 ./program dump later
	judge "${kind}_of_1_0_is_read_by_lmdbio" grep -q 'a data file of LMDB 1.0, read by lmdbio' err
	same "${kind}_has_the_same_records_in_both_formats" db.out out
done
judge names_of_databases_were_read grep -q ' name ' db.out
# In a sound file a main database with the flags MDB_DUPSORT and MDB_DUPFIXED holds no named databases.
printf '%s\n' 'multiple: 0' 'key 90 0' > expected
for set in "db 92 4188" "later 100 8292"; do
	# shellcheck disable=SC2086
	set -- $set
	cp -r "$1" "damaged_$1"
	for at in "$2" "$3"; do
		printf '\024' | dd of="damaged_$1/data.mdb" bs=1 seek="$at" conv=notrunc 2> /dev/null
	done
	status "multiple_at_a_name_of_${1}_is_answered" 0 found ./program multiple "damaged_$1"
	same "multiple_at_a_name_of_${1}_leaves_the_key" expected out
done

# --- answers, and calls that need an LMDB 1.0 ------------------------------------------------------
for set in db later; do
	status "${set}_is_asked" 0 found ./program ask $set 0x400000
	grep -v -e '^keys: ' -e '^MDB_stat' -e '^MDB_envinfo' out > $set.ask
done
same answers_do_not_depend_on_the_format db.ask later.ask
cat > expected <<'END'
keys before it is open: 0
page size 100: 22
page size 5000: 22
page size 131072: 22
page size 65536: 0
checksum of nothing: 22
encryption of nothing: 22
unknown flag: 22
flags: 0
4020000
page size of an open one: 1
stat: 0
info: 0
sync: -30770
sync0: -30770
write: -30770
child: 22
create: -30770
put: -30770
put of nothing: 22
put with bits: 22
del: -30770
drop: -30770
cursor put: -30770
cursor put of many: -30784
cursor put of none: 22
cursor del: -30770
flags of no transaction: 22
id of no transaction: 0
no cursor: 0
END
same answers_are_those_of_lmdb_1_0 expected later.ask
judge structs_have_their_size sh -c 'grep -q "^MDB_stat fills 40:" out && grep -q "^MDB_envinfo fills 40: a map there" out'
judge keys_are_as_long_as_lmdb_1_0_has_them grep -q '^keys: 4026$' out

# The address of a map belongs to a process, not to a file.
for set in db later; do
	rm -rf first second
	mkdir first second
	for copy in first second; do
		(cd $copy && found ../program copy ../$set) || true
	done
	same "compacted_copies_of_${set}_are_the_same" first/data.mdb second/data.mdb
done

status refused_without_an_original 0 found LMDBIO_VERBOSE=1 ./program refused new
cat > expected <<'END'
LMDB 1.0.1
1.0.1
-30780 MDB_BAD_DBI
-30779 MDB_PROBLEM
-30778 MDB_BAD_CHECKSUM
-30777 MDB_CRYPTO_FAIL
-30776 MDB_ENV_ENCRYPTION
-30775 MDB_TXN_PENDING
-30774 MDB_CANT_ROLLBACK
-30773 MDB_DBIS_BUSY
-30772 MDB_SHORT_WRITE
-30771 MDB_ENV_BUSY
-30770 MDB_IS_READONLY
-30769 MDB_ADDR_BUSY
No such file or directory
write: 13
encrypt: -30776
previous: 13
module: 1
END
same refusals_are_told_by_their_codes expected out
says writing_is_refused_in_words 'new: writing takes an LMDB 1.0 (none is installed): install one'
says encryption_is_refused_in_words 'encrypted pages takes an LMDB 1.0'
says snapshot_before_is_refused_in_words 'the snapshot before the newest one takes an LMDB 1.0'
judge refusing_makes_no_file test ! -e new
for at in 53 8245; do
	cp -r later encrypted 2> /dev/null || true
	printf '\040' | dd of=encrypted/data.mdb bs=1 seek=$at conv=notrunc 2> /dev/null
done
status encrypted_file_is_refused 1 found LMDBIO_VERBOSE=1 ./program dump encrypted
judge encrypted_file_has_the_code_of_lmdb_1_0 grep -q '^open: -30776,' out
says encryption_is_named 'its pages are encrypted'
# At opening LMDB 1.0 compares the roots, and the page counts of the trees, with the file's length.
cp -r later cut
truncate -s 16384 cut/data.mdb
cp -r later counts
for at in 117 8309; do
	printf '\001' | dd of=counts/data.mdb bs=1 seek=$at conv=notrunc 2> /dev/null
done
for set in cut counts; do
	status "${set}_is_refused" 1 found LMDBIO_VERBOSE=1 ./program dump $set
	says "${set}_is_said_to_be_damaged" "$set/data.mdb: it is damaged: lmdbio-check says where"
	cp out $set.out
done
judge cut_has_the_code_of_lmdb_1_0 grep -q '^open: -30797,' cut.out
judge counts_has_the_code_of_lmdb_1_0 grep -q '^open: -30796,' counts.out
# ... and it takes a device for a data file.
status device_is_refused 1 found LMDBIO_VERBOSE=1 ./program dump /dev/zero
says device_takes_the_original '/dev/zero: reading a device takes an LMDB 1.0 (none is installed): install one'

# --- the functions that LMDB 0.9 does not have -----------------------------------------------------------
status functions_read 0 found ./calls reading later
cat > expected <<'END'
rollback before opening: 22
dump before opening: -30784
load: -30770
rollback: -30770
dump to a descriptor: 0
dump: 0
dump onto a file: 1
dump of nothing new: 0
prepare: -30770
END
same functions_reading_have_the_codes_of_lmdb_1_0 expected out
same dumps_by_name_and_by_descriptor_are_the_same dump dump.fd
judge dump_has_the_pages_of_the_file test "$(wc -c < dump)" -gt 100000
judge dump_of_nothing_new_is_empty sh -c 'test -e dump.none && test ! -s dump.none'
status functions_get_strange_handles 0 found ./calls strange later
judge strange_handles_are_refused_twenty_times test "$(grep -c ': 22$' out)" -eq 20
judge strange_cursors_are_at_no_database test "$(grep -c '^at a database: 0$' out)" -eq 2
judge strange_handles_make_no_file test ! -e strange
status lists_are_sorted 0 found ./calls lists later
{
	printf '%s\n' 'an empty list: 0' 'room for three: 0' 'moved 0' 'pairs 1000, wrong 0, place 500' 'place in an empty list: 1'
	for _ in 1 2 3 4 5; do
		printf '%s\n' 'insert: 0' 'insert once more: -1'
	done
	printf '%s\n' '10 1 1' '20 3 1' '30 2 1' '40 4 1' '50 0 1' 'places 1 4 6'
	for _ in 1 2 3 4 5; do
		echo 'append: 0'
	done
	echo 'places 2 5'
} > expected
same lists_have_the_order_of_lmdb expected out
# A library for LMDB 0.9 opens an environment, and this program uses its handle.
cat > opens.c <<'END'
#include <lmdb.h>
MDB_env *open_writing(const char *path)
{
	MDB_env *env;
	return mdb_env_create(&env) || mdb_env_open(env, path, 0, 0644) ? 0 : env;
}
MDB_txn *begin(MDB_env *env, unsigned flags)
{
	MDB_txn *txn;
	return mdb_txn_begin(env, 0, flags, &txn) ? 0 : txn;
}
END
$cc -shared -fPIC -o opens.so opens.c -llmdb
mkdir earlier.db
printf '%s\n' 'dump to a descriptor: -30784' 'dump: -30784' 'load: 22' 'rollback: 22' 'flags: 0' 0 'prepare: -30784' \
	'flags: 0' 20000 'prepare: -30784' > expected
status functions_get_handles_of_0_9 0 found ./calls earlier earlier.db ./opens.so
same handles_of_0_9_have_no_functions_of_1_0 expected out

# --- with an original ----------------------------------------------------------------------------------
LMDBIO_LMDB1=$scratch/original/liblmdb.so.1
mkdir new
for way in found "preloaded $later" "preloaded $dropin:$later" "preloaded $later:$dropin"; do
	label=$(echo "${way%% *}_$(echo "$way" | tr -cd :01)" | tr ':' '_')
	rm -f new/*
	status "written_by_the_original_$label" 0 $way LMDBIO_VERBOSE=1 ./program write new
	says "original_is_named_$label" 'the original is LMDB 1.0.1, .*original/liblmdb.so.1$'
	says "written_is_forwarded_$label" 'new: forwarded, it is opened for writing'
	judge "written_is_prepared_once_$label" sh -c \
		'grep -q "^prepare: 0$" out && grep -q "^prepare again: -30775$" out && grep -q "^commit: 0$" out'
	judge "written_is_synced_by_the_original_$label" grep -q "the original's mdb_env_sync0" err
	status "written_is_read_$label" 0 $way LMDBIO_VERBOSE=1 ./program dump new
	says "written_is_read_by_lmdbio_$label" 'new: read by lmdbio'
	judge "written_is_there_$label" grep -q ' name named$' out
	# A program for LMDB 0.9 in the same environment: keys have up to 511 bytes, and the built-in LMDB writes.
	[ "$way" = found ] || [ "$way" = "preloaded $later" ] || {
		status "earlier_program_$label" 0 $way ./earlier new
		judge "earlier_program_has_lmdb_0_9_$label" grep -q '^0 0 511$' out
	}
done
status device_has_the_original 1 found LMDBIO_VERBOSE=1 ./program dump /dev/zero
says device_is_left_to_the_original 'cannot open /dev/zero'
judge device_has_the_original_s_code grep -q '^open: 20,' out
status disabled_has_the_original 0 found LMDBIO_DISABLE=1 LMDBIO_VERBOSE=1 ./program dump new
says disabled_is_forwarded 'forwarded, lmdbio is disabled'

# The calls that reach the original: from the program alone, from lmdbio for the program, and from lmdbio for a module
# with that LMDB inside.
mkdir calls.db
both() {
	"$@" 2>&1 | grep -v lmdbio
}
both env LD_LIBRARY_PATH=original ./calls writing calls.db > expected
judge stand_in_has_all_calls test "$(grep -c "^the original's" expected)" -eq 12
judge stand_in_knows_its_environment sh -c '! grep -q another expected'
both found ./calls writing calls.db > out
same functions_are_passed_on_with_all_arguments expected out
both preloaded "$dropin:$later" ./inside writing calls.db > out
same functions_of_an_lmdb_inside_are_passed_on expected out

# A module with functions that encrypt and checksum pages.
cat > crypto.c <<'END'
#include "origin/lmdb_later.h"
#include <string.h>
static int key_of(const char *text, MDB_val *key)
{
	memset(key->mv_data, *text, key->mv_size);
	return 0;
}
static int encrypt(const MDB_val *source, MDB_val *result, const MDB_val *key, int encrypts)
{
	return !source + !result + !key + encrypts;
}
static void sum(const MDB_val *source, MDB_val *result, const MDB_val *key)
{
	memset(result->mv_data, !source + !key, result->mv_size);
}
MDB_crypto_funcs *MDB_crypto(void)
{
	static MDB_crypto_funcs functions = {key_of, encrypt, sum, 16, 12, 8};
	return &functions;
}
MDB_crypto_funcs *hooks_of_another_name(void)
{
	static MDB_crypto_funcs functions = {key_of, encrypt, sum, 24, 12, 8};
	return &functions;
}
END
$cc -shared -fPIC -I"$top_srcdir/lib" -o crypto.so crypto.c
both found ./calls module later ./crypto.so > out
sums="the original's mdb_env_set_checksum of its environment: 1 8"
encrypts="the original's mdb_env_set_encrypt of its environment: 1 12"
cat > expected <<END
0: the module has no function of that name
key 16
$sums
key 70 70 70 70 70 70 70 70 70 70 70 70 70 70 70 70
$encrypts
$sums
key 70 61 73 73 70 68 72 61 73 65 00 00 00 00 00 00
$encrypts
$sums
key 61 20 70 61 73 73 70 68 72 61 73 65 20 6c 6f 6e
$encrypts
none of these encrypts
$sums
$sums
loaded 0
key 24
END
same module_sets_up_an_environment expected out
LMDBIO_LMDB1=none
status disabled_without_an_original_is_refused 1 found LMDBIO_DISABLE=1 LMDBIO_VERBOSE=1 ./program dump new
says disabled_without_an_original_is_told 'LMDBIO_DISABLE takes an LMDB 1.0'
status lmdbio_is_no_original 1 found LMDBIO_LMDB1="$later" LMDBIO_VERBOSE=1 ./program write new
says lmdbio_is_no_original_in_words 'is no LMDB 1.0'
status system_library_is_no_original 1 found LMDBIO_LMDB1="$dropin" LMDBIO_VERBOSE=1 ./program write new

# --- an opening that is refused, and another opening by the same handle -------------------------------
cat > again.c <<'END'
#include <lmdb.h>
int main(void)
{
	MDB_env *env;
	return mdb_env_create(&env) || !mdb_env_open(env, "refused", 0, 0644) ||
	       !mdb_env_open(env, "no-such-place", MDB_RDONLY, 0644);
}
END
$cc -o again again.c original/liblmdb.so.1
status opened_again 0 found LMDBIO_VERBOSE=1 ./again
says opened_again_is_refused_first 'refused: writing takes an LMDB 1.0'
says opened_again_fails_in_words 'no-such-place: .*No such file'

# --- a child of a process that is opening the original -------------------------------------------------
cat > forking.c <<'END'
#include <lmdb.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
/* Runs while lmdbio opens this library as an LMDB 1.0. */
__attribute__((constructor)) static void loaded(void)
{
	int status = -1;
	pid_t pid = fork();
	MDB_env *env;
	if (!pid) {
		alarm(60); /* ends a child that waits for ever */
		_exit(mdb_env_create(&env));
	}
	waitpid(pid, &status, 0);
	printf("child %d\n", status);
}
END
$cc -shared -fPIC -o forking.so forking.c
status forked_meanwhile 0 found LMDBIO_LMDB1="$scratch/forking.so" ./again
judge forked_meanwhile_child_waits_for_no_thread_of_its_parent grep -q '^child 0$' out

# --- beside a real one -----------------------------------------------------------------------------------
if [ -n "$real" ]; then
	mkdir -p real
	ln -sf "$real" real/liblmdb.so.1
	nm -D --defined-only real/liblmdb.so.1 | awk '$2 != "A" && $3 ~ /^mdb_/ { print $3 }' | sort > real.names
	same real_one_exports_the_names names real.names
	for what in "dump later" "ask later 0x400000"; do
		# shellcheck disable=SC2086
		status "real_one_answers_${what%% *}" 0 env LD_LIBRARY_PATH=real ./program $what
		mv out real.out
		# shellcheck disable=SC2086
		status "lmdbio_answers_${what%% *}" 0 found ./program $what
		same "${what%% *}_is_that_of_the_real_one" real.out out
	done
	for set in cut counts; do
		status "real_one_refuses_$set" 1 env LD_LIBRARY_PATH=real ./program dump $set
		same "${set}_is_refused_as_by_the_real_one" out $set.out
	done
	rm -f new/*
	status real_one_writes 0 found LMDBIO_LMDB1="$real" LMDBIO_VERBOSE=1 ./program write new
	says real_one_is_named 'the original is LMDB 1\.'
	mv out ours.out
	mkdir -p newer
	status real_one_writes_alone 0 env LD_LIBRARY_PATH=real ./program write newer
	same writing_is_that_of_the_real_one out ours.out
	status real_one_s_file_is_read 0 found LMDBIO_VERBOSE=1 ./program dump new
	says real_one_s_file_is_read_by_lmdbio 'a data file of LMDB 1.0, read by lmdbio'
else
	not_run beside_a_real_one "LMDBIO_TEST_LMDB1 names no LMDB 1.0"
fi

# --- by lmdbio-run -------------------------------------------------------------------------------------
status run_puts_both_in_place 0 "$lmdbio_run" -v -- ./program dump later
says run_reads_it 'read by lmdbio'
status run_check_knows_it 0 "$lmdbio_run" --check -- ./program
judge run_check_says_that_it_only_reads grep -q 'was built for LMDB 1.0; it only reads' out
status run_check_by_running 0 "$lmdbio_run" --lmdb1="$scratch/original/liblmdb.so.1" --check=run -- ./program dump later
judge run_check_names_the_original grep -q 'LMDB 1.0.1 of .*original/liblmdb.so.1 writes' out
finish
