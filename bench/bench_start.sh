#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Measures how long a job takes that does nothing: without lmdbio, with MPI alone, and under lmdbio-run with and without
# --mpi. The differences are what a job's start costs.
#
# bench_start.sh [RANKS]: (4). RUNS=25 of each in turn; prints medians in milliseconds. "mpi" begins MPI, finds its
# place among the ranks and ends MPI; lmdbio-run starts "program" without MPI.
set -eu
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/..}" && pwd)
top_builddir=$(cd "${top_builddir:-$top_srcdir/build}" && pwd)
# shellcheck source-path=SCRIPTDIR source=bench_lib.sh
. "$(dirname "$0")/bench_lib.sh"
ranks=${1:-4} runs=${RUNS:-25}
run=$top_builddir/tools/lmdbio-run
times=$(mktemp -d)
trap 'rm -rf "$times"' EXIT
export LMDBIO_NODE=bench-start-$$

# job NAME COMMAND...: runs a job, and notes its time in tenths of a millisecond.
job() {
	local name=$1 began ended

	shift
	began=$(date +%s%N)
	timeout -k 5 60 mpiexec -n "$ranks" "$@" </dev/null >/dev/null
	ended=$(date +%s%N)
	echo $(((ended - began) / 100000)) >>"$times/$name"
}

for ((i = 0; i < runs; i++)); do
	job true true
	job mpi "$top_builddir/tests/mpi/place_print"
	job program "$run" -- true
	job program_--mpi "$run" --mpi -- true
done
for name in true mpi program program_--mpi; do
	# shellcheck disable=SC2119 # of column 1
	median <"$times/$name" | awk -v name="$name" '{ printf "%-14s %6.1f ms\n", name, $1 / 10 }'
done
