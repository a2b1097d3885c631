#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks how much a job of several nodes reads from storage, and that all ranks see what the original sees.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
make_set img 600 196620
make_set cifar 28000 3090
slowfs_start "$scratch/backing" "$scratch/mount"
declare -A whole
for set in img cifar; do
	whole[$set]=$(original scan "$scratch/backing/$set" | seen)
done

# cooperates SET RANKS NODES MEMORY: two epochs read storage once, with MEMORY on each node. The job is repeated if it
# read more: on a busy machine a rank that waits too long reads storage itself, so only a cost that recurs in every
# try counts.
cooperates() {
	local name=$1_of_$2_ranks_on_$3_nodes_with_$4 try bytes requests most_bytes most_requests

	most_bytes=$(($(file_size "$1") * 103 / 100))
	most_requests=$(($(file_size "$1") * 110 / 104857600))
	for try in $job_tries; do
		LMDBIO_MEMORY=$4 job_read "$2" "$3" 2 "$1"
		bytes=$(slowfs_stat "$1/data.mdb:bytes")
		requests=$(slowfs_stat "$1/data.mdb:requests")
		[ "$bytes" -gt "$most_bytes" ] || [ "$requests" -gt "$most_requests" ] || break
		echo "-- $name: $requests requests, $bytes bytes at try $try"
	done
	equal "${name}_ends_well" 0 "$job_status"
	equal "${name}_sees_the_same" "${whole[$1]}" "$(job_seen 1)"
	equal "${name}_sees_the_same_again" "${whole[$1]}" "$(job_seen 2)"
	at_most "${name}_bytes" "$bytes" "$most_bytes"
	at_most "${name}_requests" "$requests" "$most_requests"
}

for set in img cifar; do
	cooperates "$set" 2 1 256M
	cooperates "$set" 4 2 256M
	cooperates "$set" 4 4 256M
	job_left "$set"
done
# No node has memory for all of it, together they have.
cooperates img 4 2 88M
cooperates cifar 4 4 80M
# Received bytes land where they stay, unless the kernel makes no huge pages of shared memory.
if mpi_huge_pages; then
	LMDBIO_VERBOSE=1 LMDBIO_MEMORY=256M job_read 4 2 1 img
	equal "huge_pages_see_the_same" "${whole[img]}" "$(job_seen 1)"
	placed=$(grep -o '[0-9]* MiB straight into huge pages' "$scratch/job.log" | awk '{ n += $1 } END { print n + 0 }')
	judge huge_pages_are_read_into test "$placed" -gt 0
else
	echo "-- huge_pages: this kernel has none of shared memory"
fi
# Nodes that MPICH does not know of: the third and the fourth rank have a network each.
if unshare -n true 2>/dev/null; then
	cat >"$scratch/apart" <<-END
		#!/bin/sh
		[ "\$PMI_RANK" -lt 2 ] || exec unshare -n "$lmdbio_run" "\$@"
		exec "$lmdbio_run" "\$@"
	END
	chmod +x "$scratch/apart"
	there=$lmdbio_run lmdbio_run=$scratch/apart
	cooperates img 4 1 256M
	lmdbio_run=$there
fi

# What exceeds all memory is read from storage again, in requests as large.
for try in $job_tries; do
	LMDBIO_MEMORY=16M job_read 4 2 2 img
	equal "short_memory_sees_the_same" "${whole[img]}" "$(job_seen 2)"
	requests=$(slowfs_stat img/data.mdb:requests)
	bytes=$(slowfs_stat img/data.mdb:bytes)
	[ "$requests" -gt $((bytes * 130 / 100 / 1048576)) ] || [ "$bytes" -gt $(($(file_size img) * 9 / 2)) ] || break
	echo "-- short_memory: $requests requests, $bytes bytes at try $try"
done
at_most "short_memory_requests" "$requests" $((bytes * 130 / 100 / 1048576))
# No more than the two nodes would read in their two epochs without each other.
at_most "short_memory_bytes" "$bytes" $(($(file_size img) * 9 / 2))
job_left "short_memory"
slowfs_stop
finish
