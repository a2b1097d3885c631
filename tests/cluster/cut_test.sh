#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# A host loses its network in the middle of a job: all programs go on, each with the hosts that it can reach, and the
# job ends when the network is back, or when it is ended.
# shellcheck source-path=SCRIPTDIR source=cluster_lib.sh disable=SC2034,SC2154
. "$(dirname "$0")/cluster_lib.sh"
cluster_begin
unset LMDBIO_PATIENCE # some are waited for in vain
make_set img 300 196620
size=$(file_size img)
slowfs_start "$scratch/backing" "$scratch/mount"
cluster_start 4

# part RANKS RANK: what the original reads of a rank's part.
part() {
	original --stride="$1" --first="$2" scan "$scratch/backing/img" | seen
}

# cut_job NAME HOSTS PERCENT: one rank on each host; the last host's network is cut when storage has been asked for
# PERCENT of the set. Returns when all programs have ended.
# shellcheck disable=SC2016
cut_job() {
	local name=$1 hosts=$2 rank

	rm -f "$scratch"/seen.* "$scratch"/over.*
	cold
	# Slow storage: the moment must not pass before the loop below sees it.
	slowfs_control "bandwidth 60"
	job_set=$scratch/mount/img mpi_job "$hosts" "$hosts" "$lmdbio_run" --mpi -- sh -c '
		"$job_reader" --stride="$PMI_SIZE" --first="$PMI_RANK" scan "$job_set" >"$job_scratch/seen.$PMI_RANK.1"
		echo $? >"$job_scratch/over.$PMI_RANK"' >"$scratch/job.log" 2>&1 &
	job=$!
	until [ "$(slowfs_stat img/data.mdb:bytes)" -gt $((size * $3 / 100)) ]; do
		kill -0 "$job" || { cat "$scratch/job.log"; exit 1; }
		sleep 0.01
	done
	cluster_cut $((hosts - 1)) down
	judge "${name}_is_not_through_by_then" test ! -e "$scratch/over.0"
	slowfs_control "bandwidth 1500"
	for ((rank = 0; rank < hosts; rank++)); do
		until [ -s "$scratch/over.$rank" ]; do
			kill -0 "$job" || break
			sleep 0.05
		done
		equal "${name}_rank_${rank}_ends_well" 0 "$(cat "$scratch/over.$rank")"
		equal "${name}_rank_${rank}_sees_the_same" "$(part "$hosts" "$rank")" "$(job_seen 1 "$rank")"
	done
	# A host that cannot reach an owner reads storage itself.
	at_most "${name}_bytes" "$(slowfs_stat img/data.mdb:bytes)" $((size * hosts * 103 / 100))
}

for hosts in 2 4; do
	name=host_of_${hosts}_cut_for_a_while
	cut_job "$name" "$hosts" 30
	cluster_cut $((hosts - 1)) up
	rc=0
	wait "$job" || rc=$?
	equal "${name}_job_ends_well" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/job.log"
	cluster_left "$name"
done

# The network stays cut: so does the launcher's own connection, so its user, or the batch system, ends the job.
name=host_cut_for_good
cut_job "$name" 4 30
judge "${name}_is_waited_for" kill -0 "$job"
for pid in $(cluster_processes 0); do
	[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != mpiexec.hydra ] || kill -TERM "$pid"
done
wait "$job" || true
for host in 0 1 2; do
	until [ -z "$(cluster_processes "$host")" ]; do
		sleep 0.05
	done
	judge "${name}_leaves_host_${host}" true
done
# No launcher can reach the processes on the host without a network; they end when its network is back, or with the
# host.
cluster_cut 3 up
until [ -z "$(cluster_processes 3)" ]; do
	sleep 0.05
done
job_killed=1
cluster_left "$name"
job_left "$name"
cluster_stop
slowfs_stop
finish
