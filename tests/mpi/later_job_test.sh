#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a data file of LMDB 1.0, and a container of one, is staged and served as any other: each byte is read
# from storage once, copies and memory hold the same bytes, and programs read them.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
stage=$top_builddir/tools/lmdbio-stage serve=$top_builddir/tools/lmdbio-serve
testdb=$top_builddir/tests/data/lmdbio-testdb
[ -x "$testdb" ] || skip "no lmdbio-testdb in this build"
cd "$scratch"
make_set earlier 120 196620
whole=$(original scan "$scratch/backing/earlier" | seen)
mkdir "$scratch/backing/later" "$scratch/backing/packed"
"$testdb" --later="$scratch/backing/earlier/data.mdb" "$scratch/backing/later"
"$top_builddir/tools/lmdbio-convert" -q "$scratch/backing/later" "$scratch/backing/packed"
size=$(file_size later)
slowfs_start "$scratch/backing" "$scratch/mount"

# copies_of SET FILE DIRECTORY...: one copy lies below each directory, and no other file but seals.
copies_of() {
	local original=$1 file=$2 directory

	shift 2
	for directory in "$@"; do
		[ "$(find "$directory" -type f ! -name '*.seal' | wc -l)" -eq 1 ] &&
			cmp "$original" "$(find "$directory" -type f -name "$file")" || return 1
	done
}

# --- a container made by ranks together ---
mkdir shared
mpi_job 3 2 "$top_builddir/tools/lmdbio-convert" -q --verify mount/later shared >out 2>err </dev/null || cat out err
judge "ranks_make_the_container_that_one_process_makes" cmp backing/packed/data.mdb.zst shared/data.mdb.zst

# --- staged to directories ---
for set in later packed; do
	file=data.mdb
	[ $set = later ] || file=data.mdb.zst
	rm -rf to0 to1
	mkdir to0 to1
	cold
	rc=0
	mpi_job 4 2 "$stage" --to=to%n "mount/$set" >out 2>err </dev/null || rc=$?
	equal "staging_of_${set}_ends_well" 0 $rc
	[ $rc = 0 ] || cat out err
	judge "staging_of_${set}_copies_every_byte" copies_of "backing/$set/$file" $file to0 to1
	LMDBIO_VERBOSE=1 LMDBIO_STAGED=$scratch/to1 reader scan "$scratch/mount/$set" >out 2>err || true
	equal "program_reads_the_copy_of_$set" "$whole" "$(seen <out)"
	judge "program_says_that_it_reads_the_copy_of_$set" grep -q 'its staged copy, which is what is read' err
done
rm -rf to0 to1
mkdir to0 to1
cold
mpi_job 3 2 "$stage" --tier=ssd --to=to%n mount/later >out 2>err </dev/null || cat out err
at_most "parts_ask_storage_for_each_byte_once" "$(slowfs_stat later/data.mdb:bytes)" $((size * 103 / 100))

# --- held in memory ---
for set in later packed; do
	cold
	rc=0
	mpi_job 2 2 "$stage" --quiet --hold "mount/$set" -- env LD_LIBRARY_PATH="$library" LMDBIO_STORE=arena \
		LMDBIO_STATS=1 "$build/stores_reader" scan "$scratch/mount/$set" >out 2>err </dev/null || rc=$?
	equal "program_beside_held_${set}_ends_well" 0 $rc
	[ $rc = 0 ] || cat out err
	equal "both_programs_read_held_$set" "2 $whole" "$(seen <out | uniq -c | sed 's/^ *//')"
	equal "both_programs_find_all_of_held_$set" 2 "$(grep -c 'requests to storage  *0$' err)"
done

# --- by servers ---
for set in later packed; do
	LMDBIO_NODE=$LMDBIO_NODE-$set
	cold
	mpi_job 2 2 "$serve" "$scratch/mount/$set" >serve.log 2>&1 </dev/null &
	served=$!
	for rank in 0 1; do
		until LMDBIO_NODE=$LMDBIO_NODE#$rank "$serve" --status >status 2>/dev/null; do
			kill -0 $served || { cat serve.log; exit 1; }
			sleep 0.05
		done
	done
	for rank in 0 1 0; do
		equal "program_${rank}_of_served_${set}_sees_the_same" "$whole" \
			"$(LMDBIO_NODE=$LMDBIO_NODE#$rank reader scan "$scratch/mount/$set" | seen)"
	done
	[ $set = packed ] ||
		at_most "programs_of_served_${set}_ask_for_each_byte_once" "$(slowfs_stat later/data.mdb:bytes)" \
			$((size * 103 / 100))
	rc=0
	LMDBIO_NODE=$LMDBIO_NODE#0 "$serve" --stop || rc=$?
	equal "servers_of_${set}_are_stopped" 0 $rc
	rc=0
	wait $served || rc=$?
	equal "servers_of_${set}_end_well" 0 $rc
done

# --- by the servers of a job ---
for set in later packed; do
	job_read 4 2 1 $set
	equal "job_that_reads_${set}_ends_well" 0 "$job_status"
	equal "job_that_reads_${set}_sees_the_same" "$whole" "$(job_seen 1)"
done
cd /
slowfs_stop
job_left "job"
finish
