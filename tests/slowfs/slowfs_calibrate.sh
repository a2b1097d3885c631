#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Reports the rate of an O_DIRECT reader on a slowfs mount of this machine, and whether slowfs itself is fast enough:
# with 16 requests of 1 MiB in flight 0.85 of the bandwidth.
set -eu
top_srcdir=${top_srcdir:-.}
# shellcheck source=tests/slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require
if ! command -v fio >/dev/null; then
	echo "skipped: there is no fio"
	exit 77
fi

size=$((1024 * 1048576))
# In memory, if there is room: the disk's own speed must not count.
if [ -w /dev/shm ] && [ "$(df --output=avail -B1 /dev/shm | tail -n 1)" -gt $((2 * size)) ]; then
	base=/dev/shm
else
	base=${TMPDIR:-/tmp}
fi
dir=$(mktemp -d "$base/slowfs-calibrate.XXXXXX")
trap 'slowfs_abandon; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$dir/backing"
head -c $size /dev/zero >"$dir/backing/data"
slowfs_start "$dir/backing" "$dir/mount"

# rate DEPTH: MiB per second of O_DIRECT reads of 1 MiB
rate()
{
	fio --name=read --filename="$dir/mount/data" --rw=read --bs=1M --size=$size --direct=1 \
		--ioengine=libaio --iodepth="$1" --output-format=terse --terse-version=3 |
		awk -F';' '{ printf "%d", $7 / 1024 }'
}

for setting in "500 1500" "0 0"; do
	slowfs_control "latency ${setting% *}"
	slowfs_control "bandwidth ${setting#* }"
	for depth in 1 4 16; do
		slowfs_reset
		found=$(rate $depth)
		echo "latency ${setting% *} us, bandwidth ${setting#* } MiB/s, depth $depth:" \
			"$found MiB/s, $(slowfs_stat requests) requests," \
			"at most $(slowfs_stat inflight_max) in flight"
		if [ "$setting" = "500 1500" ] && [ $depth = 16 ]; then
			best=$found
		fi
	done
done
slowfs_stop
if [ "$best" -lt 1275 ]; then
	echo "failed: depth 16 reaches $best MiB/s of 1500"
	exit 1
fi
echo "passed"
