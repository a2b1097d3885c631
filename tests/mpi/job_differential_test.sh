#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that every rank of a job gets the original's answers, whatever it asks.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
mpi_require
stores_begin
export TMPDIR=$scratch job_scratch=$scratch LMDBIO_STORE=arena
export job_differential=$top_builddir/tests/differential/differential job_operations=$((times * 15000))
[ -x "$job_differential" ] || skip "the comparisons were not built"
# A sequence that hangs is told after two minutes, and is then made shorter.
MPI_SECONDS=$((times * 400))

# agrees NAME RANKS NODES: each rank reads databases of its own, parts of which the other nodes serve.
agrees() {
	# shellcheck disable=SC2016
	LMDBIO_VERBOSE=1 job_run "$2" "$3" sh -c \
		'exec "$job_differential" --seed=$((PMI_RANK + 1)) --operations="$job_operations"'
	equal "$1_ends_well" 0 "$job_status"
	equal "$1_finds_no_difference" "$2" "$(grep -c ': no difference$' "$scratch/job.log")"
	[ -n "${4:-}" ] ||
		judge "$1_is_served" grep -q "node 0 of $3 holds .* [1-9][0-9]* requests" "$scratch/job.log"
	[ "$job_status" = 0 ] || grep -v '^lmdbio: ' "$scratch/job.log" | head -40
}

# With less memory than is worth serving every rank reads by itself.
LMDBIO_MEMORY=1M agrees operations_with_1M 4 2 alone
for io in pread direct; do
	for memory in auto 12M; do
		LMDBIO_IO=$io LMDBIO_MEMORY=$memory agrees "operations_by_${io}_with_$memory" 4 2
	done
done
job_left "operations"
finish
