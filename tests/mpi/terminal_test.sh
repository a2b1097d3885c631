#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Runs the cases of terminal_test.py: a program under lmdbio-run --mpi and its terminal.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
mpi_require
need python3
cd "$scratch"
script=$top_srcdir/tests/mpi/terminal_test.py

for case in $(python3 "$script"); do
	judge "terminal_$case" timeout -k 5 900 python3 "$script" "$case" "$lmdbio_run"
done
finish
