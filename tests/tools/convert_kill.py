# SPDX-License-Identifier: OLDAP-2.8
"""Interrupts a command when a file that the command writes has reached a
length: convert_kill.py SIGNAL FILE BYTES COMMAND... Prints the command's exit status, negative for
a signal. Exits with 3 if the command has ended before."""
import ctypes
import os
import select
import signal
import subprocess
import sys

libc = ctypes.CDLL(None)
number = getattr(signal, sys.argv[1])
path, length = sys.argv[2], int(sys.argv[3])
# A shell ignores SIGINT in tests that it runs in the background, and programs inherit this.
command = subprocess.Popen(sys.argv[4:], preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)
                           if number != signal.SIGKILL else None)


ended = os.pidfd_open(command.pid)


def over():
    if command.poll() is not None:
        print(command.returncode)
        sys.exit(3)


while not os.path.exists(path):
    over()
    os.sched_yield()
IN_MODIFY = 2
changes = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
if libc.inotify_add_watch(changes, os.fsencode(path), IN_MODIFY) < 0:
    over()
while os.path.exists(path) and os.stat(path).st_size < length:
    select.select([changes, ended], [], [])
    over()
    os.read(changes, 4096)
over()
command.send_signal(number)
print(command.wait())
