#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Kills and stops readers of a node, and checks what the others see.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
make_set img 160 196620
make_set cifar 6000 3090
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=3000,bandwidth=1500

# deaths NAME SET kill|stop ROUNDS: while the other readers read to their end.
deaths() {
	local expected

	expected=$(original scan "$scratch/backing/$2" | seen)
	ran "$1" env LD_LIBRARY_PATH="$library" "$build/stores_death" "$3" \
		"$scratch/mount/.slowfs/control" "$build/stores_reader" "$scratch/mount/$2" "$expected" \
		$((times * $4))
	nothing_left "$1"
}

deaths "killed_at_random_moments" img kill 60
LMDBIO_STORE=arena LMDBIO_MEMORY=4M deaths "killed_with_a_small_budget" img kill 15
# A stopped reader continues when the others have finished.
deaths "stopped_at_random_moments" img stop 4
# With requests of 100 ms a round takes long: only the long form does it.
if [ -n "${TESTS_LONG:-}" ]; then
	slowfs_control "latency 100000"
	deaths "stopped_while_it_reads" cifar stop 12
fi
slowfs_stop
finish
