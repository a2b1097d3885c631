#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a program reads a container as it reads a data file: the same answers, each byte read once on a node,
# within its budget, in a forked child, and after another process has died.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
convert=$top_builddir/tools/lmdbio-convert
differential=$top_builddir/tests/differential/differential

# agrees NAME [VARIABLE=VALUE...]: random databases, each converted; seeds differ from case to case.
seed=100
agrees() {
	local name=$1

	shift
	seed=$((seed + 1))
	ran "$name" env "$@" "$differential" --convert="$convert" --seed=$seed \
		--operations=$((times * 20000))
}

agrees "containers_agree"
agrees "containers_by_direct_reads_agree" LMDBIO_IO=direct
agrees "containers_with_1_mib_agree" LMDBIO_MEMORY=1M
agrees "containers_not_shared_agree" LMDBIO_SHARE=0 LMDBIO_MEMORY=2M
agrees "containers_without_prefetch_agree" LMDBIO_PREFETCH=0

# Half of each value compresses to nothing.
declare -A whole
for set in "img 300 196620" "cifar 12000 3090"; do
	# shellcheck disable=SC2086
	set -- $set
	make_set "plain-$1" "$2" "$3" 50
	mkdir "$scratch/backing/$1"
	"$convert" -q "$scratch/backing/plain-$1" "$scratch/backing/$1"
	whole[$1]=$(original scan "$scratch/backing/plain-$1" | seen)
done
mkdir "$scratch/backing/huge"
"$build/stores_sparse" "$scratch/backing/plain-cifar/data.mdb" 100 "$scratch/backing/huge/data.mdb.zst"
slowfs_start "$scratch/backing" "$scratch/mount"

# within NAME SET PROCESSES: what reading the whole container once may cost; each process reads the header and the
# tail for itself.
within() {
	local size

	size=$(stat -c %s "$scratch/backing/$2/data.mdb.zst")
	at_most "$1_requests" "$(slowfs_stat "$2/data.mdb.zst:requests")" \
		$((size * 22 / 10 / 1048576 + 24 * $3))
	at_most "$1_bytes" "$(slowfs_stat "$2/data.mdb.zst:bytes")" $((size * 102 / 100 + $3 * 393216))
}

for set in img cifar; do
	at_most "${set}_container_bytes" "$(stat -c %s "$scratch/backing/$set/data.mdb.zst")" \
		$(($(stat -c %s "$scratch/backing/plain-$set/data.mdb") * 55 / 100))
	for way in "" --backward --nordahead; do
		cold
		# shellcheck disable=SC2086
		line=$(reader $way scan "$scratch/mount/$set") || true
		equal "scan_${set}${way/--/_}_sees_the_same" "${whole[$set]}" "$(echo "$line" | seen)"
		within "scan_${set}${way/--/_}" "$set" 1
		at_most "scan_${set}${way/--/_}_major_faults" "$(field major "$line")" 20
	done
	# Every pointer stays valid to the end, in less memory than the set has bytes.
	cold
	line=$(LMDBIO_MEMORY=4M reader keep "$scratch/mount/$set" \
		--records="$(echo "${whole[$set]}" | cut -d ' ' -f 1)") || true
	equal "kept_${set}_sees_the_same" "${whole[$set]}" "$(echo "$line" | seen)"
	at_most "kept_${set}_kib" $(($(field memfd "$line") + $(field anon "$line"))) \
		$((4096 + 16384 + 24576))
done

