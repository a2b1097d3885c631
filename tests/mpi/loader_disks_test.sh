#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a job's plan includes the nodes' local disks: a set that fits onto all disks but not into all memory is
# read from storage once, whatever becomes of a disk meanwhile.
# shellcheck source-path=SCRIPTDIR source=loader_job_lib.sh
. "$(dirname "$0")/loader_job_lib.sh"
stores_alone "$@"
job_begin
make_set large 1200 20000
make_set page 6000 3000
make_set small 16000 500
make_set mixed 8000 100,900,3000
loader_job_begin
export LOADER_JOB=$scratch/job
mkdir "$LOADER_JOB"

# disks NODES BYTES...: makes a directory for each node's disk, of so many bytes.
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

# said NODE WHAT: how many lines about that node's disk say so.
said() {
	grep -c "^lmdbio: $scratch/ssd.$1/.*: $2" "$scratch/err" || true
}

# planned: the number of records with a home, as the ranks report it.
planned() {
	sed -n 's/.* planned \([0-9]*\) .*/\1/p' "$scratch/out" | sort -u
}

# nothing_left NAME: no file in the directories, and nothing of the job.
nothing_left() {
	equal "$1_leaves_no_file_on_disk" 0 "$(find "$scratch"/ssd.* -type f | wc -l)"
	job_left "$1"
}

# disks_hold SET RECORDS RANKS NODES MEMORY BYTES: with disks of BYTES each, none of which holds the set alone.
disks_hold() {
	local set=$1 name=disks_of_$4_nodes_and_$3_ranks data nodes

	program=$alone expects "$set" --batch=40
	data=$(($(file_size "$set")))
	nodes=$4
	# shellcheck disable=SC2046
	disks "$nodes" $(yes "$6" | head -n "$nodes")
	at_most "${name}_hold_$1_not_alone" "$6" $((data * 3 / 4))
	program=$scratch/on_disks once "$name" "$3" "$4" "$set" "$5" --batch=40
	equal "${name}_have_a_place_for_every_record_of_$1" "$2" "$(planned)"
	judge "${name}_have_half_of_$1_at_least" test "$(of 2 staged)" -ge $((data / 2))
	at_most "${name}_have_no_more_than_$1" "$(of 2 staged)" $((data * 105 / 100))
	judge "${name}_are_read_for_$1" test "$(of 2 stage)" -gt 0
	nothing_left "$name"
}

disks_hold large 1200 2 2 13M 14000000
program=$alone LMDBIO_MEMORY=13M reads 2 2 large --batch=40
same_as_alone memory_alone
at_most memory_alone_holds_no_third_of_1200 "$(planned)" 400
judge memory_alone_has_storage_read_again test "$(storage 1 2)" -gt $(($(file_size large) / 2))
if [ "${with_sanitizer:-no}" = no ]; then
	disks_hold large 1200 4 4 11M 7000000
	disks_hold page 6000 4 2 21M 14000000
	disks_hold small 16000 4 2 21M 5500000
fi
disks_hold mixed 8000 2 2 11M 7000000

# --- ranks of one node that name different directories get the room of one of them ---
if [ "${with_sanitizer:-no}" = no ]; then
	disks 4 14000000 14000000 14000000 14000000
	program=$alone expects large --batch=40
	# shellcheck disable=SC2016
	printf '#!/bin/sh\nexec "%s" --stage="%s/ssd.$PMI_RANK" --stage-size=14000000 "$@"\n' "$alone" "$scratch" >"$scratch/on_own"
	chmod +x "$scratch/on_own"
	program=$scratch/on_own once own_directories 4 2 large 21M --batch=40
	equal own_directories_have_a_place_for_every_record 1200 "$(planned)"
	at_most own_directories_have_the_room_of_one_a_node "$(of 2 staged)" 28000000
	nothing_left own_directories
fi

# --- after the planned epochs homes stay where they are ---
program=$alone expects large --batch=40 --epochs=10
program=$scratch/on_disks
disks 2 14000000 14000000
for try in $job_tries; do
	LMDBIO_MEMORY=12M reads 2 2 large --batch=40 --epochs=10
	[ "$(storage 1 2 3 4 5 6 7 8 9)" -gt 0 ] || break
	echo "-- ten epochs: $(storage 1 2 3 4 5 6 7 8 9) bytes again, at try $try"
done
same_as_alone ten_epochs
equal ten_epochs_read_nothing_again 0 "$(storage 1 2 3 4 5 6 7 8 9)"
judge ten_epochs_are_planned_twice grep -q ' 1 plans were made anew' "$scratch/err"
nothing_left ten_epochs

