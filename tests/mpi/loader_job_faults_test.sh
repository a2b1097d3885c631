#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks failures of one rank of a job, or of storage, under the batch loader: all other ranks get their records. All
# ranks get the same answer when their arguments do not fit together.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
stores_alone "$@"
job_begin
make_set img 200 98316
make_set other 190 98316
cp -r "$scratch/backing/img" "$scratch/backing/copy"
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=4000
program=$top_builddir/tests/mpi/loader_job
MPI_LEAKS=:detect_leaks=0 # see stage_call_test.sh
size=$(file_size img)
export LMDBIO_MEMORY=64M LOADER_JOB=$scratch/job
mkdir "$scratch/job"

# Each rank's output goes to a file of its own. As $job_act says, $job_rank gets $job_more as further arguments, or as
# another set.
# shellcheck disable=SC2016
one_rank='
	set_path=$job_set
	if [ "$PMI_RANK" = "$job_rank" ]; then
		case $job_act in
		arguments) set -- "$@" $job_more ;;
		path) set_path=$job_more ;;
		esac
	fi
	exec "$@" "$set_path" >"$job_scratch/rank.$PMI_RANK"'

# job_loader RANKS NODES ARGUMENT...
job_loader() {
	local ranks=$1 nodes=$2

	shift 2
	cold
	rm -f "$scratch"/rank.* "$scratch"/job/*
	job_status=0
	job_set=$scratch/mount/img mpi_job "$ranks" "$nodes" bash -c "$one_rank" - "$program" \
		--batch=20 --epochs=2 "$@" >"$scratch/out" 2>"$scratch/err" || job_status=$?
	[ "$job_status" = 0 ] || cat "$scratch/err"
}

samples() {
	grep -v '^#' "$scratch/$1"
}

# What each rank gets in a job without faults.
for ranks in 2 4; do
	job_loader "$ranks" "$ranks" --apart
	equal "job_of_${ranks}_ends_well" 0 "$job_status"
	for ((rank = 0; rank < ranks; rank++)); do
		samples "rank.$rank" >"$scratch/expected.$ranks.$rank"
	done
done

job_loader 1 1 --apart
samples rank.0 >"$scratch/expected.1"
job_loader 1 1 --sessions --apart
equal single_rank_with_sessions_alone_ends_well 0 "$job_status"
judge single_rank_with_sessions_alone_gets_all cmp "$scratch/expected.1" <(samples rank.0)

# others_are_right NAME RANKS ACTING: all ranks but ACTING have got all their records.
others_are_right() {
	local rank

	equal "$1_with_$2_ranks_ends_well" 0 "$job_status"
	for ((rank = 0; rank < $2; rank++)); do
		[ "$rank" = "$3" ] || judge "$1_with_$2_ranks_rank_${rank}_gets_all" \
			cmp "$scratch/expected.$2.$rank" <(samples "rank.$rank")
	done
	job_left "$1_with_$2_ranks"
}

# --- a rank that closes early, in either epoch, or ends MPI without closing ---
for ranks in 2 4; do
	for at in 1 15; do
		job_loader $ranks $ranks --apart --act=close --rank=1 --at=$at
		others_are_right "close_at_$at" $ranks 1
	done
	job_loader $ranks $ranks --apart --act=end --rank=0 --at=8
	others_are_right end_without_close $ranks 0
	# A program that uses only sessions of MPI calls no MPI_Finalize.
	for act in close end; do
		job_loader $ranks $ranks --sessions --apart --act=$act --rank=0 --at=8
		others_are_right "${act}_with_sessions_alone" $ranks 0
	done
done

# --- a rank that is quiet from the beginning, and reads nothing, still reads what others ask for ---
# With little read ahead the others ask for a few records at a time, and not always for those that come first.
for ranks in 2 4; do
	LMDBIO_VERBOSE=1 job_loader $ranks $ranks --memory=1000000 --act=quiet --rank=1 --at=0
	others_are_right quiet $ranks 1
	equal "quiet_with_${ranks}_ranks_owes_no_answer" 0 "$(sed -n 's/.* given up, \([0-9]*\) of them to .*/\1/p' \
		"$scratch/err" | awk '{ sum += $1 } END { print sum + 0 }')"
done

# --- a rank that fails ends the job, as it would without a loader ---
job_is_over() {
	[ -z "$(job_processes)" ]
}
for ranks in 2 4; do
	job_loader $ranks $ranks --act=exit --rank=1 --at=3 2>/dev/null >"$scratch/log"
	judge "exit_with_${ranks}_ranks_ends_the_job" mpi_ended "$job_status"
	until [ -z "$(job_processes)" ]; do
		sleep 0.05
	done
	job_killed=1 job_left "exit_with_${ranks}"
	job_loader $ranks $ranks --sessions --act=exit --rank=1 --at=3 2>/dev/null >"$scratch/log"
	judge "exit_with_${ranks}_ranks_and_sessions_alone_ends_the_job" mpi_ended "$job_status"
	await job_is_over || true
	job_killed=1 job_left "exit_with_${ranks}_and_sessions_alone"
done

# --- a rank that is stopped: the others finish, by storage, before it continues ---
# go_on_after RANKS: continues the stopped rank when all others have finished.
go_on_after() {
	until [ -e "$scratch/job/stopped" ] && [ "$(find "$scratch/job" -name 'done.*' | wc -l)" -ge $(($1 - 1)) ]; do
		sleep 0.02
		[ ! -e "$scratch/over" ] || return 1
	done
	kill -CONT "$(cat "$scratch/job/stopped")"
}
for ranks in 2 4; do
	rm -f "$scratch/over" "$scratch"/job/*
	go_on_after $ranks &
	waits=$!
	# With little read ahead many records are still to be asked for after the rank has stopped.
	LMDBIO_VERBOSE=1 job_loader $ranks $ranks --apart --memory=1000000 --act=stop --rank=1 --at=1
	: >"$scratch/over"
	judge "stop_with_${ranks}_ranks_is_passed_by" wait $waits
	others_are_right stop $ranks none
done
judge stopped_rank_is_told grep -q 'rank 1 does not answer' "$scratch/err"
judge stopped_rank_is_in_the_statistics grep -q ' peers 2$' "$scratch"/rank.[023]

# --- storage that fails ---
for ranks in 2 4; do
	slowfs_control "fail img/data.mdb@$((size / 2)):eio:2"
	job_loader $ranks $ranks --apart
	others_are_right storage_failing_twice $ranks none
	slowfs_control clear
done
slowfs_control "fail img/data.mdb@$((size / 2 / 4096 * 4096))-$((size / 2 / 4096 * 4096 + 4095)):eio"
job_loader 4 4 --apart --skip
slowfs_control clear
equal storage_failing_always_ends_well 0 "$job_status"
equal storage_failing_always_is_one_record_an_epoch "2 1" "$(cat "$scratch"/rank.? |
	sed -n 's/^# error 5 of //p' | sort | uniq -c | awk '{ print $1; n++ } END { print n }' | xargs)"
equal storage_failing_always_leaves_the_rest $((2 * 200 - 2)) "$(cat "$scratch"/rank.? | grep -vc '^#')"
job_left storage_failing_always

# --- ranks that do not fit together ---
# all_say NAME CODE
all_say() {
	equal "$1_ends_well" 0 "$job_status"
	equal "$1_is_the_same_on_all_ranks" "# rank 0: $2 # rank 1: $2 # rank 2: $2 # rank 3: $2" \
		"$(cat "$scratch"/rank.? | xargs)"
	job_left "$1"
}
export job_act job_more job_rank=2
EINVAL=22 ENOENT=2 ESTALE=116
job_act=arguments
for job_more in --seed=5 --batch=21 --order=block; do
	job_loader 4 4
	all_say "another_${job_more//[-=]/}" $EINVAL
done
job_act=path job_more=$scratch/mount/other
job_loader 4 4
all_say another_data_set $ESTALE
job_more=$scratch/mount/none
job_loader 4 4
all_say no_data_set_on_one_rank $ENOENT
job_rank=0
job_loader 4 2
all_say no_data_set_on_the_first_rank $ENOENT
job_rank=2 job_more=$scratch/mount/copy
job_loader 4 4 --apart
others_are_right a_copy_on_one_rank 4 none
slowfs_stop
finish
