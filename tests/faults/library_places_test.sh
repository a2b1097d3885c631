#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a test makes each call of the C library fail, once and for ever, in the core, in lib/mpi and in the
# commands lmdbio-convert, lmdbio-check, lmdbio-dump and lmdbio-stat.
#
# places_open lists the calls that no test reaches: file, function, call, and behind a # the reason. This test fails
# for a call that is neither listed nor made to fail, and for a line that is no longer needed, unless its reason
# begins with "depends".
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
need objdump addr2line
list=$top_srcdir/tests/faults/places_open

# where PROGRAM: reads addresses in hexadecimal, writes "function file" for each.
where() {
	addr2line -f -e "$1" | awk 'NR % 2 { name = $1; sub(/^lmdbio_core_/, "", name); sub(/[.].*/, "", name); next }
		{ sub(/:.*/, ""); print name, $0 }'
}

# places PROGRAM: prints lines "return-address call function file". If a function ends in a jump to the call, the
# place has the return addresses of that function's own callers.
places() {
	objdump -d --no-show-raw-insn "$1" | awk '
		/^[0-9a-f]+ <.*>:$/ { inside = substr($2, 2, length($2) - 3); next }
		{ at = $1; sub(/:$/, "", at) }
		called != "" { print at, called, site; called = "" }
		$2 != "call" && $2 != "jmp" { next }
		match($0, /<[A-Za-z_0-9.]+>/) {
			to = substr($0, RSTART + 1, RLENGTH - 2)
			if (to !~ /^__wrap_/ || to ~ /^__wrap_(tool_place|job)_begin$/) { called = $2 == "call" ? "= " to : ""; site = at; next }
			sub(/^__wrap_(__)?/, "", to); sub(/_chk$|_2$/, "", to); sub(/^getdelim$/, "getline", to)
			if ($2 == "call") { called = to; site = at } else print "jump", to, at, inside
		}' >"$scratch/calls"
	awk 'NR == FNR { if ($1 == "jump") { to[$4] = $2; site[$4] = $3 } next }
		$2 == "=" { if ($3 in to) print $1, to[$3], site[$3]; next }
		$1 != "jump" { print $1, $2, $3 }' "$scratch/calls" "$scratch/calls" >"$scratch/sites"
	paste -d ' ' "$scratch/sites" <(awk '{ print $3 }' "$scratch/sites" | where "$1") |
		awk '{ print $1, $2, $4, $5 }' |
		grep -E ' [^ ]*/(lib|tools)/[a-z_/]+\.[ch]$' |
		sed -E 's, [^ ]*/lib/([^ ]*)$, \1,; s, [^ ]*/tools/convert/([^ ]*)$, convert/\1,; s, [^ ]*/(tools/[^ ]*)$, \1,'
}

: >"$scratch/covered"
: >"$scratch/all"
# take NAME SOURCES [only]: runs the long form of NAME_calls_test, and records its places in these sources, and the
# places that it made fail both ways. only: it makes no other places fail, because another program does, and none of
# the listed ones.
take() {
	program=$top_builddir/tests/faults/$1_calls_test
	: >"$scratch/failed"
	places "$program" >"$scratch/places"
	judge "places_of_$1_calls_test_are_found" test "$(wc -l <"$scratch/places")" -gt 200
	awk -v of="^($2)" 'NR == FNR { open[$1, $2, $3] = 1; next }
		$4 ~ of && !(($4, $3, $2) in open) { print $1 }' "$list" "$scratch/places" >"$scratch/only"
	TESTS_LONG=1 LIBRARY_CALLS_FAILED=$scratch/failed env ${3:+LIBRARY_CALLS_ONLY="$scratch/only"} "$program" \
		>"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
	tail -n 1 "$scratch/log" | sed "s/^/# $1: /"
	awk -v of="^($2)" '$4 ~ of { print $4, $3, $2 }' "$scratch/places" >>"$scratch/all"
	awk 'NR == FNR { failed[$1, $3] = 1; next }
		($1, "once") in failed && ($1, "ever") in failed { print $4, $3, $2 }' \
		"$scratch/failed" "$scratch/places" >>"$scratch/covered"
}

take library "(ahead|arena|container|cursor|env|format|index|io|loader|node|origin|prefetch|util|window)/"
take convert "convert/|tools/"
if [ -x "$top_builddir/tests/faults/tool_calls_test" ]; then
	take tool "tools/"
else
	not_run "places_of_tool_calls_test_are_found" "no libjansson here"
fi
if [ -x "$top_builddir/tests/faults/stage_calls_test" ]; then
	take stage "mpi/(stage|part_file)"
	take job "convert/convert_(job|share|run)|mpi/mpi_convert" only
	take mpi "mpi/(answer_pace|chunk_spread|exchange|rank_shares|mpi_[^c]|peer_|server_)" only
else
	not_run "places_of_stage_calls_test_are_found" "no MPI here"
fi
sort -u "$scratch/all" >"$scratch/names"
# Places that a test reaches only sometimes are compared with nothing.
sed -n '/ # depends/s/ *#.*//p' "$list" >"$scratch/sometimes"
sort -u "$scratch/covered" | comm -23 "$scratch/names" - | grep -Fxvf "$scratch/sometimes" >"$scratch/open"
sed '/ # depends/d; s/ *#.*//; /^$/d' "$list" | sort >"$scratch/listed"
same_as_listed "places_that_no_life_reaches_are_those_of_the_list" "$list" "no life makes it fail" "it fails in a life now"
judge "each_line_of_the_list_says_why" sh -c "! grep -v '^#' $list | grep -qv ' # .'"
echo "# $(wc -l <"$scratch/names") places, $(wc -l <"$scratch/open") of them made to fail by no life"
finish
