# SPDX-License-Identifier: OLDAP-2.8
"""What only this file knows: what a program under lmdbio-run --mpi has of the terminal that it is started
from. Usage: terminal_test.py CASE LMDBIO-RUN; 0: as it would be without lmdbio-run."""

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

SECONDS = 60

LOOK = """
import fcntl, os, struct, termios
size = struct.unpack("4H", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))[:2]
print(f"terminal {[os.isatty(n) for n in range(3)]} {os.ttyname(0) == os.ttyname(1)} {size}", flush=True)
print(f"said {input('say: ')}", flush=True)
"""

COUNT = """
import signal, sys
seen = []
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH):
    signal.signal(number, lambda number, _: (seen.append(number), print(f"had {number:d}", flush=True)))
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        sys.exit(10 + len(seen))
    print(f"line {line.strip()}", flush=True)
"""

WAIT = """
import os, time
print(f"program {os.getpid()} ready", flush=True)
while True:
    time.sleep(60)
"""


class Terminal:
    """A terminal, and a command that has it as its own."""

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
        """Waits for something on the screen, which comes off it."""
        end = time.monotonic() + SECONDS
        while not (found := re.search(pattern.encode(), self.said)):
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.said!r}")
            try:
                self.said += os.read(self.master, 4096)
            except OSError:  # nobody has the terminal any more
                raise AssertionError(f"no {pattern!r} at the end of {self.said!r}") from None
        self.said = self.said[found.end():]
        return found

    def status(self):
        """Of the command, as a shell would tell it; what it still says is read meanwhile."""
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


def gone(process):
    end = time.monotonic() + SECONDS
    while os.path.exists(f"/proc/{process}"):
        if time.monotonic() > end:
            raise AssertionError(f"{process} is left")
        time.sleep(0.01)


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


def keys(lmdbio_run):
    """Each reaches the program once, and lmdbio-run goes on."""
    terminal = Terminal(program(lmdbio_run, COUNT))
    terminal.until("ready")
    for key, number in ("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT), ("\x03", signal.SIGINT):
        terminal.type(key)
        terminal.until(f"had {number:d}")
    terminal.size(20, 50)
    terminal.until(f"had {signal.SIGWINCH:d}")
    terminal.type("end\n")
    equal(14, terminal.status())


def interrupt(lmdbio_run):
    terminal = Terminal(program(lmdbio_run, "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + WAIT))
    process = int(terminal.until(r"program (\d+) ready")[1])
    terminal.type("\x03")
    equal(128 + signal.SIGINT, terminal.status())
    gone(process)


def job_shell(command):
    """A shell of one job, which goes on after each stop."""
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


def hang_up(lmdbio_run):
    """Who has the terminal closes it."""
    terminal = Terminal(program(lmdbio_run, WAIT))
    process = int(terminal.until(r"program (\d+) ready")[1])
    os.close(terminal.master)
    equal(128 + signal.SIGHUP, os.waitstatus_to_exitcode(os.waitpid(terminal.process, 0)[1]))
    gone(process)


def job(lmdbio_run):
    """Under the launcher, whose own the status of an interrupted job is. The first rank has the input."""
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


CASES = {case.__name__: case for case in (streams, keys, interrupt, stop, hang_up, job)}

if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(*CASES)
    else:
        CASES[sys.argv[1]](sys.argv[2])
