"""What only this file knows: how a command is interrupted when a file that it writes has reached a
length: convert_kill.py SIGNAL FILE BYTES COMMAND... It prints the command's exit status, negative for
a signal, and is 3 itself when the command was over before."""
import os
import signal
import subprocess
import sys

number = getattr(signal, sys.argv[1])
path, length = sys.argv[2], int(sys.argv[3])
# Who runs the tests in the background has SIGINT ignored, and what is ignored is inherited.
command = subprocess.Popen(sys.argv[4:], preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)
                           if number != signal.SIGKILL else None)


def size():
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return -1


while size() < length:
    if command.poll() is not None:
        print(command.returncode)
        sys.exit(3)
command.send_signal(number)
print(command.wait())
