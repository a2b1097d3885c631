#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# The service of nodes whose programs compute takes next to no processor time.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
make_set img 100 98316
slowfs_start "$scratch/backing" "$scratch/mount"

cold
job_run 2 2 "$top_builddir/tests/mpi/idle_reader" "$scratch/mount/img"
[ "$job_status" = 0 ] || cat "$scratch/job.log"
grep -E '^-?[0-9]+ -?[0-9]+ [0-9]+$' "$scratch/job.log" >"$scratch/used" || true
read -r service own most < <(awk '{ if ($1 > s) s = $1; if ($2 > o) o = $2; m = $3 } END { print s+0, o+0, m+0 }' \
	"$scratch/used")
equal "job_that_waits_ends_well" 0 "$job_status"
equal "programs_that_have_measured" 2 "$(wc -l <"$scratch/used")"
at_most "server_processor_us_while_programs_wait" "${service:-none}" "${most:-0}"
at_most "threads_processor_us_while_programs_wait" "${own:-none}" "${most:-0}"
job_left "job_that_waits"
slowfs_stop
finish
