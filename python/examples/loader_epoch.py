#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Reads an epoch by lmdbio's batch loader, then the same records by py-lmdb, and compares both.

    lmdbio-run -- python3 loader_epoch.py DATASET

The program prints records per second of both ways, the loader's verdict on the I/O, and how random
the order is. An example to copy from.
"""
from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time

import lmdb

import lmdbio


def by_loader(loader: lmdbio.Loader, epoch: int) -> tuple[list[bytes], str, float]:
    """Reads an epoch. Returns the keys in their order, a digest of the values, and seconds."""
    keys, digest, began = [], hashlib.sha256(), time.monotonic()
    for batch in loader.epoch(epoch):
        for key, value in batch:
            keys.append(bytes(key))
            digest.update(value)
    return keys, digest.hexdigest(), time.monotonic() - began


def by_get(path: str, keys: list[bytes]) -> tuple[str, float]:
    """Reads the values of some keys. Returns a digest of the values, and seconds."""
    digest, began = hashlib.sha256(), time.monotonic()
    with lmdb.open(path, readonly=True, lock=False, readahead=False,
                   subdir=os.path.isdir(path)) as env, env.begin(buffers=True) as txn:
        for key in keys:
            digest.update(txn.get(key))
    return digest.hexdigest(), time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", metavar="DATASET")
    parser.add_argument("--batch", type=int, default=256, metavar="RECORDS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epoch", type=int, default=0)
    parser.add_argument("--order", choices=("sequential", "shuffle", "block", "opportunistic"),
                        default="shuffle")
    parser.add_argument("--memory", type=int, metavar="BYTES", help="for batches read ahead")
    options = parser.parse_args()
    with lmdbio.Loader(options.path, options.batch, order=options.order, seed=options.seed,
                       lock=False, memory=options.memory) as loader:
        keys, digest, seconds = by_loader(loader, options.epoch)
        print(f"loader: {len(keys)} records, {len(keys) / seconds:.0f} a second")
        print("loader:", loader.verdict())
        print("order: positions {positions:.3f}, labels {labels:.3f} of a full shuffle".format(
            **loader.quality(options.epoch, 0, 2)))
    found, seconds = by_get(options.path, keys)
    print(f"py-lmdb: {len(keys)} records, {len(keys) / seconds:.0f} a second")
    if found != digest:
        sys.exit("the bytes differ")


if __name__ == "__main__":
    main()
