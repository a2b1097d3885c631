#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Runs jobs whose ranks keep their loaders quiet around every collective, as contrib/trainer does, and sees
# that no rank is left without an answer meanwhile.
#
# While a rank waits for a batch, all other ranks wait in their collectives. So a record that another rank is to read
# must be read in that rank's quiet time. The loader counts the ranks that are alive and owe an answer for ten
# seconds: there must be none.
# shellcheck source-path=SCRIPTDIR source=loader_job_lib.sh
. "$(dirname "$0")/loader_job_lib.sh"
stores_alone "$@"
job_begin
make_set img 300 49160
loader_job_begin

# Each rank has the memory of its node; all further ranks have the last node's. Homes are where there is room.
# shellcheck disable=SC2016
rank_memory='
	read -ra room <<<"$job_rooms"
	at=$((PMI_RANK < ${#room[@]} ? PMI_RANK : ${#room[@]} - 1))
	LMDBIO_MEMORY=${room[at]} exec "$@"'

# hushed RANKS ROOMS ARGUMENT...
hushed() {
	local ranks=$1 name

	job_rooms=$2
	shift 2
	export job_rooms
	name="${ranks}_ranks_with_${job_rooms// /_}"
	cold
	job_status=0
	mpi_job "$ranks" "$ranks" bash -c "$rank_memory" - "$program" --hush --batch=12 --epochs=2 "$@" \
		"$scratch/mount/img" >"$scratch/out" 2>"$scratch/err" || job_status=$?
	ranks_said
	[ "$job_status" = 0 ] || cat "$scratch/err"
	grep -v '^#' "$scratch/out" | sort >"$scratch/came"
	same_as_alone "$name"
	equal "${name}_all_tell" "$ranks" "$(grep -c 'questions were given up' "$scratch/err")"
	equal "${name}_owe_no_answer" 0 "$(sed -n 's/.* questions were given up, \([0-9]*\) of them to ranks that were alive.*/\1/p' \
		"$scratch/err" | awk '{ sum += $1 } END { print sum + 0 }')"
	judge "${name}_have_asked" grep -q ' peer [1-9]' "$scratch/out"
}

expects img --batch=12 --epochs=2
for rooms in "64M 64M" "64M 8M" "8M 64M" "12M 12M"; do
	hushed 2 "$rooms"
done
hushed 3 "8M 64M 8M"
hushed 4 "8M 8M 24M"
job_left quiet_jobs
slowfs_stop
finish
