#!/bin/bash
# What only this file knows: that the nodes of a job read a container from storage once, together, and
# a staged one never, and that all of its ranks see what the original sees of the data.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
export MPI_SECONDS=20
convert=$top_builddir/tools/lmdbio-convert
make_set plain 500 196620 50
whole=$(original scan "$scratch/backing/plain" | seen)
for set in packed relaid; do
	mkdir "$scratch/backing/$set"
done
"$convert" -q "$scratch/backing/plain" "$scratch/backing/packed"
"$convert" -q --relayout --chunk-size=4M "$scratch/backing/plain" "$scratch/backing/relaid"
rm -r "$scratch/backing/plain"
declare -A first=([packed]=0 [relaid]=$((2 * 2200000)))
slowfs_start "$scratch/backing" "$scratch/mount"

# Each program reads the header and the index for itself, and of large chunks the first one of each node
# may come twice: a single value is not waited for.
for set in packed relaid; do
	LMDBIO_MEMORY=128M job_read 4 2 1 $set
	equal "${set}_job_ends_well" 0 "$job_status"
	equal "${set}_job_sees_the_same" "$whole" "$(job_seen 1)"
	at_most "${set}_job_bytes" "$(slowfs_stat "$set/data.mdb.zst:bytes")" \
		$(($(stat -c %s "$scratch/backing/$set/data.mdb.zst") * 103 / 100 + ${first[$set]}))
	job_left "${set}_job"
done
slowfs_stop
finish
