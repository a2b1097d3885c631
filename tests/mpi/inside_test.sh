#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that programs with MPI of their own, however they begin and end it, read the right bytes with the server
# inside them, and end as they would without it.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
make_set img 300 196620
slowfs_start "$scratch/backing" "$scratch/mount"
program=$top_builddir/tests/mpi/inside_reader
set_path=$scratch/mount/img
size=$(file_size img)
export INSIDE_READY="until $top_builddir/tools/lmdbio-serve --status >/dev/null 2>&1; do sleep 0.05; done"

# inside_run RANKS PROGRAM...: as lmdbio-run --mpi=inside starts it; each rank is a node. Its output is in out. With
# by_hand=_by_hand as with LMDBIO_MPI=1, which does not say which process is the rank.
by_hand=
inside_run() {
	local ranks=$1

	shift
	rc=0
	cold
	# shellcheck disable=SC2016
	mpi_job "$ranks" "$ranks" bash -c 'export LMDBIO_NODE=$LMDBIO_NODE-$PMI_RANK; exec "$@"' - \
		"$lmdbio_run" --mpi=inside -- env ${by_hand:+-u LMDBIO_MPI_PID} "$@" >"$scratch/out" 2>"$scratch/err" || rc=$?
}

# inside_job HOW RANKS: runs the test's program.
inside_job() {
	inside_run "$2" "$program" "$1" "$set_path"
}

# inside HOW RANKS: the same; it must end well.
inside() {
	inside_job "$@"
	equal "$1_with_$2_ranks${by_hand}_ends_well" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/err"
}

# sum: of all lines that the ranks have printed.
sum() {
	python3 -c '
import sys
lines = [line.split() for line in sys.stdin]
print(sum(int(l[0]) for l in lines), sum(int(l[1]) for l in lines),
      "%016x" % (sum(int(l[2], 16) for l in lines) % 2**64))' <"$scratch/out"
}

# refusals WHY: how many lines say that a node is not served for that reason.
refusals() {
	grep -c "^lmdbio: the node \(is\|was\) not served: .*$1" "$scratch/err" || true
}

expected=$(INSIDE_READY=true "$program" never "$scratch/backing/img")

# served HOW RANKS: the job reads each byte once, where ranks without a server would each read all of them. The job is
# repeated if it read more: on a busy machine a rank reads a few chunks for itself, so up to a tenth more is allowed,
# and only a cost that recurs in every try counts.
served() {
	local try bytes most=$((size * 110 / 100))

	for try in $job_tries; do
		inside "$@"
		equal "$1_with_$2_ranks${by_hand}_sees_the_same" "$expected" "$(sum)"
		bytes=$(slowfs_stat img/data.mdb:bytes)
		[ "$bytes" -gt "$most" ] || break
		echo "-- $1_with_$2_ranks$by_hand: $bytes bytes at try $try"
	done
	at_most "$1_with_$2_ranks${by_hand}_bytes" "$bytes" "$most"
}

# An interpreter loads MPI after it has begun, and the last rank opens nothing: no rank waits for it.
interpreted() {
	local try bytes most=$((size * 110 / 100))

	for try in $job_tries; do
		inside_run "$1" /usr/bin/python3 "$top_srcdir/tests/mpi/inside_python.py" "$set_path"
		equal "interpreter_with_$1_ranks_ends_well" 0 "$rc"
		[ "$rc" = 0 ] || cat "$scratch/err"
		equal "interpreter_with_$1_ranks_sees_all" "300 $((300 * 196620))" \
			"$(awk '{ n += $1; bytes += $2 } END { printf "%d %d", n, bytes }' "$scratch/out")"
		bytes=$(slowfs_stat img/data.mdb:bytes)
		[ "$bytes" -gt "$most" ] || break
		echo "-- interpreter_with_$1_ranks: $bytes bytes at try $try"
	done
	at_most "interpreter_with_$1_ranks_bytes" "$bytes" "$most"
}

