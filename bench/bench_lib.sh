# SPDX-License-Identifier: OLDAP-2.8
# shellcheck shell=sh
# Makes a data set of a benchmark one in the format of another LMDB, and computes medians. Sourced.

# set_format FORMAT DIRECTORY: its data set gets the same content in that LMDB's format, 0.9 or 1.0, in pages
# twice as large. FORMAT "": it stays as LMDB has written it.
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

# median [COLUMN]: of the numbers on standard input, in that column of each line.
median() {
	awk -v column="${1:-1}" '{ print $column }' | sort -g | awk '{ v[NR] = $1 } END { printf "%.12g\n", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
