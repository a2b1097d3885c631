# SPDX-License-Identifier: OLDAP-2.8
"""Checks the terminal of a program under lmdbio-run --mpi: streams, keys, job control and hanging up.
Usage: terminal_test.py CASE LMDBIO-RUN. Exits with 0 if the program has the terminal as without lmdbio-run."""

import contextlib
import ctypes
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

SECONDS = 300  # a longer wait is a hang

LOOK = """
import fcntl, os, struct, termios
size = struct.unpack("4H", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))[:2]
print(f"terminal {[os.isatty(n) for n in range(3)]} {os.ttyname(0) == os.ttyname(1)} {size}", flush=True)
print(f"said {input('say: ')}", flush=True)
"""

# A thread takes the signals: a handler that prints may interrupt print() itself, which Python refuses.
COUNT = """
import os, signal, sys, threading

NUMBERS = {signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGUSR1}

def take():
    while True:
        info = signal.sigwaitinfo(NUMBERS)
        sender = "kernel" if info.si_code > 0 else "process"
        os.write(1, f"had {info.si_signo:d} of the {sender}\\n".encode())

signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
threading.Thread(target=take, daemon=True).start()
os.write(1, b"ready\\n")
for line in sys.stdin:
    if line.strip() == "end":
        os._exit(10)
    os.write(1, f"line {line.strip()}\\n".encode())
"""

WAIT = """
import os, time
print(f"program {os.getpid()} ready", flush=True)
while True:
    time.sleep(60)
"""


class Terminal:
    """A terminal, and a command whose controlling terminal it is."""

    def __init__(self, command, shell=None):
        self.said = b""
        self.process, self.master = pty.fork()
        if not self.process:
            if shell:
                os._exit(shell(command))
            os.execvp(command[0], command)

    def type(self, text):
        os.write(self.master, text.encode())

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def until(self, pattern):
        """Waits until the output matches a pattern, and drops the output up to the match's end."""
        end = time.monotonic() + SECONDS
        while not (found := re.search(pattern.encode(), self.said)):
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.said!r}")
            try:
                self.said += os.read(self.master, 4096)
            except OSError:  # no process has the terminal open any more
                raise AssertionError(f"no {pattern!r} at the end of {self.said!r}") from None
        self.said = self.said[found.end():]
        return found

    def status(self):
        """Returns the command's status, as a shell reports it. Reads the command's further output meanwhile."""
        while True:
            try:
                if not os.read(self.master, 4096):
                    break
            except OSError:
                break
        status = os.waitpid(self.process, 0)[1]
        if os.WIFSIGNALED(status):
            return 128 + os.WTERMSIG(status)
        return os.WEXITSTATUS(status)


def equal(expected, found):
    if expected != found:
        raise AssertionError(f"{found!r}, not {expected!r}")


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it never becomes so")
        time.sleep(0.005)


def gone(process):
    wait_until(lambda: not os.path.exists(f"/proc/{process}"))


def program(lmdbio_run, text, launcher=()):
    return [*launcher, lmdbio_run, "--mpi", "--", sys.executable, "-c", text]


def streams(lmdbio_run):
    terminal = Terminal(program(lmdbio_run, "import os; os.read(0, 2)\n" + LOOK))
    terminal.size(33, 77)
    terminal.type("\n")
    terminal.until(r"terminal \[True, True, True\] True \(33, 77\)")
    terminal.until("say: ")
    terminal.type("hello\n")
    terminal.until("said hello")
    equal(0, terminal.status())


def pending(process, number):
    """Returns whether a signal is pending for a process."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def state(process):
    with open(f"/proc/{process}/stat", encoding="utf-8") as stat:
        return stat.read().rpartition(") ")[2][0]


def reaches_once(terminal, number, press):
    """Checks that the program takes the terminal's signal once. lmdbio-run is stopped meanwhile, because the
    kernel makes one signal of the terminal's and of one that lmdbio-run sends. SIGUSR1 shows that lmdbio-run
    has taken its own."""
    os.kill(terminal.process, signal.SIGSTOP)
    wait_until(lambda: state(terminal.process) == "T")
    press()
    terminal.until(f"had {number:d} of the kernel")
    os.kill(terminal.process, signal.SIGCONT)
    has_taken(terminal, terminal.process, number)


def has_taken(terminal, job, number):
    """Checks that lmdbio-run has taken a signal of the terminal, and has not sent it to the program again."""
    wait_until(lambda: not pending(job, number))
    os.kill(job, signal.SIGUSR1)
    found = terminal.until(r"had (\d+) of the process")
    equal(signal.SIGUSR1, int(found[1]))


def keys(lmdbio_run):
    """Checks that each key reaches the program exactly once, and that lmdbio-run goes on."""
    terminal = Terminal(program(lmdbio_run, COUNT))
    terminal.until("ready")
    for key, number in ("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT), ("\x03", signal.SIGINT):
        reaches_once(terminal, number, lambda key=key: terminal.type(key))
    reaches_once(terminal, signal.SIGWINCH, lambda: terminal.size(20, 50))
    terminal.type("end\n")
    equal(10, terminal.status())


def interrupt(lmdbio_run):
    terminal = Terminal(program(lmdbio_run, "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + WAIT))
    process = int(terminal.until(r"program (\d+) ready")[1])
    terminal.type("\x03")
    equal(128 + signal.SIGINT, terminal.status())
    gone(process)


def job_shell(command):
    """Acts as a shell of one job, and continues the job after each stop."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if not job:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(command[0], command)
    while True:
        status = os.waitpid(job, os.WUNTRACED)[1]
        if not os.WIFSTOPPED(status):
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        os.tcsetpgrp(0, os.getpgrp())
        print("stopped by", os.WSTOPSIG(status), "say on: ", flush=True)
        sys.stdin.readline()
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)


