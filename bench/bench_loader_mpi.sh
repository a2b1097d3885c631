#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Measures what the batch loader of a job gains when the nodes keep records for each other, over
# real MPI on slowfs.
#
# bench_loader_mpi.sh [NODES]...: (1 2 4), in the build folder, one rank a node. SETS="img cifar"; RECORDS="400 16000";
# LATENCY=500 us; BANDWIDTH=1500 MiB/s; COMPUTE=2000 us a batch; EPOCHS=4.
#
# Ways: alone, every node reads for itself (the program asks MPI for no threads); together, nodes keep records for each
# other. From two nodes on, no node has memory for the whole set, but all nodes together do. Columns: bytes that
# reached storage over the set's; seconds of the first epoch and of the last; in each of them the seconds that the
# slowest rank waits; part of the records' bytes that were in the reader's own memory in the whole run.
top_srcdir=${top_srcdir:-$(dirname "$0")/..}
# shellcheck source-path=SCRIPTDIR source=../tests/stores/stores_lib.sh
. "$(dirname "$0")/../tests/stores/stores_lib.sh"
# shellcheck source-path=SCRIPTDIR source=../tests/mpi/mpi_lib.sh
. "$(dirname "$0")/../tests/mpi/mpi_lib.sh"
slowfs_require
stores_begin
mkdir -p "$scratch/backing"
export LMDBIO_IO=direct
# shellcheck disable=SC2154
program=$build/../mpi/loader_job
read -r -a sets <<<"${SETS:-img cifar}"
read -r -a records <<<"${RECORDS:-400 16000}"
declare -A bytes=([img]=196620 [cifar]=3073) batch=([img]=16 [cifar]=256)
epochs=${EPOCHS:-4}
[ $# -gt 0 ] || set -- 1 2 4
for i in "${!sets[@]}"; do
	make_set "${sets[i]}" "${records[i]}" "${bytes[${sets[i]}]}"
done
slowfs_start "$scratch/backing" "$scratch/mount" \
	-o "latency=${LATENCY:-500},bandwidth=${BANDWIDTH:-1500}"

# field EPOCH NAME: prints the largest value of a field in that epoch's lines.
field() {
	sed -n "s/^# epoch $1 .* $2 \([0-9]*\) .*/\1/p" "$scratch/out" | sort -n | tail -n 1
}

printf '%-6s %5s  %-9s %8s %8s %8s %9s %9s %6s\n' set nodes way storage first last 1st-wait last-wait own
for set in "${sets[@]}"; do
	size=$(file_size "$set")
	for nodes in "$@"; do
		for way in alone together; do
			flag=--quiet
			[ $way = together ] || flag="--quiet --single"
			cold
			# One and a half times the node's part of the set, and 24 MiB: batches and reads need some too.
			# shellcheck disable=SC2086
			LMDBIO_MEMORY=$((size * 3 / 2 / nodes + (24 << 20))) mpi_job "$nodes" "$nodes" \
				"$program" $flag --batch="${batch[$set]}" --epochs="$epochs" \
				--compute="${COMPUTE:-2000}" "$scratch/mount/$set" >"$scratch/out"
			awk -v set="$set" -v nodes="$nodes" -v way=$way -v size="$size" \
				-v read="$(slowfs_stat "$set/data.mdb:bytes")" \
				-v first="$(field 0 ms)" -v last="$(field $((epochs - 1)) ms)" \
				-v waited="$(field 0 stall)" -v waits="$(field $((epochs - 1)) stall)" \
				-v of="$((epochs - 1))" '
				$1 == "#" && $2 == "epoch" && $3 == of {
					own += $9
					all += $9 + $11 + $13
				}
				END {
					printf "%-6s %5d  %-9s %7.2fx %8.2f %8.2f %9.3f %9.3f %5.0f%%\n",
						set, nodes, way, read / size, first / 1000, last / 1000,
						waited / 1000, waits / 1000, 100 * own / all
				}' "$scratch/out"
		done
	done
done
slowfs_stop
