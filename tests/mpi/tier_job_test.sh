#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a job reads what lmdbio-stage --tier has spread over its nodes instead of storage, and reads storage
# where a part is missing or wrong.
# shellcheck source-path=SCRIPTDIR source=job_lib.sh
. "$(dirname "$0")/job_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
job_begin
stage_require
cd "$scratch"
make_set img 210 196620
make_set cifar 9000 3090
slowfs_start "$scratch/backing" "$scratch/mount"
declare -A whole
for set in img cifar; do
	whole[$set]=$(original scan "$scratch/backing/$set" | seen)
done
# The meta pages, and the pages that programs read before they read ahead: the kernel reads those, in sizes of its
# own.
few=$((12 * 131072))
size=$(file_size img)
chunks=$((size / 1048576))
export LMDBIO_VERBOSE=1

# spread SET RANKS NODES: stages the set's parts, into backing/to0 and so on.
spread() {
	fresh backing/to0 backing/to1 backing/to2 backing/to3
	staging "$2" "$3" --tier=ssd --quiet --to=backing/to%n "mount/$1"
	[ "$rc" = 0 ] || cat err
}

# reads NAME SET RANKS NODES EPOCHS LEAST MOST [BYTES]: a job reads the right data; storage is asked for LEAST to MOST
# whole chunks, and no more than BYTES beside. The job is repeated if it cost more: on a busy machine a rank that
# waits too long reads storage itself, so only a cost that recurs in every try counts.
reads() {
	local try bytes chunks file=${reads_file:-data.mdb} most=$(($7 * 1048576 + ${8:-$few}))

	for try in $job_tries; do
		job_read "$3" "$4" "$5" "$2"
		bytes=$(slowfs_stat "$2/$file:bytes")
		chunks=$(slowfs_stat "$2/$file:hist_1048576")
		[ "$bytes" -gt "$most" ] || [ "$chunks" -gt "$7" ] || break
		echo "-- $1: $chunks chunks, $bytes bytes at try $try"
	done
	equal "$1_ends_well" 0 "$job_status"
	equal "$1_sees_the_same" "${whole[$2]}" "$(job_seen "$5")"
	judge "$1_reads_${6}_chunks" test "$chunks" -ge "$6"
	at_most "$1_chunks" "$chunks" "$7"
	at_most "$1_bytes" "$bytes" "$most"
}

