# SPDX-License-Identifier: OLDAP-2.8
"""Measures the memory of twelve readers of six data sets while another user holds the names they meet by.

	stores_names.py WHICH CONFINE READER DIRECTORY...	(as root)

WHICH: which names the other user holds: none, purse, sets, all, gone (all, until half of the readers
have started) or lists (names with random ends). CONFINE: a command, or empty, that runs the readers. Prints
"MIB MEMORY-FILES", for the memory files of all readers together, and the output of each reader.
"""
import os
import re
import signal
import subprocess
import sys

SLOTS, NOBODY = 64, 65534

HOLD = """
import socket, sys
held = []
for name in sys.stdin.read().split():
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].bind("\\0" + name)
    held[-1].listen(0)
print("held", flush=True)
while True:
    __import__("signal").pause()
"""


def start(number):
    confine = sys.argv[2].split()
    sets = sys.argv[4:]
    return subprocess.Popen([*confine, sys.argv[3], "--hold", "scan", sets[number % len(sets)]], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def end(reader):
    reader.stdin.close()
    if reader.wait():
        sys.exit(f"a reader ends with {reader.returncode}")


def keys():
    with open("/proc/net/unix", encoding="latin-1") as sockets:
        return set(re.findall(r"@(lmdbio\.0\.[0-9a-f]{32})\.\w+$", sockets.read(), re.MULTILINE))


def keys_of_each(sets):
    """Returns the beginnings of all names, and of the names that all data sets have in common."""
    each = []
    for number in range(len(sets)):
        reader = start(number)
        reader.stdout.readline()
        each.append(keys())
        end(reader)
    return set.union(*each), set.intersection(*each)


def hold(held, ends):
    """Starts a process of another user that listens on these names."""
    other = subprocess.Popen(["setpriv", f"--reuid={NOBODY}", "--clear-groups", sys.executable, "-c", HOLD],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other.stdin.write(" ".join(f"{key}.{name}" for key in held for name in ends))
    other.stdin.close()
    other.stdout.readline()
    return other


def memory(readers):
    files = {}
    for reader in readers:
        folder = f"/proc/{reader.pid}/fd"
        for number in os.listdir(folder):
            if os.readlink(f"{folder}/{number}").startswith(("/memfd:lmdbio ", "/memfd:lmdbio-private ")):
                state = os.stat(f"{folder}/{number}")
                files[state.st_ino] = state.st_blocks * 512
    return sum(files.values()) >> 20, len(files)


def main():
    which, sets = sys.argv[1], sys.argv[4:]
    every, purse = keys_of_each(sets) if which != "none" else (set(), set())
    held = {"none": set(), "purse": purse, "sets": every - purse}.get(which, every)
    ends = [str(slot) for slot in range(SLOTS)]
    if which == "lists":
        ends = [f"x{number:016x}" for number in range(SLOTS)]
    other = hold(held, ends)
    readers, lines = [], []
    for number in range(2 * len(sets)):
        if number == len(sets) and which == "gone":
            lines += [reader.stdout.readline() for reader in readers]
            other.send_signal(signal.SIGKILL)
            other.wait()
        readers.append(start(number))
    lines += [reader.stdout.readline() for reader in readers[len(lines):]]
    print(*memory(readers))
    print("".join(lines), end="")
    for reader in readers:
        end(reader)
    other.kill()
    other.wait()


main()
