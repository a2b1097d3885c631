#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks what forked workers cost that open the data set themselves and end after an epoch.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import lmdb.cpython' 2>/dev/null; then
	echo "skipped: $python has no module lmdb"
	exit 77
fi
stores_alone "$@"
stores_begin
export PYTHONDONTWRITEBYTECODE=1
img=60 cifar=3000
make_set img $img 196620
make_set cifar $cifar 3090
# The memory of a file that was changed just now is not kept.
while [ -n "$(find "$scratch/backing" -name data.mdb -newerct '2 seconds ago')" ]; do
	sleep 0.1
done
slowfs_start "$scratch/backing" "$scratch/mount"

# epochs NAME DESCRIPTORS ARGUMENTS...: what the forked workers cost their parent
epochs() {
	local name=$1 descriptors=$2

	shift 2
	cold
	ran "$name" env LD_LIBRARY_PATH="$library" "$python" "$top_srcdir/tests/stores/stores_epochs.py" "$@"
	equal "${name}_descriptors" "descriptors $descriptors" "$(tail -n 1 "$scratch/log")"
	nothing_left "$name"
}

# once NAME SET
once() {
	at_most "$1_reads_once" "$(slowfs_stat "$2/data.mdb:bytes")" $(($(file_size "$2") * 103 / 100))
}

# anew NAME SET: storage has been asked for the same bytes at least twice.
anew() {
	at_most "$1_reads_anew" $(($(file_size "$2") * 2)) "$(slowfs_stat "$2/data.mdb:bytes")"
}

for how in never before; do
	epochs "workers_when_their_parent_opens_$how" 2 "$how" "$scratch/mount/img"
	once "workers_when_their_parent_opens_$how" img
	epochs "two_sets_when_their_parent_opens_$how" 2 "$how" "$scratch/mount/img" "$scratch/mount/cifar"
	once "two_sets_when_their_parent_opens_$how" img
	once "two_sets_when_their_parent_opens_$how" cifar
done
# Each set alone fits into memory, both together do not.
LMDBIO_MEMORY=16M epochs "two_sets_when_memory_is_for_one" 2 never "$scratch/mount/img" "$scratch/mount/cifar"
anew "two_sets_when_memory_is_for_one" img
LMDBIO_SHARE=0 epochs "workers_when_nothing_is_shared" 0 never "$scratch/mount/img"
anew "workers_when_nothing_is_shared" img
LMDBIO_DISABLE=1 epochs "workers_when_disabled" 0 never "$scratch/mount/img"
slowfs_stop
finish
