#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that the comparisons themselves notice errors: faulty libraries, and a reader whose snapshot is not held. A
# test that cannot fail proves nothing.
set -eu
build=${top_builddir:-.}
"$build/tests/differential/differential" --self-test
"$build/tests/differential/writers_test" --self-test
