#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what a staging asks of storage, and what it does when storage or the target fails: all ranks return the same
# code, no rank waits, and nothing is left behind.
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
make=$top_builddir/tests/stores/stores_make
reader=$top_builddir/tests/data/db_read
trap 'stage_clean' EXIT
cd "$scratch"

stage_clean() {
	cd /
	slowfs_abandon
	for place in full late readonly; do
		umount "$scratch/$place" 2> /dev/null || true
	done
	rm -rf "$scratch"
	mpi_sweep
}

# cold: empties the kernel's page cache, and resets the counters.
cold() {
	slowfs_drop
	slowfs_reset
}

# at_most WHAT VALUE LIMIT
at_most() {
	judge "$1" test "$2" -le "$3"
	echo "   $2 of at most $3"
}

mkdir -p backing/img backing/packed
"$make" backing/img 126 200000
data=backing/img/data.mdb
size=$(stat -c %s $data)
pages=$((size + 3 * 131072)) # ranks look at the meta pages before and after, and the kernel reads ahead for them
calls=$((size * 11 / 10 / 1048576 + 2))
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=50,bandwidth=0

# --- what is asked of storage ---
while read -r how ranks nodes; do
	fresh to0 to1 to2 to3
	cold
	staging "$ranks" "$nodes" --to=to%n --reader="$how" --buffer=1M mount/img
	judge "stage_by_${how}_on_${nodes}_nodes_from_cold_storage_copies" \
		copies_are "$nodes" $data to0 to1 to2 to3
	at_most "stage_by_${how}_on_${nodes}_nodes_reads_each_byte_once" \
		"$(slowfs_stat img/data.mdb:bytes)" $pages
	[ "$how" != posix ] || at_most "stage_by_posix_on_${nodes}_nodes_makes_few_requests" \
		"$(slowfs_stat img/data.mdb:requests)" $((calls + 4))
done <<'END'
posix 1 1
posix 4 4
posix 3 2
mpiio 4 2
collective 4 2
END
cold
staging 4 2 --to=to%n mount/img
at_most stage_that_has_been_done_asks_next_to_nothing "$(slowfs_stat img/data.mdb:bytes)" 262144

# Two programs on two nodes read all of it out of the nodes' memory.
"$reader" backing/img > original
cold
rc=0
mpi_job 2 2 "$stage" --quiet --hold mount/img -- env LD_LIBRARY_PATH="$(dirname "$dropin")" "$reader" mount/img \
	> out 2> err < /dev/null || rc=$?
judge programs_find_what_is_held test "$(grep -cxF -f original out)" -eq 2
at_most programs_that_find_it_ask_storage_for_nothing "$(slowfs_stat img/data.mdb:bytes)" $pages

# --- storage that fails ---
# In the third share, and in the last page of the last share.
for how in posix mpiio collective; do
	for at in $((size * 5 / 8)) $((size - 1)); do
		fresh to0 to1
		slowfs_drop
		slowfs_control "fail data.mdb@$at:eio"
		staging 4 2 --to=to%n --reader=$how --buffer=1M --verbose mount/img
		judge "stage_by_${how}_of_a_bad_byte_at_${at}_fails" mpi_told $rc 2
		judge "stage_by_${how}_of_a_bad_byte_at_${at}_is_EIO_on_all_ranks" \
			all_ranks_say 4 'Input/output error'
		judge "stage_by_${how}_of_a_bad_byte_at_${at}_leaves_nothing" nothing_in to0 to1
		slowfs_control clear
	done
done
slowfs_drop
slowfs_control "fail data.mdb@$((size / 2)):eio"
staging 2 2 --hold --verbose mount/img -- touch ran
judge stage_into_memory_of_a_bad_byte_is_EIO_on_all_ranks all_ranks_say 2 'Input/output error'
judge stage_into_memory_of_a_bad_byte_starts_no_program test ! -e ran
slowfs_control clear
slowfs_drop
slowfs_control "fail data.mdb@0:eio"
fresh to0 to1
staging 2 1 --to=to0 --verbose mount/img
judge stage_of_bad_meta_pages_is_EIO_on_all_ranks all_ranks_say 2 'Input/output error'
slowfs_control clear

# --- targets that fail ---
mkdir full late readonly
if mount -t tmpfs -o size=4m none full 2> /dev/null; then
	fresh to0
	staging 4 2 --to="$scratch/full" --verbose mount/img
	judge stage_to_a_full_disk_is_ENOSPC_on_all_ranks all_ranks_say 4 'No space left on device'
	judge stage_to_a_full_disk_leaves_nothing nothing_in full
	# One node of two.
	rm -rf to1
	ln -s full to1
	staging 4 2 --to=to%n --verbose mount/img
	judge stage_to_one_full_disk_of_two_is_ENOSPC_on_all_ranks all_ranks_say 4 'No space left on device'
	judge stage_to_one_full_disk_of_two_leaves_nothing nothing_in to0 full
	rm to1
	mount -o remount,ro full
	staging 2 1 --to="$scratch/full" --verbose mount/img
	judge stage_to_a_read_only_disk_is_EROFS_on_all_ranks all_ranks_say 2 'Read-only file system'
	umount full
else
	not_run stage_to_a_full_disk "nothing can be mounted here"
fi
# A file system that cannot reserve space, and that fills up while the copy is written.
truncate -s 8M late.img
if command -v mkfs.ext2 > /dev/null && mkfs.ext2 -q -F late.img 2> /dev/null &&
	mount -o loop late.img late 2> /dev/null; then
	rm -rf late/lost+found
	staging 4 2 --to="$scratch/late" --shared --verbose --buffer=64k mount/img
	judge stage_to_a_disk_that_fills_is_ENOSPC_on_all_ranks all_ranks_say 4 'No space left on device'
	judge stage_to_a_disk_that_fills_leaves_nothing nothing_in late
	umount late
else
	not_run stage_to_a_disk_that_fills "no ext2 or no loop devices here"
fi
fresh to0
rc=0
(ulimit -f 20480 && mpi_job 1 1 "$stage" --to=to0 --verbose mount/img) > out 2> err < /dev/null || rc=$?
judge stage_over_the_file_size_limit_is_EFBIG all_ranks_say 1 'File too large'
judge stage_over_the_file_size_limit_leaves_nothing nothing_in to0
staging 2 1 --to=nowhere --verbose mount/img
judge stage_to_no_directory_is_ENOENT_on_all_ranks all_ranks_say 2 'No such file or directory'
staging 2 2 --hold --memory=1M --verbose mount/img -- true
judge stage_into_too_little_memory_is_ENOMEM_on_all_ranks all_ranks_say 2 'Cannot allocate memory'

# --- more than 2 GiB ---
if [ -n "${TESTS_LONG:-}" ]; then
	cp -r backing/img backing/long
	truncate -s 5G backing/long/data.mdb
	for how in posix mpiio collective; do
		MPI_SECONDS=300
		cold
		staging 2 1 --measure --reader=$how --buffer=1G --json mount/long
		judge "stage_by_${how}_of_5_GiB_reads_all" grep -q '"read_bytes": 5368709120,' out
	done
fi
cd /
slowfs_stop
finish
