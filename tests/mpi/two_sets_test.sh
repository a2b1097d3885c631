#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks ranks that have two data sets open at once and read them in different orders: they never wait for one
# another, see the right bytes of both, and read each set from storage once.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
# One set has more records, so that its reading goes on when the other's is over.
make_set img 300 98316
make_set other 9000 3090
slowfs_start "$scratch/backing" "$scratch/mount"
export SETS_READER=$top_builddir/tests/mpi/sets_reader SETS_AT=$scratch/mount

# shellcheck disable=SC2016
sets_part='exec "$SETS_READER" 1 "$SETS_AT/img" "$SETS_AT/other" >"$job_scratch/told.$PMI_RANK"'

# two_sets RANKS NODES: the job is repeated if it cost too much: on a busy machine a rank that waits too long reads
# storage itself, so only a cost that recurs in every try counts.
two_sets() {
	local name=two_sets_in_turn_with_$1_ranks_on_$2_nodes try set bytes costly rank line

	for try in $job_tries; do
		rm -f "$scratch"/told.*
		cold
		job_run "$1" "$2" sh -c "$sets_part"
		costly=0
		for set in img other; do
			bytes=$(slowfs_stat "$set/data.mdb:bytes")
			[ "$bytes" -le $(($(file_size "$set") * 103 / 100)) ] || costly=1
		done
		[ "$costly" = 1 ] || break
		echo "-- $name: $(slowfs_stat img/data.mdb:bytes) and $(slowfs_stat other/data.mdb:bytes) bytes at try $try"
	done
	equal "${name}_end_well" 0 "$job_status"
	[ "$job_status" = 0 ] || cat "$scratch/job.log"
	for ((rank = 0; rank < $1; rank++)); do
		line=0
		for set in img other; do
			line=$((line + 1))
			equal "${name}_rank_${rank}_sees_the_same_of_$set" \
				"$(original --stride="$1" --first="$rank" scan "$scratch/backing/$set" | seen)" \
				"$(sed -n ${line}p "$scratch/told.$rank")"
		done
	done
	for set in img other; do
		at_most "${name}_bytes_of_$set" "$(slowfs_stat "$set/data.mdb:bytes")" \
			$(($(file_size "$set") * 103 / 100))
	done
	job_left "$name"
}

two_sets 2 1
two_sets 2 2
two_sets 4 2
two_sets 4 4
slowfs_stop
finish
