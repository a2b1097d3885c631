#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Times reads of a data set that is larger than all memory of its readers' control group, on slowfs.
#
# usage: bench_larger.sh [READ...]           default: all; READ is a line of the list below
# BUILD (build), RUNS (3), MEMORY (96, MiB), RECORDS (1800, of 196,620 bytes) and LATENCY (500, microseconds) are taken from the
# environment. Ways alternate: the original, lmdbio through the page cache (LMDBIO_STORE=cache) and lmdbio. Medians:
# seconds, requests a MiB of what storage gave, MiB that it gave. Root makes the control group.
top_srcdir=$(cd "$(dirname "$0")/.." && pwd)
top_builddir=${BUILD:-$top_srcdir/build}
# shellcheck source-path=SCRIPTDIR source=../tests/stores/stores_lib.sh
. "$(dirname "$0")/../tests/stores/stores_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_lib.sh
. "$(dirname "$0")/bench_lib.sh"
records=${RECORDS:-1800}
[ $# -gt 0 ] || set -- "1 scan" "1 --backward scan" "8 scan" \
	"1 --records=$records --count=$((records * 5 / 6)) get" \
	"1 --nordahead --records=$records --count=$((records * 5 / 6)) get" \
	"4 --nordahead --records=$records --count=$((records * 5 / 6)) get"
stores_begin
group_make "${MEMORY:-96}" || { echo "no control group can be made here" >&2; exit 2; }
make_set img "$records" 196620
slowfs_start "$scratch/backing" "$scratch/mount" -o "latency=${LATENCY:-500},bandwidth=1500"
echo "$(($(file_size img) >> 20)) MiB of data, ${MEMORY:-96} MiB of memory"

# once WAY READERS ARGUMENTS...: "seconds requests bytes" of readers that begin together.
once() {
	local way=$1 readers=$2 began i
	local -a pids=()

	shift 2
	cold
	began=$(date +%s%N)
	for ((i = 0; i < readers; i++)); do
		(
			echo "$BASHPID" >"$group/cgroup.procs"
			case $way in
			original) exec "$build/stores_reader" "$@" "$scratch/mount/img" ;;
			cache) export LMDBIO_STORE=cache ;;
			esac
			reader "$@" "$scratch/mount/img"
		) >/dev/null &
		pids+=($!)
	done
	wait "${pids[@]}"
	awk -v ns=$(($(date +%s%N) - began)) -v requests="$(slowfs_stat img/data.mdb:requests)" \
		-v bytes="$(slowfs_stat img/data.mdb:bytes)" \
		'BEGIN { printf "%.2f %.2f %.0f\n", ns / 1e9, requests * 1048576 / bytes, bytes / 1048576 }'
}

for read in "$@"; do
	read -r -a words <<<"$read"
	: >"$scratch/runs"
	for ((run = 0; run < ${RUNS:-3}; run++)); do
		for way in original cache lmdbio; do
			echo "$way $(once $way "${words[@]}")" >>"$scratch/runs"
		done
	done
	for way in original cache lmdbio; do
		printf '%s, %s:' "$read" $way
		for field in 2 3 4; do
			printf ' %s' "$(awk -v way=$way -v field=$field '$1 == way { print $field }' "$scratch/runs" | median)"
		done
		echo
	done
done
slowfs_stop
