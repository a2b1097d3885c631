#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the Python module reads through the loader what py-lmdb reads, on both stores, and that its example
# agrees with py-lmdb.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
python=/usr/bin/python3
"$python" -c 'import lmdb' 2>/dev/null || skip "no python3-lmdb here"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/python"
cd "$scratch"

"$python" "$top_srcdir/tests/loader/python_batches.py" make db
mkdir stage
for store in cache arena; do
	rc=0
	LMDBIO_STORE=$store LIBLMDBIO=$dropin LMDBIO_NODE=$scratch "$python" \
		"$top_srcdir/tests/loader/python_batches.py" check db stage > out 2> err || rc=$?
	judge "module_on_${store}_does_all" test $rc -eq 0
	grep -v '^ok ' out || true
	cat err
	judge "module_on_${store}_has_cases" test "$(grep -c '^ok ' out)" -ge 15
done
judge stage_is_empty test -z "$(ls stage)"
rc=0
"$lmdbio_run" -- "$python" "$top_srcdir/python/examples/loader_epoch.py" --batch=50 db > out 2> err || rc=$?
judge example_agrees_with_py_lmdb test $rc -eq 0
test $rc -eq 0 || cat err
judge example_tells_both_rates test "$(grep -c ' a second' out)" -eq 2
rc=0
LIBLMDBIO='' "$python" -c 'import lmdbio; lmdbio.library()' > out 2> err || rc=$?
judge without_lmdbio_it_says_what_to_do sh -c "test $rc -ne 0 && grep -q 'lmdbio-run' err"
finish
