# SPDX-License-Identifier: OLDAP-2.8
"""Reads data sets through DataLoader and AnnouncingSampler, and says "right" if all is.

usage: sampler_check.py make DIRECTORY
       sampler_check.py read DATASET fork|spawn|batch|order|none
       sampler_check.py preset DATASET mmengine|ase|deepmd
"""
import hashlib
import json
import os
import sys
import zlib

import lmdb
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from lmdbio.keys import key_function
from lmdbio.torch import AnnouncingSampler, LazyEnvironment

RECORDS = 600


def value(i):
    return hashlib.sha512(b"%d" % i).digest() * 500  # 32,000 bytes


def make(folder):
    def data_set(name, records):
        with lmdb.open(os.path.join(folder, name), map_size=1 << 26) as env, \
                env.begin(write=True) as txn:
            for key, stored in records:
                txn.put(key, stored)

    data_set("set", ((b"%08d" % i, value(i)) for i in range(RECORDS)))
    data_set("mmengine", [(b"picture_%d" % i, b"%d" % i) for i in range(5)])
    with open(os.path.join(folder, "mmengine", "meta_info.txt"), "w") as listing:
        listing.writelines("picture_%d.png (8,8,3) 1\n" % i for i in range(5))
    data_set("ase", [(b"%d" % (i + 1), b"%d" % i) for i in range(2)] +
             [(b"%d" % (i + 2), b"%d" % i) for i in range(2, 5)] +
             [(b"nextid", zlib.compress(json.dumps(7).encode())),
              (b"deleted_ids", zlib.compress(json.dumps([3]).encode()))])
    data_set("deepmd", [(b"%06d" % i, b"%d" % i) for i in range(5)] +
             [(b"__metadata__", b"\x82\xa7nframes\x05\xadframe_idx_fmt\xa306d")])


class Records(Dataset):
    """An unmodified map-style Dataset over py-lmdb."""

    def __init__(self, path):
        self.env = LazyEnvironment(path, lock=False, readahead=False)

    def __len__(self):
        return RECORDS

    def __getitem__(self, index):
        with self.env().begin() as txn:
            return index, txn.get(b"%08d" % index) == value(index)


def read(path, case):
    torch.manual_seed(5)
    data = Records(path)
    if case == "spawn":
        data.env()  # open in the main process: pickling must leave it out
    sampler, options = RandomSampler(data), {"batch_size": 20}
    if case == "batch":
        batches = BatchSampler(sampler, 20, drop_last=False)
        sampler = None
        options = {"batch_sampler": AnnouncingSampler(batches, path, "{:08d}", ahead=100)}
    elif case != "none":
        sampler = AnnouncingSampler(sampler, path, "order" if case == "order" else "{:08d}")
        assert len(sampler) == RECORDS
    loader = DataLoader(data, sampler=sampler, num_workers=2,
                        multiprocessing_context="spawn" if case == "spawn" else "fork", **options)
    for epoch in range(2 if case != "none" else 1):
        seen = []
        for indices, good in loader:
            if not bool(good.all()):
                print("wrong bytes")
            seen += indices.tolist()
        if sorted(seen) != list(range(RECORDS)):
            print("wrong records")
    print("right")


def preset(path, name):
    keys = key_function(name, path)
    with lmdb.open(path, readonly=True, lock=False) as env, env.begin() as txn:
        if all(txn.get(keys(i)) == b"%d" % i for i in range(5)):
            print("right")


if __name__ == "__main__":
    {"make": make, "read": read, "preset": preset}[sys.argv[1]](*sys.argv[2:])
