# SPDX-License-Identifier: OLDAP-2.8
"""Checks that a forked child leaves its parent's slots in a reader table alone; prints a line for each case.

usage: inherited_check.py DIRECTORY, which is made

The child opens the parent's LazyEnvironment anew, with its lock file, and ends. If it ends as a program does, the
interpreter frees all its objects. Then the parent goes on with the transaction that py-lmdb has kept.
"""
import os
import sys

import lmdb

from lmdbio.torch import LazyEnvironment


def value(env):
    """Returns a record's value. No transaction outlives the call, which would keep its environment alive."""
    with env().begin() as txn:
        return txn.get(b"key")


def is_locked(path):
    """Returns whether this process has its shared lock on a data set's lock file."""
    file = f":{os.stat(os.path.join(path, 'lock.mdb')).st_ino} "
    with open("/proc/locks", encoding="ascii") as locks:
        return any(file in line and line.split()[3:5] == ["READ", str(os.getpid())] for line in locks)


def main(path):
    with lmdb.open(path, map_size=1 << 20) as env, env.begin(write=True) as txn:
        txn.put(b"key", b"value")
    env = LazyEnvironment(path)
    bad = value(env) != b"value"
    for ends in "at_once", "as_a_program_does":
        child = os.fork()
        if not child:
            good = value(env) == b"value" and is_locked(path)
            if ends == "at_once":
                os._exit(not good)
            sys.exit(not good)
        good = os.waitpid(child, 0)[1] == 0
        print("ok" if good else "NOT OK", f"child_that_ends_{ends}_keeps_its_locks", flush=True)
        bad |= not good
        try:
            good = value(env) == b"value"
        except lmdb.Error as error:
            print(error)
            good = False
        print("ok" if good else "NOT OK", f"child_that_ends_{ends}_leaves_its_parents_slot", flush=True)
        bad |= not good
    sys.exit(bad)


main(sys.argv[1])
