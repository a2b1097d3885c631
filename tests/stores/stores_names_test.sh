#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# The node's budget holds while another user has the names by which readers find each other, and nearly holds where
# readers cannot find each other at all.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
stores_needs_users
stores_alone "$@"
stores_begin
budget=32 sets=6
for ((i = 0; i < sets; i++)); do
	make_set "set$i" 300 98316
	expected[i]=$(original scan "$scratch/backing/set$i" | seen)
done

# readers NAME WHICH CONFINE MIB MEMORY-FILES: what twelve readers of six sets take at most. Processes that make the
# same memory wait for each other for longer than a busy machine keeps one of them off its processors.
readers() {
	local mib files rc=0

	LD_LIBRARY_PATH=$library LMDBIO_STORE=arena LMDBIO_MEMORY=${budget}M LMDBIO_PATIENCE=20 python3 \
		"$top_srcdir/tests/stores/stores_names.py" "$2" "$3" "$build/stores_reader" "$scratch"/backing/set* \
		>"$scratch/told" 2>"$scratch/log" || rc=$?
	read -r mib files <"$scratch/told"
	equal "$1_ends_well" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/log"
	at_most "$1_mib" "${mib:-none}" "$4"
	at_most "$1_memory_files" "${files:-none}" "$5"
	equal "$1_see_the_same" "$(printf '%s\n' "${expected[@]}" "${expected[@]}")" "$(tail -n +2 "$scratch/told" | seen)"
	nothing_left "$1"
}

# One memory file for each set, and one in which the sets divide the budget. Readers that have finished give nothing
# back, so that each later set adds its share: at worst 1, 1/2 ... 1/6 of the budget. 8 MiB for tables.
most=$((budget * 245 / 100 + 8)) files=$((sets + 1))
for which in none purse sets all gone lists; do
	readers "names_held_$which" $which "" $most $files
done
# Each reader counts the others by itself and takes an even part: at worst 1/2, 1/2, 1/3 ... 1/12.
confine=$build/stores_confine
for call in socket bind; do
	readers "names_refused_by_$call" none "$confine --refuse=$call:EPERM" $((budget * 26 / 10 + 8)) $((2 * sets))
done
finish
