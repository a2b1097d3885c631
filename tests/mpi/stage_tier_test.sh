#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what lmdbio-stage --tier=ssd asks of storage and leaves on each node's disk, and that a failure anywhere
# leaves nothing and gives the same code on all ranks.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
stage_require
slowfs_require
trap 'tier_clean' EXIT
cd "$scratch"

tier_clean() {
	cd /
	slowfs_abandon
	umount "$scratch/full" 2> /dev/null || true
	rm -rf "$scratch"
	mpi_sweep
}

# at_most WHAT VALUE LIMIT
at_most() {
	judge "$1" test "$2" -le "$3"
	echo "   $2 of at most $3"
}

mkdir -p backing/img backing/tiny backing/packed
"$top_builddir/tests/stores/stores_make" backing/img 210 200000
"$top_builddir/tests/stores/stores_make" backing/tiny 1 10
data=backing/img/data.mdb
size=$(stat -c %s $data)
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=0

# --- what is asked of storage, and what is left ---
# Uneven ones, too: three ranks on two nodes, buffers of several chunks and of less than one.
while read -r ranks nodes buffer; do
	# A sanitized build runs the uneven ones and the largest.
	[ "${with_sanitizer:-no}" = no ] || [ "$ranks" = 3 ] || [ "$nodes" = 4 ] || continue
	fresh to0 to1 to2 to3
	slowfs_drop
	slowfs_reset
	staging "$ranks" "$nodes" --tier=ssd --to=to%n --buffer="$buffer" mount/img
	name=parts_by_${ranks}_ranks_on_${nodes}_nodes
	judge "${name}_are_the_file" parts_are "$nodes" $data to0 to1 to2 to3
	at_most "${name}_read_each_byte_once" "$(slowfs_stat img/data.mdb:bytes)" $((size * 103 / 100))
	at_most "${name}_make_few_requests" "$(slowfs_stat img/data.mdb:requests)" $((size * 11 / 10485760))
done <<'END_OF_JOBS'
1 1 16M
2 2 16M
3 2 64k
4 2 2M
4 4 16M
END_OF_JOBS

slowfs_drop
slowfs_reset
staging 4 4 --tier=ssd --to=to%n mount/img
judge parts_that_are_there_are_told grep -q 'all 4 nodes have had it' out
at_most parts_that_are_there_ask_next_to_nothing "$(slowfs_stat img/data.mdb:bytes)" 262144
rm -rf to2/*
slowfs_reset
staging 4 4 --tier=ssd --to=to%n --json mount/img
judge part_that_is_gone_is_made_again parts_are 4 $data to0 to1 to2 to3
judge part_that_is_gone_is_all_that_is_read grep -qE '"read_bytes": 1[01][0-9]{6},' out
truncate -s -1 to1/*/part-1-of-4
staging 4 4 --tier=ssd --to=to%n mount/img
judge part_that_was_cut_is_made_again parts_are 4 $data to0 to1 to2 to3
# Fewer chunks than nodes: one node has the chunk, the others' parts are empty.
fresh to0 to1
staging 4 2 --tier=ssd --to=to%n mount/tiny
judge parts_of_one_chunk_are_the_file parts_are 2 backing/tiny/data.mdb to0 to1
# Of a container the data is staged, several chunks of which are compressed as one.
"$top_builddir/tools/lmdbio-convert" --quiet --chunk-size=2M backing/img backing/packed
fresh to0 to1
staging 3 2 --tier=ssd --to=to%n mount/packed
parts_unit=2097152
judge parts_of_a_container_are_its_data parts_are 2 $data to0 to1
staging 3 2 --tier=ssd --to=to%n mount/packed
judge parts_of_a_container_are_found_again grep -q 'all 2 nodes have had it' out

# --- what fails ---
fails() { # WHAT CODE: on all four ranks; nothing is left
	judge "$1_fails" mpi_told $rc 2
	judge "$1_is_the_same_on_all_ranks" all_ranks_say 4 "$2"
	judge "$1_leaves_nothing" nothing_in to0 to1
}
for at in $((size * 5 / 8)) $((size - 1)); do
	fresh to0 to1
	slowfs_drop
	slowfs_control "fail data.mdb@$at:eio"
	staging 4 2 --tier=ssd --to=to%n --verbose mount/img
	fails "parts_of_a_bad_byte_at_$at" 'Input/output error'
	slowfs_control clear
