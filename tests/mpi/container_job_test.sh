#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the nodes of a job together read a container from storage once, and do not read a staged one at all, and
# that all ranks see what the original sees of the data.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
job_begin
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

# Each program reads the header and the index for itself, and the first large chunk of each node may be read twice: a
# single value is not waited for. On a busy machine a rank that waits too long reads storage itself, so only a cost
# that recurs in every try counts.
for set in packed relaid; do
	most=$(($(stat -c %s "$scratch/backing/$set/data.mdb.zst") * 103 / 100 + ${first[$set]}))
	for try in $job_tries; do
		LMDBIO_MEMORY=128M job_read 4 2 1 $set
		bytes=$(slowfs_stat "$set/data.mdb.zst:bytes")
		[ "$bytes" -gt "$most" ] || break
		echo "-- ${set}_job: $bytes bytes at try $try"
	done
	equal "${set}_job_ends_well" 0 "$job_status"
	equal "${set}_job_sees_the_same" "$whole" "$(job_seen 1)"
	at_most "${set}_job_bytes" "$bytes" "$most"
	job_left "${set}_job"
done
# Held in the nodes' memory, each chunk is read once, and no program reads any.
for set in packed relaid; do
	size=$(stat -c %s "$scratch/backing/$set/data.mdb.zst")
	cold
	job_status=0
	epochs=1 job_set=$scratch/mount/$set LMDBIO_MEMORY=160M mpi_job 4 2 "$top_builddir/tools/lmdbio-stage" \
		--hold --json --buffer=1M "$scratch/mount/$set" -- env LD_LIBRARY_PATH="$library" sh -c "$job_part" \
		>"$scratch/job.log" 2>&1 || job_status=$?
	equal "${set}_held_ends_well" 0 "$job_status"
	[ "$job_status" = 0 ] || cat "$scratch/job.log"
	equal "${set}_held_sees_the_same" "$whole" "$(job_seen 1)"
	at_most "${set}_held_bytes" "$(slowfs_stat "$set/data.mdb.zst:bytes")" $((size * 103 / 100))
	rm -f "$scratch"/seen.*
	job_left "${set}_held"
done

# One wrong bit gives every rank an error.
mkdir "$scratch/backing/bad"
cp "$scratch/backing/packed/data.mdb.zst" "$scratch/backing/bad/data.mdb.zst"
printf '\377\377\377' |
	dd of="$scratch/backing/bad/data.mdb.zst" bs=1 seek=20000000 conv=notrunc status=none
job_status=0
LMDBIO_MEMORY=160M mpi_job 4 2 "$top_builddir/tools/lmdbio-stage" --hold "$scratch/mount/bad" -- true \
	>"$scratch/job.log" 2>&1 || job_status=$?
equal "damaged_container_is_not_held" 2 "$job_status"
judge "damaged_container_is_told" grep -q 'damaged or cut off' "$scratch/job.log"
slowfs_stop
finish
