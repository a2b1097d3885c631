#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what lookups of records by key may cost on a file system that counts, one after another or each n-th, as
# loaders do that go through a data set in order.
# shellcheck disable=SC2017 # whole records, then bytes
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin

# Requests before a pattern can be seen, some of which also read what lies around a record.
opening_requests=24
opening_bytes=$((1024 * 1024))
faults=20

# lookups NAME SET REQUESTS BYTES ARGUMENT...: the best of three tries costs at most this much.
lookups() {
	local name=$1 set=$2 most=$3 bytes_most=$4 try line requests bytes

	shift 4
	for try in 1 2 3; do
		cold
		line=$(reader "$@" lookup "$scratch/mount/$set") || true
		requests=$(slowfs_stat "$set/data.mdb:requests")
		bytes=$(slowfs_stat "$set/data.mdb:bytes")
		[ "$requests" -gt "$most" ] || [ "$bytes" -gt "$bytes_most" ] || break
		echo "-- $name: $requests requests, $bytes bytes at try $try"
	done
	equal "${name}_sees_the_same" "$(original "$@" lookup "$scratch/backing/$set" | seen)" "$(echo "$line" | seen)"
	at_most "${name}_requests" "$requests" "$most"
	at_most "${name}_bytes" "$bytes" "$bytes_most"
	at_most "${name}_major_faults" "$(field major "$line")" "$faults"
}

# What reading a whole file may cost.
all_requests() {
	echo $(($(file_size "$1") * 11 / 10 / 1048576 + opening_requests))
}

all_bytes() {
	echo $(($(file_size "$1") * 102 / 100 + opening_bytes))
}

make_set img 600 196620
make_set cifar 20000 3090
make_set small 400000 100
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=500,bandwidth=1500

declare -A records=([img]=600 [cifar]=20000 [small]=400000)
for set in img cifar small; do
	for how in "" --set --renew --nordahead; do
		# shellcheck disable=SC2086
		lookups "each_of_${set}${how/--/_}" "$set" "$(all_requests "$set")" "$(all_bytes "$set")" \
			--records="${records[$set]}" $how
	done
done

# Each eighth record: of large values only those are read, in a request or two each; small values lie too close
# together.
for how in "" --set --renew --nordahead; do
	# shellcheck disable=SC2086
	lookups "eighth_of_img${how/--/_}" img $((600 / 8 * 3 / 2 + opening_requests)) \
		$((600 / 8 * 200704 * 105 / 100 + 3 * opening_bytes)) --records=600 --stride=8 --first=3 $how
done
lookups eighth_of_cifar cifar "$(all_requests cifar)" "$(all_bytes cifar)" --records=20000 --stride=8

# All processes of a node together read what one process would read, in a request a MiB.
together() {
	local i pids=""

	rm -f "$scratch"/part.*
	printf '\0\0\0\0' >"$scratch/together"
	for i in 0 1 2 3; do
		reader --records=600 --stride=4 --first="$i" --together="4:$scratch/together" lookup \
			"$scratch/mount/img" >"$scratch/part.$i" &
		pids="$pids $!"
	done
	# shellcheck disable=SC2086
	wait $pids
}
for try in 1 2 3; do
	cold
	together
	[ "$(slowfs_stat img/data.mdb:requests)" -gt $((2 * $(all_requests img))) ] || break
	echo "-- together: $(slowfs_stat img/data.mdb:requests) requests at try $try"
done
at_most "together_requests" "$(slowfs_stat img/data.mdb:requests)" $((2 * $(all_requests img)))
at_most "together_bytes" "$(slowfs_stat img/data.mdb:bytes)" "$(all_bytes img)"
equal "together_all_are_seen" "600 $((600 * 196620))" \
	"$(awk 'NF > 2 { n += $1; bytes += $2 } END { printf "%d %d", n, bytes }' "$scratch"/part.*)"
nothing_left "lookups"
slowfs_stop
finish
