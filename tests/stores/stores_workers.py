# SPDX-License-Identifier: OLDAP-2.8
"""A program that forks a worker for each line of its standard input. A worker reads the whole data set
and prints a hash of it; when the worker has ended, the program prints an empty line.

usage: stores_workers.py PATH
"""
import hashlib
import os
import sys

import lmdb


def work(path):
    seen = hashlib.sha256()
    env = lmdb.open(path, readonly=True, lock=False)
    with env.begin(buffers=True) as txn:
        for key, value in txn.cursor():
            seen.update(key)
            seen.update(value)
    print(seen.hexdigest(), flush=True)


for _ in sys.stdin:
    pid = os.fork()
    if not pid:
        work(sys.argv[1])
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit(1)
    print(flush=True)
