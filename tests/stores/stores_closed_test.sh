#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks a program that closes descriptors which it did not open, as daemons do, so that its own files get their
# numbers.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
if ! /usr/bin/python3 -c 'import lmdb' 2>/dev/null; then
	echo "skipped: python3-lmdb is not installed"
	exit 77
fi
stores_alone "$@"
stores_begin
make_set img 40 196620
slowfs_start "$scratch/backing" "$scratch/mount" -o latency=0,bandwidth=0
original=$(original scan "$scratch/backing/img" | cut -d ' ' -f 1,2)
# The foreign file has the same length, and every byte of it differs.
/usr/bin/python3 -c '
import sys
with open(sys.argv[1], "rb") as data, open(sys.argv[2], "wb") as other:
    other.write(bytes(255 - byte for byte in data.read()))' "$scratch/backing/img/data.mdb" "$scratch/foreign"

# closes LAST DIRECTION: reads some records, closes descriptors 3 to LAST, opens the foreign file under as many
# numbers, and reads all records. Prints records, bytes and a hash, or the error.
closes() {
	LD_LIBRARY_PATH=$library /usr/bin/python3 - "$scratch/mount/img" "$scratch/foreign" "$@" <<'PYTHON'
import hashlib, lmdb, os, sys
path, foreign, last, forward = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "forward"
env = lmdb.open(path, readonly=True, lock=False, readahead=False)
with env.begin() as txn:
    for number in 7, 20, 21:
        txn.get(b"%08d" % number)
os.closerange(3, last + 1)
kept = [os.open(foreign, os.O_RDONLY) for _ in range(min(last, 500) - 2)]
if last > 1000:
    for fd in range(1000, 1020):
        os.dup2(kept[0], fd)
sums, records, size = 0, 0, 0
try:
    with env.begin() as txn:
        for key, value in txn.cursor().iternext() if forward else txn.cursor().iterprev():
            sums ^= int.from_bytes(hashlib.sha256(key + value).digest()[:8], "big")
            records += 1
            size += len(value)
    print(records, size, "%016x" % sums)
except lmdb.Error as error:
    print(error)
PYTHON
}

expected=$(LMDBIO_DISABLE=1 closes 2 forward)
equal "original_reads_all" "$original" "$(echo "$expected" | cut -d ' ' -f 1,2)"
for how in "arena direct" "arena pread" "cache pread"; do
	export LMDBIO_STORE=${how% *} LMDBIO_IO=${how#* }
	for order in forward backward; do
		slowfs_drop
		equal "${how/ /_by_}_${order}_sees_the_data_set" "$expected" "$(closes 63 $order)"
		slowfs_drop
		seen=$(closes 4000 $order)
		[ "$seen" = "$expected" ] || seen=$(echo "$seen" | grep -o 'Bad file descriptor')
		judge "${how/ /_by_}_${order}_with_all_closed_sees_it_or_an_error" test -n "$seen"
	done
done
# A process that shares the memory of one that has closed its descriptors sees the data set.
export LMDBIO_STORE=arena LMDBIO_IO=direct
slowfs_drop
coproc LD_LIBRARY_PATH=$library /usr/bin/python3 -c '
import lmdb, sys
env = lmdb.open(sys.argv[1], readonly=True, lock=False)
with env.begin() as txn:
    txn.get(b"00000001")
    print("ready", flush=True)
    sys.stdin.read()' "$scratch/mount/img"
read -r _ <&"${COPROC[0]}"
closes 4000 forward >"$scratch/log"
equal "another_process_sees_the_data_set" "$expected" "$(closes 2 forward)"
eval "exec ${COPROC[1]}>&-"
wait
nothing_left "closed"
slowfs_stop
finish
