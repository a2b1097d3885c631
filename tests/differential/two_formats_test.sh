#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Compares the same random content in the formats of LMDB 0.9 and 1.0, and reads damaged files of 1.0, with
# checksums of their pages and without.
set -eu
build=${top_builddir:-.}
files=500
[ "${with_sanitizer:-no}" = no ] || files=200
[ -z "${TESTS_LONG:-}" ] || files=10000
"$build/tests/differential/differential" --later
"$build/tests/differential/damage_test" --later --files=$files
"$build/tests/differential/damage_test" --sums --files=$((files / 5))
