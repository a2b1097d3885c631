#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that library_calls_test makes each place of the core that calls the C library fail, once and for ever.
#
# places_open lists those that no life of the test reaches yet: file, function, call. A place that is neither there
# nor made to fail ends this test, and so does a line there that is not needed any more.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need objdump addr2line
list=$top_srcdir/tests/faults/places_open
program=$top_builddir/tests/faults/library_calls_test

: >"$scratch/failed"
TESTS_LONG=1 LIBRARY_CALLS_FAILED=$scratch/failed "$program" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }

# Lines "return-address call", in hexadecimal without zeroes in front.
objdump -d --no-show-raw-insn "$program" |
	awk '{ at = $1; sub(/:$/, "", at) }
		called { print at, called; called = "" }
		$2 == "call" && match($0, /<__wrap_[a-z_0-9]+>/) {
			called = substr($0, RSTART + 8, RLENGTH - 9)
		}' >"$scratch/calls"
# Of the byte before a return address, whose place is the call's: function, then file.
awk '{ print $1 }' "$scratch/calls" | while read -r at; do printf '%x\n' $((16#$at - 1)); done |
	addr2line -f -e "$program" | awk 'NR % 2 { name = $1; sub(/^lmdbio_core_/, "", name); sub(/[.].*/, "", name); next } { sub(/:.*/, ""); print name, $0 }' >"$scratch/names"
paste -d ' ' "$scratch/calls" "$scratch/names" | grep -E ' [^ ]*/lib/[a-z]+/[a-z_]+\.[ch]$' |
	sed -E 's, [^ ]*/lib/([^ ]*)$, \1,' >"$scratch/places"
judge "places_are_found" test "$(wc -l <"$scratch/places")" -gt 200
awk 'NR == FNR { failed[$1, $3] = 1; next }
	{
		name = $4 " " $3 " " $2
		places[name] = 1
		if (($1, "once") in failed && ($1, "ever") in failed) covered[name] = 1
	}
	END { for (name in places) if (!(name in covered)) print name }' \
	"$scratch/failed" "$scratch/places" | sort >"$scratch/open"
sed 's/ *#.*//; /^$/d' "$list" | sort >"$scratch/listed"
same_as_listed "places_that_no_life_reaches_are_those_of_the_list" "$list" "no life makes it fail" "it fails in a life now"
echo "# $(awk '{ print $4, $3, $2 }' "$scratch/places" | sort -u | wc -l) places, $(wc -l <"$scratch/open") of them made to fail by no life"
finish
