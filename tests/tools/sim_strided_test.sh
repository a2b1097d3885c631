#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that real processes, which read as the jobs of LMDBIO's papers do, send slowfs as many requests and bytes as
# lmdbio-sim predicts, within 15 %. Readers that share a node's page cache take turns as the scheduler lets them:
# those cases are for the long form, on an otherwise idle machine.
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
