#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks how many requests, bytes and page faults reading a data set may cost on
# a file system that counts them, for one process and for those of a node together.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin

# Requests for opening the data set and for the first lookups, before a pattern can be seen; and bytes.
opening_requests=16
opening_bytes=$((256 * 1024))
faults=20

# requests_limit SET
requests_limit() {
	echo $(($(file_size "$1") * 11 / 10 / 1048576 + opening_requests))
}

# bytes_limit SET
bytes_limit() {
	echo $(($(file_size "$1") * 102 / 100 + opening_bytes))
}

# within NAME SET: what slowfs has counted while the whole file was read once.
within() {
	at_most "$1_requests" "$(slowfs_stat "$2/data.mdb:requests")" "$(requests_limit "$2")"
	at_most "$1_bytes" "$(slowfs_stat "$2/data.mdb:bytes")" "$(bytes_limit "$2")"
}

# measured NAME SET COMMAND...: reads a cold data set, and repeats that if it cost too much. A process that gets no
# processor for a quarter of a second in the middle of a read is no longer waited for, which costs requests and bytes.
# That happens on a busy machine, so only a cost that recurs in every try counts.
measured() {
	local name=$1 set=$2 try requests bytes

	shift 2
	for try in 1 2 3; do
		cold
		"$@"
		requests=$(slowfs_stat "$set/data.mdb:requests")
		bytes=$(slowfs_stat "$set/data.mdb:bytes")
		[ "$requests" -gt "$(requests_limit "$set")" ] || [ "$bytes" -gt "$(bytes_limit "$set")" ] || break
		echo "-- $name: $requests requests, $bytes bytes at try $try"
	done
}

alone() {
	line=$(reader "$@") || true
}

# one NAME SET EXPECTED ARGUMENT...: one process.
one() {
	local name=$1 set=$2 expected=$3 line

	shift 3
	measured "$name" "$set" alone "$@" "$scratch/mount/$set"
	equal "${name}_sees_the_same" "$expected" "$(echo "$line" | seen)"
	within "$name" "$set"
	at_most "${name}_major_faults" "$(field major "$line")" "$faults"
}

# add FILE...: the lines of several readers as one.
add() {
	python3 - "$@" <<-'END'
		import sys
		lines = [open(name).read().splitlines()[1].split() for name in sys.argv[1:]]
		records = sum(int(line[0]) for line in lines)
		size = sum(int(line[1]) for line in lines)
		print(records, size, "%016x" % (sum(int(line[2], 16) for line in lines) % 2**64))
	END
}

# together N SET ARGUMENT...: N processes that start at the same moment, each reading every N-th record.
together() {
	local n=$1 set=$2 i pids="" start=$scratch/start

	shift 2
	[ -p "$scratch/ready" ] || mkfifo "$scratch/ready"
	exec 7<>"$scratch/ready" 8>"$start"
	flock -x 8
	rm -f "$scratch"/part.*
	for ((i = 0; i < n; i++)); do
		# A reader does not inherit descriptor 8: flock() locks the open file description, which the reader would
		# share.
		(exec 8>&-; reader "$@" --stride="$n" --first="$i" --start="$start" scan \
			"$scratch/mount/$set" | tee "$scratch/part.$i" >&7) 7>&7 &
		pids="$pids $!"
	done
	for ((i = 0; i < n; i++)); do
		read -r -t 30 _ <&7 || true
	done
	flock -u 8
	exec 8>&-
	# shellcheck disable=SC2086
	wait $pids || true
	exec 7>&-
}

# many N SET EXPECTED ARGUMENT...
many() {
	local n=$1 set=$2 expected=$3 name=$1_processes_$2

	shift 3
	measured "$name" "$set" together "$n" "$set" "$@"
	equal "${name}_see_the_same" "$expected" "$(add "$scratch"/part.*)"
	within "$name" "$set"
	at_most "${name}_major_faults" "$(awk '/major/ { n = $5 > n ? $5 : n } END { print n + 0 }' \
		"$scratch"/part.*)" "$faults"
}

make_set img 600 196620
make_set cifar 20000 3090
make_set small 400000 100
slowfs_start "$scratch/backing" "$scratch/mount"

# A scan goes on by page faults until the prefetch thread runs, and each reads 128 KiB. With 5 ms a request few of them
# fit into the time in which a busy machine gives that thread no processor.
slowfs_control "latency 5000"
declare -A whole
for set in img cifar small; do
	whole[$set]=$(original scan "$scratch/backing/$set" | seen)
	for flag in "" --nordahead; do
		# shellcheck disable=SC2086
		one "scan_${set}${flag/--/_}" "$set" "${whole[$set]}" $flag scan
		# shellcheck disable=SC2086
		one "backward_${set}${flag/--/_}" "$set" "${whole[$set]}" $flag --backward scan
	done
