#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks each counter against what was seen from outside: by the file system that counts, by the program that adds up
# its values and takes the time, and in the sizes of the files.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
latency=10000 # microseconds, for the cases about waiting

# at_least WHAT VALUE LIMIT
at_least() {
	cases=$((cases + 1))
	if [ "$2" -ge "$3" ]; then
		echo "ok $1: $2 of at least $3"
	else
		echo "NOT OK $1: $2, less than $3"
		failures=$((failures + 1))
	fi
}

# opened SET: from here on slowfs counts only what lmdbio asks for: the pages that opening the set needs are in the
# page cache now.
opened() {
	cold
	reader --count=0 get "$scratch/mount/$1" >/dev/null
	slowfs_reset
}

# counted COMMAND...: sets $line to the command's last line, and leaves its counters for the functions below.
counted() {
	rm -f "$scratch/stats"
	line=$(LD_LIBRARY_PATH=$library LMDBIO_STATS=$scratch/stats "$@" | tail -n 1) || true
}

# told COUNTER
told() {
	sed -n "s/.*\"$1\": \([0-9]*\)[,}].*/\1/p" "$scratch/stats"
}

# none NAME COUNTER...: these counters are 0.
none() {
	local name=$1 counter

	shift
	for counter in "$@"; do
		equal "${name}_counts_no_$counter" 0 "$(told "$counter")"
	done
}

# serves NAME: the counter of served bytes is what the program says that it got.
serves() {
	equal "${1}_served_bytes" "$(echo "$line" | cut -d' ' -f2)" "$(told served_bytes)"
}

# asks NAME SET: the counters of requests are what slowfs has counted. The kernel splits a request of more than 1 MiB;
# no read ahead of need is that large.
asks() {
	local found requests ahead

	found=$(slowfs_stat "$2/data.mdb:requests") requests=$(told storage_requests)
	ahead=$(told prefetch_requests)
	equal "${1}_storage_bytes" "$(slowfs_stat "$2/data.mdb:bytes")" "$(told storage_bytes)"
	at_least "${1}_storage_requests" "$found" "$requests"
	at_most "${1}_storage_requests" "$found" $((requests + requests - ahead))
	at_most "${1}_prefetch_requests" "$ahead" "$requests"
	at_most "${1}_prefetch_bytes" "$(told prefetch_bytes)" "$(told storage_bytes)"
	at_most "${1}_prefetch_used" "$(told prefetch_used)" "$(told prefetch_bytes)"
	at_most "${1}_huge_bytes" "$(told huge_bytes)" "$(told prefetch_bytes)"
}

chunks() {
	echo $((($(file_size "$1") + 1048575) / 1048576))
}

program=$build/stores_reader
make_set img 200 196620
make_set cifar 20000 3090
make_set tiny 1000 100
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=500

# --- one request for each value, and nothing ahead ---
opened img
counted env LMDBIO_PREFETCH=0 "$program" scan "$scratch/mount/img"
serves "single_reads"
asks "single_reads" img
equal "single_reads_storage_requests" "$(slowfs_stat img/data.mdb:requests)" "$(told storage_requests)"
equal "single_reads_waits" "$(told storage_requests)" "$(told waits)"
at_least "single_reads_storage_requests" "$(told storage_requests)" 200
at_least "single_reads_hits_arena_own" "$(told hits_arena_own)" "$(told storage_requests)"
# lmdbio populates one value at a time, in two parts where the value crosses a border of chunks; then the program
# takes hardly a page fault.
at_least "single_reads_populate_calls" "$(told populate_calls)" 200
at_most "single_reads_populate_calls" "$(told populate_calls)" "$(told hits_arena_own)"
at_most "single_reads_minor_faults" "$(field minor "$line")" $((200 * 48 / 4))
none "single_reads" prefetch_requests prefetch_bytes prefetch_used streams_started streams_broken huge_bytes \
	hits_arena_peer evictions at_rest fallbacks

# Single pages are not worth populating.
opened cifar
counted env LMDBIO_PREFETCH=0 "$program" --records=20000 --count=50 get "$scratch/mount/cifar"
serves "single_pages"
none "single_pages" populate_calls evictions

