#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that values inside leaf pages, which are read when the records of a job are numbered, are not read a second
# time, whatever else is in the data set.
# shellcheck source-path=SCRIPTDIR source=loader_job_lib.sh
. "$(dirname "$0")/loader_job_lib.sh"
stores_alone "$@"
job_begin
make_set tiny 100000 100
make_set small 24000 500
make_set mixed 10000 100,900,3000
loader_job_begin

# reads_once SET RANKSxNODES=MEMORY...
reads_once() {
	local set=$1 size job nodes

	shift
	size=$(file_size "$set")
	expects "$set" --batch=400
	at_most "reading_of_${set}_by_one_process_bytes" "$(slowfs_stat "$set/data.mdb:bytes")" $((size * 103 / 100))
	for job; do
		nodes=${job%=*}
		nodes=${nodes#*x}
		once reading "${job%x*}" "$nodes" "$set" "${job#*=}" --batch=400
		judge "reading_of_${set}_on_${nodes}_nodes_is_planned_for_all_records" \
			grep -q "$nodes nodes keep \([0-9]*\) of \1 records" "$scratch/err"
	done
}

reads_once mixed 4x4=28M
if [ "${with_sanitizer:-no}" = no ]; then
	reads_once tiny 2x2=40M 4x4=28M
	reads_once small 4x2=48M
fi

# Where nodes have different amounts of memory, each numbers as many records as it can keep.
# shellcheck disable=SC2016
printf '#!/bin/sh\n[ "$PMI_RANK" != 0 ] || LMDBIO_MEMORY=30M\nexec "%s" "$@"\n' "$program" >"$scratch/uneven"
chmod +x "$scratch/uneven"
expects tiny --batch=400
program=$scratch/uneven once reading_with_uneven_room 4 4 tiny 13M --batch=400
judge reading_with_uneven_room_is_planned_for_all_records grep -q ' planned 100000 ' "$scratch/out"

# Room for a part of them: that part is not read again, and all samples are right.
expects small --batch=400
LMDBIO_MEMORY=14M reads 4 4 small --batch=400
same_as_alone short_memory
judge short_memory_is_used grep -q ' planned [1-9]' "$scratch/out"

# The number of resident records follows from the room of all nodes, and is in the saved state. Rank 0's batches alone
# would give a tenth of it.
LMDBIO_MEMORY=12M reads 4 4 small --order=opportunistic --batch=400 --quiet --save=1 --state="$scratch/state"
resident=$(od -An -t u8 -j 36 -N 8 "$scratch/state" | tr -d ' ')
at_most residents_by_default_are_at_least_a_third_of_24000 8000 "$resident"
at_most residents_by_default_are_no_more_than_planned_for "$resident" \
	"$(sed -n 's/.* nodes keep \([0-9]*\) of .*/\1/p' "$scratch/err" | head -n 1)"
job_left loaders
slowfs_stop
finish
