#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Kills and stops a process of the arena before each change of the shared memory, and proves that the list of these
# changes is complete: at each atomic store and each system call of the sources a process ends here, or steps_open
# lists it with its reason.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cd "$scratch"
export LMDBIO_NODE=steps-$$
list=$top_srcdir/tests/arena/steps_open
program=$top_builddir/tests/arena/arena_steps

# Prints the lines "file function call" that steps_open has under a heading.
listed() {
	awk -v head="[$1]" '/^\[/ { on = $0 == head; next } on { sub(/ *#.*/, ""); if ($0) print }' "$list"
}

# Stops a process at every N-th change of a life; N shares no factor with the number of changes.
if [ -n "${TESTS_LONG:-}" ]; then
	status "survivors_when_one_is_killed_at_a_change_then_go_on" 0 "$program" kill 1
	cat out
	status "survivors_when_one_is_stopped_at_a_change_then_go_on" 0 "$program" stop 41
	cat out
	status "survivors_when_one_is_stopped_at_a_place_then_go_on" 0 "$program" stop 0
	cat out
else
	status "survivors_when_one_is_stopped_at_a_change_then_go_on" 0 "$program" stop 997
	cat out
fi
case ${with_sanitizer:-no} in
no | '') ;;
*) # a sanitizer makes starting a process expensive
	status "survivors_when_one_is_killed_at_a_change_then_go_on" 0 "$program" kill 197
	cat out
	finish
	;;
esac
status "survivors_when_one_is_killed_at_a_place_then_go_on" 0 "$program" kill 0 "$scratch/places"
cat out

# A place has a number if its function has several of its kind. A place in a header occurs in many objects.
sed 's,^[^ ]*/,,' "$scratch/places" | sort -k1,3 -k4,4n | awk '{
		kind = $1 " " $2 " " $3
		if (kind != last) number = at = 0
		if ($4 != at) number++
		last = kind; at = $4
		place = kind (number > 1 ? " " number : "")
		all[place]
		if ($5 == "ended") ended[place]
	}
	END {
		for (place in all) if (!(place in ended)) print place; else n++
		printf "-- of %d places in the source a process ends at %d\n", length(all), n >"/dev/stderr"
	}' | sort >"$scratch/open"
listed places | sort >"$scratch/listed"
same_as_listed "places_where_no_process_ends_are_those_of_the_list" "$list" "no process ends there" "a process ends there now"

# Calls that change shared memory without being a place: each function that the objects call must be a place, or
# listed.
need nm
nm "$top_builddir/tests/arena/libarena-steps.a" 2>/dev/null | awk '$1 == "U" { used[$2] } $2 == "T" { own[$3] }
	END { for (name in used) if (!(name in own)) print name }' |
	sed 's/64$//; s/^__\(.*\)_chk$/\1/; s/^__isoc[0-9]*_//' | sort -u >"$scratch/calls"
{
	sed -n 's/^#define \([a-z_0-9]*\)(.*/\1/p' "$top_srcdir"/tests/arena/arena_sites.h
	listed calls
} | sort -u >"$scratch/known"
comm -23 "$scratch/calls" "$scratch/known" >"$scratch/unknown"
sed "s,^,# ,; s,\$,: make it a place in tests/arena/arena_sites.h\, or tell in $list why it is none," "$scratch/unknown"
judge "calls_of_the_arena_are_places_or_change_nothing" test ! -s "$scratch/unknown"
# Other ways to store, which would bypass the header.
grep -nE '__atomic_|__sync_|atomic_init|atomic_flag|asm' "$top_srcdir"/lib/arena/*.c >"$scratch/by" || true
cat "$scratch/by"
judge "stores_go_through_the_macros_alone" test ! -s "$scratch/by"
finish
