#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Counts the signals that reach a program under lmdbio-run --mpi, lmdbio-run --stats and lmdbio-stage: one
# that is sent to the command alone, to its process group, to each process of it, or by the launcher, comes once.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
mpi_require
need python3 setsid pgrep
stage=$top_builddir/tools/lmdbio-stage
cd "$scratch"
mkdir img to
"$top_builddir/tests/stores/stores_make" img 21 20000
confine=$top_builddir/tests/stores/stores_confine
started='' program=''

# Programs that have a session of their own outlive a test that is ended.
end_all() {
	for group in $started $program; do
		kill -KILL -- "-$group" 2> /dev/null || true
	done
	started='' program=''
}
trap 'end_all; rm -rf "$scratch"; mpi_sweep' EXIT

# SIGUSR2 asks how often SIGUSR1 has come. Whatever else has been sent by then is there before it.
cat > count.py <<'END'
import os, signal

numbers = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
with open("ready.new", "w") as ready:
    print(os.getpid(), os.getppid(), file=ready)
os.rename("ready.new", "ready")
had = 0
while (number := signal.sigwait(numbers)) != signal.SIGUSR2:
    had += number == signal.SIGUSR1
    with open("had", "a") as told:
        print(signal.Signals(number).name, file=told)
with open("answer", "w") as answer:
    print(had, file=answer)
END

# begin COMMAND...: in a group of its own; $program and $parent are set, and what was started is $started.
begin() {
	rm -f ready answer
	: > had
	setsid "$@" > out 2>&1 &
	started=$!
	if await test -s ready; then
		read -r program parent < ready
	else
		cat out
		echo "it does not begin: $*"
		exit 1
	fi
}

is_stopped() {
	grep -q '^State:.T' "/proc/$1/status"
}

# has_taken PROCESS: nothing that it was sent is pending.
has_taken() {
	! grep -q '^S[hi][dg]Pnd:.*[1-9a-f]' "/proc/$1/status"
}

# winches NUMBER: so many signals have come.
winches() {
	[ "$(wc -l < had)" -ge "$1" ]
}

is_over() {
	! kill -0 "$started" 2> /dev/null
}

# answered NAME: the program has had one SIGUSR1, and then all end.
answered() {
	kill -USR2 "$parent"
	if await is_over; then
		wait "$started" || true
	else
		echo "$1: it does not end"
	fi
	judge "$1" test "$(cat answer)" = 1
	end_all
}

# once NAME WAIT KILL-ARGUMENT...: while the command is stopped, so that the kernel does not make one signal of two.
# WAIT had: the program has it before the command goes on.
once() {
	name=$1 before=$2
	shift 2
	kill -STOP "$parent"
	await is_stopped "$parent" || true
	kill -USR1 "$@"
	[ "$before" = later ] || await test -s had || true
	kill -CONT "$parent"
	await test -s had || true
	answered "$name"
}

# forgets NAME: what the witness alone was sent, before the command passes on two other signals, does not count for
# a later one.
forgets() {
	witness=$(pgrep -P "$parent" lmdbio-witness)
	kill -USR1 "$witness"
	await has_taken "$witness" || true
	for times in 1 2; do
		kill -WINCH "$parent"
		await winches $times || true
	done
	kill -USR1 "$parent"
	await grep -q SIGUSR1 had || true
	answered "$1"
}

# try NAME COMMAND...: which starts the program that follows.
try() {
	tried=$1
	shift
	begin "$@" python3 count.py
	once "${tried}_passes_on_what_it_alone_was_sent" later "$parent"
	begin "$@" python3 count.py
	once "${tried}_leaves_what_the_group_was_sent" had -- "-$parent"
	begin "$@" python3 count.py
	once "${tried}_leaves_what_each_process_was_sent" had \
		"$(pgrep -P "$parent" lmdbio-witness)" "$program" "$parent"
	begin "$@" setsid python3 count.py
	once "${tried}_passes_on_what_a_group_was_sent_that_the_program_has_left" later -- "-$parent"
	begin "$@" python3 count.py
	forgets "${tried}_passes_on_what_the_witness_was_sent_before"
	# Where the kernel does not tell of a child's end unless it is asked to. The program has it so again.
	status "${tried}_ends_where_its_caller_ignores_the_end_of_children" 7 \
		timeout -k 5 60 env --ignore-signal=CHLD "$@" python3 -c '
import signal, sys
sys.exit(7 if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else 1)'
	status "${tried}_ends_where_its_caller_blocks_the_end_of_children" 7 \
		timeout -k 5 60 env --block-signal=CHLD "$@" sh -c 'exit 7'
	# The witness has its pipe and its signals open, and nothing that a reader waits for the end of.
	# shellcheck disable=SC2016
	status "${tried}_begins_where_close_range_is_refused" 7 \
		timeout -k 5 60 "$confine" --refuse=close_range:ENOSYS "$@" sh -c '
			witness=$(pgrep -P "$PPID" lmdbio-witness)
			until [ "$(ls "/proc/$witness/fd" | wc -l)" = 2 ]; do sleep 0.02; done
			exit 7'
}

try run_with_mpi "$lmdbio_run" --mpi --
try run_with_stats "$lmdbio_run" --stats="$scratch/counted" --
try stage "$stage" --quiet --to=to img --
begin mpiexec -n 1 "$lmdbio_run" --mpi -- python3 count.py
once launcher_reaches_the_program_of_run_once had "$started"
begin mpiexec -n 1 "$stage" --quiet --to=to img -- python3 count.py
once launcher_reaches_the_program_of_stage_once had "$started"

# MPICH has a use of its own for SIGUSR1 in jobs of several ranks.
# of_one NAME SIGNAL STATUS WAIT...: ends the staging that runs as $started, once WAIT says so.
of_one() {
	name=$1 number=$2 expected=$3
	shift 3
	await "$@" || true
	kill "-$number" "$started"
	rc=0
	await is_over || kill -KILL "$started"
	wait "$started" || rc=$?
	started=''
	judge "$name" test "$rc" -eq "$expected"
}
has_begun() {
	[ -n "$(ls -A copies)" ]
}
whole_or_nothing() {
	[ -z "$(find copies -type f)" ] || cmp large/data.mdb copies/*/data.mdb
}
mkdir large copies
"$top_builddir/tests/stores/stores_make" large 500 196620
for number in USR1 USR2 TERM; do
	"$stage" --hold img > out 2>&1 &
	started=$!
	of_one "staging_of_one_that_holds_ends_by_SIG$number" $number 0 grep -q staged out
	"$stage" --buffer=64k --to=copies large > out 2>&1 &
	started=$!
	of_one "staging_of_one_that_copies_ends_by_SIG$number" "$number" $((128 + $(kill -l "$number"))) has_begun
	judge "staging_of_one_that_SIG${number}_ends_leaves_all_or_nothing" whole_or_nothing
	rm -rf copies/*
done
finish
