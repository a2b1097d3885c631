# SPDX-License-Identifier: OLDAP-2.8
# shellcheck shell=sh
# Functions for shell tests that mount slowfs, query it and unmount it.
#
#	. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
#	slowfs_require
#	trap 'slowfs_abandon; rm -rf "$dir"' EXIT
#	slowfs_start "$dir/backing" "$dir/mount" -o latency=500,bandwidth=1500
#	slowfs_drop; slowfs_reset; run-something "$dir/mount/..."; slowfs_stat data.mdb:requests
#	slowfs_stop
#
# SLOWFS names the program, if it is not the one built in this tree. SLOWFS_MOUNT is the mount that slowfs_start made
# last, and on which all other functions act.

SLOWFS=${SLOWFS:-${top_builddir:-.}/tests/slowfs/slowfs}
SLOWFS_MOUNT=

# slowfs_require: ends the test with 77 where no FUSE file system can be mounted, and with 1 where one can be but
# slowfs is missing.
slowfs_require()
{
	if ! [ -c /dev/fuse ]; then
		echo "skipped: there is no /dev/fuse"
		exit 77
	fi
	if [ "$(id -u)" != 0 ] && ! command -v fusermount3 >/dev/null; then
		echo "skipped: not root, and there is no fusermount3"
		exit 77
	fi
	if ! [ -r /dev/fuse ] || ! [ -w /dev/fuse ]; then
		echo "skipped: /dev/fuse is not for this user"
		exit 77
	fi
	# Bit 21 is CAP_SYS_ADMIN: without it in the bounding set no process here can mount.
	_slowfs_caps=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
	if [ $((0x$_slowfs_caps >> 21 & 1)) = 0 ]; then
		echo "skipped: mounting is not allowed here"
		exit 77
	fi
	if ! [ -x "$SLOWFS" ]; then
		if ! pkg-config --exists fuse3; then
			echo "skipped: libfuse3 was not there to build slowfs with"
			exit 77
		fi
		echo "failed: $SLOWFS is not built"
		exit 1
	fi
}

# slowfs_start BACKING MOUNT [OPTIONS]: starts slowfs; returns when MOUNT is mounted.
slowfs_start()
{
	_slowfs_backing=$1
	SLOWFS_MOUNT=$2
	shift 2
	mkdir -p "$SLOWFS_MOUNT"
	"$SLOWFS" -o "lock=$SLOWFS_MOUNT.lock" "$@" "$_slowfs_backing" "$SLOWFS_MOUNT"
}

_slowfs_unmount()
{
	if [ "$(id -u)" = 0 ]; then
		umount "$@" "$SLOWFS_MOUNT"
	else
		fusermount3 -u "$@" "$SLOWFS_MOUNT"
	fi
}

# slowfs_stop: returns when the daemon has ended, as its lock shows. Files of a process that has ended may be closed a
# moment later, when the kernel takes its io_uring apart; the daemon waits for that.
slowfs_stop()
{
	_slowfs_unmount "-$(_slowfs_lazy)" && _slowfs_wait && rm -f "$SLOWFS_MOUNT.lock" && SLOWFS_MOUNT=
}

# A program that has made a mount namespace meanwhile has a copy of the mount, which keeps the daemon for as long as
# that program runs: then the daemon is told to end.
_slowfs_wait()
{
	for _slowfs_try in 1 2 3; do
		flock -w 2 "$SLOWFS_MOUNT.lock" true && return
		if grep -qs " [^ ]*$SLOWFS_MOUNT " /proc/[0-9]*/mountinfo; then
			kill "$(cat "$SLOWFS_MOUNT.lock")"
		fi
	done
	flock -w 60 "$SLOWFS_MOUNT.lock" true
}

# slowfs_abandon, for a trap: removes what may be left, whether in use or not, and whether the daemon is alive or
# dead; never fails.
slowfs_abandon()
{
	if [ -n "$SLOWFS_MOUNT" ]; then
		slowfs_stop 2>/dev/null || true
	fi
}

_slowfs_lazy()
{
	if [ "$(id -u)" = 0 ]; then echo l; else echo z; fi
}

# slowfs_control "latency 2000": one command.
slowfs_control()
{
	printf '%s\n' "$1" >"$SLOWFS_MOUNT/.slowfs/control"
}

slowfs_reset()
{
	slowfs_control reset
}

# slowfs_drop: makes the next reads cold: the kernel drops its pages of the mount; the backing folder's pages stay.
slowfs_drop()
{
	sync "$SLOWFS_MOUNT"
	slowfs_control drop
}

# slowfs_stat requests, slowfs_stat data.mdb:hist_1048576: prints that counter, 0 if nothing was counted.
slowfs_stat()
{
	awk -v key="$1" '
		{ value = $NF; name = substr($0, 1, length($0) - length(value) - 1) }
		name == key { found = value }
		END { print found + 0 }
	' "$SLOWFS_MOUNT/.slowfs/stats"
}
