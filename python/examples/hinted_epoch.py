#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Reads a data set twice in shuffled order by py-lmdb, without and with hints to lmdbio.

    lmdbio-run -- python3 hinted_epoch.py DATASET

The program prints records per second of both passes. py-lmdb reads the records in both. If hints
cannot be given, `Hints.why_not` says why, and the records are the same. An example to copy from.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import multiprocessing
import os
import random
import sys
import time
from typing import Any, Callable, Iterator, Optional, Sequence

import lmdb

import lmdbio


def shuffled_batches(keys: Sequence[bytes], batch: int, seed: int) -> list[list[bytes]]:
    """The keys in random order, in lists of `batch`."""
    order = list(keys)
    random.Random(seed).shuffle(order)
    return [order[i:i + batch] for i in range(0, len(order), batch)]


def read_batches(txn: Any, hints: Optional[lmdbio.Hints],
                 batches: list[list[bytes]]) -> Iterator[list[bytes]]:
    """Yields the values of each batch. While the program uses them, lmdbio reads the next batch."""
    if hints and batches:
        hints.prefetch_keys(txn, batches[0])
    for i, batch in enumerate(batches):
        if hints and i + 1 < len(batches):
            hints.prefetch_keys(txn, batches[i + 1])
        yield [txn.get(key) for key in batch]


def open_data(path: str) -> Any:
    """Opens a data set as PyTorch users do."""
    return lmdb.open(path, readonly=True, lock=False, readahead=False, subdir=os.path.isdir(path))


def forget_pages(path: str) -> None:
    """Asks the kernel to drop the file's clean pages, so that both passes begin alike."""
    fd = os.open(os.path.join(path, "data.mdb") if os.path.isdir(path) else path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def all_keys(path: str) -> list[bytes]:
    """Returns all keys. The keys of a training set usually stand in a list beside it."""
    with open_data(path) as env, env.begin() as txn:
        return list(txn.cursor().iternext(keys=True, values=False))


def one_pass(path: str, batches: list[list[bytes]],
             hinted: bool) -> tuple[float, int, str, int, Optional[str]]:
    """Reads all records once. Returns seconds, bytes, a digest, the requests ahead, and `why_not`."""
    forget_pages(path)
    seen, length = hashlib.sha256(), 0
    start = time.perf_counter()
    with open_data(path) as env, env.begin() as txn:
        hints = lmdbio.Hints(env) if hinted else None
        for values in read_batches(txn, hints, batches):
            for value in values:
                seen.update(value)
                length += len(value)
        seconds = time.perf_counter() - start
        ahead = hints.statistics().get("prefetch_requests", 0) if hints else 0
    return seconds, length, seen.hexdigest(), ahead, hints.why_not if hints else None


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a new process, so that an earlier pass has no influence on it."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", help="an LMDB directory, or a data file")
    parser.add_argument("--batch", type=int, default=256, metavar="RECORDS")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.batch < 1:
        parser.error("--batch must be 1 or more")
    keys = alone(all_keys, options.dataset)
    batches = shuffled_batches(keys, options.batch, options.seed)
    digests = set()
    for hinted in (False, True):
        seconds, length, digest, ahead, why_not = alone(one_pass, options.dataset, batches, hinted)
        digests.add(digest)
        name = "with hints:" if hinted else "without:"
        more = f", {ahead} requests ahead" if hinted else ""
        print(f"{name:13} {len(keys)} records, {length / 1e6:.1f} MB, {seconds:.3f} s, "
              f"{len(keys) / seconds:.0f} records/s{more}")
        if why_not:
            print("no hints were given: " + why_not, file=sys.stderr)
    if len(digests) != 1:
        sys.exit("the two passes have read different records")


if __name__ == "__main__":
    main()
