#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Says which lines of the library, the drop-in and the commands no test runs.
#
# usage: coverage.sh BUILD [TEST...]
#        coverage.sh BUILD --report
# Builds in BUILD, a tree for this alone, with gcov; runs all tests, or these; reports what all runs since the tree's build
# have reached. tests/coverage/report.py has the groups and what is asked of each.
# Ends with 1 if that is not reached, with 2 without gcov or python3. A process that ends by a signal tells nothing.
set -eu
export LC_ALL=C
top=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
build=$(cd "$1" && pwd)
shift
for program in gcov python3; do
	command -v "$program" > /dev/null || { echo "coverage.sh: $program is not installed"; exit 2; }
done
# Optimized lines are merged and dropped. Without optimization gcc warns about what is right, so warnings are no
# errors. configure compiles its own programs without the header.
flags="-O0 -g --coverage -fprofile-update=prefer-atomic -fprofile-abs-path -include $top/tests/coverage/ends.h"
flags+=" -fno-builtin-fork" # gcov forgets what a child runs before fork() returns

[ -e "$build/Makefile" ] || (cd "$build" && "$top/configure" -q)
if [ "${1:-}" != --report ]; then
	make -C "$build" -j"$(nproc)" -s CFLAGS="$flags" all
	# What fails is told, and is for `make check` to judge.
	make -C "$build" -j"$(nproc)" -k CFLAGS="$flags" check ${1:+TESTS="$*"} > "$build/coverage.out" 2>&1 || true
	# Calls of the C library that fail one by one reach most paths of errors.
	[ -n "${1:-}" ] || make -C "$build" -j"$(nproc)" -k CFLAGS="$flags" check TESTS_LONG=1 TEST_SECONDS=14400 \
		TESTS="tests/faults/tool_calls_test tests/faults/convert_calls_test tests/faults/library_calls_test" \
		>> "$build/coverage.out" 2>&1 || true
	grep -E '^(FAIL|ERROR): ' "$build/coverage.out" || true
fi

python3 "$top/tests/coverage/report.py" "$build" "$top/tests/coverage/excused"