def stop(lmdbio_run):
    terminal = Terminal(program(lmdbio_run, COUNT), job_shell)
    terminal.until("ready")
    for _ in range(2):
        terminal.type("\x1a")
        terminal.until(f"stopped by {signal.SIGTSTP:d} say on: ")
        terminal.type("on\nhere\n")
        terminal.until("line here")
    terminal.type("end\n")
    equal(10, terminal.status())


def children(process):
    with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as numbers:
        return [int(number) for number in numbers.read().split()]


def witness_of(job):
    """Returns the child of lmdbio-run that only receives the group's signals (tools/run_witness.h)."""
    for child in children(job):
        with open(f"/proc/{child}/comm", encoding="utf-8") as name:
            if name.read().strip() == "lmdbio-witness":
                return child
    raise AssertionError(f"{job} has no witness")


@contextlib.contextmanager
def held(process):
    """Keeps a process from running, as a busy machine does. SIGSTOP would not do: SIGCONT revokes it."""
    seize, interrupt_it, detach = 0x4206, 0x4207, 17  # sys/ptrace.h
    libc = ctypes.CDLL(None, use_errno=True)

    def trace(request):
        if libc.ptrace(ctypes.c_long(request), ctypes.c_long(process), None, None):
            raise OSError(ctypes.get_errno(), "ptrace")

    trace(seize)
    trace(interrupt_it)
    wait_until(lambda: state(process) == "t")
    yield
    trace(detach)


def stop_at_once(lmdbio_run):
    """Stops a job right after it has continued. The stop revokes the SIGCONT that the held witness has not taken:
    lmdbio-run must not take it for one that it alone got."""
    terminal = Terminal(program(lmdbio_run, COUNT), job_shell)
    terminal.until("ready")
    terminal.type("\x1a")
    terminal.until(f"stopped by {signal.SIGTSTP:d} say on: ")
    number, = children(terminal.process)
    witness = witness_of(number)
    with held(witness):
        terminal.type("on\nhere\n")
        terminal.until("line here")
        wait_until(lambda: state(number) != "T" and not pending(number, signal.SIGCONT))
        terminal.type("\x1a")
        wait_until(lambda: pending(witness, signal.SIGTSTP))
    terminal.until(f"stopped by {signal.SIGTSTP:d} say on: ")
    terminal.type("on\nend\n")
    equal(10, terminal.status())


def key_late(lmdbio_run):
    """Holds the witness when a key's signal comes: lmdbio-run must not take it for one that it alone got."""
    terminal = Terminal(program(lmdbio_run, COUNT))
    terminal.until("ready")
    with held(witness_of(terminal.process)):
        terminal.type("\x03")
        terminal.until(f"had {signal.SIGINT:d} of the kernel")
        has_taken(terminal, terminal.process, signal.SIGINT)
    terminal.type("end\n")
    equal(10, terminal.status())


def stop_ignored(lmdbio_run):
    """Checks that a program that ignores the stop key goes on, and that the job does, too."""
    terminal = Terminal(program(lmdbio_run, "import signal; signal.signal(signal.SIGTSTP, signal.SIG_IGN)\n" + COUNT),
                        job_shell)
    terminal.until("ready")
    terminal.type("\x1ahere\n")
    terminal.until("line here")
    number, = children(terminal.process)
    has_taken(terminal, number, signal.SIGTSTP)
    terminal.type("end\n")
    equal(10, terminal.status())


def hang_up(lmdbio_run):
    """Closes the terminal at its other end: the program ends, and lmdbio-run exits with 128 + SIGHUP."""
    terminal = Terminal(program(lmdbio_run, WAIT))
    # With the line's end, which the terminal passes on apart: the terminal must not close while the program writes.
    process = int(terminal.until(r"program (\d+) ready\r\n")[1])
    os.close(terminal.master)
    equal(128 + signal.SIGHUP, os.waitstatus_to_exitcode(os.waitpid(terminal.process, 0)[1]))
    gone(process)


def job(lmdbio_run):
    """Interrupts a job of the launcher, which decides the job's status. The first rank has the input."""
    first = 'import os\nif os.environ["PMI_RANK"] == "0": print(f"said {input()}", flush=True)\n'
    terminal = Terminal(program(lmdbio_run, first + WAIT, ("mpiexec", "-n", "2")))
    terminal.type("hello\n")
    said, processes = False, []
    while not said or len(processes) < 2:
        found = terminal.until(r"program (\d+) ready|said hello")
        if found[1]:
            processes.append(int(found[1]))
        else:
            said = True
    terminal.type("\x03")
    terminal.status()
    for process in processes:
        gone(process)


CASES = {case.__name__: case
         for case in (streams, keys, interrupt, stop, stop_at_once, key_late, stop_ignored, hang_up, job)}

if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*CASES)
    else:
        CASES[sys.argv[1]](sys.argv[2])
