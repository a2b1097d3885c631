#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# What only this file knows: that lmdbio-dump writes byte for byte what mdb_dump writes, for every
# kind of database and every option, and more carefully where mdb_dump says nothing of damage.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
testdb=$top_builddir/tests/data/lmdbio-testdb
tool=$top_builddir/tools/lmdbio-dump
need mdb_dump mdb_load
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"
beside mdb_dump "$tool"

# --- random databases, every option ---
count=21
[ -z "${TESTS_LONG:-}" ] || count=315
n=0
while [ $n -lt $count ]; do
	rm -rf db
	"$testdb" --seed=23 --number=$n db > made
	line=$(head -n 1 made)
	sub=$(sed -n 's/^\([^ (:]*\): [0-9]* entries.*/\1/p' made | head -n 1)
	for options in '' -p -a -ap -l -la; do
		agree ${options:+"$options"} db
	done
	[ -z "$sub" ] || agree -s "$sub" db
	[ -z "$sub" ] || agree -p -s "$sub" db
	agree -n db/data.mdb
	rm -f db/data.mdb-lock
	n=$((n + 1))
done
echo "$compared outputs compared"
judge dump_of_random_databases_is_the_originals test $differences -eq 0 -a $compared -ge $((count * 7))

# --- usage and errors ---
"$testdb" --flags=named,keys50 db2 > /dev/null
both_same dump_without_arguments_same
both_same dump_unknown_letter_same -x db2
both_same dump_missing_argument_same -s
both_same dump_two_paths_same db2 db2
both_same dump_all_and_subdb_same -a -s named db2
both_same dump_subdb_and_list_same -s named -l db2
both_same dump_missing_subdb_same -s nosuch db2
both_same dump_empty_subdb_name_same -s '' db2
both_same dump_missing_directory_same nosuch
both_same dump_version_same -V
both_same dump_output_not_writable_same -f /no/such/file db2
mkdir garbage && head -c 9000 /dev/zero > garbage/data.mdb
both_same dump_no_database_same garbage
"$testdb" --flags=plain,keys5 plain > /dev/null
both_same dump_all_of_plain_values_same -a plain
mdb_dump -f theirs.file -a db2
"$tool" -f ours.file -a db2
same dump_into_a_file_same theirs.file ours.file

# --- long names ---
mdb_dump -ap db2 > expected
"$tool" --all --print db2 > found
same dump_long_all_print expected found
mdb_dump -l db2 > expected
"$tool" --list db2 > found
same dump_long_list expected found
mdb_dump -s named db2 > expected
"$tool" --subdb=named --output=found db2
same dump_long_subdb_output expected found
"$tool" --no-subdir -s named db2/data.mdb > found
same dump_long_no_subdir expected found
"$tool" -s named db2/data.mdb > found
same dump_of_the_file_itself_needs_no_option expected found
mv db2/data.mdb db2.mdb
"$tool" --no-lock -s named db2.mdb > found
same dump_of_a_file_elsewhere expected found
judge dump_no_lock_makes_no_lock_file test ! -e db2.mdb-lock

# --- there and back ---
mkdir back
"$testdb" --flags=named,dupsort,keys30,dups200 dups > /dev/null
"$tool" -a dups > dumped
mdb_load -f dumped back 2> /dev/null # it does not know two words of mdb_dump
mdb_dump -a back > again
same dump_loaded_again_is_the_same dumped again

# --- containers ---
convert=$top_builddir/tools/lmdbio-convert
if [ -x "$convert" ]; then
	mkdir packed
	"$convert" -q dups/data.mdb packed/data.mdb.zst
	"$tool" -a packed > found
	same dump_of_a_container_is_the_same dumped found
else
	not_run dump_of_a_container_is_the_same "no lmdbio-convert in this build"
fi

# --- what mdb_dump does not notice ---
"$testdb" --flags=plain,keys3000 broken > /dev/null
"$tool" broken > whole
# The second leaf in the order of keys: the root's second child, below branch pages or not.
"$top_builddir/tools/lmdbio-dump" broken | head -n 2000 > /dev/null || true
size=$(wc -c < broken/data.mdb)
dd if=/dev/zero of=broken/data.mdb bs=4096 seek=$((size / 4096 / 2)) count=1 conv=notrunc 2>/dev/null
rc=0
"$tool" broken > found 2> err || rc=$?
judge dump_of_damage_fails test $rc -eq 1
judge dump_of_damage_says_so grep -q 'broken: MDB_CORRUPTED' err
judge dump_of_damage_has_no_end_mark sh -c '! grep -q DATA=END found'
rc=0
"$tool" db > /dev/full 2> err || rc=$?
judge dump_to_a_full_disk_fails test $rc -eq 1
judge dump_to_a_full_disk_says_so grep -q 'No space left' err
LMDBIO_DISABLE=1 "$tool" plain > found
mdb_dump plain > expected
same dump_disabled_reads_all_the_same expected found

# --- the reader goes away ---
"$testdb" --flags=huge,keys12 large > /dev/null
rc=0
{ "$tool" large || echo $? > code; } | head -c 1 > /dev/null
judge dump_into_a_closed_pipe_ends test "$(cat code)" -eq 141
if command -v python3 > /dev/null; then
	# The pipe is full, or will be, when the signal comes: nobody reads on before it has come.
	cat > interrupt.py <<'END'
import signal, subprocess, sys
dump = subprocess.Popen([sys.argv[1], "large"], stdout=subprocess.PIPE,
                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
begin = dump.stdout.read(4096)
dump.send_signal(signal.SIGINT)
rest = dump.stdout.read()
print(dump.wait(), begin.startswith(b"VERSION=3"), b"DATA=END" in rest)
END
	python3 interrupt.py "$tool" > found
	echo "130 True False" > expected
	same dump_interrupted_says_so_and_has_no_end_mark expected found
else
	not_run dump_interrupted_says_so_and_has_no_end_mark "no python3"
fi
finish
