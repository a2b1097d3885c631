#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a test makes each call of MPI in the sources fail, once and for ever.
#
# The programs that go through the calls (mpi_sites.h) write down which calls have failed; make runs them first.
# sites_open lists the calls that no test makes fail yet. The test fails for a call that is neither listed nor made to
# fail, and for a line that is no longer needed. The list may only become shorter.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cd "$top_srcdir"
need readelf
list=tests/mpi/sites_open

# Prints lines "file:line call function number": the number of the call among those to the same function of MPI in its
# function.
sites_in() {
	awk 'FNR == 1 { inside = 0; name = "" }
		{
			gsub(/__attribute__\(\([^;{]*\)\)/, "")
			gsub(/"([^"\\]|\\.)*"/, "\"\"")
			if (inside && !sub(/^.*\*\//, "")) next
			inside = 0
			gsub(/\/\*([^*]|\*[^\/])*\*\//, "")
			inside = sub(/\/\*.*/, "")
			sub(/\/\/.*/, "")
		}
		/^[A-Za-z_]/ && match($0, /[A-Za-z_0-9]+\(/) {
			if (substr($0, RSTART, RLENGTH) != name) delete times
			name = substr($0, RSTART, RLENGTH)
		}
		{
			for (rest = $0; match(rest, /(^|[^A-Za-z_0-9])P?MPI_[A-Z][A-Za-z_0-9]*\(/);
			     rest = substr(rest, RSTART + RLENGTH)) {
				call = substr(rest, RSTART, RLENGTH - 1)
				gsub(/[^A-Za-z_0-9]/, "", call)
				print FILENAME ":" FNR, call, substr(name, 1, length(name) - 1), ++times[call]
			}
		}' "$@"
}

# shellcheck disable=SC2046
sites_in $(find lib compat tools lab -name '*.c' | sort) >"$scratch/sites"
judge "sites_are_found" test "$(wc -l <"$scratch/sites")" -gt 100

: >"$scratch/failed"
programs=0
for program in "$top_builddir"/tests/mpi/*_test; do
	readelf -SW "$program" 2>/dev/null | grep -q ' mpi_sites ' || continue
	programs=$((programs + 1))
	[ "$program.sites" -nt "$program" ] || "$program" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
	cat "$program.sites" >>"$scratch/failed"
done
[ "$programs" -gt 0 ] || skip "no program of simulated MPI here"

# A call that spans several lines has the number of its last line.
awk 'NR == FNR { failed[$1, $2, $3] = 1; next }
	function judge_last() {
		if (file == "") return
		once = ever = 0
		for (line = at; line == at || line < next_at; line++) {
			once = once || (file ":" line, call, "once") in failed
			ever = ever || (file ":" line, call, "ever") in failed
		}
		if (!once || !ever) print name
	}
	{
		split($1, place, ":")
		next_at = place[1] == file ? place[2] + 0 : at + 8
		judge_last()
		file = place[1]; at = place[2] + 0; call = $2
		short = file; sub(/.*\//, "", short)
		name = short " " $3 " " $2 ($4 > 1 ? " " $4 : "")
	}
	END { next_at = at + 8; judge_last() }' \
	<(sed "s,^[^ ]*/\(lib\|compat\|tools\|lab\)/,\1/," "$scratch/failed" | sort -u) "$scratch/sites" |
	sort >"$scratch/open"
sed 's/ *#.*//; /^$/d' "$list" | sort >"$scratch/listed"
same_as_listed "calls_that_no_test_makes_fail_are_those_of_the_list" "$list" "no test makes it fail" "it fails in a test now"
echo "# $(wc -l <"$scratch/sites") calls of MPI, $(wc -l <"$scratch/open") of them made to fail by no test"
finish