done
fresh to0 to1
mkdir full
if mount -t tmpfs -o size=12m none full 2> /dev/null; then
	rmdir to1
	ln -s full to1
	staging 4 2 --tier=ssd --to=to%n --verbose mount/img
	fails parts_on_one_full_disk_of_two 'No space left on device'
	judge parts_on_one_full_disk_leave_nothing_there nothing_in full
	rm to1
	umount full
	mkdir to1
else
	not_run parts_on_one_full_disk_of_two "nothing can be mounted here"
fi
# A signal in the middle: once storage has been asked for some of the data, and long before it has given all.
fresh to0 to1
slowfs_drop
slowfs_reset
slowfs_control "latency 2000000"
staging 4 2 --tier=ssd --to=to%n --buffer=1M --verbose mount/img &
until [ "$(slowfs_stat img/data.mdb:bytes)" -gt 2097152 ] || ! kill -0 $!; do sleep 0.02; done
grep -lszx "LMDBIO_NODE=$LMDBIO_NODE" /proc/[0-9]*/environ | while read -r process; do
	process=${process%/environ}
	case $(readlink "$process/exe") in
	*/lmdbio-stage) kill -INT "${process#/proc/}" ;;
	esac
done
wait
slowfs_control "latency 50"
judge parts_that_are_interrupted_leave_nothing nothing_in to0 to1
judge parts_that_are_interrupted_say_so_on_all_ranks all_ranks_say 4 'Interrupted system call'

# --- wrong use ---
status tier_without_a_directory_is_refused 2 "$stage" --tier=ssd mount/img
status odd_tier_is_refused 2 "$stage" --tier=tape --to=to0 mount/img
status tier_for_a_program_is_refused 2 "$stage" --tier=ssd --to=to0 mount/img -- true
says tier_for_a_program_says_what_to_do 'lmdbio-run --mpi --staged=to0 -- true'
status tier_by_mpiio_is_refused 2 "$stage" --tier=ssd --to=to0 --reader=mpiio mount/img
status tier_beside_hold_is_refused 2 "$stage" --tier=ssd --to=to0 --hold mount/img
status shared_tier_is_refused 2 "$stage" --tier=ssd --to=to0 --shared mount/img
status memory_tier_with_a_directory_is_refused 2 "$stage" --tier=memory --to=to0 mount/img
status memory_tier_that_is_staggered_is_refused 2 "$stage" --tier=memory --stagger=2 mount/img
status memory_tier_with_less_than_1M_is_refused 2 "$stage" --tier=memory --memory=1023k mount/img
says memory_tier_with_less_than_1M_says_what_to_do '--memory wants 1M or more with --tier=memory'
staging 4 4 --tier=memory --memory=1M --verbose mount/img -- touch ran
judge memory_tier_with_too_little_is_ENOSPC_on_all_ranks all_ranks_say 4 "No space left in a node's memory budget"
judge memory_tier_with_too_little_starts_no_program test $rc -eq 2 -a ! -e ran
slowfs_drop
slowfs_control "fail data.mdb@$((size / 2)):eio"
staging 4 2 --tier=memory --verbose mount/img -- touch ran
judge memory_tier_of_a_bad_byte_is_EIO_on_all_ranks all_ranks_say 4 'Input/output error'
judge memory_tier_of_a_bad_byte_starts_no_program test $rc -eq 2 -a ! -e ran
slowfs_control clear
staging 2 2 --tier=memory --verbose mount/nowhere
judge memory_tier_of_nothing_is_ENOENT_on_all_ranks all_ranks_say 2 'No such file or directory'
# Each node sees another file at the same path: no node would bring the other half of its own.
mkdir -p seen0/img seen1/img
cp $data seen0/img
cp $data seen1/img
rc=0
mpi_job 1 2 -wdir "$PWD/seen0" "$stage" --tier=memory --verbose img : \
	-n 1 -wdir "$PWD/seen1" "$stage" --tier=memory --verbose img < /dev/null > out 2> err || rc=$?
judge memory_tier_of_two_files_is_ESTALE_on_all_ranks all_ranks_say 2 'Stale file handle'
cd /
slowfs_stop
finish
