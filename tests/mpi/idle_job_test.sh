#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# While a node's programs compute, its server takes next to no processor time.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
make_set img 100 98316
slowfs_start "$scratch/backing" "$scratch/mount"

# used JOB SERVERS PROGRAMS: the largest processor time of a server and of a program, as the programs print them.
used() {
	[ "$job_status" = 0 ] || cat "$scratch/job.log"
	grep -E '^-?[0-9]+ -?[0-9]+ [0-9]+ [0-9]+$' "$scratch/job.log" >"$scratch/used" || true
	read -r service own most servers < <(awk '{ if ($1 > s) s = $1; if ($2 > o) o = $2; m = $3; n = $4 }
		END { print s+0, o+0, m+0, n+0 }' "$scratch/used")
	equal "$1_ends_well" 0 "$job_status"
	equal "$1_has_its_servers" "$2" "$servers"
	equal "$1_has_measured" "$3" "$(wc -l <"$scratch/used")"
	at_most "$1_servers_processor_us" "${service:-none}" $((most * $2))
	at_most "$1_programs_processor_us" "${own:-none}" "${most:-0}"
	job_left "$1"
}

cold
job_run 2 2 "$top_builddir/tests/mpi/idle_reader" "$scratch/mount/img"
used job_that_waits 2 2

# The programs of some ranks have ended: their servers wait for the last program.
# shellcheck disable=SC2016
job_run 4 4 bash -c '[ "$PMI_RANK" = 3 ] || set -- "$@" once; exec "$@"' - \
	"$top_builddir/tests/mpi/idle_reader" "$scratch/mount/img"
used job_of_one_program_that_waits 4 1
slowfs_stop
finish
