#!/bin/bash
# What only this file knows: that a program reads a container as it reads a data file: the same
# answers, each byte once on a node, within its budget, in a forked child, after a death.
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
		--operations=$((times * 40000))
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
slowfs_start "$scratch/backing" "$scratch/mount"

# within NAME SET PROCESSES: what one reading of the whole container may cost; each process reads the
# header, the footer and the chunk with the meta pages for itself.
within() {
	local size

	size=$(stat -c %s "$scratch/backing/$2/data.mdb.zst")
	at_most "$1_requests" "$(slowfs_stat "$2/data.mdb.zst:requests")" \
		$((size * 22 / 10 / 1048576 + 24 * $3))
	at_most "$1_bytes" "$(slowfs_stat "$2/data.mdb.zst:bytes")" $((size * 102 / 100 + $3 * 786432))
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
	# Every pointer to the end, in less memory than the set.
	cold
	line=$(LMDBIO_MEMORY=4M reader keep "$scratch/mount/$set" \
		--records="$(echo "${whole[$set]}" | cut -d ' ' -f 1)") || true
	equal "kept_${set}_sees_the_same" "${whole[$set]}" "$(echo "$line" | seen)"
	at_most "kept_${set}_kib" $(($(field memfd "$line") + $(field anon "$line"))) \
		$((4096 + 16384 + 24576))
done

# A value costs its chunk and the index, however large the container.
cold
line=$(reader --records=300 --count=1 get "$scratch/mount/img")
equal "get_sees_the_same" "$(original --records=300 --count=1 get "$scratch/backing/plain-img" | seen)" \
	"$(echo "$line" | seen)"
at_most "get_requests" "$(slowfs_stat img/data.mdb.zst:requests)" 24

# Four processes, one container.
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
	$((times * 20)) 1
nothing_left "survivors_of_the_killed"

# Damage is found before a byte of it is handed out, and the transaction says so.
cp -r "$scratch/backing/img" "$scratch/backing/bad"
printf '\377\377\377' |
	dd of="$scratch/backing/bad/data.mdb.zst" bs=1 seek=9000000 conv=notrunc status=none
rc=0
reader scan "$scratch/mount/bad" >"$scratch/log" 2>&1 || rc=$?
equal "scan_of_a_damaged_container_fails" 3 "$rc"
judge "scan_of_a_damaged_container_is_corrupted" grep -q MDB_CORRUPTED "$scratch/log"

# Nobody writes into one, and nobody makes a data file beside it.
rc=0
LD_LIBRARY_PATH=$library "$build/stores_make" "$scratch/backing/img" 1 1 2>"$scratch/log" || rc=$?
judge "container_opened_for_writing_is_refused" grep -q 'Permission denied' "$scratch/log"
judge "container_opened_for_writing_stays_alone" test ! -e "$scratch/backing/img/data.mdb"
slowfs_stop
finish
