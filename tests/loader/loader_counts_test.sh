#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks how many bytes and requests the batch loader costs on a file system that counts them, with memory for all
# records, with memory for half, and with a local disk.
# shellcheck source-path=SCRIPTDIR source=../stores/stores_lib.sh
. "$(dirname "$0")/../stores/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
read=$top_builddir/tests/loader/loader_read

# loader SET ARGUMENT...: reads with an empty page cache; its lines, one an epoch, are in $scratch/lines.
loader() {
	local set=$1 rc=0

	shift
	cold
	"$read" "$@" "$scratch/mount/$set" >"$scratch/lines" 2>"$scratch/log" || rc=$?
	[ "$rc" = 0 ] || cat "$scratch/log"
	grep -v '^#' "$scratch/lines" >"$scratch/epochs" || true
}

# of EPOCH WORD: the number behind that word in the epoch's line.
of() {
	awk -v epoch="$1" -v word="$2" '$2 == epoch { for (i = 1; i < NF; i++) if ($i == word) print $(i + 1) }' \
		"$scratch/epochs"
}

# same_data NAME EPOCHS EXPECTED: every epoch has returned the same bytes.
same_data() {
	equal "$1_reads_all" "$(for ((i = 0; i < $2; i++)); do echo "$3"; done)" "$(awk '{ print $4, $6, $8 }' "$scratch/epochs")"
}

make_set img 300 196620
make_set cifar 12000 3073
make_set tiny 100000 100
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=4000
export LMDBIO_MEMORY=256M

for set in img cifar tiny; do
	size=$(file_size "$set")
	loader "$set" --order=sequential --epochs=1 --batch=50
	expected=$(awk '{ print $4, $6, $8 }' "$scratch/epochs")
	at_most "${set}_sequential_in_memory_bytes" "$(slowfs_stat "$set/data.mdb:bytes")" $((size * 103 / 100))

	loader "$set" --epochs=3 --batch=50
	same_data "${set}_shuffled_in_memory" 3 "$expected"
	at_most "${set}_shuffled_in_memory_bytes" "$(slowfs_stat "$set/data.mdb:bytes")" $((size * 103 / 100))
	at_most "${set}_shuffled_in_memory_second_epoch_bytes" "$(of 1 storage)" 0
	at_most "${set}_shuffled_in_memory_third_epoch_bytes" "$(of 2 storage)" 0
	at_most "${set}_shuffled_in_memory_requests" "$(slowfs_stat "$set/data.mdb:requests")" \
		$((size * 3 / 1048576 + 600))
done

# All memory together is half of the data.
size=$(file_size img)
export LMDBIO_MEMORY=$((size / 2))
loader img --order=sequential --epochs=1 --batch=10
expected=$(awk '{ print $4, $6, $8 }' "$scratch/epochs")
expected_img=$expected
loader img --epochs=2 --batch=10 --memory=$((size * 3 / 8))
same_data img_shuffled_in_half 2 "$expected"
at_most img_shuffled_in_half_bytes "$(slowfs_stat img/data.mdb:bytes)" $((size * 2 * 130 / 100))
at_most img_shuffled_in_half_requests "$(slowfs_stat img/data.mdb:requests)" $((2 * 300 * 3))
size=$(file_size cifar)
export LMDBIO_MEMORY=$((size / 2))
loader cifar --order=sequential --epochs=1 --batch=50
expected=$(awk '{ print $4, $6, $8 }' "$scratch/epochs")
loader cifar --epochs=4 --batch=50 --memory=$((size * 3 / 8))
same_data cifar_shuffled_in_half 4 "$expected"
# The first epoch reads the file twice, each other one once, and some is read ahead for a fifth.
at_most cifar_shuffled_in_half_bytes "$(slowfs_stat cifar/data.mdb:bytes)" $((size * (2 + 3 + 2)))
at_most cifar_shuffled_in_half_requests "$(slowfs_stat cifar/data.mdb:requests)" \
	$((size * (2 + 3 + 2) * 4 / 1048576 + 1400))

# Residents may take most of the memory: a resident record is read from storage only once.
size=$(file_size img)
export LMDBIO_MEMORY=$((size * 4 / 5))
loader img --order=opportunistic --resident=150 --epochs=3 --batch=10
same_data img_half_resident 3 "$expected_img"
at_most img_half_resident_third_epoch_bytes "$(of 2 storage)" $((size * 62 / 100))

# A local disk: a record is read from storage only once, unless storage is faster than the disk.
size=$(file_size img)
export LMDBIO_MEMORY=$((size / 4))
mkdir "$scratch/local"
# So slow that the disk is faster even if its thread waits for a processor.
slowfs_control "latency 100000"
loader img --order=sequential --epochs=1 --batch=10
expected=$(awk '{ print $4, $6, $8 }' "$scratch/epochs")
loader img --epochs=3 --batch=10 --memory=$((size / 8)) --stage="$scratch/local"
same_data img_staged 3 "$expected"
at_most img_staged_first_epoch_bytes "$(of 0 storage)" $((size * 130 / 100))
at_most img_staged_third_epoch_bytes "$(of 2 storage)" $((size / 5))
equal img_staged_is_not_left "0" "$(find "$scratch/local" -type f | wc -l)"
finish
