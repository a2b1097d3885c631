#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Two images of a file system are mounted one after the other in the same place, and their data sets have the same
# inode, size, times, transaction and meta pages: no program reads a staged copy of the one for the other. The file
# systems have an id, no id, or the same id, or lie below another file system.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=stage_lib.sh
. "$(dirname "$0")/stage_lib.sh"
stage_require
need mkfs.ext4 debugfs tune2fs mksquashfs mkfs.erofs
reader=$top_builddir/tests/data/db_read
ours="env LD_LIBRARY_PATH=$(dirname "$dropin") LMDBIO_VERBOSE=1"
trap 'cd /; unmount; rm -rf "$scratch"; mpi_sweep' EXIT
cd "$scratch"

# The data set is read from the mount point mount; layer is a mount below it.
unmount() {
	umount "$scratch/mount" 2> /dev/null || true
	umount "$scratch/layer" 2> /dev/null || true
}

# The same keys and sizes, other values; three differs from one in a single byte.
mkdir one two three mount layer empty to
"$top_builddir/tests/stores/stores_make" one 21 200000
"$top_builddir/tests/stores/stores_make" two 21 200000 50
rm -f ./*/lock.mdb
judge data_sets_have_the_same_meta_pages cmp -n 8192 one/data.mdb two/data.mdb
cp one/data.mdb three
printf X | dd of=three/data.mdb bs=1 seek=1000000 conv=notrunc status=none
touch -d '2024-01-02 03:04:05Z' ./*/data.mdb

image_make() {
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
# Another mount of the same image: the staged copy remains usable.
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

# The copies of the one image get the names for the other: the name leads to them, but the seal does not match.
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
unmount

# --- images without an id, or with the same id, mounted directly and below another file system ---
uuid=01234567-89ab-cdef-0123-456789abcdef
squashfs_make() {
	mksquashfs "$1" "$2" -noappend -all-root -mkfs-time 1704164645 -quiet -no-progress > /dev/null
}
erofs_make() {
	mkfs.erofs -T 1704164645 --all-root -U "$uuid" "$2" "$1" > /dev/null 2>&1
}
ext4_make() {
	image_make "$1"
	mv "$1.img" "$2"
	tune2fs -U "$uuid" "$2" > /dev/null
}
mount_image() {
	mount -o loop,ro -t "$image_of" "$1" mount
}
mount_overlay() {
	mount -o loop,ro -t "$image_of" "$1" layer &&
		mount -t overlay lmdbio-test -o ro,lowerdir=layer:empty mount
}
mount_fuse() {
	squashfuse -o allow_other "$1" mount
}

# images KIND MOUNT OTHER: no program reads the staged copy of the data set one for the other.
images() {
	image_of=$1
	name=$1_by_$2_of_$3
	"$1_make" one first.img
	"$1_make" "$3" second.img
	if ! "mount_$2" first.img 2> err; then
		echo "# $name left out: $(cat err)"
		unmount
		return
	fi
	"$reader" mount > one.seen
	stat -c '%i %s %y %z' mount/data.mdb > one.status
	rm -rf to
	mkdir to
	staging 1 1 --to=to mount
	judge "${name}_is_staged" test $rc -eq 0
	unmount
	"mount_$2" first.img
	$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
	same "${name}_mounted_again_is_what_it_holds" one.seen out
	judge "${name}_mounted_again_has_its_copy_read" grep -q 'its staged copy' err
	unmount
	"mount_$2" second.img
	"$reader" mount > two.seen
	stat -c '%i %s %y %z' mount/data.mdb > two.status
	same "${name}_tells_the_same_of_the_other" one.status two.status
	judge "${name}_is_not_the_other" sh -c '! cmp -s one.seen two.seen'
	$ours LMDBIO_STAGED=to "$reader" mount > out 2> err
	same "${name}_is_not_read_for_the_other" two.seen out
	unmount
}

images squashfs image two
images squashfs image three
images squashfs overlay two
images erofs image three
images erofs overlay two
images ext4 image three
images ext4 overlay two
if command -v squashfuse > /dev/null; then
	images squashfs fuse two
fi
finish
