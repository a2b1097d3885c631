#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Searches all orders of steps in the models of the memory that processes of a node share, with kills, with spin; and
# checks that it finds each fault that can be put into a model. One of the long tests.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
[ -n "${TESTS_LONG:-}" ] || skip "one of the long tests: TESTS_LONG=1"
read -ra compile <<<"${CC:-gcc}"
need spin "${compile[0]}"
cd "$scratch"

# errors_of MODEL FLAG...: prints the errors that a search of all states finds: 0, 1, or nothing if it did not end.
errors_of() {
	local model=$1

	shift
	rm -f pan*
	spin -a "$@" "$top_srcdir/tests/model/$model.pml" >spin.out 2>&1 || { cat spin.out >&2; return; }
	"${compile[@]}" -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=3000 -o pan pan.c >gcc.out 2>&1 || { cat gcc.out >&2; return; }
	./pan -m200000 >pan.out
	# A search that was cut short says so.
	grep -qE 'max search depth too small|out of memory' pan.out && { cat pan.out >&2; return; }
	awk '/states, stored/ { print "# " name ": " $1 " states" }' name="$model $*" pan.out >&2
	awk '/errors:/ { print $NF }' pan.out
}

# holds NAME MODEL FLAG...
holds() {
	local name=$1 errors

	shift
	errors=$(errors_of "$@")
	judge "$name" test "$errors" = 0
}

# finds NAME MODEL FAULT...
finds() {
	local name=$1 model=$2 fault errors

	shift 2
	for fault; do
		# shellcheck disable=SC2086 # flags
		errors=$(errors_of "$model" -DFAULT=$fault)
		judge "${name}_when_fault_${fault%% *}_is_put_in_then_found" test "$errors" = 1
	done
}

holds chunk_when_three_processes_read_evict_and_die_then_right chunk
holds chunk_when_one_keeps_it_then_right chunk -DKEEPS=1
finds chunk chunk 1 2 3 4 5 '6 -DKEEPS=1' 7
holds rendezvous_when_three_processes_come_and_die_then_one_arena rendezvous
finds rendezvous rendezvous 1 2 3 4 5
finish
