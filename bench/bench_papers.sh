#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Counts what each way of LMDBIO's papers asks of storage here, beside the model of lmdbio-sim.
#
# usage: bench_papers.sh [READERSxNODES]...   (1x1 2x1 4x1 8x1 2x2 4x2 4x4 8x4)
# A node is a mount of slowfs, with its own page cache. RECORDS (12288), BYTES (3090) and WAYS (lmdb
# lmm dm dio prov coal) are taken from the environment. A batch has RUN (1) records for each reader.
# Prints a line for each way: requests, bytes, both as modelled, and the larger of both deviations.
# With MOST=PERCENT the script exits with 1 if a deviation is larger. Needs python3-lmdb.
# shellcheck disable=SC2034
set -eu
top_srcdir=${top_srcdir:-$(dirname "$0")/..}
# shellcheck source-path=SCRIPTDIR source=../tests/stores/stores_lib.sh
. "$(dirname "$0")/../tests/stores/stores_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_mounts.sh
. "$(dirname "$0")/bench_mounts.sh"
slowfs_require
python=/usr/bin/python3
$python -c 'import lmdb' 2> /dev/null || { echo "skipped: no python3-lmdb here" && exit 77; }
sim=$top_builddir/tools/lmdbio-sim
[ -x "$sim" ] || { echo "skipped: no lmdbio-sim in this build" && exit 77; }
stores_begin
export PYTHONDONTWRITEBYTECODE=1
set=set wrong=0

trap 'mounts_stop; stores_clean' EXIT

# job WAY: runs all readers at once, with none of their data in memory.
job() {
	each_cold
	$python "$top_srcdir/bench/bench_papers.py" read "$1" "$scratch/places" "$readers" "$batch" \
		"${mounts[@]/%//set}"
}

records=${RECORDS:-12288} bytes=${BYTES:-3090}
$python "$top_srcdir/bench/bench_papers.py" make "$scratch/backing/set" "$records" "$bytes"
mv "$scratch/backing/set.places" "$scratch/places"
[ $# -gt 0 ] || set -- 1x1 2x1 4x1 8x1 2x2 4x2 4x4 8x4
printf '%-5s %-5s %10s %12s %10s %12s %6s\n' RxN way requests bytes modelled modelled off
for shape in "$@"; do
	ranks=${shape%x*} nodes=${shape#*x}
	readers=$((ranks / nodes)) batch=$((ranks * ${RUN:-1}))
	mounts_start "$nodes" 500 1500
	"$sim" --strided=$readers --nodes="$nodes" --records="$records" --record-size="$bytes" --batch=$batch \
		--storage-latency=500 --storage-total=1500MiB > "$scratch/modelled"
	for way in ${WAYS:-lmdb lmm dm dio prov coal}; do
		job "$way"
		awk -v shape="$shape" -v way="$way" -v requests="$(counted requests)" -v bytes="$(counted bytes)" \
			-v most="${MOST:-100}" '
			function off(real, said) { return 100 * (real > said ? real / said - 1 : said / real - 1) }
			tolower($1) == way {
				worst = off(requests, $2)
				if (off(bytes, $3) > worst) worst = off(bytes, $3)
				printf "%-5s %-5s %10d %12d %10d %12d %5.1f%%\n", shape, way, requests, bytes, $2, $3, worst
				exit worst > most
			}' "$scratch/modelled" || wrong=1
	done
done
mounts_stop
exit $wrong
