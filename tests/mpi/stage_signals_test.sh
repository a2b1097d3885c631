#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Ends stagings of one process by signals: while they hold a data set, and in the middle of a copy from slow storage.
# MPICH itself uses SIGUSR1 in jobs of several ranks.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
mpi_require
slowfs_require
stage=$top_builddir/tools/lmdbio-stage
started=''
trap 'cd /; [ -z "$started" ] || kill -KILL "$started"; slowfs_abandon; rm -rf "$scratch"; mpi_sweep' EXIT
cd "$scratch"
mkdir large copies
"$top_builddir/tests/stores/stores_make" large 500 196620
slowfs_start "$scratch/large" "$scratch/mount" -o latency=0,bandwidth=10

# ends NAME SIGNAL STATUS WAIT...: ends the staging $started, once WAIT succeeds.
ends() {
	name=$1 number=$2 expected=$3
	shift 3
	rc=0
	await "$@" || true
	kill "-$number" "$started"
	wait "$started" || rc=$?
	started=''
	judge "$name" test "$rc" -eq "$expected"
}

has_begun() {
	[ -n "$(ls -A copies)" ]
}

for number in USR1 USR2 TERM; do
	"$stage" --hold large > out 2>&1 &
	started=$!
	ends "holding_ends_by_SIG$number" "$number" 0 grep -qs staged out
	slowfs_drop
	"$stage" --buffer=64k --to=copies mount > out 2>&1 &
	started=$!
	ends "copying_ends_by_SIG$number" "$number" $((128 + $(kill -l "$number"))) has_begun
	judge "copying_that_SIG${number}_ends_leaves_no_file" test -z "$(find copies -type f)"
	rm -rf copies/*
done
slowfs_stop
finish
