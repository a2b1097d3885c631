#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks how many requests a conversion sends to its source's storage and that it reads every byte once, the progress
# that it shows on slow storage, and that an import fails if storage fails behind the first page of its list.
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

# read_once NAME FILE COMMAND...: each request reads a MiB, or the part of a MiB that is left.
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

# --- progress: a log file gets whole lines, a terminal one line that is overwritten ---
# A conversion reads for four seconds, however fast the machine is: some lines come before its end.
slowly() {
	slowfs_drop
	"$@"
}
slowfs_control "bandwidth 12"
slowly "$convert" --progress=1 mount/source slow.zst 2> err
judge progress_in_a_log_is_whole_lines grep -q '^lmdbio-convert:  *[0-9]* % converting .* ratio [0-9.]*, .*/s, .* left$' err
judge progress_in_a_log_is_not_written_over test "$(tr -cd '\r' < err | wc -c)" -eq 0
slowly "$python" - "$convert" -f mount/source slow.zst <<'END' > /dev/null
import os, pty, sys
with open("terminal", "wb") as to:
    def keep(fd):
        data = os.read(fd, 4096)
        to.write(data)
        return data
    pty.spawn(sys.argv[1:], keep)
END
judge progress_on_a_terminal_is_written_over grep -q "$(printf '\r').*% converting" terminal
slowly "$convert" -f --no-progress mount/source slow.zst 2> err
judge no_progress_is_the_summary_alone test "$(wc -l < err)" -eq 1
slowfs_control "bandwidth 0"

# --- a read error is neither the end of a list nor the end of a line ---
mkdir backing/images
for i in $(seq 1000 2 1999); do
	echo "$i" > "backing/images/$i"
	echo "$i $i" >> backing/labels
	echo "images/$i" >> backing/names
done
slowfs_control "fail labels@4096-8191:eio"
slowfs_control "fail names@4096-8191:eio"
told list_of_sources_that_cannot_be_read_to_its_end_ends_an_import 2 'mount/names: Input/output error' \
	"$convert" -q --from=tar @mount/names none.d
told labels_that_cannot_be_read_to_their_end_end_an_import 2 'mount/labels: Input/output error' \
	"$convert" -q --labels=mount/labels mount/images none.d
told list_of_images_that_cannot_be_read_to_its_end_ends_an_import 2 'mount/labels: Input/output error' \
	"$convert" -q --from=caffe --root=mount/images mount/labels none.d
judge failed_lists_leave_nothing test ! -e none.d
slowfs_stop
finish
