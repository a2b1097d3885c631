#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a Python loader which announces its batches through ctypes reads what plain py-lmdb reads, that its
# hints reach lmdbio, and that they do nothing where they cannot be given.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
python=/usr/bin/python3
"$python" -c 'import lmdb' 2>/dev/null || skip "no python3-lmdb here"
export top_srcdir PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/python"
reader=$top_srcdir/tests/compat/hints_read.py
example=$top_srcdir/python/examples/hinted_epoch.py
cd "$scratch"

# number NAME FILE: the largest number of that name in the statistics' lines.
number() {
	grep '"schema": "lmdbio-stats/1"' "$2" | sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" | sort -n | tail -n 1
}

"$python" "$reader" make db
"$python" "$reader" plain db > out.plain
judge plain_reads_all_batches test "$(grep -c '^batch ' out.plain)" -eq 31

# --- the same records, and the hints counted ---
for store in arena cache; do
	rc=0
	LMDBIO_STORE=$store LMDBIO_STATS=json LMDBIO_NODE=$scratch "$lmdbio_run" --verbose -- \
		"$python" "$reader" hints db > out.$store 2> err.$store || rc=$?
	judge "hints_on_${store}_end_well" test $rc -eq 0
	test $rc -eq 0 || cat err.$store
	same "hints_on_${store}_read_the_same" out.plain out.$store
	judge "hints_on_${store}_are_usable" grep -qx 'why not: None' err.$store
	judge "hints_on_${store}_are_read_by_lmdbio" grep -q 'db: read by lmdbio' err.$store
done
judge arena_is_the_store grep -q 'shared memory of the node' err.arena
ahead=$(number prefetch_requests err.arena)
judge hints_on_arena_are_counted test "${ahead:-0}" -gt 30
told=$(sed -n 's/^ahead: //p' err.arena)
judge statistics_call_agrees_with_the_exit test "${told:-0}" -gt 30 -a "${told:-0}" -le "${ahead:-0}"
LMDBIO_STORE=arena LMDBIO_STATS=json "$lmdbio_run" -- "$python" "$reader" plain db > out 2> err.without
without=$(number prefetch_requests err.without)
judge without_hints_fewer_requests_are_ahead test "${without:-0}" -lt "${ahead:-0}"

# --- where hints do nothing ---
"$python" "$reader" hints db > out 2> err
same hints_without_lmdbio_read_the_same out.plain out
judge hints_without_lmdbio_say_why grep -q 'why not: .*does not run on lmdbio' err
"$lmdbio_run" --disable -- "$python" "$reader" hints db > out 2> err
same hints_disabled_read_the_same out.plain out
LMDBIO_PREFETCH=0 LMDBIO_STORE=arena "$lmdbio_run" -- "$python" "$reader" hints db > out 2> err
same hints_without_prefetch_read_the_same out.plain out
judge hints_without_prefetch_ask_nothing grep -qx 'ahead: 0' err
LD_LIBRARY_PATH=$(dirname "$dropin") "$python" "$reader" hints db > out 2> err
same hints_by_library_path_read_the_same out.plain out
judge hints_by_library_path_are_usable grep -qx 'why not: None' err

mkdir db/other
cat > expected << 'END'
usable
writing: the environment is open for writing
ended refused
other refused
dbi refused
dbi='a': must be a whole number
name: 'a' must be bytes
first: 5 must be bytes
last: 'a' must be bytes
END
"$lmdbio_run" -- "$python" "$reader" refused db > out
same wrong_handles_are_refused expected out

# --- the example's own program ---
LMDBIO_STORE=arena "$lmdbio_run" -- "$python" "$example" --batch=100 db > out 2> err
judge example_prints_both_rates test "$(grep -c 'records/s' out)" -eq 2
judge example_counts_requests_ahead grep -q '^with hints: .* [1-9][0-9]* requests ahead' out
judge example_says_nothing_else test ! -s err
"$python" "$example" db/data.mdb > out 2> err
judge example_without_lmdbio_says_why grep -q 'no hints were given: .*lmdbio-run' err
judge example_without_lmdbio_prints_both_rates test "$(grep -c 'records/s' out)" -eq 2
finish