# A value costs its chunk, or the two chunks that it lies in, and the index; also in a container with chunks of 64
# KiB.
"$convert" -q --chunk-size=64k "$scratch/backing/plain-cifar" "$scratch/backing/fine"
for set in "img 300 img" "cifar 12000 cifar" "fine 12000 cifar"; do
	# shellcheck disable=SC2086
	set -- $set
	size=$(stat -c %s "$scratch/backing/$1/data.mdb.zst")
	# shellcheck disable=SC2046
	set -- "$@" $("$top_builddir/tools/lmdbio-stat" --chunks "$scratch/backing/$1" | awk '
		$1 ~ /^[0-9]+$/ && NF == 6 { if ($3 > most) most = $3; end = $2 + $3 }
		END { print most, end }')
	# The header and the tail are read in blocks, and the tail's first block may hold the end of a chunk.
	index=$((size - $5 + 4 * 4096 + 65536))
	least=$size
	for seed in 1 2 3 4 5 6; do
		cold
		line=$(reader --records="$2" --count=1 --seed=$seed get "$scratch/mount/$1")
		equal "get_of_$1_sees_the_same" "$(original --records="$2" --count=1 --seed=$seed get \
			"$scratch/backing/plain-$3" | seen)" "$(echo "$line" | seen)"
		bytes=$(slowfs_stat "$1/data.mdb.zst:bytes")
		[ "$bytes" -ge "$least" ] || least=$bytes
		at_most "get_of_$1_bytes" "$bytes" $((2 * $4 + index))
		at_most "get_of_$1_requests" "$(slowfs_stat "$1/data.mdb.zst:requests")" 7
	done
	at_most "get_of_$1_of_one_chunk_bytes" "$least" $(($4 + index))
done

# Announced keys cost no more than keys that are got one by one: the index leads to their leaf pages, too.
for set in "img 300" "cifar 12000"; do
	# shellcheck disable=SC2086
	set -- $set
	cold
	reader --records="$2" --count=4 --seed=3 get "$scratch/mount/$1" >/dev/null
	alone=$(slowfs_stat "$1/data.mdb.zst:bytes")
	cold
	line=$(reader --announce --records="$2" --count=4 --batch=4 --seed=3 batch "$scratch/mount/$1")
	equal "announced_keys_of_$1_see_the_same" "$(original --records="$2" --count=4 --seed=3 get \
		"$scratch/backing/plain-$1" | seen)" "$(echo "$line" | seen)"
	at_most "announced_keys_of_$1_bytes" "$(slowfs_stat "$1/data.mdb.zst:bytes")" $((alone + 16384))
done

# A container of a hundred gigabytes opens as fast as an empty one.
cold
line=$(reader --count=0 get "$scratch/mount/huge")
equal "huge_container_is_opened" "0 0" "$(echo "$line" | cut -d ' ' -f 1-2)"
at_most "huge_container_opened_bytes" "$(slowfs_stat huge/data.mdb.zst:bytes)" 1048576
at_most "huge_container_opened_requests" "$(slowfs_stat huge/data.mdb.zst:requests)" 4
line=$(reader --records=12000 --count=3 get "$scratch/mount/huge")
equal "get_of_huge_sees_the_same" "$(original --records=12000 --count=3 get \
	"$scratch/backing/plain-cifar" | seen)" "$(echo "$line" | seen)"

# Four processes read one container.
cold
pids=""
for i in 0 1 2 3; do
	reader scan "$scratch/mount/img" >"$scratch/part.$i" &
	pids="$pids $!"
done
# shellcheck disable=SC2086
wait $pids || true
for i in 0 1 2 3; do
	equal "scan_of_four_sees_the_same" "${whole[img]}" "$(seen <"$scratch/part.$i")"
done
within "scan_of_four" img 4
nothing_left "scan_of_four"

for memory in auto 1M; do
	hash=$(echo "${whole[cifar]}" | cut -d ' ' -f 3)
	ran "forked_children_with_$memory" env LMDBIO_MEMORY=$memory LD_LIBRARY_PATH="$library" \
		"$build/stores_fork" "$scratch/mount/cifar" 12000 "$hash" $((times * 4))
	nothing_left "forked_children_with_$memory"
done

ran "survivors_of_the_killed" env LD_LIBRARY_PATH="$library" "$build/stores_death" kill \
	"$scratch/mount/.slowfs/control" "$build/stores_reader" "$scratch/mount/img" "${whole[img]}" \
	$((times * 20))
nothing_left "survivors_of_the_killed"

# Damage is found before a byte of the chunk is handed out, and the transaction returns the error.
cp -r "$scratch/backing/img" "$scratch/backing/bad"
printf '\377\377\377' |
	dd of="$scratch/backing/bad/data.mdb.zst" bs=1 seek=9000000 conv=notrunc status=none
rc=0
reader scan "$scratch/mount/bad" >"$scratch/log" 2>&1 || rc=$?
equal "scan_of_a_damaged_container_fails" 3 "$rc"
judge "scan_of_a_damaged_container_is_corrupted" grep -q MDB_CORRUPTED "$scratch/log"

# No program can write into a container, or make a data file beside it.
rc=0
LD_LIBRARY_PATH=$library "$build/stores_make" "$scratch/backing/img" 1 1 2>"$scratch/log" || rc=$?
judge "container_opened_for_writing_is_refused" grep -q 'Permission denied' "$scratch/log"
judge "container_opened_for_writing_stays_alone" test ! -e "$scratch/backing/img/data.mdb"
slowfs_stop
finish
