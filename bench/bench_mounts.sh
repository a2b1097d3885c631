# SPDX-License-Identifier: OLDAP-2.8
# shellcheck shell=bash disable=SC2034,SC2154
# Gives each node of a benchmark its own mount of slowfs, and with it a page cache, and measures jobs on the mounts.
# Sourced, after stores_lib.sh; the set's folder is $set.
mounts=()

mounts_stop() {
	for SLOWFS_MOUNT in "${mounts[@]}"; do
		slowfs_abandon
	done
	mounts=() SLOWFS_MOUNT=''
}

# mounts_start NODES LATENCY BANDWIDTH: mounts slowfs for each node. LATENCY is in microseconds a request, BANDWIDTH in
# MiB/s for all nodes together.
mounts_start() {
	local node

	mounts_stop
	for ((node = 0; node < $1; node++)); do
		slowfs_start "$scratch/backing" "$scratch/mount$node" -o "latency=$2,bandwidth=$(($3 / $1))"
		mounts+=("$scratch/mount$node")
	done
}

each_cold() {
	for SLOWFS_MOUNT in "${mounts[@]}"; do
		cold
	done
}

# counted KEY: prints the sum of a slowfs count of $set's data file over all nodes.
counted() {
	local sum=0

	for SLOWFS_MOUNT in "${mounts[@]}"; do
		sum=$((sum + $(slowfs_stat "$set/data.mdb:$1")))
	done
	echo $sum
}

# ways_measure: calls measure() $pairs times for each of $ways in alternation, for $set on nodes of this $shape; then
# row() for each way.
ways_measure() {
	local pair

	for ((pair = 0; pair < pairs; pair++)); do
		for way in "${ways[@]}"; do
			measure >"$scratch/run"
			cat "$scratch/run" >>"$scratch/$shape.$set.$way"
			sed "s/^/$set $shape $way /" "$scratch/run" >>"${RAW:-/dev/null}"
		done
	done
	for way in "${ways[@]}"; do
		row "$scratch/$shape.$set.$way"
	done
}
