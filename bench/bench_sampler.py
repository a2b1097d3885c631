#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Times a shuffled epoch of an unmodified PyTorch Dataset over py-lmdb.

usage: bench_sampler.py make DIRECTORY [--records N] [--bytes N]
       bench_sampler.py read DIRECTORY [--readahead] [--announce] [--workers N] [--batch N]

`read` prints records a second, processor seconds of the process and its workers, and a digest of
the values that does not depend on their order. With --announce the indices go through
lmdbio.torch.AnnouncingSampler. bench/bench_sampler.sh runs all ways on slowfs.
"""
import argparse
import hashlib
import os
import resource
import sys
import time

import lmdb
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler


class Records(Dataset):
    """Reads as PyTorch users' data sets do: a worker opens the file at first use, and calls get() for each record."""

    def __init__(self, path, records, readahead):
        self.path, self.records, self.readahead, self.txn = path, records, readahead, None

    def __len__(self):
        return self.records

    def __getitem__(self, index):
        if self.txn is None:
            env = lmdb.open(self.path, readonly=True, lock=False, readahead=self.readahead)
            self.txn = env.begin()
        value = self.txn.get(b"%08d" % index)
        digest = hashlib.blake2b(value[:64] + value[-64:], digest_size=8).digest()
        return torch.frombuffer(bytearray(digest), dtype=torch.uint8), len(value)


def make(path, records, length):
    block = os.urandom(1 << 16)
    with lmdb.open(path, map_size=records * (length + 8192) + (1 << 24)) as env:
        for first in range(0, records, 1000):
            with env.begin(write=True) as txn:
                for i in range(first, min(records, first + 1000)):
                    head = b"%016d" % i
                    txn.put(b"%08d" % i, (head + block[i % 4096:] + block * (length // len(block) + 1))[:length])


def read(options):
    with lmdb.open(options.path, readonly=True, lock=False) as env:
        records = env.stat()["entries"]
    torch.manual_seed(options.seed)
    data = Records(options.path, records, options.readahead)
    sampler = RandomSampler(data)
    if options.announce:
        from lmdbio.torch import AnnouncingSampler
        sampler = AnnouncingSampler(sampler, options.path, "{:08d}", ahead=options.ahead)
    loader = DataLoader(data, batch_size=options.batch, sampler=sampler, num_workers=options.workers)
    began, seen, total = time.monotonic(), 0, 0
    for heads, lengths in loader:
        total += int(lengths.sum())
        for head in heads:
            seen ^= int.from_bytes(head.numpy().tobytes(), "little")
    seconds = time.monotonic() - began
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print("%d records/s %.2f cpu-s %d bytes %016x" % (
        records / seconds, sum(u.ru_utime + u.ru_stime for u in spent), total, seen))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("make", "read"))
    parser.add_argument("path")
    parser.add_argument("--records", type=int, default=20000)
    parser.add_argument("--bytes", type=int, default=100000)
    parser.add_argument("--readahead", action="store_true")
    parser.add_argument("--announce", action="store_true")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--ahead", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.what == "make":
        make(options.path, options.records, options.bytes)
    else:
        read(options)


if __name__ == "__main__":
    sys.exit(main())
