#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# lmdbio reads beside a live writer of LMDB 1.0's format: in four modes of the writer every value belongs to the
# reader's snapshot, no slot is lost, and a killed reader holds no page for ever. LMDBIO_TEST_LMDB1 names the library
# of a real LMDB 1.0, which then writes, too.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
writers=$top_builddir/tests/differential/writers_test
tools=$top_builddir/tools
[ -x "$writers" ] || skip "no writers_test in this build"
[ "$(uname -m)" = x86_64 ] || skip "the writer knows the lock file of x86-64"
real=${LMDBIO_TEST_LMDB1:-}
unset LMDBIO_TEST_LMDB1
cd "$scratch"

# shown NAME COMMAND...: one case, with all of its output.
shown() {
	name=$1
	shift
	rc=0
	TMPDIR=$scratch "$@" > out 2>&1 || rc=$?
	sed 's/^/# /' out
	judge "$name" test $rc -eq 0
}
shown snapshots_stay_right_beside_the_writer "$writers" --later
shown lost_slot_is_noticed "$writers" --later-self-test
if [ -n "$real" ]; then
	shown snapshots_stay_right_beside_lmdb_1_0 "$writers" --loaded "$real"
	! grep -q '^    not run: ' out ||
		not_run snapshots_stay_right_with_mdb_writemap "$(sed -n 's/^    not run: //p' out | head -n 1)"
else
	not_run snapshots_stay_right_beside_lmdb_1_0 "LMDBIO_TEST_LMDB1 names no LMDB 1.0"
fi

# --- the writer leaves a sound file, its free list included ---
mkdir made
shown file_is_made "$writers" --make made
status file_is_intact 0 "$tools/lmdbio-check" made
judge file_is_intact_without_a_warning sh -c 'grep -q "structure intact; " out && ! grep -q warning out'
status file_is_dumped 0 "$tools/lmdbio-dump" -a made
cp out dump

# --- on a read-only file system a reader can have no slot, and needs none ---
if [ "$(id -u)" -eq 0 ] && command -v mkfs.ext4 > /dev/null && [ -e /dev/loop-control ]; then
	rm -f made/lock.mdb
	mkfs.ext4 -q -d made image 80M
	mkdir mounted
	if mount -o loop,ro image mounted 2> err; then
		trap 'umount "$scratch/mounted"; rm -rf "$scratch"' EXIT
		status read_only_file_system_is_read 0 "$tools/lmdbio-dump" -a mounted
		same read_only_file_system_has_the_same dump out
		judge read_only_file_system_has_no_lock_file test ! -e mounted/lock.mdb
		umount mounted
		trap 'rm -rf "$scratch"' EXIT
	else
		not_run read_only_file_system_is_read "$(cat err)"
	fi
else
	not_run read_only_file_system_is_read "needs root, mkfs.ext4 and loop devices"
fi
status without_a_lock_file_it_is_read 0 "$tools/lmdbio-dump" -a made
finish
