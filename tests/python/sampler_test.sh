#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Tests AnnouncingSampler with PyTorch's DataLoader: right records in each way that workers start,
# and that workers find what the main process announced.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
python=/usr/bin/python3
"$python" -c 'import lmdb, torch' 2> /dev/null || skip "no python3-lmdb or python3-torch here"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require
trap 'slowfs_abandon; rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/python" PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
check=$top_srcdir/tests/python/sampler_check.py
cd "$scratch"

mkdir backing
"$python" "$check" make backing
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=500,bandwidth=1500
export LMDBIO_NODE="$scratch"

for case in fork spawn batch order none; do
	slowfs_drop
	slowfs_reset
	status "epoch_of_${case}_reads_all" 0 "$lmdbio_run" -- "$python" "$check" read mount/set "$case"
	judge "epoch_of_${case}_gives_each_record_once" grep -qx 'right' out
	eval "bytes_$case=$(slowfs_stat set/data.mdb:bytes)"
	echo "$case: $(slowfs_stat set/data.mdb:requests) requests, $(slowfs_stat set/data.mdb:bytes) bytes"
done
# The main process asks storage for nearly all: its workers wait for nothing.
size=$(stat -c %s backing/set/data.mdb)
# shellcheck disable=SC2154
for case in fork spawn batch order; do
	eval "bytes=\$bytes_$case"
	judge "records_of_${case}_are_read_once" test "$bytes" -le "$((size + size / 10))"
done
slowfs_drop
slowfs_reset
LMDBIO_STATS=stats.%p "$lmdbio_run" -- "$python" "$check" read mount/set fork > out
ahead=$(sed -n 's/.*"prefetch_requests": \([0-9]*\).*/\1/p' stats.* | sort -n | tail -n 1)
asked=$(slowfs_stat set/data.mdb:requests)
echo "ahead: $ahead requests of $asked"
judge main_process_reads_ahead_of_its_workers test "$((ahead * 10))" -ge "$((asked * 8))"
# Each preset, a function and a format, with workers that are started either way.
for start in fork spawn; do
	slowfs_drop
	slowfs_reset
	status "layouts_are_read_by_${start}ed_workers" 0 "$lmdbio_run" -- "$python" "$check" layouts mount $start
	for name in caffe lsun mmengine ase deepmd ordered function format ase_folder ocp; do
		judge "layout_of_${name}_is_right_with_${start}" grep -q "^$name right" out
		judge "records_of_${name}_are_announced_with_${start}" grep -q "^$name .* announced$" out
	done
	cat out
done
slowfs_stop
finish
