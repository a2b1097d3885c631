#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that no byte counts as received only because MPI says so: if a receive that is reported as complete lacks
# half of its bytes, the servers of a job and its batch loaders read storage instead, and staging fails on all ranks.
# shellcheck source-path=SCRIPTDIR source=loader_job_lib.sh
. "$(dirname "$0")/loader_job_lib.sh"
stores_alone "$@"
job_begin
make_set img 300 98316
loader_job_begin
stage=$top_builddir/tools/lmdbio-stage
broken=$top_builddir/tests/mpi/.libs/broken_receive.so
export BROKEN_RECEIVES=$scratch/broken

# some NAME: some receives were broken; says how many.
some() {
	judge "$1_has_lost_halves" test -s "$BROKEN_RECEIVES"
	echo "-- $1: $(grep -c broken "$BROKEN_RECEIVES") receives lost a half"
	rm -f "$BROKEN_RECEIVES"
}

# --- the servers of a job ---
wanted=$(original scan "$scratch/backing/img" | seen)
for nodes in 2 4; do
	for memory in 64M 24M; do
		name=job_of_${nodes}_with_$memory
		LD_PRELOAD=$broken LMDBIO_MEMORY=$memory job_read "$nodes" "$nodes" 2 img
		equal "${name}_ends_well" 0 "$job_status"
		equal "${name}_sees_the_same" "$wanted" "$(job_seen 1)"
		equal "${name}_sees_the_same_again" "$wanted" "$(job_seen 2)"
		some "$name"
		job_left "$name"
	done
done

# --- batch loaders ---
expects img --batch=14 --epochs=3
for nodes in 2 4; do
	LD_PRELOAD=$broken LMDBIO_MEMORY=40M reads "$nodes" "$nodes" img --batch=14 --epochs=3
	same_as_alone "loader_of_$nodes"
	some "loader_of_$nodes"
done

# --- staging ---
for nodes in 2 4; do
	mkdir "$scratch/to"{0,1,2,3}
	status=0
	LD_PRELOAD=$broken mpi_job "$nodes" "$nodes" "$stage" --verbose --buffer=1M --to="$scratch/to%n" \
		"$scratch/mount/img" >"$scratch/out" 2>"$scratch/err" || status=$?
	judge "staging_of_${nodes}_fails" mpi_ended "$status"
	equal "staging_of_${nodes}_fails_on_all_ranks" "$nodes" \
		"$(grep -c "^rank [0-9]* of $nodes: Input/output error\$" "$scratch/err")"
	judge "staging_of_${nodes}_leaves_nothing" test -z "$(find "$scratch"/to? -mindepth 1)"
	some "staging_of_$nodes"
	rm -r "$scratch/to"?
done
nothing_left "broken_receives"
slowfs_stop
finish
