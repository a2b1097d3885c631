# SPDX-License-Identifier: OLDAP-2.8
# shellcheck shell=bash disable=SC2034,SC2154
# Gives each node of a benchmark a mount of slowfs of its own, and with it a page cache. Sourced, after
# stores_lib.sh; the set's folder is $set.
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
