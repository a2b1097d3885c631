#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Counts the signals that reach a program under lmdbio-run --mpi, lmdbio-run --stats and lmdbio-stage: a signal that
# is sent to the command alone, to its process group, to each process of it, or by the launcher, reaches the program
# once.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
# shellcheck source-path=SCRIPTDIR source=mpi_lib.sh
. "$(dirname "$0")/mpi_lib.sh"
mpi_require
# On a busy machine the witness may get no processor for a while.
export LMDBIO_PATIENCE=4
need python3 setsid pgrep
stage=$top_builddir/tools/lmdbio-stage
cd "$scratch"
mkdir img to
"$top_builddir/tests/stores/stores_make" img 21 20000
confine=$top_builddir/tests/stores/stores_confine
started='' program=''

# Programs with a session of their own outlive a test that is ended: they are killed here.
end_all() {
	for group in $started $program; do
		kill -KILL -- "-$group" 2> /dev/null || true
	done
	started='' program=''
}
trap 'end_all; rm -rf "$scratch"; mpi_sweep' EXIT

# SIGUSR2 asks how often SIGUSR1 has come. Signals that were sent before it are pending before it.
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

# Sends the parent each signal that means a program, the last of them with a value, and then the group a real-time
# signal. Ends with 7 if each has come, with its value, and the last one once.
cat > each.py <<'END'
import ctypes, os, signal, sys

libc = ctypes.CDLL(None)
names = "HUP INT QUIT TERM USR1 USR2 ALRM VTALRM PROF WINCH URG IO PWR ABRT XCPU".split()
numbers = [signal.Signals["SIG" + name] for name in names] + [signal.SIGRTMIN, signal.SIGRTMIN + 5, signal.SIGRTMAX]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
for number in numbers:
    os.kill(os.getppid(), number)
    if not signal.sigtimedwait({number}, 10):
        sys.exit(f"signal {number} has not come")
wanted, info = ctypes.create_string_buffer(128), ctypes.create_string_buffer(128)
libc.sigemptyset(wanted)
libc.sigaddset(wanted, signal.SIGRTMAX)
libc.sigqueue(os.getppid(), signal.SIGRTMAX, ctypes.c_void_p(12345))
libc.sigwaitinfo(wanted, info)
value = int.from_bytes(info.raw[24:32], sys.byteorder)
if value != 12345:
    sys.exit(f"the value is {value}")
os.killpg(0, signal.SIGRTMIN)
signal.sigwait({signal.SIGRTMIN})
sys.exit(8 if signal.sigtimedwait({signal.SIGRTMIN}, 0.5) else 7)
END

# begin COMMAND...: runs it in a process group of its own, $started; sets $program and $parent when the program has
# begun.
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

goes_on() {
	! is_stopped "$1"
}

# has_taken PROCESS: no signal that was sent to it is pending.
has_taken() {
	! grep -q '^S[hi][dg]Pnd:.*[1-9a-f]' "/proc/$1/status"
}

# winches NUMBER: the program has received so many signals.
winches() {
	[ "$(wc -l < had)" -ge "$1" ]
}

is_over() {
	! kill -0 "$started" 2> /dev/null
}

# answered NAME: the program has received SIGUSR1 once, and then all processes end.
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

# once NAME WAIT KILL-ARGUMENT...: sends SIGUSR1 while the command is stopped, so that the kernel does not merge two
# signals into one. WAIT had: the program receives it before the command goes on.
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

# forgets NAME: a signal that only the witness was sent, before the command passes on two other signals, does not
# count for a later one.
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

# continued NAME: the whole group is stopped, and then the command alone continued. The others go on with it.
continued() {
	kill -STOP -- "-$parent"
	for stopped in $(pgrep -g "$parent"); do
		await is_stopped "$stopped" || true
	done
	kill -CONT "$parent"
	for stopped in $(pgrep -g "$parent"); do
		judge "$1_and_goes_on" await goes_on "$stopped"
	done
	once "$1" had -- "-$parent"
}

# try NAME COMMAND...: the command starts the program that follows it.
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
	begin "$@" python3 count.py
	continued "${tried}_leaves_what_the_group_was_sent_after_it_alone_was_continued"
	# The caller ignores SIGCHLD, so that the kernel reports a child's end only if lmdbio asks for that. The program
	# inherits the caller's setting.
	status "${tried}_ends_where_its_caller_ignores_the_end_of_children" 7 \
		timeout -k 5 60 env --ignore-signal=CHLD "$@" python3 -c '
import signal, sys
sys.exit(7 if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else 1)'
	status "${tried}_ends_where_its_caller_blocks_the_end_of_children" 7 \
		timeout -k 5 60 env --block-signal=CHLD "$@" sh -c 'exit 7'
	for number in ABRT XCPU; do
		# shellcheck disable=SC2016
		status "${tried}_passes_on_SIG$number" 7 timeout -k 5 60 "$@" bash -c '
			trap "exit 7" '$number'
			kill -'$number' "$PPID"
			while true; do sleep 0.02; done'
	done
	status "${tried}_passes_on_each_signal_that_means_the_program" 7 timeout -k 5 60 setsid -w "$@" python3 each.py
	# The witness has its pipe and its signal descriptor open, and no pipe whose end a reader waits for.
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

finish
