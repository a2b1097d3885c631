#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Limits the sizes and the words of the source: each count has a limit in tests/lint/limits that it may not exceed.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cd "$top_srcdir"
product=$(find lib compat include tools lab -name '*.[ch]')
tests=$(find tests bench -name '*.[ch]')

# All of these print "number place" lines, the largest first.
function_lines() {
	awk 'FNR == 1 { begin = 0 }
		/^\{$/ { begin = FNR }
		/^\}/ && begin { print FNR - begin - 1, FILENAME ":" begin; begin = 0 }' "$@" | sort -rn
}

file_lines() {
	wc -l "$@" | grep -v ' total$' | sort -rn | sed 's/^ *//'
}

# pattern_lines PATTERN FILE...: the number of lines that match, in all files together, and their places.
pattern_lines() {
	local pattern=$1
	shift
	grep -Hcwi "$pattern" "$@" | awk -F: '{ sum += $2; if ($2) places = places " " $1 ":" $2 } END { print sum + 0, places }'
}

# Symbols of the library that no other object refers to: they are dead, or should be static. Functions for other
# libraries and programs have a public prefix.
lonely_symbols() {
	find "$top_builddir" -name '*.o' -print0 | xargs -0 nm -A 2> /dev/null |
		awk '$2 == "U" { used[$3] = 1 }
			$2 ~ /^[TDBR]$/ && $1 ~ /\/lib\// && $3 !~ /^(lmdbio_|mdb_|__odr_asan)/ { at[$3] = 1 }
			END { for (name in at) if (!(name in used)) { n++; names = names " " name } print n + 0, names }'
}

# within MEASURE NUMBER PLACE...: the case of that limit.
within() {
	local limit

	limit=$(awk -v name="$1" '$1 == name { print $2 }' tests/lint/limits)
	[ -n "$limit" ] || { echo "tests/lint/limits has no $1"; exit 1; }
	[ "$2" -ge "$limit" ] || echo "# $1: the limit of $limit can be lowered to $2"
	[ "$2" -le "$limit" ] || echo "# $*"
	judge "$1_is_within_its_limit" test "$2" -le "$limit"
}

# shellcheck disable=SC2046,SC2086
{
	within lib_function_lines $(function_lines $product | head -1)
	within test_function_lines $(function_lines $tests | head -1)
	within lib_file_lines $(file_lines $product | head -1)
	within test_file_lines $(file_lines $tests | head -1)
	within opening_formulas $(pattern_lines 'what only this file knows' $product)
	within unnamed_actors $(pattern_lines 'who\|whom\|whoever\|somebody\|nobody' $product)
	within lonely_symbols $(lonely_symbols)
}
finish
