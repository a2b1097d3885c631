#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# While a process holds the arena of a data set, another data set of the same shape takes its place: new readers see
# the new one's bytes, however it came there.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
stores_alone "$@"
stores_begin
trap 'umount "$scratch/backing/image" 2>/dev/null || true; [ -z "${loop:-}" ] || losetup -d "$loop"; stores_clean' EXIT
export LMDBIO_STORE=arena PYTHONDONTWRITEBYTECODE=1
cd "$scratch/backing"

# Two sets whose meta pages are the same: the same keys and sizes, other values.
make_set old 300 12000
mkdir new
cp old/data.mdb new/data.mdb
python3 "$top_srcdir/tests/data/other_values.py" new/data.mdb
touch -d '2024-01-02 03:04:05.678901234' old/data.mdb new/data.mdb
cp -p old/data.mdb kept
hash_of() {
	reader scan "$1" | cut -d ' ' -f 3
}
old=$(original scan old | cut -d ' ' -f 3)
new=$(original scan new | cut -d ' ' -f 3)
judge sets_differ test "$old" != "$new"
judge sets_have_the_same_size_and_time test "$(stat -c '%s %y' old/data.mdb)" = "$(stat -c '%s %y' new/data.mdb)"

# hold DIRECTORY: starts a process that reads all of it and stays until let_go.
# `wait` is a file there, too.
# shellcheck disable=SC2238
hold() {
	mkfifo wait told
	LD_LIBRARY_PATH=$library "$build/stores_reader" --hold scan "$1" < wait > told &
	holder=$!
	exec 8> wait 9< told
	read -r -u 9 _ _ held _
}

let_go() {
	exec 8>&- 9<&-
	wait "$holder"
	rm wait told
}

# until_changed FILE STATUS COMMAND...: repeats the command until the file's status differs, because the kernel's
# times advance in ticks.
until_changed() {
	local file=$1 before=$2

	shift 2
	while
		"$@"
		[ "$(stat -c %z "$file")" = "$before" ]
	do :; done
}

hold old
equal a_process_holds_the_old_set "$old" "$held"
equal another_one_reads_it "$old" "$(hash_of old)"
inode=$(stat -c %i old/data.mdb)
until_changed old/data.mdb "$(stat -c %z old/data.mdb)" cp -p new/data.mdb old/data.mdb
equal overwriting_keeps_inode_size_and_time "$inode $(stat -c '%s %y' kept)" "$(stat -c '%i %s %y' old/data.mdb)"
equal set_that_was_overwritten_is_read_anew "$new" "$(hash_of old)"
let_go
hold old
equal set_that_was_overwritten_is_held "$new" "$held"
mv kept old/data.mdb
equal set_that_was_renamed_over_is_read_anew "$old" "$(hash_of old)"
let_go

# A set that no process has changed is still found in the arena.
hold new
equal set_that_was_not_changed_is_the_same "$new" "$(LMDBIO_STATS=$scratch/stats hash_of new)"
at_most bytes_read_again_of_a_set_that_was_not_changed \
	"$(sed 's/.*"storage_bytes": \([0-9]*\).*/\1/' "$scratch/stats")" 65536
let_go

# What forked workers have read stays with their parent. An image that replaces the one that they read, under the same
# device number, is another data set.
image_mount() {
	if [ "$1" = loop ]; then
		cat "$2" >disk
		[ -n "${loop:-}" ] || loop=$(losetup -r --show -f disk 2>/dev/null) || return
		mount -o ro "$loop" image 2>/dev/null
	else
		command -v squashfuse >/dev/null && squashfuse "$2" image 2>/dev/null 8>&- 9<&-
	fi
}

images_mounted() {
	local how=$1 python=${PYTHON:-/usr/bin/python3} parent workers first second

	if ! image_mount "$how" old.img; then
		echo "# images by $how left out: they cannot be mounted here"
		return
	fi
	stat -c '%d %i %s %y %z' image/data.mdb >status.old
	mkfifo ask told
	workers=$top_srcdir/tests/stores/stores_workers.py
	LD_LIBRARY_PATH=$library "$python" "$workers" image <ask >told &
	parent=$!
	exec 8>ask 9<told
	echo >&8
	read -r -u 9 first
	read -r -u 9 _ # wait until no worker keeps the image busy
	umount image
	image_mount "$how" new.img
	stat -c '%d %i %s %y %z' image/data.mdb >status.new
	judge "images_by_${how}_tell_the_same_of_their_sets" cmp status.old status.new
	echo >&8
	read -r -u 9 second
	read -r -u 9 _
	exec 8>&- 9<&-
	wait "$parent"
	rm ask told
	equal "worker_reads_the_image_by_$how" "$(echo | "$python" "$workers" old)" "$first"
	equal "worker_reads_the_image_by_${how}_that_was_mounted_since" "$(echo | "$python" "$workers" new)" "$second"
	umount image
}

if command -v mksquashfs >/dev/null && "${PYTHON:-/usr/bin/python3}" -c 'import lmdb.cpython' 2>/dev/null; then
	touch -d '2024-01-02 03:04:05Z' old/data.mdb new/data.mdb
	for set in old new; do
		mksquashfs "$set" "$set.img" -e lock.mdb -all-root -mkfs-time 1704164645 -quiet -no-progress >/dev/null
	done
	mkdir image
	images_mounted loop
	images_mounted fuse
else
	echo "# images left out: no mksquashfs, or no module lmdb of ${PYTHON:-/usr/bin/python3}"
fi
cd /
finish
