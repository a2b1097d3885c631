#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Counts what cold reads of the same pages ask of storage in the formats of LMDB 0.9 and 1.0.
#
# bench_formats_cold.sh: prints, for each way to read with lmdbio in either format, the requests and the bytes
# that reached storage, and the seconds: medians of RUNS (5) alternating runs. Storage is slowfs with
# LATENCY (500) microseconds a request and BANDWIDTH (1500) MiB/s. The last row opens a data set of one
# record, reads the record and closes the data set 2,000 times; all but the first time are warm.
set -eu
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/..}" && pwd)
top_builddir=$(cd "${top_builddir:-$top_srcdir/build}" && pwd)
# shellcheck source-path=SCRIPTDIR source=../tests/slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_lib.sh
. "$top_srcdir/bench/bench_lib.sh"
slowfs_require
worker=$top_builddir/bench/bench_worker
scratch=$(mktemp -d)
trap 'slowfs_abandon; rm -rf "$scratch"' EXIT
export LMDBIO_NODE=bench-formats-$$

# Numbers of enum bench_work, for the worker.
scan=0 get=4 open=9 make=11

# set_make NAME RECORDS BYTES: writes a data set in both formats.
set_make() {
	for format in 0.9 1.0; do
		mkdir -p "$scratch/backing/$format.$1"
		"$worker" work=$make path="$scratch/backing/$format.$1" records="$2" value_size="$3" > /dev/null
		set_format $format "$scratch/backing/$format.$1"
	done
}

# run_once FORMAT SET FIELD...: reads once, and notes a line of requests, bytes, seconds, and the number and the sum
# of the records.
run_once() {
	format=$1 data=$format.$2
	shift 2
	slowfs_drop
	slowfs_reset
	echo | LD_LIBRARY_PATH=$top_builddir/compat/.libs "$worker" path="$SLOWFS_MOUNT/$data" "$@" > "$scratch/told"
	awk -F = -v requests="$(slowfs_stat "$data/data.mdb:requests")" -v bytes="$(slowfs_stat "$data/data.mdb:bytes")" '
		{ told[$1] = $2 }
		END { printf "%d %d %.6f %d:%d\n", requests, bytes, (told["end"] - told["begin"]) / 1e9, told["records"], told["sum"] }
	' "$scratch/told" >> "$scratch/runs.$format"
}

# row NAME SET FIELD...: prints the medians of both formats.
row() {
	name=$1
	shift
	rm -f "$scratch"/runs.*
	i=0
	while [ $i -lt "${RUNS:-5}" ]; do
		run_once 0.9 "$@"
		run_once 1.0 "$@"
		i=$((i + 1))
	done
	[ "$(cut -d ' ' -f 4 "$scratch"/runs.* | sort -u | wc -l)" = 1 ] || { echo "$name: not the same records" >&2; exit 1; }
	echo "$name" "$(median 1 < "$scratch/runs.0.9")" "$(median 1 < "$scratch/runs.1.0")" "$(median 2 < "$scratch/runs.0.9")" "$(median 2 < "$scratch/runs.1.0")" "$(median 3 < "$scratch/runs.0.9")" "$(median 3 < "$scratch/runs.1.0")" |
		awk '{
			printf "%-24s %7d %7d  %7.1f %7.1f  %8.3f %8.3f  %5.3f\n",
				$1, $2, $3, $4 / 1e6, $5 / 1e6, $6, $7, $7 / $6
		}'
}

set_make img 400 196620
set_make cifar 25000 3090
set_make small 300000 100
set_make tiny 1 100
slowfs_start "$scratch/backing" "$scratch/mount" -o "latency=${LATENCY:-500},bandwidth=${BANDWIDTH:-1500}"
printf '%-24s %15s  %15s  %17s  %s\n' "" requests MB seconds ratio
printf '%-24s %7s %7s  %7s %7s  %8s %8s\n' "" 0.9 1.0 0.9 1.0 0.9 1.0
img="records=400 value_size=196620 touch=64" cifar="records=25000 value_size=3090 touch=64"
small="records=300000 value_size=100 touch=64"
# shellcheck disable=SC2086
{
	row scan-196-KB-nordahead img work=$scan $img nordahead=1
	row get-196-KB-nordahead img work=$get $img nordahead=1 count=200 seed=1
	row scan-3-KB cifar work=$scan $cifar
	row scan-3-KB-nordahead cifar work=$scan $cifar nordahead=1
	row get-3-KB-nordahead cifar work=$get $cifar nordahead=1 count=1000 seed=1
	row get-3-KB cifar work=$get $cifar count=1000 seed=1
	row scan-100-B small work=$scan $small
	row get-100-B-nordahead small work=$get $small nordahead=1 count=1000 seed=1
	row open tiny work=$open records=1 value_size=100 touch=64 count=2000
}
slowfs_stop