done
for set in img cifar; do
	many 4 "$set" "${whole[$set]}"
	many 8 "$set" "${whole[$set]}" --nordahead
done
nothing_left "many_processes"
slowfs_control "latency 500"

# All large values in one leaf, with no branch above it.
make_set leaf 90 196620
expected=$(original scan "$scratch/backing/leaf" | seen)
one scan_leaf leaf "$expected" scan
one backward_leaf leaf "$expected" --backward scan

# Where the kernel gives huge pages to a process that asks for them, a scan tries them: for how many chunks it goes on
# depends on how long the kernel takes.
huge_pages_possible() {
	local policy=/sys/kernel/mm/transparent_hugepage/shmem_enabled

	# /proc/buddyinfo counts free pieces of memory by size; from the 14th column on they have 2 MiB and more.
	[ -e "$policy" ] && ! grep -q '\[deny\]' "$policy" &&
		awk '{ for (i = 14; i <= NF; i++) n += $i } END { exit n < 64 }' /proc/buddyinfo &&
		printf '6.1\n%s\n' "$(uname -r)" | sort -VC
}

cold
line=$(LMDBIO_STATS=$scratch/stats reader scan "$scratch/mount/img")
equal "huge_pages_scan_sees_the_same" "${whole[img]}" "$(echo "$line" | seen)"
huge=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["huge_bytes"])' "$scratch/stats")
if huge_pages_possible; then
	judge "scan_when_the_arena_holds_the_file_then_huge_pages" [ "$huge" -gt 0 ]
else
	echo "-- this kernel, or its free memory, has no huge pages to give"
fi

# 16 reads of a MiB in flight go into private memory before the arena has huge pages: in pages of 4 KiB that memory
# alone took 4,096 page faults.
if huge_pages_possible && [ "${with_sanitizer:-no}" = no ] &&
	! grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled; then
	cold
	line=$(reader scan "$scratch/mount/img")
	at_most "scan_minor_faults" "$(field minor "$line")" 4000
fi

# Single values, in no order.
expected=$(original --records=600 --count=300 get "$scratch/backing/img" | seen)
for flag in "" --nordahead; do
	cold
	# shellcheck disable=SC2086
	line=$(reader $flag --records=600 --count=300 get "$scratch/mount/img")
	equal "random_img${flag/--/_}_sees_the_same" "$expected" "$(echo "$line" | seen)"
	at_most "random_img${flag/--/_}_requests" "$(slowfs_stat img/data.mdb:requests)" \
		$((300 * 12 / 10 + opening_requests))
	at_most "random_img${flag/--/_}_major_faults" "$(field major "$line")" "$faults"
done

# Large values are worth a request each, so little is read around them.
make_set large 600 100000
expected=$(original --records=600 --count=48 get "$scratch/backing/large" | seen)
for flag in "" --nordahead; do
	cold
	# shellcheck disable=SC2086
	line=$(reader $flag --records=600 --count=48 get "$scratch/mount/large")
	equal "random_large${flag/--/_}_sees_the_same" "$expected" "$(echo "$line" | seen)"
	at_most "random_large${flag/--/_}_requests" "$(slowfs_stat large/data.mdb:requests)" $((48 + opening_requests))
	at_most "random_large${flag/--/_}_bytes" "$(slowfs_stat large/data.mdb:bytes)" \
		$((48 * 100000 * 12 / 10 + 4 * opening_bytes))
done

# All values in random order, without an announcement: the whole file in three requests a chunk, two of them around
# the value that was asked for first.
expected=$(original --records=20000 --count=20000 get "$scratch/backing/cifar" | seen)
cold
line=$(reader --records=20000 --count=20000 get "$scratch/mount/cifar")
equal "random_cifar_sees_the_same" "$expected" "$(echo "$line" | seen)"
at_most "random_cifar_requests" "$(slowfs_stat cifar/data.mdb:requests)" \
	$(($(file_size cifar) * 32 / 10 / 1048576 + opening_requests))
at_most "random_cifar_bytes" "$(slowfs_stat cifar/data.mdb:bytes)" \
	$(($(file_size cifar) * 13 / 10 + opening_bytes))
at_most "random_cifar_major_faults" "$(field major "$line")" "$faults"

# With MDB_NORDAHEAD lmdbio reads the values that a program asks for; after some waits for leaf pages, the other leaf
# pages; and the rest of a chunk once the program has asked for seven of its values. With LMDBIO_AROUND=0 it reads the
# values alone.
cold
line=$(reader --nordahead --records=20000 --count=20000 get "$scratch/mount/cifar")
equal "random_cifar_nordahead_sees_the_same" "$expected" "$(echo "$line" | seen)"
at_most "random_cifar_nordahead_requests" "$(slowfs_stat cifar/data.mdb:requests)" \
	$(($(file_size cifar) * 9 / 1048576 + opening_requests))
at_most "random_cifar_nordahead_bytes" "$(slowfs_stat cifar/data.mdb:bytes)" \
	$(($(file_size cifar) * 103 / 100 + opening_bytes))
