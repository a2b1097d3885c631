# SPDX-License-Identifier: OLDAP-2.8
"""Drives lmdbio-top in a terminal of tmux. usage: top_screen.py LMDBIO-TOP READER

READER reads a data set in rounds (top_reader.c). Prints a line for each case, and exits with 1 if a case has failed.
A wait ends when the screen matches a pattern; the script looks at the screen after each output.
"""
import os
import re
import select
import subprocess
import sys
import time

TOP, READER = sys.argv[1:]
SECONDS = 300  # a longer wait is a hang
failures = 0


def judge(name, good, why=""):
    global failures
    print(f"ok {name}" if good else f"NOT OK {name}: {why}", flush=True)
    failures += not good


class Terminal:
    """A window of a tmux server of its own, that runs a shell command."""

    def __init__(self, command, width=100, height=24):
        Terminal.count = getattr(Terminal, "count", 0) + 1
        self.socket = os.path.abspath(f"tmux{Terminal.count}")
        self.fifo = self.socket + ".output"
        os.mkfifo(self.fifo)
        self.output = os.open(self.fifo, os.O_RDWR | os.O_NONBLOCK)
        # The command begins after the pipe that follows its output.
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height),
                  f"read -r _; {command}; printf 'status %d\\n' $?; exec cat")
        self.tmux("pipe-pane", "-o", f"exec cat > '{self.fifo}'")
        self.tmux("send-keys", "Enter")

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", *words], check=True,
                              stdout=subprocess.PIPE, env={**os.environ, "TERM": "xterm"}).stdout.decode()

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def wait(self, pattern, absent=False):
        """Returns the screen that matches a pattern, or with `absent` does not; None after SECONDS."""
        end = time.monotonic() + SECONDS
        while True:
            shown = self.screen()
            if bool(re.search(pattern, shown, re.M)) != absent:
                return shown
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.output], [], [], left)[0]:
                print(shown)
                return None
            os.read(self.output, 65536)

    def case(self, name, pattern, absent=False):
        judge(name, self.wait(pattern, absent) is not None, f"no {pattern!r} in {SECONDS} s")

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, width, height):
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def end(self):
        self.tmux("kill-server")
        os.close(self.output)


class Reader:
    """A process that has a data set open through lmdbio."""

    def __init__(self, name):
        # LMDBIO_STORE=arena keeps the read bytes in shared memory, as lmdbio does on a network file system.
        self.process = subprocess.Popen(["env", "LMDBIO_STORE=arena", READER, os.path.abspath(f"{name}.mdb"), name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.heard("ready")

    def heard(self, word):
        line = self.process.stdout.readline().decode().strip()
        assert line == word, line

    def read(self):
        self.process.stdin.write(b"r")
        self.process.stdin.flush()
        self.heard("round")

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(SECONDS) == 0

    def kill(self):
        self.process.kill()
        self.process.wait()


def rows(name):
    return rf"^ *\d+ {name} +reader "


def table():
    first = Reader("topfirst")
    terminal = Terminal(f"'{TOP}' -d 0.2")
    terminal.case("screen_names_the_node", r"^lmdbio-top: .* \d+ readers?, \d+ server")
    terminal.case("screen_has_a_process_without_lmdbio_run", rows("topfirst"))
    shown = terminal.screen()
    judge("screen_has_the_process_number", re.search(rf"^ *{first.process.pid} topfirst ", shown, re.M), shown)
    for word in ("Storage ", "Programs ", "Sources ", "Memory ", "in flight"):
        judge(f"screen_has_{word.strip().replace(' ', '_').lower()}", word in shown, shown)
    # Only the next look shows a round, and lmdbio-top may take any time until then.
    values = rf"{rows('topfirst')} *\S+ \S+ +(?!0 bytes)\S+ "
    seen = False
    for _ in range(100):
        first.read()
        shown = terminal.wait(r"^Programs ") or ""
        seen = re.search(values, shown, re.M)
        if seen:
            break
        select.select([terminal.output], [], [], SECONDS)
        os.read(terminal.output, 65536)
    judge("screen_has_a_rate_of_values", seen, shown)
    judge("screen_has_memory_and_budget", re.search(r"^Memory +[1-9].* used, budget [1-9]", shown, re.M), shown)
    second = Reader("topsecond")
    terminal.case("process_that_comes_is_shown", rows("topsecond"))
    second.end()
    terminal.case("process_that_goes_is_gone", "topsecond", absent=True)
    third = Reader("topthird")
    terminal.case("another_process_is_shown", rows("topthird"))
    third.kill()
    terminal.case("process_that_is_killed_is_gone", "topthird", absent=True)
    return first, terminal


def keys(terminal):
    terminal.keys("h")
    terminal.case("h_shows_help", r"^ +q +quit")
    terminal.keys("h")
    terminal.case("h_again_leads_back", rows("topfirst"))
    terminal.case("order_is_told", r"^sorted by storage")
    terminal.keys("s")
    terminal.case("s_sorts_by_the_next_column", r"^sorted by values")
    for _ in range(6):
        terminal.keys("s")
    terminal.case("s_comes_round", r"^sorted by storage")
    terminal.keys("Down", "NPage", "Up", "PPage", "x", "Escape")
    terminal.case("other_keys_change_nothing", rows("topfirst"))
    terminal.resize(100, 12)
    terminal.case("lower_terminal_has_the_last_line_at_its_end", r"(?s)^sorted by [^\n]*\n*\Z")
    terminal.resize(30, 20)
    terminal.case("narrow_terminal_is_too_small", r"terminal is\s+too small")
    terminal.resize(100, 4)
    terminal.case("low_terminal_is_too_small", r"terminal is too small")
    terminal.resize(1, 1)
    terminal.resize(120, 30)
    terminal.case("larger_terminal_has_the_table_again", rows("topfirst"))
    terminal.keys("q")
    terminal.case("q_ends_with_0", r"^status 0")
    terminal.end()


def signals():
    terminal = Terminal(f"sh -c 'echo $$ > pid; exec \"{TOP}\"'")
    terminal.case("screen_is_there_before_a_signal", r"^lmdbio-top: ")
    with open("pid", encoding="ascii") as file:
        os.kill(int(file.read()), 15)
    terminal.case("sigterm_ends_with_143", r"^status 143")
    terminal.end()
    terminal = Terminal(f"'{TOP}'")
    terminal.case("screen_is_there_before_the_interrupt_key", r"^lmdbio-top: ")
    terminal.keys("C-c")
    terminal.case("interrupt_key_ends_with_130", r"^status 130")
    terminal.end()


def refusals():
    for name, terms in (("no_term", "env -u TERM"), ("empty_term", "env TERM="), ("unknown_term", "env TERM=nothing"),
                        ("term_without_a_screen", "env TERM=dumb")):
        terminal = Terminal(f"{terms} '{TOP}'")
        terminal.case(f"{name}_ends_with_2", r"^status 2")
        shown = terminal.screen()
        judge(f"{name}_says_what_to_do", re.search(r"lmdbio-top: TERM=\w* names no terminal.*--batch",
                                                   shown.replace("\n", "")), shown)
        terminal.end()
    terminal = Terminal(f"'{TOP}'", 20, 3)
    terminal.case("terminal_that_begins_too_small_says_so", r"lmdbio-top: the\s+terminal is\s+too small")
    terminal.resize(10, 2)
    terminal.case("smallest_terminal_says_so", r"^too small")
    terminal.keys("q")
    terminal.case("small_terminal_takes_q", r"^status 0")
    terminal.end()


reader, screen = table()
keys(screen)
reader.end()
signals()
refusals()
sys.exit(failures > 0)
