#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that real processes, which read as the jobs of LMDBIO's papers do, ask slowfs for as many requests
# and bytes as lmdbio-sim says, within 15 %. Readers that share a node's page cache take turns as the
# processors let them: those are for the long form, on a machine that does nothing else.
set -eu
top_srcdir=${top_srcdir:-$(dirname "$0")/../..}
export MOST=15
one() {
	echo "$*"
	env "$@"
}
one RUN=64 RECORDS=4096 WAYS="lmdb dio" bash "$top_srcdir/bench/bench_papers.sh" 1x1
one RUN=64 RECORDS=4096 WAYS="lmm dm prov coal" bash "$top_srcdir/bench/bench_papers.sh" 4x2
[ -z "${TESTS_LONG:-}" ] || one RUN=64 bash "$top_srcdir/bench/bench_papers.sh"
