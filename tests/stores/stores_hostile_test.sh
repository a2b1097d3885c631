#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Another user plants memory that looks like the readers' shared memory, with falsified values: whole, truncated,
# truncated again while it is mapped, under the names that lead to it, or passed to a process of the readers' user.
# That user also takes the name of the node's server, and gives false answers there, or none. Readers see the right
# bytes, send that user nothing and keep their budget.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
stores_needs_users
stores_alone "$@"
stores_begin
budget=16
make_set img 90 98316
whole=$(original scan "$scratch/backing/img" | seen)
chmod 711 "$scratch"
cp "$top_srcdir/tests/stores/stores_hostile.py" "$scratch"
chmod 644 "$scratch/stores_hostile.py"

# plants NAME WHOSE SERVER
plants() {
	rc=0
	LD_LIBRARY_PATH=$library LMDBIO_STORE=arena LMDBIO_MEMORY=${budget}M python3 "$scratch/stores_hostile.py" \
		"$2" "$3" "$build/stores_reader" "$scratch/backing/img" "$top_builddir/tools/lmdbio-top" --batch --looks=1 \
		>"$scratch/told" 2>"$scratch/log" || rc=$?
	equal "$1_ends_well" 0 "$rc"
	[ "$rc" = 0 ] || cat "$scratch/log"
	read -r mib messages changed top <"$scratch/told"
}

for server in none silent liar; do
	plants "planted_by_another_user_and_${server}" other $server
	equal "planted_with_${server}_readers_see_the_same" "$(printf '%s\n' "$whole" "$whole" "$whole" "$whole")" \
		"$(tail -n +2 "$scratch/told" | seen)"
	equal "planted_with_${server}_messages_to_its_server" 0 "$messages"
	equal "planted_with_${server}_copies_changed" 0 "$changed"
	equal "planted_with_${server}_top_ends_well" 0 "$top"
	at_most "planted_with_${server}_mib" "$mib" $((budget + 8))
	nothing_left "planted_with_$server"
done
# Memory of the same user is trusted: that readers see the falsified values proves that the copies are well made.
plants planted_by_this_user own none
judge copies_of_this_user_are_believed test "$(tail -n +2 "$scratch/told" | seen | sort -u)" != "$whole"
finish
