#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Two images of a file system, mounted one after the other in the same place, whose data sets have the same
# inode, size, times, transaction and meta pages: what was staged of the one is not read for the other.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
stage_require
need mkfs.ext4 debugfs
reader=$top_builddir/tests/data/db_read
ours="env LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_VERBOSE=1"
trap 'cd /; umount "$scratch/mount" 2> /dev/null || true; rm -rf "$scratch"; mpi_sweep' EXIT
cd "$scratch"

# The same keys and sizes, other values.
mkdir one two mount to
"$top_builddir/tests/stores/stores_make" one 21 200000
rm -f one/lock.mdb
cp one/data.mdb two
python3 "$top_srcdir/tests/data/other_values.py" two/data.mdb

image_make() {
	touch -d '2024-01-02 03:04:05Z' "$1/data.mdb"
	truncate -s 16M "$1.img"
	mkfs.ext4 -q -F -O ^has_journal -d "$1" "$1.img"
	inode=$(debugfs -R 'stat data.mdb' "$1.img" 2> /dev/null | sed -n 's/^Inode: \([0-9]*\).*/\1/p')
	for field in 'mtime 20240102030405' 'mtime_extra 0' 'ctime 20240102030405' 'ctime_extra 0'; do
		debugfs -w -R "set_inode_field <$inode> $field" "$1.img" 2> /dev/null
	done
}

image_make one
image_make two
if ! mount -o loop,ro one.img mount 2> err; then
	grep -q -i 'permi\|loop' err || { cat err; exit 1; }
	skip "no loop devices here"
fi
"$reader" mount > one.seen
stat -c '%i %s %y %z' mount/data.mdb > one.status
staging 1 1 --to=to mount
judge data_set_of_an_image_is_staged test $rc -eq 0
$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
same copy_of_the_image_is_what_it_holds one.seen out
judge copy_of_the_image_is_read grep -q 'its staged copy' err
umount mount
# Another mount of the same image: what was staged stays of use.
mount -o loop,ro one.img mount
$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
same copy_of_the_image_mounted_again_is_what_it_holds one.seen out
judge copy_of_the_image_mounted_again_is_read grep -q 'its staged copy' err
umount mount

mount -o loop,ro two.img mount
"$reader" mount > two.seen
stat -c '%i %s %y %z' mount/data.mdb > two.status
same images_tell_the_same_of_their_data_sets one.status two.status
judge images_hold_different_data_sets sh -c '! cmp -s one.seen two.seen'
$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
same copy_of_another_image_is_not_read two.seen out
staging 1 1 --to=to mount
judge data_set_of_the_other_image_is_staged_beside_it test $rc -eq 0
judge data_set_of_the_other_image_was_not_there sh -c '! grep -q "have had it" out'
$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
same copy_of_the_other_image_is_what_it_holds two.seen out
judge copy_of_the_other_image_is_read grep -q 'its staged copy' err

# The copies of the one under the name of the other: the name leads there, the seal says no.
set -- to/*
mv "$1" aside
mv "$2" "$1"
mv aside "$2"
$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
same copies_that_were_swapped_are_not_read two.seen out
staging 1 1 --to=to mount
judge copy_with_another_ones_seal_is_staged_again sh -c 'test $1 -eq 0 && ! grep -q "have had it" out' sh $rc
$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
same copy_that_was_staged_again_is_what_it_holds two.seen out
judge copy_that_was_staged_again_is_read grep -q 'its staged copy' err
finish
