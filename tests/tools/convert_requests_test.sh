#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks how many requests a conversion may make of its source's storage, and that
# every byte is read once.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require
need zstd cmp
python=/usr/bin/python3
convert=$top_builddir/tools/lmdbio-convert
"$python" -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
cd "$scratch"
trap 'slowfs_abandon; rm -rf "$scratch"' EXIT

"$python" - <<'END'
import lmdb, os, random
random.seed(7)
os.mkdir("backing")
env = lmdb.open("backing/source", map_size=1 << 28)
with env.begin(write=True) as txn:
    for i in range(400):
        txn.put(b"%08d" % i, random.randbytes(60000) + bytes(60000))
END
slowfs_start backing mount
data=$(wc -c < backing/source/data.mdb)

# read_once NAME FILE COMMAND...: a request brings a MiB, or what has become of a MiB.
read_once() {
	name=$1 file=$2
	length=$(wc -c < "backing/$file")
	shift 2
	slowfs_drop
	slowfs_reset
	"$@"
	requests=$(slowfs_stat "$file:requests") bytes=$(slowfs_stat "$file:bytes")
	echo "   $name: $requests requests, $bytes bytes of $length"
	judge "${name}_reads_every_byte_about_once" \
		test "$bytes" -ge "$length" -a "$bytes" -le $((length + length / 20 + 262144))
	judge "${name}_reads_by_large_requests" test "$requests" -le $((data / 1048576 + 16))
}
read_once converting source/data.mdb "$convert" -q mount/source out.zst
judge converted_over_a_network_is_the_file sh -c 'zstd -dcq out.zst | cmp - backing/source/data.mdb'
read_once copying source/data.mdb "$convert" -q --to=lmdb mount/source copy.mdb
judge copied_over_a_network_is_the_file cmp copy.mdb backing/source/data.mdb
cp out.zst backing/c.zst
read_once unpacking c.zst "$convert" -q --to=lmdb mount/c.zst back.mdb
judge unpacked_over_a_network_is_the_file cmp back.mdb backing/source/data.mdb
slowfs_stop
finish
