#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# A sandbox that refuses a system call costs neither right answers, nor the memory budget, nor the ability to read a
# container: each call in turn, with each of the codes that sandboxes return.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
stores_alone "$@"
stores_begin
confine=$build/stores_confine
make_set img 300 98316
make_set cifar 3000 3090
mkdir "$scratch/backing/packed"
"$top_builddir/tools/lmdbio-convert" -q "$scratch/backing/img" "$scratch/backing/packed"
declare -A whole
whole[img]=$(original scan "$scratch/backing/img" | seen)
whole[packed]=${whole[img]}
whole[cifar]=$(original --records=3000 --count=500 get "$scratch/backing/cifar" | seen)

# reads NAME SET COMMAND-TO-READ...: as reader does, confined; its line is in $line.
reads() {
	local name=$1 set=$2 rc=0

	shift 2
	line=$(LD_LIBRARY_PATH=$library timeout -s KILL 300 "$confine" --refuse="$refused" "$build/stores_reader" \
		"$@" "$scratch/backing/$set" 2>"$scratch/log") || rc=$?
	equal "${name}_ends_well" 0 "$rc"
	equal "${name}_sees_the_same" "${whole[$set]}" "$(echo "$line" | seen)"
	[ "$rc" = 0 ] || cat "$scratch/log"
}

for call in $("$confine" --list); do
	for code in EPERM ENOSYS; do
		refused=$call:$code
		LMDBIO_STORE=arena LMDBIO_MEMORY=4M reads "${call}_${code}_arena" img --nordahead --records=300 keep
		at_most "${call}_${code}_arena_kib" "$(field memfd "$line")" $((4096 + 16384))
		LMDBIO_STORE=cache reads "${call}_${code}_cache" cifar --records=3000 --count=500 get
		LMDBIO_MEMORY=16M reads "${call}_${code}_container" packed scan
	done
done

# strange NAME COMMAND-TO-READ...: the container has the right values on such a machine.
strange() {
	local name=$1 rc=0

	shift
	line=$(timeout -s KILL 300 "$@" env LD_LIBRARY_PATH="$apart" "$apart/stores_reader" scan "$apart/packed" \
		2>"$scratch/log") || rc=$?
	equal "container_${name}_ends_well" 0 "$rc"
	equal "container_${name}_sees_the_same" "${whole[packed]}" "$(echo "$line" | seen)"
	[ "$rc" = 0 ] || cat "$scratch/log"
}

# What every user may read, wherever the build tree lies.
apart=$(mktemp -d "${TMPDIR:-/tmp}/stores-refused.XXXXXX")
trap 'rm -rf "$apart"; stores_clean' EXIT
cp "$library/liblmdb.so.0" "$library"/liblmdbio-core-*.so "$build/stores_reader" "$apart"
cp -r "$scratch/backing/packed" "$apart"
chmod -R a+rX "$apart"
# shellcheck disable=SC2016
if unshare -m true 2>/dev/null; then
	strange "without_proc" unshare -m sh -c 'mount -t tmpfs tmpfs /proc && exec "$@"' strange
	mkdir "$apart/full"
	strange "with_a_full_disk_for_scratch" unshare -m sh -c 'mount -t tmpfs -o size=4k tmpfs "$1" && echo >"$1/all" &&
		TMPDIR=$1 && export TMPDIR && shift && exec "$@"' strange "$apart/full"
	if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
		strange "with_umask_0777" setpriv --reuid=65534 --clear-groups sh -c 'umask 0777 && exec "$@"' strange
	fi
else
	echo "-- containers on strange machines: mounting is not allowed here"
fi

# A forked child holds none of its parent's memory, even where it inherits the maps.
hash=$(original scan "$scratch/backing/img" | cut -d ' ' -f 3)
for set in img packed; do
	ran "forks_of_$set" env LD_LIBRARY_PATH="$library" LMDBIO_STORE=arena "$confine" --refuse=madvise:EPERM \
		"$build/stores_fork" "$scratch/backing/$set" 300 "$hash" 1
done

# A failed opening leaves no descriptor, however few descriptors are allowed.
head -c 100000 "$scratch/backing/packed/data.mdb.zst" >"$scratch/cut.zst"
mkdir "$scratch/backing/cut"
mv "$scratch/cut.zst" "$scratch/backing/cut/data.mdb.zst"
descriptors() {
	LD_LIBRARY_PATH=$library "$confine" --nofile="$2" /usr/bin/python3 -c '
import ctypes, os, sys
lmdb = ctypes.CDLL("liblmdb.so.0")
def count():
    return sum(os.path.exists(f"/proc/self/fd/{number}") for number in range(64))
def attempt():
    env = ctypes.c_void_p()
    assert not lmdb.mdb_env_create(ctypes.byref(env))
    rc = lmdb.mdb_env_open(env, sys.argv[1].encode(), 0x20000, 0)
    lmdb.mdb_env_close(env)
    return rc
attempt()
before = count()
codes = {attempt() for _ in range(8)}
print(count() - before, "left")
' "$scratch/backing/$1" 2>&1
}
if /usr/bin/python3 -c 'import ctypes' 2>/dev/null; then
	for set in cut packed img; do
		for files in 6 7 8 9 10 12 14 16 20 40 64; do
			equal "opening_${set}_with_${files}_descriptors" "0 left" "$(descriptors $set $files)"
		done
	done
else
	echo "-- descriptors of failed openings: no python3 here"
fi
nothing_left "refused"
finish
