#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks failures and signals of one rank of a job: all other ranks read the right data, and the job ends in order.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
unset LMDBIO_PATIENCE # some are waited for in vain
make_set img 400 98316
make_set other 300 98316
slowfs_start "$scratch/backing" "$scratch/mount"
export job_mount=$scratch/mount job_set=$scratch/mount/img job_other=$scratch/mount/other
size=$(file_size img)

# part SET RANKS RANK: what the original sees of a rank's part, in $part.
declare -A parts
part() {
	if [ -z "${parts[$*]:-}" ]; then
		parts[$*]=$(original --stride="$2" --first="$3" scan "$scratch/backing/$1" | seen)
	fi
	part=${parts[$*]}
}

# job_faulty NAME RANKS NODES ACT STATUS: the last rank does what ACT says, and the others read their parts.
job_faulty() {
	local name=$1_with_$2_ranks rank

	rm -f "$scratch"/seen.*
	cold
	job_act=$4 job_rank=$(($2 - 1)) job_run "$2" "$3" bash "$top_srcdir/tests/mpi/job_rank.sh"
	equal "${name}_ends_with_its_status" "$5" "$job_status"
	[ "$job_status" = "$5" ] || cat "$scratch/job.log"
	for ((rank = 0; rank < $2 - 1; rank++)); do
		part img "$2" "$rank"
		equal "${name}_rank_${rank}_sees_the_same" "$part" "$(job_seen 1 "$rank")"
	done
	job_left "$name"
}

# said NAME TEXT: the last job's output has TEXT.
said() {
	judge "$1_is_said" grep -q -- "$2" "$scratch/job.log"
}

# last_saw NAME RANKS SET: the last rank has read its part, too.
last_saw() {
	part "$3" "$2" $(($2 - 1))
	equal "$1_with_$2_ranks_sees_the_same_itself" "$part" "$(job_seen 1 $(($2 - 1)))"
}

job_faulty_at() {
	job_bytes=$((size * $1 / 100)) job_faulty "$2_at_$1" "$3" "$4" "$5" "$6"
}

# Conditions for await below; job_left reports processes that stay.
# shellcheck disable=SC2317 # await calls them
job_is_gone() {
	[ -z "$(job_processes)" ]
}
# shellcheck disable=SC2317
server_is_stopped() {
	pgrep -P "$rank" -r T lmdbio-server >"$scratch/found"
}

# A process that lmdbio-run starts has lmdbio-run's name until it executes its program.
# shellcheck disable=SC2317
one_waits() {
	pgrep -P "$rank" lmdbio-run >"$scratch/found" && [ "$(wc -l <"$scratch/found")" = 1 ]
}

# The stopped process is the server of its node, because its rank is alone there.
job_faulty_at 0 program_killed 2 2 die 137
job_faulty_at 60 program_killed 2 2 die 137
job_faulty_at 30 program_killed 4 2 die 137
job_faulty_at 95 program_killed 4 4 die 137
for ranks in 2 4; do
	for percent in 0 50 80; do
		job_faulty_at "$percent" server_stopped "$ranks" "$ranks" stop 0
		last_saw "server_stopped_at_$percent" "$ranks" img
	done
done
# A server that is killed, or stopped for ever, affects no other process: not the programs of its own node, nor the
# other servers, nor the job.
for ranks in 2 4; do
	for percent in 0 50 80; do
		job_faulty_at "$percent" server_killed "$ranks" "$ranks" kill 0
		last_saw "server_killed_at_$percent" "$ranks" img
		[ "$percent" -gt 0 ] || said "server_killed_at_0_with_$ranks" "the server of this rank has ended by signal 9"
	done
	job_faulty server_killed_after_its_program "$ranks" "$ranks" kill_after 0
	last_saw server_killed_after_its_program "$ranks" img
done
UCX_TLS=tcp,self job_faulty_at 30 server_killed_over_tcp 4 4 kill 0
last_saw server_killed_over_tcp_at_30 4 img
job_faulty_at 50 server_of_two_killed 4 2 kill 0
last_saw server_of_two_killed_at_50 4 img
job_faulty_at 20 server_stopped_for_ever 2 2 keep_stopped 0
last_saw server_stopped_for_ever_at_20 2 img
for ranks in 2 4; do
	job_faulty rank_that_opens_nothing "$ranks" 2 none 0
	job_faulty early_close "$ranks" 2 close 0
	last_saw early_close "$ranks" img
	job_faulty another_set "$ranks" 2 both 0
	last_saw another_set "$ranks" other
done