expected=$(original --records=20000 --count=100 get "$scratch/backing/cifar" | seen)
cold
line=$(reader --nordahead --records=20000 --count=100 get "$scratch/mount/cifar")
equal "few_cifar_nordahead_see_the_same" "$expected" "$(echo "$line" | seen)"
at_most "few_cifar_nordahead_bytes" "$(slowfs_stat cifar/data.mdb:bytes)" \
	$((100 * 2 * 4096 + $(file_size cifar) / 50 + opening_bytes))
expected=$(original --records=20000 --count=2000 get "$scratch/backing/cifar" | seen)
cold
line=$(LMDBIO_AROUND=0 reader --nordahead --records=20000 --count=2000 get "$scratch/mount/cifar")
equal "random_cifar_nothing_else_sees_the_same" "$expected" "$(echo "$line" | seen)"
at_most "random_cifar_nothing_else_bytes" "$(slowfs_stat cifar/data.mdb:bytes)" \
	$((2000 * 4096 + $(file_size cifar) / 50 + opening_bytes))
cold
line=$(LMDBIO_AROUND=1 reader --random --records=20000 --count=2000 get "$scratch/mount/cifar")
equal "random_cifar_advised_sees_the_same" "$expected" "$(echo "$line" | seen)"
at_most "random_cifar_advised_bytes" "$(slowfs_stat cifar/data.mdb:bytes)" \
	$((2000 * 4096 + $(file_size cifar) / 50 + opening_bytes))
cold
line=$(LMDBIO_AROUND=1 reader --nordahead --records=20000 --count=2000 get "$scratch/mount/cifar")
equal "random_cifar_around_sees_the_same" "$expected" "$(echo "$line" | seen)"
at_most "random_cifar_around_requests" "$(slowfs_stat cifar/data.mdb:requests)" \
	$(($(file_size cifar) * 32 / 10 / 1048576 + opening_requests))

# Announced mini-batches: storage is asked for the values only.
expected=$(original --records=20000 --count=4096 batch "$scratch/backing/cifar" | seen)
cold
line=$(reader --nordahead --announce --records=20000 --count=4096 batch "$scratch/mount/cifar")
equal "announced_cifar_sees_the_same" "$expected" "$(echo "$line" | seen)"
at_most "announced_cifar_bytes" "$(slowfs_stat cifar/data.mdb:bytes)" \
	$((4096 * 3090 * 2 + opening_bytes))
at_most "announced_cifar_major_faults" "$(field major "$line")" "$faults"

# The values are read ahead, so that hardly one is still to be read when the program asks for it.
for set in img:600 leaf:90; do
	cold
	LMDBIO_STATS=$scratch/announced.${set%:*} reader --announce --records="${set#*:}" --count=90 batch \
		"$scratch/mount/${set%:*}" >/dev/null
	at_most "announced_${set%:*}_requests_in_a_call" "$(python3 -c 'import json, sys; s = json.load(open(sys.argv[1]))
print(s["storage_requests"] - s["prefetch_requests"])' "$scratch/announced.${set%:*}")" 16
done

# Records announced by number: the leaf pages are read, too, once, to number the records.
cold
line=$(reader --nordahead --numbers --records=20000 --count=4096 batch "$scratch/mount/cifar")
equal "numbered_cifar_sees_the_same" "$expected" "$(echo "$line" | seen)"
at_most "numbered_cifar_bytes" "$(slowfs_stat cifar/data.mdb:bytes)" \
	$((4096 * 3090 * 2 + opening_bytes + $(file_size cifar) / 50))
at_most "numbered_cifar_major_faults" "$(field major "$line")" "$faults"

# While another process holds the arena, a new process reads nothing from storage.
cold
mkfifo "$scratch/hold" "$scratch/held"
exec 9<>"$scratch/hold"
# The reader is a command of its own, not a shell function: so $! is its process id, and `wait` returns when it is
# gone.
LD_LIBRARY_PATH=$library "$build/stores_reader" --hold scan "$scratch/mount/img" \
	<"$scratch/hold" >"$scratch/held" 9>&- &
holder=$!
exec 6<"$scratch/held"
read -r line <&6
equal "holder_sees_the_same" "${whole[img]}" "$(echo "$line" | seen)"
slowfs_reset
line=$(reader scan "$scratch/mount/img" 9>&- 6<&-)
equal "second_process_sees_the_same" "${whole[img]}" "$(echo "$line" | seen)"
# Every process reads the meta pages from the file.
at_most "second_process_bytes" "$(slowfs_stat img/data.mdb:bytes)" 8192
at_most "second_process_major_faults" "$(field major "$line")" "$faults"
kill -KILL "$holder"
wait "$holder" 2>/dev/null || true
exec 6<&- 9>&-
nothing_left "killed_holder"
slowfs_stop
finish
