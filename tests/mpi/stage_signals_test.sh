#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Ends stagings of one process by signals: while they hold a data set, in the middle of a copy from slow storage, and
# right before the program begins.
# MPICH itself uses SIGUSR1 in jobs of several ranks.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
# shellcheck source-path=SCRIPTDIR source=../slowfs/slowfs_lib.sh
. "$top_srcdir/tests/slowfs/slowfs_lib.sh"
mpi_require
slowfs_require
need setsid pgrep
stage=$top_builddir/tools/lmdbio-stage
started=''
trap 'cd /; [ -z "$started" ] || kill -KILL "$started"; slowfs_abandon; rm -rf "$scratch"; mpi_sweep' EXIT
cd "$scratch"
mkdir slow slow/large slow/small copies
"$top_builddir/tests/stores/stores_make" slow/large 500 196620
"$top_builddir/tests/stores/stores_make" slow/small 50 196620
slowfs_start "$scratch/slow" "$scratch/mount" -o latency=0,bandwidth=10

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
	"$stage" --hold slow/large > out 2>&1 &
	started=$!
	ends "holding_ends_by_SIG$number" "$number" 0 grep -qs staged out
	slowfs_drop
	"$stage" --buffer=64k --to=copies mount/large > out 2>&1 &
	started=$!
	ends "copying_ends_by_SIG$number" "$number" $((128 + $(kill -l "$number"))) has_begun
	judge "copying_that_SIG${number}_ends_leaves_no_file" test -z "$(find copies -type f)"
	rm -rf copies/*
done

# is_waiting: the process that becomes the program is forked, and waits for the data. Sets $program.
is_waiting() {
	pgrep -P "$started" lmdbio-witness > /dev/null && program=$(pgrep -P "$started" -x lmdbio-stage)
}

# passes_on: lmdbio-stage has let its program begin, and catches SIGCHLD.
passes_on() {
	[ $((0x$(sed -n 's/^SigCgt:.//p' "/proc/$started/status") & 0x10000)) != 0 ]
}

has_pending() {
	grep -q '^S[hi][dg]Pnd:.*[1-9a-f]' "/proc/$1/status"
}

# begins NAME GROUP: lmdbio-stage (GROUP is empty) or its group (GROUP is -) is sent SIGTERM when the data is staged, and
# the process that becomes the program is stopped in front of its exec. The signal ends the program.
begins() {
	slowfs_drop
	setsid "$stage" --quiet --to=copies mount/small -- true &
	started=$!
	await is_waiting || true
	kill -STOP "$program"
	await passes_on || true
	kill -TERM -- "$2$started"
	await has_pending "$program" || true
	kill -CONT "$program"
	rc=0
	wait "$started" || rc=$?
	started=''
	judge "$1" test "$rc" -eq 143
	rm -rf copies/*
}

begins program_that_begins_gets_what_lmdbio_stage_was_sent ''
begins program_that_begins_gets_what_its_group_was_sent -
slowfs_stop
finish