# first_chunk PART: the offset of the part's first chunk.
first_chunk() {
	python3 - "$1" "$size" <<'PYTHON'
import struct, sys
with open(sys.argv[1], "rb") as part:
    part.seek((int(sys.argv[2]) + 4095) // 4096 * 4096 + 104)
    print(struct.unpack("=Q", part.read(8))[0] << 20)
PYTHON
}

# flip FILE OFFSET: flips a bit.
flip() {
	local byte

	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf %b "\\x$(printf %02x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# --- on the disks ---
job_options=--staged=backing/to%n
# While a process opens its node's memory, its reads go on by page faults, as many as storage answers meanwhile.
slowfs_control "latency 100000"
for nodes in 2 4; do
	for set in img cifar; do
		spread $set 4 $nodes
		reads "parts_of_${set}_on_${nodes}_nodes" $set 4 $nodes 1 0 0
		judge "parts_of_${set}_on_${nodes}_nodes_are_all_had" \
			test "$(grep -c '(0 chunks were not had there)' job.log)" = $nodes
	done
done
slowfs_control "latency 500"
# The parts of a container hold its decompressed data: a job decompresses nothing, and reads only indexes.
mkdir backing/packed
"$top_builddir/tools/lmdbio-convert" --quiet backing/img backing/packed
whole[packed]=${whole[img]}
spread packed 4 2
reads_file=data.mdb.zst reads parts_of_a_container packed 4 2 1 0 0
judge parts_of_a_container_are_all_had test "$(grep -c '(0 chunks were not had there)' job.log)" = 2
spread img 2 2
# Less memory than data: the disks are read again. A process that finds no room reads what it needs for itself.
LMDBIO_MEMORY=16M reads parts_that_exceed_memory img 2 2 2 0 0 $((size / 5))
job_left parts
# Parts that were made for two nodes are of no use to four.
reads parts_for_other_nodes img 4 4 1 $chunks $chunks
judge parts_for_other_nodes_are_told grep -q 'no part of it for node 3 of 4 in .*to3: No such file' job.log

part=$(echo backing/to0/*/part-0-of-2)
flip "$part" $(($(first_chunk "$part") + 5000))
reads part_with_a_flipped_bit img 2 2 1 1 1
judge part_with_a_flipped_bit_is_told grep -q 'its part on the local disk: not what was staged; storage is read' job.log
judge part_with_a_flipped_bit_is_counted grep -q 'node 0 of 2 .*(1 chunks were not had there)' job.log
# A disk that fails: the same files, read through slowfs.
spread img 2 2
slowfs_control "fail part-1-of-2@$(first_chunk backing/to1/*/part-1-of-2):eio"
job_options=--staged=mount/to%n
reads part_on_a_disk_that_fails img 2 2 1 1 $((chunks / 2 + 1))
judge part_on_a_disk_that_fails_is_told grep -q 'its part on the local disk: Input/output error; storage is read' job.log
slowfs_control clear
job_options=--staged=backing/to%n
truncate -s $((size / 2)) backing/to0/*/part-0-of-2
reads part_that_was_cut img 2 2 1 $((chunks / 2)) $((chunks / 2 + 1))
judge part_that_was_cut_is_told grep -q 'no part of it for node 0 of 2 in .*to0: it is damaged' job.log
# The data set has changed; then its old parts get the new state's name.
spread img 2 2
before=$(basename backing/to0/*)
touch backing/img/data.mdb
reads parts_of_another_state img 2 2 1 $chunks $chunks
fresh to0
staging 1 1 --tier=ssd --to=to0 mount/img
after=$(basename to0/*)
mv "backing/to0/$before" "backing/to0/$after"
mv "backing/to1/$before" "backing/to1/$after"
reads parts_of_another_state_by_this_ones_name img 2 2 1 $chunks $chunks
judge parts_of_another_state_are_told grep -q 'no part of it for node 1 of 2 in .*to1: it is damaged' job.log

# lmdbio-serve does the same, and says so.
spread img 2 2
cold
mpi_job 2 2 "$top_builddir/tools/lmdbio-serve" --staged=backing/to%n mount/img >serve.log 2>&1 &
until LMDBIO_NODE=$LMDBIO_NODE#1 "$top_builddir/tools/lmdbio-serve" --status >status 2>/dev/null &&
	grep -qE '^1/2 +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +(19|20) +0 ' status; do
	kill -0 $! || break
	sleep 0.05
done
judge server_tells_what_it_has_from_the_disk grep -qE '^1/2 +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +0 ' status
at_most server_with_parts_bytes "$(slowfs_stat img/data.mdb:bytes)" $few
LMDBIO_NODE=$LMDBIO_NODE#0 "$top_builddir/tools/lmdbio-serve" --stop
wait

# So does the server inside a program that uses MPI itself.
fresh backing/to0
staging 2 2 --tier=ssd --quiet --to=backing/to0 mount/img
inside=$top_builddir/tests/mpi/inside_reader
for try in $job_tries; do
	rc=0
	cold
	# shellcheck disable=SC2016
	INSIDE_READY="until $top_builddir/tools/lmdbio-serve --status >/dev/null 2>&1; do sleep 0.05; done" \
		mpi_job 2 2 bash -c 'export LMDBIO_NODE=$LMDBIO_NODE-$PMI_RANK; exec "$@"' - \
		"$lmdbio_run" --mpi=inside --staged=backing/to0 -- "$inside" plain mount/img >out 2>job.log || rc=$?
	inside_chunks=$(slowfs_stat img/data.mdb:hist_1048576)
	[ "$inside_chunks" -gt 0 ] || break
done
equal server_inside_with_parts_ends_well 0 $rc
[ "$rc" = 0 ] || cat out job.log
judge server_inside_with_parts_sees_the_same test "$(awk '{ records += $1 } END { print records }' out)" = 210
at_most server_inside_with_parts_chunks "$inside_chunks" 0
judge server_inside_with_parts_has_had_them test "$(grep -c '(0 chunks were not had there)' job.log)" = 2

# --- in memory ---
# When a program begins, it writes the bytes that storage has been asked for to asked.RANK.
# shellcheck disable=SC2016
begin_part='awk "\$1 == \"bytes\" { print \$2 }" "$job_mount/.slowfs/stats" >"$job_scratch/asked.$PMI_RANK"
'
# in_memory RANKS NODES MEMORY
in_memory() {
	local name=memory_of_$2_nodes_with_$3 began bytes try

	for try in $job_tries; do
		rm -f seen.* asked.*
		cold
		job_status=0
		job_mount=$scratch/mount epochs=2 job_set=$scratch/mount/img LMDBIO_MEMORY=$3 \
			mpi_job "$1" "$2" "$stage" --tier=memory mount/img -- \
			"$lmdbio_run" -- sh -c "$begin_part$job_part" >job.log 2>&1 || job_status=$?
		bytes=$(slowfs_stat img/data.mdb:bytes)
		[ "$bytes" -gt $((size * 103 / 100)) ] || break
		echo "-- $name: $bytes bytes at try $try"
	done
	equal "${name}_ends_well" 0 "$job_status"
	judge "${name}_is_told" grep -q "img: .* spread over memory, $1 ranks on $2 nodes" job.log
	equal "${name}_sees_the_same" "${whole[img]}" "$(job_seen 1)"
	equal "${name}_sees_the_same_again" "${whole[img]}" "$(job_seen 2)"
	at_most "${name}_bytes" "$bytes" $((size * 103 / 100))
	began=$(sort -n asked.* | head -n 1)
	judge "${name}_is_there_before_a_program_begins" test "${began:-0}" -ge "$size"
	at_most "${name}_bytes_for_two_epochs" $((bytes - began)) $few
	job_left "$name"
}
in_memory 2 2 256M
in_memory 4 4 32M

# Staging runs without a program until it is told to end; other programs come and go meanwhile.
cold
mpi_job 2 2 "$stage" --tier=memory mount/img >serve.log 2>&1 &
until grep -q 'spread over memory' serve.log; do
	kill -0 $! || break
	sleep 0.05
done
judge memory_that_is_served_already_is_refused test "$(mpi_job 2 2 "$stage" --tier=memory mount/img 2>&1 || true)" = \
	"lmdbio-stage: mount/img: a node has a server already, yours or another user's: LMDBIO_NODE gives this job's another name (rank 0)"
equal program_of_another_job_sees_the_same "${whole[img]}" \
	"$(LMDBIO_NODE=$LMDBIO_NODE#1 reader scan mount/img 2>/dev/null | seen)"
at_most program_of_another_job_bytes "$(slowfs_stat img/data.mdb:bytes)" $((size * 103 / 100))
LMDBIO_NODE=$LMDBIO_NODE#1 "$top_builddir/tools/lmdbio-serve" --stop
rc=0
wait $! || rc=$?
equal memory_that_is_given_up_ends_well 0 $rc
job_left memory
# Staging is told to end before all of the data is in memory.
cold
slowfs_control "latency 2000000"
mpi_job 2 2 "$stage" --tier=memory mount/img -- touch ran >serve.log 2>&1 &
until [ "$(slowfs_stat img/data.mdb:bytes)" -gt 2097152 ] || ! kill -0 $!; do sleep 0.02; done
pgrep -f -- '--tier=memory mount/img -- touch ran' | while read -r pid; do
	if grep -sqz "^PMI_RANK=" "/proc/$pid/environ" && grep -sqz "^job_scratch=$scratch" "/proc/$pid/environ"; then
		kill -INT "$pid" 2>/dev/null || true
	fi
done
rc=0
wait $! || rc=$?
judge memory_that_is_interrupted_ends mpi_ended "$rc"
judge memory_that_is_interrupted_is_told grep -q 'img: Interrupted system call' serve.log
judge memory_that_is_interrupted_starts_no_program test ! -e ran
job_left memory_that_is_interrupted
slowfs_stop
finish
