#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that LMDB itself, with its locks, works on a slowfs mount.
set -eu
top_srcdir=${top_srcdir:-.}
# shellcheck source=tests/slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require
python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import lmdb' 2>/dev/null; then
	echo "skipped: $python has no module lmdb"
	exit 77
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/slowfs-lmdb.XXXXXX")
trap 'slowfs_abandon; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$dir/backing" "$dir/backing/set"

probe()
{
	"$python" "$top_srcdir/tests/slowfs/slowfs_probe.py" "$@"
}

probe lmdb_put "$dir/backing/set" 300 100000 >/dev/null
expected=$(probe lmdb_sum "$dir/backing/set")
rm "$dir/backing/set/lock.mdb"
slowfs_start "$dir/backing" "$dir/mount" -o latency=100

echo "a reader with locking finds the same records"
found=$(probe lmdb_sum "$dir/mount/set")
[ "$found" = "$expected" ] || { echo "failed: $found"; exit 1; }
[ -e "$dir/backing/set/lock.mdb" ] || { echo "failed: no lock.mdb was made"; exit 1; }
bytes=$(slowfs_stat set/data.mdb:bytes)
[ "$bytes" -ge 30000000 ] || { echo "failed: only $bytes bytes were read below"; exit 1; }

echo "a writer's records are there, for readers on the mount and below"
probe lmdb_put "$dir/mount/set" 400 100000 >/dev/null
found=$(probe lmdb_sum "$dir/mount/set")
case $found in
"400 "*) ;;
*) echo "failed: $found"; exit 1 ;;
esac
slowfs_drop
[ "$(probe lmdb_sum "$dir/mount/set")" = "$found" ] || { echo "failed: other when cold"; exit 1; }
slowfs_stop
[ "$(probe lmdb_sum "$dir/backing/set")" = "$found" ] || { echo "failed: other below"; exit 1; }
echo "passed"
