#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Each function of the public headers either has an action in pairs_test that calls it, or is listed in
# tests/races/alone, because no two threads may call it at once. A function that its header allows in any thread has
# an action.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cd "$scratch"
"$top_builddir/tests/races/pairs_test" --functions | tr ' ' '\n' | grep _ | sort > called
grep -v '^#' "$top_srcdir/tests/races/alone" | cut -d ' ' -f 1 | sort > listed

# declared HEADER...: prints "any FUNCTION" or "one FUNCTION", as the comment above each function says.
declared() {
	awk '/\/\*/ { comment = ""; inside = 1 }
		inside { line = $0; sub(/^[ \t]*\*[ \t]?/, "", line); comment = comment " " line }
		/\*\// { inside = 0; next }
		inside || /^typedef/ { next }
		match($0, /lmdbio_[a-z_]+\(/) {
			print (comment ~ /Threads: *any/ ? "any" : "one"), substr($0, RSTART, RLENGTH - 1)
		}' "$@"
}

headers=("$top_srcdir/include/lmdbio.h" "$top_srcdir/include/lmdbio_stage.h")
[ ! -e "$top_builddir/compat/liblmdbio-mpi.la" ] || headers+=("$top_srcdir/include/lmdbio_mpi.h")
declared "${headers[@]}" | sort -u > found
sed -n 's/^any //p' found | sort > any
{
	sed 's/^... //' found
	# shellcheck disable=SC2086 # CC may be several words
	echo '#include <lmdb.h>' | $CC -E - | grep -o '\bmdb_[a-z0-9_]*(' | tr -d '('
} | sort -u > all

# none_of NAME FILE WHY: one case: the file is empty.
none_of() {
	sed "s|.*|# &: $3|" "$2"
	judge "$1" test ! -s "$2"
}

judge headers_are_understood test "$(wc -l < all)" -ge 80
comm -23 any called > missing
none_of functions_that_any_thread_may_call_have_actions missing 'give it an action in tests/races'
sort -u called listed | comm -23 all - > forgotten
none_of other_functions_have_actions_or_reasons forgotten 'give it an action in tests/races, or a reason in tests/races/alone'
comm -12 called listed > twice
none_of functions_with_actions_are_not_listed twice 'take it out of tests/races/alone'
comm -12 any listed > wrong
none_of functions_that_any_thread_may_call_are_not_listed wrong 'its header allows it in any thread'
finish
