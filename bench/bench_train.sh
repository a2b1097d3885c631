#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Finds how many emulated accelerators slowfs can feed: lmdbio-bench --train with the models scaled to this machine.
#
# usage: bench_train.sh [MODEL...]           unet3d resnet50 cosmoflow; default all
# A record is a 64th (unet3d), all (resnet50) or a quarter (cosmoflow) of the model's, and an accelerator wants 200 MB a
# second of storage that gives 1,500 MiB. SIZE (4096, MiB of data), MEMORY (800, MiB for all readers), LATENCY
# (500, microseconds a request), SECONDS_EACH (55, for each model), ONLY (all ways), FOLDER and BUILD (build) are taken
# from the environment. A folder that FOLDER names is kept and used again; the default is a new one in /var/tmp, which
# is removed.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$top/build}
top_builddir=$build
# shellcheck source-path=SCRIPTDIR source=../tests/slowfs/slowfs_lib.sh
. "$top/tests/slowfs/slowfs_lib.sh"
[ $# -gt 0 ] || set -- unet3d resnet50 cosmoflow
if [ -n "${FOLDER:-}" ]; then
	folder=$FOLDER
	trap 'slowfs_abandon' EXIT
else
	folder=$(mktemp -d /var/tmp/bench_train.XXXXXX)
	trap 'slowfs_abandon; rm -rf "$folder"' EXIT
fi
mkdir -p "$folder/backing"
for model in "$@"; do
	# divisor of the record's size, milliseconds of computing
	case $model in
	unet3d) scale=(64 80.75) ;;
	resnet50) scale=(1 224) ;;
	cosmoflow) scale=(4 3.5) ;;
	*) echo "bench_train.sh: no model $model" >&2; exit 2 ;;
	esac
	made=$model.${SIZE:-4096}
	if [ ! -e "$folder/backing/$made" ]; then
		rm -rf "$folder/part"
		/usr/bin/python3 "$top/bench/bench_train.py" "$model" "${scale[0]}" $((${SIZE:-4096} << 20)) "$folder/part"
		mv "$folder/part" "$folder/backing/$made"
	fi
	slowfs_start "$folder/backing" "$folder/mount" -o "latency=${LATENCY:-500},bandwidth=1500"
	"$build/tools/lmdbio-bench" --train="$model" --compute="${scale[1]}" --memory="${MEMORY:-800}M" \
		--seconds="${SECONDS_EACH:-55}" ${ONLY:+--only="$ONLY"} --library="$build/compat/.libs/liblmdb.so.0" \
		"$folder/mount/$made"
	slowfs_stop
	echo
done
