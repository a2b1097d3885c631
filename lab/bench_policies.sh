#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Compares the simulator with the real loader: runs the same policies on slowfs, with processes as
# nodes, and says whether lmdbio-sim is within 15 % of their seconds and bytes.
#
#	[RUNS=3] lab/bench_policies.sh [NODES [POLICY...]]
#
# Run it in the build folder, as a user that may mount FUSE. The script first measures the latency
# of a request, slowfs's own included, and passes it to the simulator. The shortest run counts,
# because other work only makes a run longer.
# shellcheck source-path=SCRIPTDIR source=../tests/slowfs/slowfs_lib.sh
set -eu
LC_ALL=C
export LC_ALL
top_srcdir=$(cd "$(dirname "$0")/.." && pwd)
top_builddir=${top_builddir:-$PWD}
nodes=${1:-2}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- none naive double deepio-ordered staging overlap nopfs plan lmdbio

# The settings of both. Sizes are in MiB; slowfs has one link, and latencies of requests overlap.
records=800 epochs=3 batch=$((16 * nodes)) threads=4 room=200 buffer=16 compute=60
latency=2000 bandwidth=100
curve=1:${bandwidth}M
[ "$nodes" -eq 1 ] || curve=$curve,$nodes:$((bandwidth * nodes))M

. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
slowfs_require
directory=$(mktemp -d "${TMPDIR:-/tmp}/lmdbio-bench.XXXXXX")
trap 'slowfs_abandon; rm -rf "$directory"' EXIT
trap 'exit 1' HUP INT TERM
"$top_builddir/bench/bench_figures" -s img -w open -n 1 -c 1 -d "$directory/data" \
	--scale "$(awk -v n=$records 'BEGIN { print n / 10000 }')" > "$directory/made" 2>&1 ||
	{ cat "$directory/made"; exit 1; }
slowfs_start "$directory/data" "$directory/mount" -o latency=$latency,bandwidth=$bandwidth

# measure: sets $measured to the microseconds of a request, one after the other, without its bytes'
# time on the link: the least of all measurements, one beside each run, as the shortest run counts.
measured=
measure() {
	slowfs_drop
	began=$(date +%s%N)
	dd if="$directory/mount/img-$records/data.mdb" of=/dev/null bs=192k count=100 iflag=direct 2> "$directory/dd"
	ended=$(date +%s%N)
	now=$(((ended - began) / 100000 - 192 * 1024 / bandwidth))
	[ -n "$measured" ] && [ "$measured" -le "$now" ] || measured=$now
}
measure
echo "slowfs: $latency us asked, $measured us measured at first; $bandwidth MiB/s; $nodes nodes"

# field NAME: prints a field of the line of JSON in the file real.
field() {
	sed -n "s/.*\"$1\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$directory/real"
}

simulated() {
	"$top_builddir/tools/lmdbio-sim" --policy="$1" --nodes="$nodes" --batch=$batch --epochs=$epochs \
		--records=$records --record-size="$(field record_bytes)" --size-spread=0 --seed=1 \
		--staging=${buffer}M --memory=${room}M --ssd=${room}M --streams=$threads,1,1 \
		--compute=${compute}M --preprocess=1T --staging-rate=1T --memory-rate=1T --ssd-read=1T \
		--ssd-write=1T --network=1T --storage="$curve" \
		--storage-gain=1 --storage-node=0 --storage-total=${bandwidth}M \
		--storage-latency="$measured" > "$directory/simulated"
	awk -v policy="$1" '$1 == policy { print $2, $7 }' "$directory/simulated"
}

printf '%-15s %9s %9s %7s  %9s %9s  %s\n' policy real simulated ratio storage simulated 'within 15 %'
status=0
for policy in "$@"; do
	run=0
	: > "$directory/real"
	while [ $run -lt "${RUNS:-3}" ]; do
		measure
		slowfs_drop
		slowfs_reset
		LMDBIO_MEMORY=32M "$top_builddir/bench/bench_figures" loader --policy="$policy" \
			--nodes="$nodes" --batch=$batch --epochs=$epochs --threads=$threads \
			--memory=$room --ssd=$room --buffer=$buffer --compute=$compute \
			"$directory/mount/img-$records" > "$directory/once"
		before=$(field seconds)
		now=$(sed -n 's/.*"seconds": \([0-9.]*\).*/\1/p' "$directory/once")
		if [ -z "$before" ] || awk -v a="$now" -v b="$before" 'BEGIN { exit !(a < b) }'; then
			mv "$directory/once" "$directory/real"
			read=$(slowfs_stat "img-$records/data.mdb:bytes")
		fi
		run=$((run + 1))
	done
	# shellcheck disable=SC2046
	set -- $(simulated "$policy")
	awk -v policy="$policy" -v real="$(field seconds)" -v sim="$1" -v storage="$2" \
		-v read="$read" -v n=$records \
		-v size="$(field record_bytes)" 'BEGIN {
			ratio = sim / real
			well = ratio > 0.85 && ratio < 1.15
			# The reads that fill memory for the bound do not count.
			ratio_read = storage * n * size / read
			if (policy != "none")
				well = well && ratio_read > 0.85 && ratio_read < 1.15
			printf "%-15s %9.2f %9.2f %7.3f  %8.2fx %9s  %s\n", policy, real, sim, ratio,
				read / (n * size), storage, well ? "yes" : "NO"
			exit !well
		}' || status=1
done
slowfs_stop
exit $status