# --- a scan, ahead of need ---
for way in "scan" "--backward scan"; do
	name=${way#--}
	name=${name/ /_}
	opened img
	# shellcheck disable=SC2086
	counted "$program" $way "$scratch/mount/img"
	serves "$name"
	asks "$name" img
	at_least "${name}_prefetch_bytes" "$(told prefetch_bytes)" $(($(file_size img) / 2))
	at_least "${name}_prefetch_used" "$(told prefetch_used)" $(($(told prefetch_bytes) * 9 / 10))
	equal "${name}_streams_started" 1 "$(told streams_started)"
	at_least "${name}_hits_arena_own" "$(told hits_arena_own)" "$(chunks img)"
	# Both halves of a huge page are populated at once.
	at_least "${name}_populate_calls" "$(told populate_calls)" $(($(chunks img) / 2))
	none "$name" streams_broken hits_arena_peer evictions at_rest fallbacks
done

# A scan that is broken off, with much in flight that no reader takes.
for way in "scan" "--backward scan"; do
	name=broken_${way#--}
	name=${name/ /_}
	opened img
	# shellcheck disable=SC2086
	counted "$program" --most=60 $way "$scratch/mount/img"
	serves "$name"
	asks "$name" img
	equal "${name}_streams_started" 1 "$(told streams_started)"
	equal "${name}_streams_broken" 1 "$(told streams_broken)"
	at_most "${name}_prefetch_used" "$(told prefetch_used)" $((60 * 200704))
done

# --- waiting ---
slowfs_control "latency $latency"
opened img
counted env LMDBIO_PREFETCH=0 "$program" --records=200 --count=30 get "$scratch/mount/img"
serves "slow_reads"
equal "slow_reads_waits" "$(told storage_requests)" "$(told waits)"
at_least "slow_reads_wait_ns" "$(told wait_ns)" $((30 * latency * 1000))
at_most "slow_reads_wait_ns" "$(told wait_ns)" "$(echo "$line" | awk '{
	for (i = 1; i < NF; i++) if ($i == "from") printf "%d", ($(i + 3) - $(i + 1)) * 1e9 + 1e6 }')"
judge "slow_reads_are_the_bottleneck" grep -q '"verdict": "I/O is your bottleneck: ' "$scratch/stats"
slowfs_control "latency 500"

# lmdbio asks storage for nothing that the page cache holds, and waits for nothing of it. Where memory is short, or
# another test empties the page cache, the kernel may give up a page meanwhile: that counts if it happens each time.
for _ in 1 2 3 4 5; do
	cold
	original scan "$scratch/mount/img" >/dev/null
	cat "$scratch/mount/img/data.mdb" >/dev/null # waits for what the kernel still reads ahead
	slowfs_reset
	counted "$program" scan "$scratch/mount/img"
	[ "$(slowfs_stat img/data.mdb:bytes)" -gt 0 ] || break
done
serves "page_cache"
equal "page_cache_storage_bytes" 0 "$(slowfs_stat img/data.mdb:bytes)"
at_least "page_cache_hits_cache" "$(told hits_cache)" $(($(chunks img) - 1))
judge "page_cache_is_no_bottleneck" grep -q '"verdict": "I/O is not your bottleneck: waited 0.000 ' "$scratch/stats"
none "page_cache" storage_requests storage_bytes waits wait_ns hits_arena_own hits_arena_peer evictions

# --- what another process has read ---
cold
mkfifo "$scratch/hold" "$scratch/held"
exec 9<>"$scratch/hold"
LD_LIBRARY_PATH=$library "$program" --hold scan "$scratch/mount/img" <"$scratch/hold" >"$scratch/held" 9>&- &
holder=$!
exec 6<"$scratch/held"
read -r line <&6
slowfs_reset
counted "$program" scan "$scratch/mount/img" 9>&- 6<&-
serves "second_process"
equal "second_process_storage_bytes" 0 "$(slowfs_stat img/data.mdb:bytes)"
# The chunk in front may come from the page cache, which holds it since the meta pages were read.
at_least "second_process_hits_arena_peer" "$(told hits_arena_peer)" $(($(chunks img) - 1))
at_most "second_process_hits_arena_peer" "$(told hits_arena_peer)" "$(chunks img)"
none "second_process" storage_requests storage_bytes waits wait_ns hits_arena_own evictions
kill -KILL "$holder"
wait "$holder" 2>/dev/null || true
exec 6<&- 9>&-

# --- short of memory ---
# Each process gets at least 16 MiB. What it holds beyond that has evicted something else.
opened cifar
counted env LMDBIO_STORE=arena LMDBIO_MEMORY=16M "$program" scan "$scratch/mount/cifar"
serves "short_of_memory"
at_least "short_of_memory_evictions" "$(told evictions)" $(($(chunks cifar) - 32))
none "short_of_memory" hits_arena_peer
# With so little memory values are left to the file's own map, for which storage is asked as well. When the program
# comes back to a pointer, the kernel reads the page that it faults in; lmdbio's own read, which counts, then finds it
# in the page cache.
opened img
counted env LMDBIO_STORE=arena LMDBIO_MEMORY=1M "$program" --records=200 keep "$scratch/mount/img"
judge "no_memory_at_rest" [ "$(told at_rest)" -gt 0 ]
at_least "no_memory_storage_bytes" "$(told storage_bytes)" $(($(slowfs_stat img/data.mdb:bytes) * 9 / 10))
at_most "no_memory_storage_bytes" "$(told storage_bytes)" $(($(slowfs_stat img/data.mdb:bytes) * 3 / 2))
opened cifar
counted env LMDBIO_STORE=arena "$program" scan "$scratch/mount/cifar"
none "enough_memory" evictions at_rest fallbacks

# --- no arena ---
if "$build/stores_confine" --no-memfd true; then
	opened img
	counted "$build/stores_confine" --no-memfd "$program" scan "$scratch/mount/img"
	serves "no_memory_files"
	equal "no_memory_files_fallbacks" 1 "$(told fallbacks)"
	none "no_memory_files" hits_arena_own hits_arena_peer evictions
	at_most "no_memory_files_storage_bytes" "$(told storage_bytes)" \
		$(($(slowfs_stat img/data.mdb:bytes) * 3 / 2))
else
	echo "-- memory files cannot be forbidden here"
fi

# --- values of every kind ---
counted "$program" scan "$scratch/mount/tiny"
serves "tiny_set"
none "tiny_set" storage_requests storage_bytes waits
for kind in "" fixed; do
	mkdir "$scratch/backing/duplicates$kind"
	"$build/stores_duplicates" make "$scratch/backing/duplicates$kind" 50 400 60 ordered $kind
	for way in next previous runs keys; do
		counted "$build/stores_duplicates" $way "$scratch/mount/duplicates$kind"
		serves "duplicates_${kind}_$way"
		at_most "duplicates_${kind}_${way}_prefetch_used" "$(told prefetch_used)" "$(told prefetch_bytes)"
	done
done
nothing_left "counting"
slowfs_stop
finish
