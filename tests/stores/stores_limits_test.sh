#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that readers go on, with the right data and without a signal, where memory, descriptors, threads or system
# calls are refused.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
slowfs_require
stores_alone "$@"
stores_begin
make_set img 100 196620
make_set cifar 5000 3090
# Root has no limit of processes: for root stores_confine reads as another user, and that user must be able to enter
# the mount.
others=
[ "$(id -u)" != 0 ] || others=,allow_other
slowfs_start "$scratch/backing" "$scratch/mount" -o "latency=100,bandwidth=0$others"
chmod -R a+rwX "$scratch/backing"
chmod a+rx "$scratch"
confine=$build/stores_confine
# A directory that is accessible wherever the build tree lies.
apart=$(mktemp -d "${TMPDIR:-/tmp}/stores-limits.XXXXXX")
trap 'rm -rf "$apart"; stores_clean' EXIT
cp "$library/liblmdb.so.0" "$library"/liblmdbio-core-*.so "$build/stores_reader" "$apart"
chmod 755 "$apart" "$apart"/*
seconds=300 # longer means that it hangs

# limited NAME SET COMMAND...: reads in order and at random; 77 where the limit cannot be set.
limited() {
	local name=$1 set=$2 rc=0 records=100 work line wanted

	shift 2
	[ "$set" = img ] || records=5000
	for work in "scan" "--backward scan" "--count=80 --records=$records --announce batch"; do
		# shellcheck disable=SC2086
		wanted=$(original ${work/--announce/} "$scratch/backing/$set" | seen)
		cold
		rc=0
		# shellcheck disable=SC2086
		line=$(LD_LIBRARY_PATH=$apart timeout -s KILL $seconds "$@" "$apart/stores_reader" \
			$work "$scratch/mount/$set" 2>"$scratch/log") || rc=$?
		if [ "$rc" = 77 ]; then
			echo "-- $name: cannot be tested here: $(cat "$scratch/log")"
			return
		fi
		equal "${name}_${set}_${work##* }_ends" "0" "$rc"
		equal "${name}_${set}_${work##* }_sees_the_same" "$wanted" "$(echo "$line" | seen)"
		cat "$scratch/log"
	done
}

for set in img cifar; do
	limited "no_io_uring" $set "$confine" --no-ring
	limited "no_threads" $set "$confine" --no-threads
	limited "no_ring_no_threads" $set "$confine" --no-ring --no-threads
	limited "no_memfd" $set "$confine" --no-memfd
	limited "no_room_in_shared_memory" $set "$confine" --no-fallocate
	limited "no_locked_memory" $set "$confine" --memlock=0
	limited "no_processes" $set "$confine" --no-processes
	for files in 5 6 7 8 9 10 12 16; do
		limited "of_${files}_descriptors" $set "$confine" --nofile=$files
	done
	if [ "${with_sanitizer:-no}" = no ]; then
		# The limits begin where the original has room for its map and the libraries, and for our larger ones; above
		# that, first the arena, then its tables, then the threads have room.
		for ((mib = 64; mib <= 320; mib += times > 1 ? 8 : 24)); do
			if "$confine" --as=$(((mib - 2) << 20)) "$build/stores_reader" scan \
				"$scratch/backing/$set" >/dev/null 2>&1; then
				limited "of_${mib}_mib_address_space" $set "$confine" --as=$((mib << 20))
			fi
		done
	fi
done

# lmdbio uses the page cache where no arena can be made, and where such reads may not fill one.
in_the_page_cache() {
	local name=$1 why=$2 line

	shift 2
	cold
	line=$(LD_LIBRARY_PATH=$apart LMDBIO_VERBOSE=1 "$@" "$apart/stores_reader" --nordahead scan "$scratch/mount/img" \
		2>"$scratch/log")
	equal "${name}_sees_the_same" "$(original scan "$scratch/backing/img" | seen)" "$(echo "$line" | seen)"
	judge "${name}_says_so" grep -q "page cache, reads by pread ($why)" "$scratch/log"
	# One leaf: nothing is read ahead, and each value takes two requests. Page faults would take thousands.
	at_most "${name}_requests" "$(slowfs_stat requests)" 220
	at_most "${name}_bytes" "$(slowfs_stat bytes)" $(($(file_size img) * 21 / 20))
}
# shellcheck disable=SC2016
in_the_page_cache "short_files" "no shared memory can be made" bash -c 'ulimit -f 10000 && exec "$@"' short
in_the_page_cache "no_memory_files" "no shared memory can be made" "$confine" --no-memfd
LMDBIO_STORE=cache LMDBIO_IO=direct \
	in_the_page_cache "direct_reads_asked_for" "direct reads pass the page cache by" env

# A data set in many files: lmdbio does not use up the program's descriptors.
shards() {
	LD_LIBRARY_PATH=$1 timeout -s KILL $seconds "$confine" --nofile=100 /usr/bin/python3 -c '
import hashlib, lmdb, sys
envs = [lmdb.open("%s/shard%d" % (sys.argv[1], n), readonly=True) for n in range(20)]
txns = [env.begin() for env in envs]
seen = hashlib.sha256()
for record in range(0, 600, 7):
    for txn in txns:
        seen.update(txn.get(b"%08d" % record))
files = [open("/dev/null") for n in range(25)]
print(seen.hexdigest(), len(files))' "$2" 2>"$scratch/log" || cat "$scratch/log"
}

if [ "${with_sanitizer:-no}" = no ]; then
	for ((i = 0; i < 20; i++)); do
		make_set shard$i 600 3090
	done
	cold
	equal "shards_leave_descriptors" "$(shards "" "$scratch/backing")" "$(shards "$apart" "$scratch/mount")"
fi

# The kernel does not tell which pages of another user's file are in memory: lmdbio still sends no requests for them.
if [ "$(id -u)" = 0 ] && [ "$(stat -f -c %T "$apart")" = ext2/ext3 ]; then
	cp -r "$scratch/backing/cifar" "$apart/theirs"
	chmod -R a+rX "$apart/theirs"
	cat "$apart/theirs/data.mdb" >/dev/null
	line=$(LD_LIBRARY_PATH=$apart LMDBIO_STATS=1 setpriv --reuid=65534 --clear-groups \
		"$apart/stores_reader" --no-lock scan "$apart/theirs" 2>"$scratch/log")
	equal "warm_file_of_another_user_sees_the_same" "$(original scan "$scratch/backing/cifar" | seen)" \
		"$(echo "$line" | seen)"
	at_most "warm_file_of_another_user_requests" \
		"$(awk '/requests to storage/ { print $NF }' "$scratch/log")" 0
else
	echo "-- warm_file_of_another_user: not tried where one is not root or the files are not on ext4"
fi

# Containers have a /dev/shm of 1 MiB. The data set may lie in the old /dev/shm: that mount is kept.
if unshare -m true 2>/dev/null; then
	# shellcheck disable=SC2016
	limited "small_dev_shm" img unshare -m sh -c '
		mount --bind "$1" /mnt && mount -t tmpfs -o size=1m tmpfs /dev/shm && mkdir -p "$1" &&
		mount --bind /mnt "$1" && shift && exec "$@"' sh "$scratch/mount"
else
	echo "-- small_dev_shm: mounting is not allowed here"
fi
nothing_left "limits"
slowfs_stop
finish
