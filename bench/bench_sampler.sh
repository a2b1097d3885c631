#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Times shuffled epochs of a PyTorch DataLoader over py-lmdb on slowfs, in each way of reading.
#
# usage: bench_sampler.sh [LATENCY...]       microseconds a request; default 500 2000
# RECORDS (20000), BYTES (100000), WORKERS (4), RUNS (3), WAYS (all), FOLDER (a new one in /var/tmp)
# and BUILD (build) are taken from the environment. Prints a line for each run; the ways alternate.
# FORMAT=0.9 or 1.0: the same content in the format of that LMDB, in pages twice as large; py-lmdb without lmdbio
# reads only 0.9.
# Needs python3-lmdb and python3-torch.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$top/build}
top_builddir=$build
# shellcheck source-path=SCRIPTDIR source=../tests/slowfs/slowfs_lib.sh
. "$top/tests/slowfs/slowfs_lib.sh"
# shellcheck source-path=SCRIPTDIR source=bench_lib.sh
. "$top/bench/bench_lib.sh"
export PYTHONPATH=$top/python PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1
folder=$(mktemp -d "${FOLDER:-/var/tmp}/bench_sampler.XXXXXX")
trap 'slowfs_abandon; rm -rf "$folder"' EXIT
read -r -a ways <<< "${WAYS:-stock stock_readahead lmdbio lmdbio_readahead announced}"
reader=(/usr/bin/python3 "$top/bench/bench_sampler.py" read "$folder/mount/set" --workers "${WORKERS:-4}")
run=("$build/tools/lmdbio-run" --)

mkdir "$folder/backing"
/usr/bin/python3 "$top/bench/bench_sampler.py" make "$folder/backing/set" \
	--records "${RECORDS:-20000}" --bytes "${BYTES:-100000}"
set_format "${FORMAT:-}" "$folder/backing/set"
[ $# -gt 0 ] || set -- 500 2000
for latency in "$@"; do
	slowfs_start "$folder/backing" "$folder/mount" -o "latency=$latency,bandwidth=1500"
	for ((i = 0; i < ${RUNS:-3}; i++)); do
		for way in "${ways[@]}"; do
			slowfs_drop
			slowfs_reset
			case $way in
			stock) told=$("${reader[@]}") ;;
			stock_readahead) told=$("${reader[@]}" --readahead) ;;
			lmdbio) told=$("${run[@]}" "${reader[@]}") ;;
			lmdbio_readahead) told=$("${run[@]}" "${reader[@]}" --readahead) ;;
			announced) told=$("${run[@]}" "${reader[@]}" --announce) ;;
			*) echo "bench_sampler.sh: no way $way" >&2; exit 2 ;;
			esac
			echo "$latency us $way: $told; storage: $(slowfs_stat set/data.mdb:requests) requests," \
				"$(slowfs_stat set/data.mdb:bytes) bytes"
		done
	done
	slowfs_stop
done
