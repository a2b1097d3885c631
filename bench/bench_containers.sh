#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Measures the costs and gains of a container: making a container and unpacking it, beside zstd on the same file;
# scanning it on slow storage, beside the plain file; scanning both on storage without latency, beside the original
# on the plain file; and opening it.
#
# bench_containers.sh [DATA.MDB]: measures this file, or one of 1 GB that it makes, whose values are half zeroes.
# Pairs of runs alternate; each line has the medians of the runs and the ratio of the medians.
top_srcdir=${top_srcdir:-$(dirname "$0")/..}
# shellcheck source-path=SCRIPTDIR source=../tests/stores/stores_lib.sh
. "$(dirname "$0")/../tests/stores/stores_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_lib.sh
. "$(dirname "$0")/bench_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
trap - HUP INT TERM
set -o pipefail # a command that fails has no time
convert=$top_builddir/tools/lmdbio-convert
pairs=${PAIRS:-5}

# timed COMMAND...: prints the elapsed seconds and the processor seconds of a command.
timed() {
	local TIMEFORMAT='%R %U %S'

	{ time "$@" >/dev/null 2>&3; } 3>&2 2>&1 | awk '{ print $1, $2 + $3 }'
}

# compare TITLE ASKED BASE OURS: runs two functions in turn that print elapsed and processor seconds. Prints the
# medians, BASE's elapsed seconds over those of OURS, and the processor seconds of OURS over those of BASE.
compare() {
	local i

	: >"$scratch/base"
	: >"$scratch/ours"
	for ((i = 0; i < pairs; i++)); do
		"$3" >>"$scratch/base"
		"$4" >>"$scratch/ours"
	done
	awk -v title="$1" -v asked="$2" -v base="$(median <"$scratch/base")" \
		-v ours="$(median <"$scratch/ours")" -v base_cpu="$(median 2 <"$scratch/base")" \
		-v ours_cpu="$(median 2 <"$scratch/ours")" 'BEGIN {
			printf "%-58s %8.3f s %8.3f s  rate %5.2f x, asked %s; processors %.3f s %.3f s, %.2f x\n", title,
				base, ours, base / ours, asked, base_cpu, ours_cpu, ours_cpu / base_cpu
		}'
}

plain=$scratch/backing/plain/data.mdb
if [ $# -gt 0 ]; then
	mkdir "$scratch/backing/plain"
	cp "$1" "$plain"
else
	make_set plain 5000 196620 50
fi
mkdir "$scratch/backing/packed" "$scratch/out"
"$convert" -q "$scratch/backing/plain" "$scratch/backing/packed"
packed=$scratch/backing/packed/data.mdb.zst
echo "data $(stat -c %s "$plain") bytes, container $(stat -c %s "$packed") bytes; medians of $pairs"

zstd_packs() { timed zstd -q -f -3 -T0 "$plain" -o "$scratch/out/z"; }
we_pack() { timed "$convert" -q -f -3 -T0 --no-progress "$plain" "$scratch/out/c.zst"; }
zstd_unpacks() { timed zstd -q -f -d "$packed" -o "$scratch/out/z"; }
we_unpack() { timed "$convert" -q -f --no-progress --to=lmdb "$packed" "$scratch/out/u.mdb"; }
compare "make a container, level 3 (beside: zstd -3 -T0)" ">= 0.9" zstd_packs we_pack
compare "undo it (beside: zstd -d)" ">= 0.9" zstd_unpacks we_unpack

mkdir "$scratch/backing/huge"
"$build/stores_sparse" "$plain" 100 "$scratch/backing/huge/data.mdb.zst"
for ((i = 0; i < pairs; i++)); do
	field seconds "$(reader --count=0 get "$scratch/backing/huge")"
done | median | awk '{ printf "mdb_env_open of a container of 100 GiB, and a transaction: %.1f ms, asked < 50\n", $1 * 1000 }'
# scan_free LIBRARIES SET PROCESSES: prints the seconds of a scan, from the first process's start to the last one's end,
# and the processor seconds of all.
scan_free() {
	local i

	cold
	for ((i = 0; i < $3; i++)); do
		echo | LD_LIBRARY_PATH=$1 "$top_builddir/bench/bench_worker" path="$scratch/mount/$2" \
			work=0 records=0 touch=64 >"$scratch/told.$i" &
	done
	wait
	awk -F = '
		$1 == "begin" && (!begin || $2 < begin) { begin = $2 }
		$1 == "end" && $2 > end { end = $2 }
		$1 == "user" || $1 == "system" { processors += $2 }
		END { printf "%.4f %.4f\n", (end - begin) / 1e9, processors / 1e6 }' "$scratch"/told.*
	rm "$scratch"/told.*
}
original_free() { scan_free "" plain "$processes"; }
plain_free() { scan_free "$library" plain "$processes"; }
packed_free() { scan_free "$library" packed "$processes"; }
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=0
for processes in 1 4; do
	compare "scan by $processes, storage that costs nothing (the original's)" ">= 0.95" original_free packed_free
	compare "the same of the plain file" ">= 1.0" original_free plain_free
done
slowfs_stop
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=500,bandwidth=200
scan_plain() {
	cold
	timed reader scan "$scratch/mount/plain"
}
scan_packed() {
	cold
	timed reader scan "$scratch/mount/packed"
}
if [ $# -eq 0 ]; then
	compare "scan at 200 MiB/s, cold (beside: the plain file)" ">= 1.7" scan_plain scan_packed
	cold
	reader --count=0 get "$scratch/mount/huge" >/dev/null
	echo "the same from slow storage: $(slowfs_stat huge/data.mdb.zst:requests) requests," \
		"$(slowfs_stat huge/data.mdb.zst:bytes) bytes, asked < 1048576"
	slowfs_stop
	make_set plain-cifar 50000 3090 50
	make_set plain-img 2000 196620 50
	for set in cifar img; do
		for order in as-it-was relaid; do
			mkdir "$scratch/backing/$set-$order"
			options=""
			[ $order = as-it-was ] || options=--relayout
			# shellcheck disable=SC2086
			"$convert" -q $options "$scratch/backing/plain-$set" "$scratch/backing/$set-$order"
		done
	done
	slowfs_start "$scratch/backing" "$scratch/mount"
	for set in "cifar 50000" "img 2000"; do
		for order in as-it-was relaid; do
			name=${set% *}-$order
			requests=0 bytes=0
			for ((seed = 1; seed <= 20; seed++)); do
				cold
				reader --records="${set#* }" --count=1 --seed=$seed get "$scratch/mount/$name" >/dev/null
				requests=$((requests + $(slowfs_stat "$name/data.mdb.zst:requests")))
				bytes=$((bytes + $(slowfs_stat "$name/data.mdb.zst:bytes")))
			done
			echo "one value at random of $name: $((requests / 20)).$((requests / 2 % 10)) requests," \
				"$((bytes / 20)) bytes"
		done
	done
fi
slowfs_stop
