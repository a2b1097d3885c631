#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Counts the instructions of warm reads of the same pages in the formats of LMDB 0.9 and 1.0.
#
# bench_formats.sh [--most=RATIO] [--library=DIRECTORY]: prints, for each way to read, the instructions of one
# read in either format, and their ratio. With --most the script fails if a ratio is above RATIO, for
# instance 1.05. DIRECTORY has the liblmdb.so.0 to count in; the default is this build's. Needs valgrind. The
# library reads nothing ahead, so the counts of two runs are the same.
set -eu
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/..}" && pwd)
top_builddir=$(cd "${top_builddir:-$top_srcdir/build}" && pwd)
library=$top_builddir/compat/.libs most=
for argument; do
	case $argument in
	--most=*) most=${argument#*=} ;;
	--library=*) library=${argument#*=} ;;
	*)
		sed -n 5,8p "$0" >&2
		exit 2
		;;
	esac
done
for command in valgrind callgrind_annotate; do
	command -v $command > /dev/null || { echo "bench_formats.sh: no $command" >&2; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LMDBIO_PREFETCH=0 LMDBIO_NODE=bench-formats-$$

# pages FORMAT OPTION: writes the made content in that format.
pages() {
	mkdir "$scratch/$1"
	"$top_builddir/tests/data/lmdbio-testdb" "$2=$scratch/made/data.mdb" "$scratch/$1" > /dev/null
}

# count FORMAT: prints a line "NAME READS INSTRUCTIONS" for each way to read that format.
count() {
	LD_LIBRARY_PATH=$library valgrind -q --tool=callgrind --callgrind-out-file="$scratch/$1.profile" \
		"$top_builddir/bench/bench_formats" read "$scratch/$1" > "$scratch/$1.reads"
	callgrind_annotate --inclusive=yes --threshold=100 "$scratch/$1.profile" |
		sed -n 's/^ *\([0-9,]*\) .*:measured_\([a-z_]*\) .*/\2 \1/p' | tr -d , > "$scratch/$1.counts"
	awk 'NR == FNR { reads[$1] = $2; next } { print $1, reads[$1], $2 }' "$scratch/$1.reads" "$scratch/$1.counts"
}

mkdir "$scratch/made"
"$top_builddir/bench/bench_formats" make "$scratch/made"
pages 0.9 --larger
pages 1.0 --later
for format in 0.9 1.0; do
	count $format | sort -u > "$scratch/$format"s
done
echo "way          reads    0.9     1.0  ratio"
join "$scratch/0.9s" "$scratch/1.0s" | awk -v most="$most" '
	{
		ratio = $5 / $3
		printf "%-10s %7d %6.1f  %6.1f  %.3f\n", $1, $2, $3 / $2, $5 / $4, ratio
		bad += most && ratio > most
		n++
	}
	END { exit bad || !n }'
