#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what an epoch after the first reads where the memory of all nodes together holds the data set and the
# programs keep it open: nothing from storage, and less than all of it from the other nodes.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
make_set img 600 196620
make_set cifar 28000 3090
slowfs_start "$scratch/backing" "$scratch/mount" -o log
export SETS_READER=$top_builddir/tests/mpi/sets_reader SETS_GATE=$scratch/gate job_set

# shellcheck disable=SC2016
epochs_part='exec "$SETS_READER" 2 "$job_set" >"$job_scratch/told.$PMI_RANK"'

# told LINES RANKS: whether each rank has printed so many lines.
told() {
	[ "$(cat "$scratch"/told.* 2>/dev/null | wc -l)" -eq $(($1 * $2)) ]
}

# told_wait LINES RANKS: waits until all ranks have printed those lines, or the job has ended.
told_wait() {
	until told "$1" "$2" || ! kill -0 "$job" 2>/dev/null; do
		sleep 0.01
	done
}

# log_rows: what slowfs has logged of $set, a row for each read.
log_rows() {
	grep " $set/data.mdb\$" "$scratch/mount/.slowfs/log" || true
}

# log_judge ROWS: prints the bytes of the first ROWS reads of the log, and those that later reads have in common with
# them. Bytes that were still being read ahead when the second epoch began are none of the latter.
log_judge() {
	log_rows | python3 -c '
import sys
rows, seen, first, again = int(sys.argv[1]), set(), 0, 0
for row, line in enumerate(sys.stdin):
    at, served = int(line.split()[1]), int(line.split()[3])
    pages = range(at // 4096, (at + served + 4095) // 4096)
    if row < rows:
        first += served
        seen.update(pages)
    else:
        again += 4096 * sum(page in seen for page in pages)
print(first, again)' "$1"
}

# epoch_seen LINE: what all ranks together saw in that epoch.
epoch_seen() {
	local file

	for file in "$scratch"/told.*; do
		sed -n "$1p" "$file" >"${file/told/seen}.$1"
	done
	job_seen "$1"
}

# epochs SET RANKS NODES MEMORY: sets first to the bytes of the first epoch, and second to those of them that the
# second epoch read again.
epochs() {
	local rows

	set=$1 job_set=$scratch/mount/$1
	rm -f "$scratch"/told.* "$scratch"/seen.* "$SETS_GATE".*
	cold
	(LMDBIO_MEMORY=$4 job_run "$2" "$3" sh -c "$epochs_part" && exit "$job_status") &
	job=$!
	touch "$SETS_GATE.1"
	told_wait 1 "$2"
	rows=$(log_rows | wc -l)
	touch "$SETS_GATE.2"
	rc=0
	wait "$job" || rc=$?
	read -r first second < <(log_judge "$rows")
}

# second_epoch SET RANKS NODES MEMORY: the second epoch reads no byte again. The job is repeated if it did: on a busy
# machine a rank that waits too long reads storage itself, so only a cost that recurs in every try counts.
second_epoch() {
	local name=second_epoch_of_$1_of_$2_ranks_on_$3_nodes_with_$4 whole try

	whole=$(original scan "$scratch/backing/$1" | seen)
	for try in $job_tries; do
		epochs "$@"
		[ "$second" -gt 0 ] || break
		echo "-- $name: $second bytes after $first at try $try"
	done
	equal "${name}_ends_well" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/job.log"
	equal "${name}_first_sees_the_same" "$whole" "$(epoch_seen 1)"
	equal "${name}_sees_the_same" "$whole" "$(epoch_seen 2)"
	# Otherwise nothing was counted.
	judge "${name}_follows_one_that_read" test "$first" -ge "$(($(file_size "$1") * 9 / 10))"
	equal "${name}_bytes" 0 "$second"
	job_left "$name"
}

# Each node holds all of it; in the third job no node does, but all together do.
second_epoch img 2 2 256M
second_epoch img 4 2 256M
second_epoch cifar 4 4 80M
# The same, with two ranks that share the little room that a node has besides its part. The pages at which a cursor
# stands stay there: otherwise they would come back by a page fault of the file's own map.
second_epoch img 4 2 88M
# A node's part of the set takes nearly all of its memory.
second_epoch cifar 4 2 72M

# kept SET RANKS NODES MEMORY MIB: the nodes ask one another for at most MIB in four epochs. If nothing were kept from
# one epoch to the next, they would ask for four times what is not a node's own.
kept() {
	local name=kept_of_$1_of_$2_ranks_on_$3_nodes_with_$4 most=$(($(file_size "$1") * 101 / 100)) bytes others try

	whole=$(original scan "$scratch/backing/$1" | seen)
	for try in $job_tries; do
		rm -f "$scratch"/told.* "$scratch"/seen.*
		cold
		# shellcheck disable=SC2016
		LMDBIO_VERBOSE=1 LMDBIO_MEMORY=$4 job_set=$scratch/mount/$1 job_run "$2" "$3" sh -c \
			'unset SETS_GATE; exec "$SETS_READER" 4 "$job_set" >"$job_scratch/told.$PMI_RANK"'
		bytes=$(slowfs_stat "$1/data.mdb:bytes")
		others=$(sed -n 's/.* \([0-9]*\) MiB from other nodes.*/\1/p' "$scratch/job.log" | awk '{ n += $1 } END { print n + 0 }')
		[ "$others" -gt "$5" ] || [ "$bytes" -gt "$most" ] || break
		echo "-- $name: $others MiB of others, $bytes bytes at try $try"
	done
	equal "${name}_ends_well" 0 "$job_status"
	equal "${name}_sees_the_same" "$whole" "$(epoch_seen 4)"
	at_most "${name}_bytes" "$bytes" "$most"
	judge "${name}_asks_others" test "$others" -gt $(($(file_size "$1") * ($3 - 1) >> 20))
	at_most "${name}_mib_of_others" "$others" "$5"
	job_left "$name"
}

# 456 and 1311 MiB if nothing is kept; a node has room for 26 chunks of the others' 57, and for 31 of 82.
kept img 2 2 104M 340
kept cifar 4 4 80M 1000

# Each rank reads all of the set twice, each time in an order of its own and by a new program.
# shellcheck disable=SC2016
shuffled_part='
	for epoch in 1 2; do
		"$job_reader" --records=600 --count=600 --seed=$((2 * PMI_RANK + epoch)) get "$job_set" \
			>"$job_scratch/seen.$PMI_RANK.$epoch" || exit
	done'
whole=$(original scan "$scratch/backing/img" | seen)
for try in $job_tries; do
	cold
	rm -f "$scratch"/seen.*
	LMDBIO_MEMORY=76M job_set=$scratch/mount/img job_run 4 2 sh -c "$shuffled_part"
	bytes=$(slowfs_stat img/data.mdb:bytes)
	[ "$bytes" -gt "$(($(file_size img) * 103 / 100))" ] || break
	echo "-- shuffled: $bytes bytes at try $try"
done
equal shuffled_ends_well 0 "$job_status"
for rank in 0 1 2 3; do
	for epoch in 1 2; do
		equal "shuffled_${epoch}_of_${rank}_sees_the_same" "$whole" "$(seen <"$scratch/seen.$rank.$epoch")"
	done
done
at_most shuffled_bytes "$bytes" $(($(file_size img) * 103 / 100))
job_left shuffled
slowfs_stop
finish
