# SPDX-License-Identifier: OLDAP-2.8
# A program whose worker processes start and end with each epoch and open the
# data sets themselves, as PyTorch's loaders do.
#
# stores_epochs.py never|before PATH...: the program itself opens the data sets never, or before its workers, and
# closes them again. Each of three epochs has two workers a path; one of the two is killed at its end.
# Prints the number of descriptors that the forks have cost, and fails if a program that it starts inherits them.
import os
import signal
import subprocess
import sys

import lmdb

EPOCHS, WORKERS = 3, 2


def descriptors():
    return set(os.listdir('/proc/self/fd'))


def work(path, part):
    env = lmdb.open(path, readonly=True, lock=False, readahead=False)
    with env.begin(buffers=True) as txn:
        for number, (key, value) in enumerate(txn.cursor()):
            if number % WORKERS == part and value[0] < 0:
                os._exit(1)
    if part:
        os.kill(os.getpid(), signal.SIGKILL)


def main():
    how, paths = sys.argv[1], sys.argv[2:]
    if how == 'before':
        for path in paths:
            env = lmdb.open(path, readonly=True, lock=False, readahead=False)
            env.stat()
            env.close()
    before = descriptors()
    for epoch in range(EPOCHS):
        for path in paths:
            workers = []
            for part in range(WORKERS):
                pid = os.fork()
                if not pid:
                    work(path, part)
                    os._exit(0)
                workers.append(pid)
            ends = [os.waitpid(pid, 0)[1] for pid in workers]
            assert ends == [0, signal.SIGKILL], ends
    made = descriptors() - before
    seen = subprocess.run(['ls', '/proc/self/fd'], stdout=subprocess.PIPE, close_fds=False, check=True)
    assert not made & set(seen.stdout.decode().split()), seen.stdout
    print('descriptors', len(made))


main()