# If storage fails to read a block once or twice, the process that needs the block reads it again. If storage never
# reads it, only the calls that need the block return an error.
for ranks in 2 4; do
	slowfs_control "fail img/data.mdb@$((size / 2)):eio:2"
	job_faulty storage_failing_twice "$ranks" "$ranks" read 0
	last_saw storage_failing_twice "$ranks" img
	slowfs_control clear
done
slowfs_control "fail img/data.mdb@$((size / 2)):eio"
rm -f "$scratch"/seen.*
cold
job_act=both job_rank=3 job_run 4 4 bash "$top_srcdir/tests/mpi/job_rank.sh"
equal storage_failing_always_is_told 3 "$job_status"
last_saw storage_failing_always 4 other
job_left storage_failing_always
slowfs_control clear

# On one node the name leads to another version: each node reads its own.
if unshare -m --propagation unchanged true 2>/dev/null; then
	for ranks in 2 4; do
		job_faulty another_version "$ranks" "$ranks" version 0
		last_saw another_version "$ranks" other
	done
else
	echo "-- another_version: no mount namespaces here"
fi

# A server cannot tell the others that its work is over (tag 12), or that it ends (tag 13): the programs end normally.
for tag in 12 13; do
	rm -f "$scratch"/done.*
	status=0
	# shellcheck disable=SC2016
	BROKEN_TAG=$tag LD_PRELOAD=$top_builddir/tests/mpi/.libs/broken_send.so mpi_job 4 4 "$lmdbio_run" --mpi -- \
		sh -c ': >"$1/done.$PMI_RANK"' sh "$scratch" >"$scratch/job.log" 2>&1 || status=$?
	equal "server_without_messages_of_${tag}_ends_the_job_well" 0 "$status"
	equal "server_without_messages_of_${tag}_lets_all_programs_end" 4 "$(find "$scratch" -name 'done.*' | wc -l)"
	job_left "server_without_messages_of_$tag"
done

# A server that is killed while it begins: the job ends, and no program has begun.
for moment in before after; do
	rm -f "$scratch/begun"
	status=0
	KILLED_AT=$moment LD_PRELOAD=$top_builddir/tests/mpi/.libs/killed_at_init.so \
		mpi_job 4 4 "$lmdbio_run" --mpi -- touch "$scratch/begun" >"$scratch/job.log" 2>&1 || status=$?
	judge "server_killed_${moment}_mpi_begins_ends_the_job" mpi_ended "$status"
	judge "server_killed_${moment}_mpi_begins_starts_no_program" test ! -e "$scratch/begun"
	await job_is_gone || true
	job_killed=1 job_left "server_killed_${moment}_mpi_begins"
done

# A rank that cannot begin MPI ends the job. Unless the launcher is told, it takes a process that ends before MPI_Init
# for a program without MPI, and the other ranks wait for ever.
mkdir -p "$scratch/ssd"
for command in "run --mpi -- touch $scratch/begun" "stage --to=$scratch/ssd $scratch/backing/img" serve \
	"convert -q $scratch/backing/img $scratch/ssd/img.zst"; do
	status=0
	# shellcheck disable=SC2016,SC2086
	MPI_SECONDS=60 mpi_job 2 2 sh -c '[ "$PMI_RANK" = 0 ] || ulimit -n 30; exec "$@"' sh \
		"$top_builddir"/tools/lmdbio-$command >"$scratch/job.log" 2>&1 || status=$?
	judge "rank_without_descriptors_ends_the_job_of_${command%% *}" mpi_ended "$status"
	judge "rank_without_descriptors_of_${command%% *}_says_why" grep -q 'MPI does not start: Too many open files: ulimit -n' "$scratch/job.log"
	await job_is_gone || true
	job_killed=1 job_left "rank_without_descriptors_of_${command%% *}"
done
status=0
# shellcheck disable=SC2016
mpi_job 1 1 sh -c 'ulimit -f 100; exec "$@"' sh "$lmdbio_run" --mpi -- true >"$scratch/job.log" 2>&1 || status=$?
judge "rank_whose_files_may_not_be_long_enough_says_why: $status" \
	grep -q 'MPI does not start: File too large: ulimit -f' "$scratch/job.log"
judge rank_without_descriptors_starts_no_program test ! -e "$scratch/begun"

