#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Times reads of a data set that is larger than all memory of its readers' control group, on slowfs or on a disk.
#
# usage: bench_larger.sh [READ...]           default: all; READ is a line of the list below
# The environment sets BUILD (build), RUNS (3), MEMORY (96, MiB), RECORDS (1800), VALUE (196620, bytes each) and
# LATENCY (500, microseconds). DISK is a directory on a local disk to read instead of slowfs; other processes' reads
# from that disk are counted as well. Ways alternate: the original, lmdbio through the page cache
# (LMDBIO_STORE=cache) and lmdbio. Prints medians: seconds, requests to storage for each MiB that it delivers,
# and those MiB. Needs root to make the control group.
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
if [ -n "${DISK:-}" ]; then
	disk=$(mktemp -d "$DISK/lmdbio-larger.XXXXXX")
	trap 'stores_clean; rm -rf "$disk"' EXIT
	rmdir "$scratch/backing"
	ln -s "$disk" "$scratch/backing"
	ln -s "$disk" "$scratch/mount"
fi
make_set img "$records" "${VALUE:-196620}"
if [ -n "${DISK:-}" ]; then
	sync "$disk/img/data.mdb"
	counters=/sys/dev/block/$(stat -c %Hd:%Ld "$disk")/stat
else
	slowfs_start "$scratch/backing" "$scratch/mount" -o "latency=${LATENCY:-500},bandwidth=1500"
fi
echo "$(($(file_size img) >> 20)) MiB of data, ${MEMORY:-96} MiB of memory"

# begin_cold: drops the set's pages from memory, and begins the counts anew.
begin_cold() {
	if [ -z "${DISK:-}" ]; then
		cold
		return
	fi
	dd if="$disk/img/data.mdb" iflag=nocache count=0 status=none
	read -r requests_before _ sectors_before _ <"$counters"
}

# counted: prints the requests to storage since begin_cold, and the bytes that storage delivered.
counted() {
	local requests sectors

	if [ -z "${DISK:-}" ]; then
		echo "$(slowfs_stat img/data.mdb:requests) $(slowfs_stat img/data.mdb:bytes)"
		return
	fi
	read -r requests _ sectors _ <"$counters"
	echo "$((requests - requests_before)) $(((sectors - sectors_before) * 512))"
}

# once WAY READERS ARGUMENTS...: prints "SECONDS REQUESTS-PER-MIB MIB" of readers that begin together.
once() {
	local way=$1 readers=$2 began i
	local -a pids=()

	shift 2
	begin_cold
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
	echo "$(($(date +%s%N) - began)) $(counted)" |
		awk '{ printf "%.2f %.2f %.0f\n", $1 / 1e9, $2 * 1048576 / $3, $3 / 1048576 }'
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
			# shellcheck disable=SC2119 # of column 1
			printf ' %s' "$(awk -v way=$way -v field=$field '$1 == way { print $field }' "$scratch/runs" | median)"
		done
		echo
	done
done
[ -n "${DISK:-}" ] || slowfs_stop
