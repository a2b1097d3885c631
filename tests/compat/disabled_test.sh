#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that callers get the original's behaviour with LMDBIO_DISABLE=1, too.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cd "$scratch"
for program in habits_test bad_input_test forward_test; do
	test -x "$top_builddir/tests/compat/$program" || skip "$program was not built"
	rc=0
	LMDBIO_DISABLE=1 TMPDIR=$scratch "$top_builddir/tests/compat/$program" > out 2>&1 || rc=$?
	judge "${program}_disabled_passes" test $rc -eq 0
	test $rc -eq 0 || cat out
done
finish
