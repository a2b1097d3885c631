#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Compares the same random content in the formats of LMDB 0.9 and 1.0, and reads damaged files of 1.0.
set -eu
build=${top_builddir:-.}
"$build/tests/differential/differential" --later
"$build/tests/differential/damage_test" --later
