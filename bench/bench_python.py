#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Measures what the Python package costs: its import, and each record that its loader gives.

usage: bench_python.py [--runs N]

Makes data sets of 100 B, 3 KB and 100 KB a record in a temporary folder, and reads them from memory in
two ways: by py-lmdb's txn.get() in a shuffled order, and by the loader's batches, with every key and
value taken as a memoryview. Prints the least of N epochs, in microseconds a record: elapsed time, and
processor time of all threads. LIBLMDBIO names lmdbio's liblmdb.so.0, and PYTHONPATH the package, if
they are not installed.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

import lmdb

import lmdbio

SETS = ((100, 20000), (3000, 20000), (100000, 3000))  # bytes a value, records


def make(path, size, records):
    value = os.urandom(size)
    with lmdb.open(path, map_size=records * (size + 5000) + (1 << 26), sync=False) as env, env.begin(write=True) as txn:
        for i in range(records):
            txn.put(b"%08d" % i, value)


def gets(path, records):
    """Returns py-lmdb's epoch: a function that gets each record once."""
    env = lmdb.open(path, readonly=True, lock=False)
    txn = env.begin()
    keys = [b"%08d" % i for i in range(records)]
    random.Random(1).shuffle(keys)

    def epoch(_):
        for key in keys:
            txn.get(key)
    return epoch


def batches(path, _):
    """Returns the loader's epoch: a function that takes each record of all batches."""
    loader = lmdbio.Loader(path, 256, lock=False)

    def epoch(number):
        for batch in loader.epoch(number):
            for _ in batch:
                pass
    return epoch


def least(epoch, records, runs):
    """Returns the least elapsed and processor microseconds a record."""
    taken = []
    for number in range(runs):
        before = time.perf_counter(), time.process_time()
        epoch(number)
        taken.append((time.perf_counter() - before[0], time.process_time() - before[1]))
    return [1e6 * min(column) / records for column in zip(*taken)]


def import_seconds(module):
    """Returns the processor seconds of an import in a process of its own."""
    program = f"import time; before = time.process_time(); import {module}; print(time.process_time() - before)"
    return float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=25)
    runs = parser.parse_args().runs
    for module in ("ctypes", "lmdb", "lmdbio"):
        print(f"import {module}: {min(import_seconds(module) for _ in range(5)):.3f} processor seconds")
    with tempfile.TemporaryDirectory() as folder:
        for size, records in SETS:
            path = os.path.join(folder, str(size))
            make(path, size, records)
            for name, way in (("txn.get", gets), ("lmdbio.Loader", batches)):
                print("%6d bytes, %-13s %.2f us a record, %.2f processor us"
                      % (size, name + ":", *least(way(path, records), records, runs)))


if __name__ == "__main__":
    main()
