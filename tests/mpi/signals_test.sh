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
mkfifo ready

# SIGUSR2 asks how often SIGUSR1 has come. Whatever else has been sent by then is there before it.
cat > count.py <<'END'
import os, signal

numbers = {signal.SIGUSR1, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
with open("ready", "w") as ready:
    print(os.getpid(), os.getppid(), file=ready)
had = 0
while signal.sigwait(numbers) == signal.SIGUSR1:
    had += 1
    with open("had", "a") as told:
        print("had", file=told)
with open("answer", "w") as answer:
    print(had, file=answer)
END

# begin COMMAND...: in a group of its own; $program and $parent are set, and what was started is $started.
begin() {
	rm -f had answer
	setsid "$@" > out 2>&1 &
	started=$!
	read -r program parent < ready
}

# once NAME WAIT KILL-ARGUMENT...: while the command is stopped, so that the kernel does not make one signal of two.
# WAIT had: the program has it before the command goes on.
once() {
	name=$1 before=$2
	shift 2
	kill -STOP "$parent"
	until grep -q '^State:.T' "/proc/$parent/status"; do sleep 0.02; done
	kill -USR1 "$@"
	until [ "$before" = later ] || [ -s had ]; do sleep 0.02; done
	kill -CONT "$parent"
	until [ -s had ]; do sleep 0.02; done
	kill -USR2 "$parent"
	wait "$started" || true
	judge "$name" test "$(cat answer)" = 1
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
}

try run_with_mpi "$lmdbio_run" --mpi --
try run_with_stats "$lmdbio_run" --stats="$scratch/counted" --
try stage "$stage" --quiet --to=to img --
begin mpiexec -n 1 "$lmdbio_run" --mpi -- python3 count.py
once launcher_reaches_the_program_of_run_once had "$started"
begin mpiexec -n 1 "$stage" --quiet --to=to img -- python3 count.py
once launcher_reaches_the_program_of_stage_once had "$started"
finish
