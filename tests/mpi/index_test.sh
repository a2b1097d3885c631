#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that ranks which number records together get the numbers that one rank gets alone, or all get the same error,
# and that they read no more than one rank reads.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
mpi_require
need flock python3
call=$top_builddir/tests/mpi/index_call
testdb=$top_builddir/tests/data/lmdbio-testdb
cd "$scratch"
MPI_LEAKS=:detect_leaks=0 # see stage_call_test.sh

# indexing RANKS PATH [DATABASE]
indexing() {
	ranks=$1
	shift
	rc=0
	mpi_job "$ranks" 1 "$call" "$@" > out 2> err < /dev/null || rc=$?
}

# all_say TEXT
all_say() {
	test "$rc $(grep -cE "^rank [0-9]: $1\$" out)" = "0 $ranks" || { cat out err; return 1; }
}

"$testdb" --seed=3 --flags=keys3000 plain > /dev/null
"$testdb" --seed=3 --flags=dupsort,keys3000 dups > /dev/null
"$testdb" --seed=3 --flags=dupsort,dupfixed,integerkey8,page512,named fixed > /dev/null
for n in 1 2 3 4; do
	indexing $n plain
	judge "index_by_${n}_ranks_is_the_serial_one" all_say '[1-9][0-9]* records, 0 differences'
	indexing $n dups
	judge "index_of_duplicates_by_${n}_ranks_is_the_serial_one" \
		all_say '[1-9][0-9]* records, 0 differences'
done
indexing 3 fixed named
judge index_of_a_named_database_is_the_serial_one all_say '[1-9][0-9]* records, 0 differences'
indexing 2 plain nowhere
judge index_of_no_database_is_MDB_NOTFOUND_on_all_ranks all_say 'error -30798'
indexing 2 nowhere
judge index_of_no_environment_is_ENOENT_on_all_ranks all_say 'error 2'

# Each node reads a staged copy of its own, or one node reads the original.
stage=$top_builddir/tools/lmdbio-stage
mkdir to0 to1 none
"$stage" --quiet --to=to0 plain && "$stage" --quiet --to=to1 plain
for second in to1 none; do
	ranks=2 rc=0
	mpi_job 1 2 env LMDBIO_STAGED=to0 "$call" plain : -n 1 env LMDBIO_STAGED=$second "$call" plain \
		> out 2> err < /dev/null || rc=$?
	judge "index_of_copies_in_to0_and_${second}_is_the_serial_one" all_say '[1-9][0-9]* records, 0 differences'
done
# Files that differ on the nodes are no copies.
mkdir other
(cd other && "$testdb" --seed=4 --flags=keys3000 plain > /dev/null)
rc=0
mpi_job 1 2 "$call" plain : -n 1 -wdir "$PWD/other" "$call" plain > out 2> err < /dev/null || rc=$?
judge index_of_other_data_on_a_rank_is_ESTALE_on_all_ranks all_say 'error 116'
# Nor are those that differ in values alone, which no rank reads to number the records. Other copies are.
mkdir one twin copy
"$top_builddir/tests/stores/stores_make" one 100 20000
cp -p one/data.mdb twin
cp one/data.mdb copy
python3 "$top_srcdir/tests/data/other_values.py" twin/data.mdb
touch -r one/data.mdb twin/data.mdb
touch -d '2024-05-06 07:08:09' copy/data.mdb
for n in 2 4; do
	for last in twin copy; do
		ranks=$n rc=0
		mpi_job $((n - 1)) $n "$call" one : -n 1 "$call" $last > out 2> err < /dev/null || rc=$?
		[ $last = copy ] || judge "index_of_a_twin_on_one_of_${n}_ranks_is_ESTALE_on_all_ranks" all_say 'error 116'
		[ $last = twin ] || judge "index_of_a_copy_on_one_of_${n}_ranks_is_the_serial_one" \
			all_say '[1-9][0-9]* records, 0 differences'
	done
done

# --- what numbering asks of storage ---
if (slowfs_require) > /dev/null; then
	trap 'cd /; slowfs_abandon; rm -rf "$scratch"; mpi_sweep' EXIT
	mkdir -p backing/img backing/small
	"$top_builddir/tests/stores/stores_make" backing/img 400 100000
	"$top_builddir/tests/stores/stores_make" backing/small 100000 100
	slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=0
	export COUNT=1
	for n in 1 4; do
		slowfs_drop
		slowfs_reset
		indexing $n mount/img
		judge "index_by_${n}_ranks_of_large_values_counts" all_say '4[0-9]* records, 0 differences'
		bytes=$(slowfs_stat img/data.mdb:bytes)
		size=$(stat -c %s backing/img/data.mdb)
		echo "   $bytes bytes of $size"
		# Ranks that want the same page at the very same time count as several reads of its chunk, and
		# the seventh brings the chunk.
		judge "index_by_${n}_ranks_reads_next_to_no_values" test "$bytes" -le $((size / 16))
	done
	slowfs_drop
	slowfs_reset
	indexing 4 mount/small
	judge index_by_4_ranks_of_small_values_counts all_say '100000 records, 0 differences'
	requests=$(slowfs_stat small/data.mdb:requests)
	echo "   $requests requests"
	judge index_by_4_ranks_reads_many_leaves_at_a_time test "$requests" -le 400
	slowfs_drop
	slowfs_control "fail data.mdb@8192-99999999:eio"
	indexing 4 mount/img
	judge index_of_bad_storage_is_EIO_on_all_ranks all_say 'error 5'
	slowfs_control clear
	cd /
	slowfs_stop
else
	not_run index_reads_next_to_no_values "no slowfs here"
fi
finish
