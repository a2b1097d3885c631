#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Tests AnnouncingSampler with PyTorch's DataLoader: workers get the right records, however they are started, and find
# in memory what the main process announced.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
python=/usr/bin/python3
"$python" -c 'import importlib.util, lmdb; importlib.util.find_spec("torch").loader' 2> /dev/null || skip "no python3-lmdb or python3-torch here"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require
trap 'slowfs_abandon; rm -rf "$scratch"' EXIT
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/python" PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
check=$top_srcdir/tests/python/sampler_check.py
cd "$scratch"

mkdir backing
"$python" "$top_srcdir/tests/python/sampler_sets.py" backing
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=500,bandwidth=1500
export LMDBIO_NODE="$scratch"

size=$(stat -c %s backing/set/data.mdb)
# epoch_of CASE: reads an epoch; sets $bytes and $requests to what storage has been asked for.
epoch_of() {
	slowfs_drop
	slowfs_reset
	rm -f "$1".*
	status "epoch_of_$1_reads_all" 0 env LMDBIO_STATS="$1.%p" "$lmdbio_run" -- "$python" "$check" read mount/set "$1"
	judge "epoch_of_$1_gives_each_record_once" grep -qx 'right' out
	bytes=$(slowfs_stat set/data.mdb:bytes) requests=$(slowfs_stat set/data.mdb:requests)
	echo "$1: $requests requests, $bytes bytes"
}

epoch_of none
# The main process reads nearly all records: its workers wait for no read. If other programs keep it off its
# processor, workers read for themselves what it reads later: then the case is repeated.
for case in spawn batch order fork; do
	for _ in 1 2 3 4 5; do
		epoch_of $case
		[ "$bytes" -gt "$((size + size / 10))" ] || break
	done
	judge "records_of_${case}_are_read_once" test "$bytes" -le "$((size + size / 10))"
done
ahead=$(sed -n 's/.*"prefetch_requests": \([0-9]*\).*/\1/p' fork.* | sort -n | tail -n 1)
echo "ahead: $ahead requests of $requests"
judge main_process_reads_ahead_of_its_workers test "$((ahead * 10))" -ge "$((requests * 8))"
# Each preset, a function and a format. The layouts do not depend on how workers are started. A spawned worker loads
# PyTorch anew each time, so that spawned workers read only one layout of a file and one of a folder.
layouts="caffe lsun mmengine ase deepmd ordered function format ase_folder ocp"
for start in fork spawn; do
	[ $start = fork ] || [ -n "${TESTS_LONG:-}" ] || layouts="function ase_folder"
	slowfs_drop
	slowfs_reset
	# shellcheck disable=SC2086
	status "layouts_are_read_by_${start}ed_workers" 0 "$lmdbio_run" -- "$python" "$check" layouts mount $start $layouts
	for name in $layouts; do
		judge "layout_of_${name}_is_right_with_${start}" grep -q "^$name right" out
		judge "records_of_${name}_are_announced_with_${start}" grep -q "^$name .* announced$" out
	done
	cat out
done
slowfs_stop
finish
