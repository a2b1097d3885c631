#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Reports the lines of the library, the drop-in and the commands that no test runs.
#
# usage: coverage.sh BUILD [TEST...]
#        coverage.sh BUILD --report
# Builds in BUILD, a tree used only for this, with gcov; runs all tests, or the named ones; reports the lines reached
# by all runs since the tree was built. tests/coverage/report.py has the groups and the share that each must reach.
# Ends with 1 if a group does not reach it, with 2 without gcov or python3. A process that ends by a signal reports
# nothing.
set -eu
export LC_ALL=C
top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
shift
for program in gcov python3; do
	command -v "$program" > /dev/null || { echo "coverage.sh: $program is not installed"; exit 2; }
done
# Optimization merges and drops lines. Without optimization gcc warns about correct code, so warnings are no errors.
# configure compiles its own programs without the header.
flags="-O0 -g --coverage -fprofile-update=prefer-atomic -fprofile-abs-path -include $top/tests/coverage/ends.h"
flags+=" -fno-builtin-fork" # with the built-in fork() gcov forgets what a child runs before fork() returns

[ -e "$build/Makefile" ] || (cd "$build" && "$top/configure" -q)
if [ "${1:-}" != --report ]; then
	make -C "$build" -j"$(nproc)" -s CFLAGS="$flags" all
	# Failures are printed, and are for `make check` to judge.
	make -C "$build" -j"$(nproc)" -k CFLAGS="$flags" check ${1:+TESTS="$*"} > "$build/coverage.out" 2>&1 || true
	# Calls of the C library that are made to fail one by one reach most error paths.
	[ -n "${1:-}" ] || make -C "$build" -j"$(nproc)" -k CFLAGS="$flags" check TESTS_LONG=1 TEST_SECONDS=14400 \
		TESTS="tests/faults/tool_calls_test tests/faults/convert_calls_test tests/faults/library_calls_test" \
		>> "$build/coverage.out" 2>&1 || true
	grep -E '^(FAIL|ERROR): ' "$build/coverage.out" || true
fi

python3 "$top/tests/coverage/report.py" "$build" "$top/tests/coverage/excused"
