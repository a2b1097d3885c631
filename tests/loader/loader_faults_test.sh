#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what the batch loader does when storage fails, and that it reads containers as it reads data files, with
# memory for all records and for a part.
# shellcheck source-path=SCRIPTDIR source=../stores/stores_lib.sh
. "$(dirname "$0")/../stores/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
read=$top_builddir/tests/loader/loader_read

# loader SET ARGUMENT...: reads with an empty page cache; its exit code is in $rc, its lines in $scratch/lines.
loader() {
	local set=$1

	shift
	cold
	rc=0
	timeout 300 "$read" "$@" "$scratch/mount/$set" >"$scratch/lines" 2>"$scratch/log" || rc=$?
}

seen_all() {
	awk '/^epoch/ { print $4, $6, $8 }' "$scratch/lines"
}

make_set img 200 196620
make_set small 4000 1000
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=4000
export LMDBIO_MEMORY=128M
size=$(file_size img)

# --- storage that fails for some records ---
for memory in $((1 << 30)) $((size / 4)); do
	# Three pages in the middle: they belong to one value or two.
	slowfs_control "fail img/data.mdb@$((size / 2 / 4096 * 4096))-$((size / 2 / 4096 * 4096 + 12287)):eio"
	loader img --epochs=2 --batch=16 --memory="$memory" --skip
	equal "errors_skipped_with_memory_${memory}_end_well" 0 "$rc"
	failed=$(grep -c '^# record .*: Input/output error' "$scratch/lines" || true)
	at_most "errors_skipped_with_memory_${memory}_are_few" "$failed" 4
	judge "errors_skipped_with_memory_${memory}_are_told" test "$failed" -ge 2
	equal "errors_skipped_with_memory_${memory}_leave_the_rest" $((400 - failed)) \
		"$(awk '/^epoch/ { n += $4 } END { print n }' "$scratch/lines")"
	loader img --epochs=1 --batch=16 --memory="$memory"
	judge "errors_not_skipped_with_memory_${memory}_are_told" grep -q 'Input/output error' "$scratch/log"
	slowfs_control clear
	loader img --epochs=1 --batch=16 --memory="$memory" --order=sequential
	equal "storage_that_is_well_again_with_memory_${memory}_gives_all" 200 "$(seen_all | cut -d' ' -f1)"
done

# --- containers ---
for set in img small; do
	"$top_builddir/tools/lmdbio-convert" -q "$scratch/backing/$set" "$scratch/backing/packed-$set"
	loader "$set" --epochs=1
	expected=$(seen_all)
	for memory in $((1 << 30)) $((1 << 20)); do
		for order in shuffle sequential opportunistic; do
			loader "packed-$set" --epochs=2 --order=$order --memory="$memory"
			equal "container_of_${set}_with_memory_${memory}_in_${order}_order" \
				"$(printf '%s\n%s' "$expected" "$expected")" "$(seen_all)"
		done
	done
done
finish