# --- a rank that has closed its loader continues to answer, out of its disk ---
program=$alone expects large --batch=40
program=$scratch/on_disks
for nodes in 2 4; do
	[ $nodes = 2 ] || [ "${with_sanitizer:-no}" = no ] || continue
	# shellcheck disable=SC2046
	disks $nodes $(yes $((28000000 / nodes)) | head -n $nodes)
	for try in $job_tries; do
		LMDBIO_MEMORY=12M reads $nodes $nodes large --batch=40 --act=close --rank=1 --at=31
		[ "$(storage 1 2)" -gt 0 ] || break
		echo "-- close: $(storage 1 2) bytes again, at try $try"
	done
	equal "close_of_one_of_${nodes}_ends_well" 0 "$job_status"
	judge "close_of_one_of_${nodes}_gives_the_others_all" test "$(comm -13 "$scratch/expected" "$scratch/came" | wc -l)" = 0 -a \
		"$(wc -l <"$scratch/came")" = $((1200 + 40 / nodes + 2400 * (nodes - 1) / nodes))
	equal "close_of_one_of_${nodes}_makes_the_others_read_nothing_again" 0 "$(storage 1 2)"
	nothing_left "close_of_one_of_$nodes"
done

# --- files that a killed job has left do not hinder the next job ---
disks 2 14000000 14000000
LMDBIO_MEMORY=12M reads 2 2 large --batch=40 --act=kill --rank=1 --at=35 >"$scratch/log"
judge kill_of_one_ends_the_job mpi_ended "$job_status"
until [ -z "$(job_processes)" ]; do
	sleep 0.05
done
equal kill_of_one_leaves_files_on_both_disks 2 "$(find "$scratch"/ssd.* -type f | wc -l)"
once after_kill_of_one 2 2 large 12M --batch=40
equal after_kill_of_one_has_a_place_for_every_record 1200 "$(planned)"
nothing_left after_kill_of_one

# --- disks that do not exist, fill up or fail ---
disks 2 14000000 14000000
rmdir "$scratch/ssd.1"
LMDBIO_MEMORY=12M reads 2 2 large --batch=40
same_as_alone no_directory_on_one_node
equal no_directory_on_one_node_is_said_once 1 "$(said 1 'not usable')"
judge no_directory_on_one_node_leaves_the_other_ones test "$(planned)" -ge 600 -a "$(planned)" -lt 1100
mkdir "$scratch/ssd.1"
nothing_left no_directory_on_one_node

echo 50000 >"$scratch/size.1"
LMDBIO_MEMORY=12M reads 2 2 large --batch=40
same_as_alone tiny_disk_on_one_node
judge tiny_disk_on_one_node_leaves_the_other_ones test "$(planned)" -ge 600 -a "$(planned)" -lt 1100
nothing_left tiny_disk_on_one_node

# The disk fails half-way in the first epoch; only the rows remain in the file.
disks 2 14000000 14000000
printf '#!/bin/sh\nexec truncate -s 65536 "%s"/ssd.1/lmdbio-stage-*\n' "$scratch" >"$LOADER_JOB/command"
chmod +x "$LOADER_JOB/command"
LMDBIO_MEMORY=12M reads 2 2 large --batch=40 --act=run --rank=1 --at=10
same_as_alone disk_failing_half_way
equal disk_failing_half_way_is_said_once 1 "$(said 1 'cannot be read')"
equal disk_failing_half_way_is_said_of_no_other 0 "$(said 0 .)"
equal disk_failing_half_way_had_all_planned 1200 "$(planned)"
judge disk_failing_half_way_is_in_the_statistics grep -q '^# epoch 2 rank 1 .* stage_state 2 ' "$scratch/out"
nothing_left disk_failing_half_way

# Another program takes the room before a record has come.
if [ "$(id -u)" = 0 ]; then
	trap 'umount "$scratch/ssd.1" 2>/dev/null || true; job_clean' EXIT
	mount -t tmpfs -o size=16m,mode=700 none "$scratch/ssd.1"
	printf '#!/bin/sh\nhead -c 15000000 /dev/zero >"%s/ssd.1/other"\n' "$scratch" >"$LOADER_JOB/command"
	LMDBIO_MEMORY=12M reads 2 2 large --batch=40 --act=run --rank=1 --at=0
	same_as_alone full_disk
	equal full_disk_is_said_once 1 "$(said 1 'cannot be written: No space')"
	equal full_disk_had_all_planned 1200 "$(planned)"
	judge full_disk_is_in_the_statistics grep -q '^# epoch 2 rank 1 .* stage_state 1 ' "$scratch/out"
	rm "$scratch/ssd.1/other"
	nothing_left full_disk
	umount "$scratch/ssd.1"
fi

# Records that wait on a disk for their place take no room from any rank, whichever rank has put them there.
if [ "$(id -u)" = 0 ] && [ "${with_sanitizer:-no}" = no ]; then
	program=$alone expects small --batch=40
	disks 2 100000000 100000000
	trap 'umount "$scratch/ssd.0" "$scratch/ssd.1" 2>/dev/null || true; job_clean' EXIT
	mount -t tmpfs -o size=6m,mode=700 none "$scratch/ssd.0"
	mount -t tmpfs -o size=6m,mode=700 none "$scratch/ssd.1"
	once small_disks 4 2 small 19M --batch=40
	equal small_disks_have_a_place_for_every_record 16000 "$(planned)"
	equal small_disks_are_full_for_nobody 0 "$(said . .)"
	nothing_left small_disks
	umount "$scratch/ssd.0" "$scratch/ssd.1"
fi
slowfs_stop
finish