# A single rank; in some of these forms only lmdbio's session begins MPI.
for how in plain multiple early single later never; do
	inside "$how" 1
	equal "${how}_with_1_rank_sees_the_same" "$expected" "$(sum)"
	equal "${how}_with_1_rank_says_nothing" 0 "$(refusals .)"
done
job_left programs_with_1

for ranks in 2 4; do
	# Also before the programs begin MPI, without MPI, and whatever thread level they ask for.
	for how in plain multiple early single funneled later never; do
		served "$how" "$ranks"
		equal "${how}_with_${ranks}_ranks_says_nothing" 0 "$(refusals .)"
	done
	by_hand=_by_hand
	for how in plain multiple; do
		served "$how" "$ranks"
	done
	# Not served, but right: MPI has the thread level that was asked for first.
	for how in never single funneled later; do
		INSIDE_READY=true inside "$how" "$ranks"
		equal "${how}_with_${ranks}_ranks_by_hand_sees_the_same" "$expected" "$(sum)"
		# The launcher's node is this machine, however many nodes MPICH makes of it.
		case $how in
		single | funneled) equal "${how}_with_${ranks}_ranks_by_hand_is_said_once" 1 \
			"$(refusals MPI_THREAD_MULTIPLE)" ;;
		*) equal "${how}_with_${ranks}_ranks_by_hand_says_nothing" 0 "$(refusals .)" ;;
		esac
	done
	by_hand=
	# A rank's child that is linked with MPI as well does not begin MPI in the rank's place.
	INSIDE_READY="$INSIDE_READY && INSIDE_READY=true $program never $set_path >&2" inside plain "$ranks"
	equal "parent_of_another_with_${ranks}_ranks_sees_the_same" "$expected" "$(sum)"
	equal "child_with_${ranks}_ranks_sees_its_part" "$ranks" "$(grep -c '^[1-9][0-9]* [0-9]* [0-9a-f]*$' "$scratch/err")"
	# The last rank opens nothing.
	inside absent "$ranks"
	if /usr/bin/python3 -c 'import lmdb' 2>/dev/null; then
		interpreted "$ranks"
	else
		echo "-- no python3-lmdb here"
	fi
	job_left "programs_with_$ranks"
	# A rank that fails ends the job, as it would without a server: while it is served, or before all ranks have begun
	# MPI.
	for ready in "$INSIDE_READY" true; do
		INSIDE_READY=$ready inside_job exit "$ranks"
		judge "exit_of_one_of_${ranks}_ends_the_job_${ready%% *}" mpi_ended "$rc"
	done
	until [ -z "$(job_processes)" ]; do
		sleep 0.05
	done
	job_killed=1 job_left "exit_of_one_of_$ranks"
done
# One rank never begins MPI: a program that is linked with MPI waits for it, and says so.
rm -f "$scratch/out" "$scratch/err"
# shellcheck disable=SC2016
mpi_job 2 2 bash -c '[ "$PMI_RANK" = 0 ] || exec sleep 100; exec "$@"' - \
	"$lmdbio_run" --mpi=inside -- "$program" never "$set_path" >"$scratch/out" 2>"$scratch/err" &
job=$!
until grep -qs "^lmdbio: MPI waits for ranks of the job" "$scratch/err" || ! kill -0 "$job" 2>/dev/null; do
	sleep 0.05
done
judge "rank_that_never_begins_mpi_is_waited_for" kill -0 "$job"
equal "rank_that_never_begins_mpi_is_said" 1 "$(grep -c '^lmdbio: MPI waits for ranks of the job' "$scratch/err")"
pkill -KILL -f "$program never $set_path" || true
wait "$job" 2>/dev/null || true
until [ -z "$(job_processes)" ]; do
	sleep 0.05
done
job_killed=1 job_left "rank_that_never_begins_mpi"
slowfs_stop
finish
