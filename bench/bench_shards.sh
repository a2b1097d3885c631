#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Times epochs over containers beside MDS and tar shards of the same records, on slowfs.
#
# bench_shards.sh [WAY/ORDER/MEMORY...]: runs EPOCHS (2) of each; WAY is get, loader, mds or tar (bench_shards.py),
# ORDER sequential or shuffled, MEMORY all, half or group. With all, lmdbio's budget and the shards that MDS may unpack
# hold all records, with half, half of them; with group both have their defaults in a control group of GROUP (192) MiB.
# get/shuffled/half/128k reads a container with chunks of 128 KiB; other rows read one with chunks of 1 MiB. IO=direct,
# or another LMDBIO_IO, applies to lmdbio alone.
# RECORDS (6000), BYTES (100000), RUNS (3), WORKERS (2), LATENCY (500), BANDWIDTH (1500), FOLDER (a
# new one in /dev/shm) and BUILD (build) are taken from the environment. Prints a line for each epoch of each
# run, and then the medians. The ways alternate. Needs python3-lmdb, the command zstd and libzstd.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
top_builddir=${BUILD:-$top/build}
# shellcheck source-path=SCRIPTDIR source=../tests/stores/stores_lib.sh
. "$top/tests/stores/stores_lib.sh"
slowfs_require
export PYTHONPATH=$top/python PYTHONDONTWRITEBYTECODE=1 LIBLMDBIO=$library/liblmdb.so.0
folder=$(mktemp -d "${FOLDER:-/dev/shm}/bench_shards.XXXXXX")
trap 'slowfs_abandon; rm -rf "$folder"; group_end' EXIT
records=${RECORDS:-6000} bytes=${BYTES:-100000}
python=(/usr/bin/python3 "$top/bench/bench_shards.py")

mkdir "$folder/backing" "$folder/local"
set_folder=$folder/backing/set
mkdir "$set_folder"
"${python[@]}" make "$set_folder" --records "$records" --bytes "$bytes"
for chunk in 1m 128k; do
	mkdir "$set_folder/packed-$chunk"
	"$top_builddir/tools/lmdbio-convert" -q --no-progress --relayout --chunk-size=$chunk "$set_folder/lmdb" "$set_folder/packed-$chunk"
done
du -sb "$set_folder"/* | sed "s|$set_folder/||" | awk '{ printf "%s %d bytes\n", $2, $1 }'
rm -r "$set_folder/lmdb"
[ $# -gt 0 ] || set -- {tar,mds,get,loader}/{sequential,shuffled}/{all,half} {get,loader}/shuffled/half/128k

# epochs WAY ORDER MEMORY [CHUNK]: runs the epochs of a row.
epochs() {
	local way=$1 half=$((records * bytes / 2)) set=packed-${4:-1m}
	local options=(--order "$2" --workers "${WORKERS:-2}" --epochs "${EPOCHS:-2}" --storage "$folder/mount/.slowfs/stats")
	local memory=$((records * bytes * 3 / 2))

	case $way in mds | tar) set=$way ;; esac
	[ "$3" = all ] || memory=$half
	if [ "$3" = group ]; then
		memory=auto
		echo "$BASHPID" > "$group/cgroup.procs"
	fi
	case $way in
	mds) "${python[@]}" read mds "$folder/mount/set/mds" "${options[@]}" --local "$folder/local" --cache "${memory/auto/0}" ;;
	tar) "${python[@]}" read tar "$folder/mount/set/tar" "${options[@]}" ;;
	*) LMDBIO_MEMORY=$memory LMDBIO_IO=${IO:-auto} "$top_builddir/tools/lmdbio-run" --stats=1 -- \
		"${python[@]}" read "$way" "$folder/mount/set/$set" "${options[@]}" 2> "$folder/stats" ;;
	esac
}

slowfs_start "$folder/backing" "$folder/mount" -o "latency=${LATENCY:-500},bandwidth=${BANDWIDTH:-1500}"
for ((i = 0; i < ${RUNS:-3}; i++)); do
	for row; do
		slowfs_drop
		slowfs_reset
		rm -f "$folder"/local/*
		IFS=/ read -r way order memory chunk <<< "$row"
		[ "$memory" != group ] || [ -n "${group:-}" ] || group_make "${GROUP:-192}"
		epochs "$way" "$order" "$memory" ${chunk:+"$chunk"} | sed "s|^|$row |"
		case $way in get | loader)
			awk -v row="$row" '/chunks decompressed/ { print row, "both epochs:", $0 }' "$folder/stats" ;;
		esac
	done
done | tee "$folder/lines"
slowfs_stop
awk '$2 == "epoch" { print $1 " " $2 " " $3 " " $4 }' "$folder/lines" | sort -k1,3 -k4n |
	awk '{ name = $1 " " $2 " " $3 } name != last { if (n) print last, "median", v[int((n + 1) / 2)], "records/s"; n = 0; last = name }
		{ v[++n] = $4 } END { if (n) print last, "median", v[int((n + 1) / 2)], "records/s" }'
