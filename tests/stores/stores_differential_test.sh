#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Repeats the comparisons with the original under other stores, back ends and budgets.
# shellcheck source-path=SCRIPTDIR source=stores_lib.sh
. "$(dirname "$0")/stores_lib.sh"
tests=$top_builddir/tests/differential
if ! [ -x "$tests/differential" ]; then
	echo "skipped: the comparisons were not built"
	exit 77
fi
stores_begin
export TMPDIR=$scratch
operations=$((times * 20000))
files=$((times * 200))
unset TESTS_LONG # it is the number of operations here, not ten millions of them

# compare NAME COMMAND...: a comparison with the variables in force; its output must contain `banner`, which proves
# that they took effect.
banner=
compare() {
	local name=$1 rc=0

	shift
	LMDBIO_VERBOSE=1 "$@" >"$scratch/log" 2>&1 || rc=$?
	cases=$((cases + 1))
	if [ "$rc" = 0 ] && grep -q "$banner" "$scratch/log" &&
		! grep -q 'default is used' "$scratch/log"; then
		echo "ok $name: $(grep -v -e '^lmdbio: ' -e '^  ' "$scratch/log" | tail -n 1)"
	else
		echo "NOT OK $name: exit $rc, \"$banner\" $(grep -c "$banner" "$scratch/log") times"
		grep -A 4 '^FAILED' "$scratch/log" || true
		grep -v 'original LMDB\|read by lmdbio' "$scratch/log" | tail -n 30
		failures=$((failures + 1))
	fi
}

seed=1
compare_operations() {
	local name=$1

	shift
	seed=$((seed + 1))
	DIFF_OPERATIONS=$operations DIFF_SEED=$seed \
		compare "$name" "$@" "$tests/differential"
}

shown=([0]="page cache" [1]="shared memory of the node")
stores=(cache arena)
for s in 0 1; do
	export LMDBIO_STORE=${stores[s]}
	for memory in auto 4M 1M; do
		export LMDBIO_MEMORY=$memory
		for io in pread direct; do
			# The page cache cannot be filled by direct reads.
			[ "${stores[s]}$io" != cachedirect ] || continue
			banner="${shown[s]}, reads by $io"
			LMDBIO_IO=$io compare_operations "${LMDBIO_STORE}_${io}_${memory}_agrees"
		done
		# Without io_uring the same back end reads by threads.
		[ $s = 0 ] || LMDBIO_IO=direct compare_operations "${LMDBIO_STORE}_direct_by_threads_${memory}_agrees" \
			"$build/stores_confine" --no-ring
	done
	unset LMDBIO_MEMORY
	banner=${shown[s]}
	LMDBIO_PREFETCH=0 compare_operations "${LMDBIO_STORE}_without_prefetch_agrees"
done
export LMDBIO_STORE=arena
LMDBIO_SHARE=0 LMDBIO_MEMORY=1M compare_operations "arena_not_shared_agrees"
DAMAGE_FILES=$files compare "damaged_files_from_an_arena_are_clean" "$tests/damage_test"
LMDBIO_MEMORY=1M compare "live_writers_with_an_arena_agree" "$tests/writers_test"
LMDBIO_IO=direct compare "live_writers_with_an_arena_and_direct_agree" "$tests/writers_test"
finish
