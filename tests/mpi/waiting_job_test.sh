#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a rank that waits for others sleeps, and that a service with nothing to do sleeps longer and longer.
#
# Sleeps are counted, and processor time as a share of the wait, which other processes do not lengthen. A thread that
# polls without a pause takes a whole processor, or what a busy machine leaves it, and never sleeps. Measured figures
# are far below the bounds: 1 % of a processor for a rank, 0.2 % for a service, 35 sleeps a second.
# shellcheck source-path=SCRIPTDIR source=loader_job_lib.sh
. "$(dirname "$0")/loader_job_lib.sh"
stores_alone "$@"
job_begin
make_set img 100 49160
loader_job_begin
export LMDBIO_MEMORY=64M

job_status=0
mpi_job 4 4 "$top_builddir/tests/mpi/waiting_job" 4000 "$scratch/mount/img" >"$scratch/out" 2>"$scratch/err" || job_status=$?
[ "$job_status" = 0 ] || cat "$scratch/err"
equal job_ends_well 0 "$job_status"
awk '$4 > 500000' "$scratch/out" | sort -k 2,3 -k 1,1

# most WAIT THREAD WHAT [FIRST-RANK]: the largest figure of all these threads: thousandths of the wait in which they
# had a processor, or sleeps a second.
most() {
	awk -v wait="$1" -v thread="$2" -v what="$3" -v first="${4:-0}" '
		$2 == wait && $3 == thread && $1 >= first {
			n++
			value = what == "sleeps" ? $5 * 1e9 / $6 : $4 * 1000 / $6
			if (value > most) most = value
		}
		END { print n ? int(most) : "none" }' "$scratch/out"
}

equal services_there_are 4 "$(grep -c ' idle lmdbio-peers ' "$scratch/out")"
at_most idle_services_sleeps_a_second "$(most idle lmdbio-peers sleeps)" 100
at_most idle_services_thousandths_of_a_processor "$(most idle lmdbio-peers processor)" 10
# All ranks but the one that the others wait for.
at_most waiting_ranks_thousandths_of_a_processor "$(most open program processor 1)" 100
# For records of a rank that is stopped, ranks wait a quarter of a second; then they read storage. Their services
# still wait for its answers.
at_most ranks_that_wait_for_a_peer_thousandths_of_a_processor "$(most batch program processor 1)" 100
at_most services_that_wait_for_a_peer_thousandths_of_a_processor "$(most batch lmdbio-peers processor 1)" 100
judge ranks_have_waited_for_a_peer awk '$1 && $2 == "batch" && $3 == "program" && $6 > 2e8 { n++ } END { exit !n }' \
	"$scratch/out"
at_most ranks_that_wait_for_the_end_thousandths_of_a_processor "$(most end process processor 1)" 100
equal ranks_that_have_waited_for_the_end 3 "$(awk '$1 && $2 == "end" && $6 > 3e9' "$scratch/out" | wc -l)"
job_left waiting_job

# The job ends in the same way with the node's server inside the program, where the ranks' sessions of MPI end
# together. lmdbio-run cannot preload a sanitized library.
if [ "${with_sanitizer:-no}" = no ]; then
	job_status=0
	# shellcheck disable=SC2016
	mpi_job 4 4 bash -c 'export LMDBIO_NODE=$LMDBIO_NODE-$PMI_RANK; exec "$@"' - \
		"$lmdbio_run" --mpi=inside -- "$top_builddir/tests/mpi/waiting_job" 4000 "$scratch/mount/img" inside \
		>"$scratch/out" 2>"$scratch/err" || job_status=$?
	[ "$job_status" = 0 ] || cat "$scratch/err"
	equal job_with_servers_inside_ends_well 0 "$job_status"
	at_most ranks_with_servers_inside_that_wait_for_the_end_thousandths_of_a_processor \
		"$(most end process processor 1)" 100
	equal ranks_with_servers_inside_that_have_waited 3 "$(awk '$1 && $2 == "end" && $6 > 3e9' "$scratch/out" | wc -l)"
	job_left job_with_servers_inside
fi
slowfs_stop
finish
