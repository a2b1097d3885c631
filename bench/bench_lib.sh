# SPDX-License-Identifier: OLDAP-2.8
# shellcheck shell=sh
# Rewrites a benchmark's data set in the format of a given LMDB, and computes medians. Sourced.

# set_format FORMAT DIRECTORY: rewrites the data set there with the same content in the format of LMDB 0.9 or 1.0, in
# pages twice as large. With FORMAT "" the data set stays as LMDB has written it.
set_format() {
	case $1 in
	0.9) _set_format=--larger ;;
	1.0) _set_format=--later ;;
	*) return 0 ;;
	esac
	mkdir "$2.made"
	"${top_builddir:-.}/tests/data/lmdbio-testdb" "$_set_format=$2/data.mdb" "$2.made" > /dev/null
	mv "$2.made/data.mdb" "$2/"
	rmdir "$2.made"
}

# median [COLUMN]: prints the median of the numbers in that column of standard input; default: the first.
median() {
	awk -v column="${1:-1}" '{ print $column }' | sort -g | awk '{ v[NR] = $1 } END { printf "%.12g\n", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
