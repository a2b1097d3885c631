# SPDX-License-Identifier: OLDAP-2.8
# shellcheck shell=bash disable=SC2034,SC2154
# Gives each node of a benchmark a mount of slowfs of its own, and with it a page cache, and measures jobs on them.
# Sourced, after stores_lib.sh; the set's folder is $set.
mounts=()

mounts_stop() {
	for SLOWFS_MOUNT in "${mounts[@]}"; do
		slowfs_abandon
	done
	mounts=() SLOWFS_MOUNT=''
}

# mounts_start NODES LATENCY BANDWIDTH: of us, and MiB/s for all nodes together.
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

# counted KEY: the sum over all nodes, of the set that is being read.
counted() {
	local sum=0

	for SLOWFS_MOUNT in "${mounts[@]}"; do
		sum=$((sum + $(slowfs_stat "$set/data.mdb:$1")))
	done
	echo $sum
}

# ways_measure: measure(), $pairs times for each of $ways in alternation, of $set on nodes of this $shape; then a
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