# The same for a rank that refuses what is right on the other nodes: a name that does not exist there, or another
# command line.
# mpiexec would read the input of the loop.
while read -r name command right wrong; do
	status=0
	# shellcheck disable=SC2016,SC2086
	MPI_SECONDS=60 mpi_job 2 2 sh -c '[ "$PMI_RANK" = 0 ] && exec "$1" $2; exec "$1" $3' sh \
		"$top_builddir/tools/lmdbio-$command" "${right//,/ }" "${wrong//,/ }" </dev/null >"$scratch/job.log" 2>&1 || status=$?
	judge "rank_of_${command}_that_refuses_${name}_ends_the_job" mpi_ended "$status"
	await job_is_gone || true
	job_killed=1 job_left "rank_of_${command}_that_refuses_$name"
done <<END
a_directory run --mpi,touch,$scratch/begun --mpi,--staged=missing,touch,$scratch/begun
a_library run --mpi,touch,$scratch/begun --mpi,--library=missing,touch,$scratch/begun
a_program run --mpi=inside,$top_builddir/tests/mpi/inside_reader,plain,$scratch/backing/img --mpi=inside,missing
an_option stage --to=$scratch/ssd,$scratch/backing/img --bad,$scratch/backing/img
a_size stage --tier=memory,$scratch/backing/img --tier=memory,--memory=bad,$scratch/backing/img
a_set serve $scratch/backing/img missing
a_set convert -q,$scratch/backing/img,$scratch/ssd/img.zst -q,missing,$scratch/ssd/img.zst
END
judge rank_that_refuses_starts_no_program test ! -e "$scratch/begun"
rm -rf "$scratch/ssd"

# A waiting program is killed before it is told to begin: its rank ends, and the other ranks go on. The rank's process
# is stopped meanwhile, so that it learns of both at once.
rm -f "$scratch"/done.* "$scratch"/pid "$scratch"/status
# shellcheck disable=SC2016
KILLED_AT=before KILLED_BY=19 LD_PRELOAD=$top_builddir/tests/mpi/.libs/killed_at_init.so mpi_job 2 2 sh -c '
	"$1" --mpi -- touch "$2/done.$PMI_RANK" &
	[ "$PMI_RANK" = 0 ] || { echo $! >"$2/pid.new"; mv "$2/pid.new" "$2/pid"; }
	rc=0
	wait $! || rc=$?
	[ "$PMI_RANK" = 0 ] || echo $rc >"$2/status"' sh "$lmdbio_run" "$scratch" >"$scratch/job.log" 2>&1 &
job=$!
await test -e "$scratch/pid"
rank=$(cat "$scratch/pid")
await server_is_stopped
server=$(pgrep -P "$rank" -r T lmdbio-server)
await one_waits
waiting=$(cat "$scratch/found")
kill -STOP "$rank"
kill -KILL "$waiting"
kill -CONT "$server"
await test -e "$scratch/done.0" || true
kill -CONT "$rank"
wait "$job" || true
equal waiting_program_that_is_killed_is_told 137 "$(cat "$scratch/status")"
job_left waiting_program_that_is_killed

# MPI_Init never returns: the job ends when it is told to.
status=0
KILLED_AT=never LD_PRELOAD=$top_builddir/tests/mpi/.libs/killed_at_init.so MPI_SECONDS=5 MPI_GRACE=120 \
	mpi_job 4 4 "$lmdbio_run" --mpi -- touch "$scratch/begun" >"$scratch/job.log" 2>&1 || status=$?
equal mpi_that_does_not_begin_can_be_interrupted 124 "$status"
judge mpi_that_does_not_begin_starts_no_program test ! -e "$scratch/begun"
await job_is_gone || true
job_killed=1 job_left mpi_that_does_not_begin

# If the process that the launcher has started is killed, the launcher ends the job, and nothing of it stays.
# shellcheck disable=SC2016
job_run 4 2 bash -c '[ "$PMI_RANK" = 3 ] && kill -KILL $PPID; exec "$job_reader" scan "$job_set"'
judge "killed_rank_ends_the_job" test "$job_status" -ne 0
await job_is_gone || true
job_killed=1 job_left "killed_rank"
# Without a launcher the program goes on by itself.
rm -f "$scratch"/seen.*
cold
# shellcheck disable=SC2016
PMI_RANK=0 PMI_SIZE=1 job_rank=0 job_act=read "$lmdbio_run" --mpi -- bash -c \
	'kill -KILL $PPID; "$job_reader" scan "$job_set" >"$job_scratch/seen.0.1"; echo through >"$job_scratch/over"' \
	>"$scratch/job.log" 2>&1 || true
await test -s "$scratch/over" || true
part img 1 0
equal "program_without_its_server_sees_the_same" "$part" "$(job_seen 1 0)"
slowfs_stop
finish
