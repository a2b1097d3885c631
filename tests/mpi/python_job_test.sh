#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the Python module opens a loader with all ranks of a job, and that each rank reads the records that a
# loader of its own would have given.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
mpi_require
python=/usr/bin/python3
"$python" -c 'import lmdb' 2>/dev/null || skip "no python3-lmdb here"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$top_srcdir/python"
export LIBLMDBIO="$dropin" LIBLMDBIO_MPI="$top_builddir/compat/.libs/liblmdbio-mpi.so.0" LMDBIO_STORE=arena LMDBIO_MEMORY=64M
cd "$scratch"

"$python" "$top_srcdir/tests/loader/python_batches.py" make db
for nodes in 1 3; do
	rc=0
	mpi_job 3 $nodes "$python" "$top_srcdir/tests/mpi/python_job.py" db > out 2> err || rc=$?
	judge "module_on_3_ranks_of_${nodes}_nodes_ends_well" test $rc -eq 0
	test $rc -eq 0 || cat err
	# 700 records in batches of 40, two epochs.
	judge "module_on_3_ranks_of_${nodes}_nodes_gives_what_is_each_ones" \
		test "$(grep -c ': 36 batches are the same' out)" -eq 3
	judge "module_on_3_ranks_of_${nodes}_nodes_gives_all" \
		test "$(awk '/^rank/ { sum += $8 } END { print sum }' out)" -eq 1400
	judge "records_on_3_ranks_of_${nodes}_nodes_have_their_length" \
		test "$(grep -c '^records have their length$' out)" -eq 9
	judge "module_on_3_ranks_of_${nodes}_nodes_refuses_together" \
		test "$(grep -c '^refused with 2$' out)" -eq 3
done
judge nodes_keep_records_for_each_other test "$(grep -c ' 700 planned' out)" -eq 3
finish
