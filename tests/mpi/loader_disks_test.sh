#!/bin/bash
# What only this file knows: that the nodes' local disks are a part of a job's plan: what all memory cannot
# hold and all disks can is read from storage once, whatever becomes of a disk meanwhile.
# shellcheck source-path=SCRIPTDIR source=loader_job_lib.sh
. "$(dirname "$0")/loader_job_lib.sh"
stores_alone "$@"
job_begin
make_set large 1200 20000
make_set page 6000 3000
loader_job_begin
export LOADER_JOB=$scratch/job
mkdir "$LOADER_JOB"

# disks NODES BYTES...: a directory for each node's disk, of so many bytes.
disks() {
	local node

	export DISK_NODES=$1
	rm -rf "$scratch"/ssd.*
	for ((node = 0; node < DISK_NODES; node++)); do
		shift
		mkdir "$scratch/ssd.$node"
		echo "$1" >"$scratch/size.$node"
	done
}
# shellcheck disable=SC2016
printf '#!/bin/sh\nnode=$((PMI_RANK * DISK_NODES / PMI_SIZE))\nexec "%s" --stage="%s/ssd.$node" --stage-size="$(cat "%s/size.$node")" "$@"\n' \
	"$program" "$scratch" "$scratch" >"$scratch/on_disks"
chmod +x "$scratch/on_disks"
alone=$program

# of EPOCH FIELD: the sum over all ranks.
of() {
	sed -n "s/^# epoch $1 rank .* $2 \([0-9]*\) .*/\1/p" "$scratch/out" | awk '{ sum += $1 } END { print sum + 0 }'
}

# nothing_left NAME: in the directories, and of the job.
nothing_left() {
	equal "$1_leaves_no_file_on_disk" 0 "$(find "$scratch"/ssd.* -type f | wc -l)"
	job_left "$1"
}

# disks_hold SET RECORDS RANKS NODES MEMORY BYTES: with disks of so many bytes, of which none holds it alone.
disks_hold() {
	local set=$1 name=disks_of_$4_nodes_and_$3_ranks data nodes

	program=$alone expects "$set" --batch=40 --epochs=3
	data=$(($(file_size "$set")))
	nodes=$4
	# shellcheck disable=SC2046
	disks "$nodes" $(yes "$6" | head -n "$nodes")
	at_most "${name}_hold_$1_not_alone" "$6" $((data * 3 / 4))
	program=$scratch/on_disks once "$name" "$3" "$4" "$set" "$5" --batch=40
	equal "${name}_have_a_place_for_every_record_of_$1" "$2" "$(sed -n 's/.* planned \([0-9]*\) .*/\1/p' "$scratch/out" | sort -u)"
	judge "${name}_have_half_of_$1_at_least" test "$(of 2 staged)" -ge $((data / 2))
	at_most "${name}_have_no_more_than_$1" "$(of 2 staged)" $((data * 105 / 100))
	judge "${name}_are_read_for_$1" test "$(of 2 stage)" -gt 0
	nothing_left "$name"
}

disks_hold large 1200 2 2 13M 14000000
if [ "${with_sanitizer:-no}" = no ]; then
	disks_hold large 1200 4 4 11M 7000000
	disks_hold page 6000 4 2 21M 14000000
fi
finish
