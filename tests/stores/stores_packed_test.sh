#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks how often chunks of a relaid container are decompressed, and what a second epoch reads from storage.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
convert=$top_builddir/tools/lmdbio-convert
records=200
[ "$times" = 1 ] || records=2000

make_set plain $records 100000 50
for chunk in 1m 128k; do
	mkdir "$scratch/backing/$chunk"
	"$convert" -q --relayout --chunk-size=$chunk "$scratch/backing/plain" "$scratch/backing/$chunk"
done

# epoch SET SEED [VARIABLE=VALUE...]: a new process reads all values in random order; its answers must be the
# original's.
epoch() {
	local set=$1 seed=$2

	shift 2
	rm -f "$scratch/stats"
	slowfs_reset
	line=$(env "$@" LD_LIBRARY_PATH="$library" LMDBIO_STATS="$scratch/stats" "$build/stores_reader" \
		--renew --records=$records --count=$records --seed="$seed" get "$scratch/mount/$set") || true
	[ "$(original --records=$records --count=$records --seed="$seed" get "$scratch/backing/plain" | seen)" = \
		"$(echo "$line" | seen)" ] || wrong=$((wrong + 1))
	decompressed=$(sed -n 's/.*"container_chunks": \([0-9]*\)[,}].*/\1/p' "$scratch/stats")
	bytes=$(slowfs_stat "$set/data.mdb.zst:bytes")
}

# How often the whole machine's page cache has been dropped.
caches_dropped() {
	sed -n 's/^drop_pagecache //p' /proc/vmstat
}

wrong=0
slowfs_start "$scratch/backing" "$scratch/mount"
for set in 1m 128k; do
	size=$(stat -c %s "$scratch/backing/$set/data.mdb.zst")
	chunks=$("$top_builddir/tools/lmdbio-stat" --chunks "$scratch/backing/$set" |
		awk '$1 ~ /^[0-9]+$/ && NF == 6' | wc -l)
	# Memory has room: each chunk is decompressed once.
	slowfs_drop
	epoch $set 1
	at_most "chunks_of_${set}_that_memory_holds" "$decompressed" "$chunks"
	# Memory has too little room: each value costs its chunk. Then the page cache holds the container: a later
	# process reads only what opening it takes. Both again if another test has dropped the machine's caches.
	while :; do
		dropped=$(caches_dropped)
		slowfs_drop
		epoch $set 2 LMDBIO_MEMORY=4M
		first_chunks=$decompressed first_bytes=$bytes
		epoch $set 3 LMDBIO_MEMORY=4M
		[ "$(caches_dropped)" != "$dropped" ] || break
	done
	at_most "chunks_of_${set}_in_less_memory" "$first_chunks" $((records + chunks / 8))
	at_most "bytes_of_${set}_in_less_memory" "$first_bytes" $((size + size / 10 + 393216))
	at_most "chunks_of_${set}_in_its_second_epoch" "$decompressed" $((records + chunks / 8))
	at_most "bytes_of_${set}_in_its_second_epoch" "$bytes" 393216
	# Direct reads were asked for, so they reach storage.
	epoch $set 4 LMDBIO_MEMORY=4M LMDBIO_IO=direct
	judge "direct_reads_of_${set}_reach_storage" test "$bytes" -gt "$size"
done
equal packed_values_are_the_originals 0 $wrong

# Where the page cache cannot keep the container either, lmdbio passes it by.
if group_make 12; then
	LD_LIBRARY_PATH=$library LMDBIO_VERBOSE=1 LMDBIO_MEMORY=4M "$build/stores_reader" --count=0 get \
		"$scratch/mount/1m" 2> "$scratch/told" > "$scratch/log"
	judge packed_set_that_fits_is_kept_compressed grep -q 'compressed, not decompressed' "$scratch/told"
	# shellcheck disable=SC2016
	LD_LIBRARY_PATH=$library LMDBIO_VERBOSE=1 LMDBIO_MEMORY=4M bash -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' \
		"$group" "$build/stores_reader" --count=0 get "$scratch/mount/1m" 2> "$scratch/told" > "$scratch/log"
	judge packed_set_that_does_not_fit_is_read_directly grep -q 'reads by direct' "$scratch/told"
fi
slowfs_stop
nothing_left packed
finish
