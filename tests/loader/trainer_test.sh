#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the example trainer learns, and learns the same on any number of ranks.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=../mpi/mpi_lib.sh
. "$top_srcdir/tests/mpi/mpi_lib.sh"
MPI_LEAKS=:detect_leaks=0 # see stage_call_test.sh
trainer=$top_builddir/contrib/trainer/softmax_train
cd "$scratch"

sh "$top_srcdir/contrib/trainer/fragments.sh" "$top_builddir/contrib/trainer/fragments_make" 250 train test
"$top_builddir/tools/lmdbio-dump" train > dump
fragments=$(grep -c '^ 3[0-9]3[0-9]2f' dump) || true
[ "$fragments" -ge 600 ] || skip "there are too few files here to learn from: $fragments fragments"

# shellcheck disable=SC2317
# A training that takes longer than five minutes is a failure.
alone() {
	timeout -k 5 300 "$@"
}
# curve NAME COMMAND...: writes down the learning curve of a short training. (judge calls curve and above.)
# shellcheck disable=SC2317
curve() {
	curve_name=$1
	shift
	rc=0
	"$@" -e 3 -b 50 train test > "$curve_name" 2> err || rc=$?
	test "$rc" -eq 0 || cat err
	return "$rc"
}
# figure CURVE EPOCH COLUMN
figure() {
	awk -v epoch="$2" -v n="$3" '$1 == epoch { print $n + 0 }' "$1"
}
# shellcheck disable=SC2317
above() {
	awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'
}

# --- it learns ---
judge training_ends_well curve one alone "$trainer"
judge curve_has_a_line_for_each_epoch test "$(wc -l < one)" -eq 4
judge training_loss_falls above "$(figure one 0 2)" "$(figure one 2 2)"
judge test_loss_falls above "$(figure one 0 4)" "$(figure one 2 4)"
judge most_of_the_test_is_right_in_the_end above "$(figure one 2 5)" 70
judge verdict_is_told grep -q '^I/O is .*your bottleneck: waited .*; bytes from memory ' err
judge training_in_sorted_order_ends_well curve sorted alone "$trainer" -o sequential
judge shuffling_is_better_than_sorted_order above "$(figure one 2 5)" "$(figure sorted 2 5)"
judge other_seed_ends_well curve seeded alone "$trainer" -s 2
judge other_seed_is_another_curve sh -c '! cmp -s one seeded'

# --- it learns the same, from any store and with any number of ranks ---
judge training_again_ends_well curve again alone "$trainer"
same curve_when_run_again_is_the_same one again
judge training_from_the_arena_ends_well curve arena alone env LMDBIO_STORE=arena LMDBIO_MEMORY=4M "$trainer"
same curve_from_the_arena_is_the_same one arena
if [ -x "$trainer"_mpi ] && command -v mpiexec > /dev/null; then
	for ranks in 1 2 4; do
		judge "training_on_${ranks}_ranks_ends_well" curve "ranks$ranks" mpi_job $ranks $ranks \
			env LMDBIO_STORE=arena LMDBIO_VERBOSE=1 "$trainer"_mpi
		same "curve_on_${ranks}_ranks_is_the_same" one "ranks$ranks"
		[ $ranks = 1 ] ||
			judge "${ranks}_nodes_keep_records_for_each_other" grep -q "train: $ranks nodes keep" err
	done
else
	not_run curve_on_2_ranks_is_the_same "no MPI here"
fi

# --- wrong arguments ---
status training_on_nothing_fails 1 "$trainer" nosuch test
says training_on_nothing_is_told 'nosuch'
status usage_without_data_fails 2 "$trainer" train
says usage_is_told 'usage: softmax_train'
finish
