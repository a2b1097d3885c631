# SPDX-License-Identifier: OLDAP-2.8
"""Reads a data set in processes that end in every way there is.

run_count_reader.py make|large DIRECTORY
run_count_reader.py HOW DIRECTORY      HOW: a word for each process, with + between them
"""
import multiprocessing
import os
import signal
import subprocess
import sys

import lmdb

RECORDS, BYTES = 40, 50000


def make(path, records=RECORDS):
    with lmdb.open(path, map_size=1 << 28) as env, env.begin(write=True) as txn:
        for number in range(records):
            txn.put(b"%08d" % number, bytes([number % 256]) * BYTES)


def read(path):
    env = lmdb.open(path, readonly=True, lock=False)
    with env.begin() as txn:
        for number in range(RECORDS):
            txn.get(b"%08d" % number)
    return env


def scan(path):
    with lmdb.open(path, readonly=True, lock=False) as env, env.begin() as txn:
        return sum(len(value) for _, value in txn.cursor())


def fork_and(path, end):
    pid = os.fork()
    if not pid:
        held = read(path)
        end()
        held.close()
        os._exit(0)
    os.waitpid(pid, 0)


def workers(path, method):
    """Reads in processes of multiprocessing, as PyTorch's DataLoader does; they end by os._exit()."""
    context = multiprocessing.get_context(method)
    each = [context.Process(target=read, args=(path,)) for _ in range(2)]
    for process in each:
        process.start()
    for process in each:
        process.join()


def close_all(path):
    """Acts as a program that closes descriptors that it has not opened, and then forks."""
    held = read(path)
    os.closerange(3, 4096)
    fork_and(path, lambda: os._exit(0))
    return held


WAYS = {
    "read": read,
    "scan": scan,
    "fork-scan": lambda path: fork_and(path, lambda: scan(path)),
    "exit": lambda path: fork_and(path, lambda: os._exit(0)),
    "kill": lambda path: fork_and(path, lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "exec": lambda path: fork_and(path, lambda: os.execv("/bin/true", ["true"])),
    "nothing": lambda path: os.waitpid(os.fork() or os._exit(0), 0),
    "program": lambda path: subprocess.run([sys.executable, __file__, "read", path], check=True),
    "fork": lambda path: workers(path, "fork"),
    "spawn": lambda path: workers(path, "spawn"),
    "closed": close_all,
    "die": lambda path: (read(path), os.kill(os.getpid(), signal.SIGKILL)),
    "fail": lambda path: sys.exit(7),
    "term": lambda path: (read(path), print(os.getpid(), flush=True), signal.pause()),
}


def main():
    how, path = sys.argv[1:]
    if how in ("make", "large"):
        make(path, RECORDS if how == "make" else 50 * RECORDS)
        return
    held = [WAYS[word](path) for word in how.split("+")]
    del held


if __name__ == "__main__":
    main()
