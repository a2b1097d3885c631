#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what walks over keys with many values each may cost on a file system that counts, in each way that a program
# may walk.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin

# Requests for opening, and before a pattern can be seen; bytes likewise; and the program's major faults.
opening_requests=24
opening_bytes=$((1024 * 1024))
faults=20

# walk SET WAY: what the original returns.
walk() {
	"$build/stores_duplicates" "$2" "$1"
}

ours() {
	LD_LIBRARY_PATH=$library walk "$@"
}

# make_duplicates NAME KEYS VALUES SIZE ORDER [fixed]
make_duplicates() {
	mkdir "$scratch/backing/$1"
	"$build/stores_duplicates" make "$scratch/backing/$1" "${@:2}"
}

# costs SET WAY REQUESTS BYTES: the best of three tries costs at most this much: on a busy machine a try may cost
# more.
costs() {
	local set=$1 way=$2 most=$3 bytes_most=$4 name=$1_$2 try line requests bytes

	for try in 1 2 3; do
		cold
		line=$(ours "$scratch/mount/$set" "$way") || true
		requests=$(slowfs_stat "$set/data.mdb:requests")
		bytes=$(slowfs_stat "$set/data.mdb:bytes")
		[ "$requests" -gt "$most" ] || [ "$bytes" -gt "$bytes_most" ] || break
		echo "-- $name: $requests requests, $bytes bytes at try $try"
	done
	equal "${name}_sees_the_same" "$(walk "$scratch/backing/$set" "$way" | seen)" "$(echo "$line" | seen)"
	at_most "${name}_requests" "$requests" "$most"
	at_most "${name}_bytes" "$bytes" "$bytes_most"
	at_most "${name}_major_faults" "$(field major "$line")" "$faults"
}

# What reading a whole file may cost.
all_requests() {
	echo $(($(file_size "$1") * 12 / 10 / 1048576 + opening_requests))
}

all_bytes() {
	echo $(($(file_size "$1") * 102 / 100 + opening_bytes))
}

# Trees of some pages each; the same with numbered items; trees of 700 KiB; and trees of 3 MiB.
make_duplicates small 1500 400 60 ordered
make_duplicates fixed 1500 400 60 ordered fixed
make_duplicates large 50 10000 60 ordered
make_duplicates huge 8 50000 60 ordered
# Written in no order, so that each page lies somewhere else.
make_duplicates strewn 1500 200 60 shuffled
make_duplicates strewn_huge 4 60000 60 shuffled
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=500,bandwidth=1500

for set in small fixed large huge; do
	for way in next previous runs; do
		costs "$set" "$way" "$(all_requests "$set")" "$(all_bytes "$set")"
	done
done
for way in multiple multiple-back; do
	costs fixed "$way" "$(all_requests fixed)" "$(all_bytes fixed)"
done

# From key to key: a file of small trees is read through; of large trees only the pages on the way to a value are
# read.
for way in keys keys-back; do
	costs small "$way" "$(all_requests small)" "$(all_bytes small)"
	costs large "$way" 300 $(($(file_size large) / 3))
	costs huge "$way" 60 $(($(file_size huge) / 6))
done

# With a request for each page they would be thousands.
for set in strewn strewn_huge; do
	for way in next previous; do
		costs "$set" "$way" $(($(file_size "$set") * 3 / 2 / 1048576 + 150)) "$(all_bytes "$set")"
	done
done
# Announced keys: the pages on the way to each first value are read ahead, level by level.
costs large announced 200 $(($(file_size large) / 3))
cold
LMDBIO_STATS=$scratch/stats ours "$scratch/mount/large" announced
ahead=$(python3 -c 'import json, sys; s = json.load(open(sys.argv[1]))
print(s["storage_requests"] - s["prefetch_requests"], s["prefetch_requests"])' "$scratch/stats")
at_most "large_announced_requests_in_a_call" "${ahead% *}" 8
judge "large_announced_requests_ahead" [ "${ahead#* }" -ge 50 ]
nothing_left "walks_over_duplicates"
slowfs_stop
finish
