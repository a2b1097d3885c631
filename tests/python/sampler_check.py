# SPDX-License-Identifier: OLDAP-2.8
"""Reads data sets through DataLoader and AnnouncingSampler, and prints "right" if all records are right.

usage: sampler_check.py read DATASET fork|spawn|batch|order|none
       sampler_check.py layouts DIRECTORY fork|spawn [NAME...]

`layouts` reads a data set in the layout of each program that `key` knows, and in two further layouts, or in
the named layouts only. A Dataset finds its keys as the layout's program does.
"""
import json
import os
import pickle
import sys
import time
import zlib

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

import lmdbio
from lmdbio.torch import AnnouncingSampler, LazyEnvironment
from sampler_sets import FEW, FOLDERS, LAYOUTS, RECORDS, pair_of, value


def in_order(env, path):
    """Returns the keys in order, from a file: a scan here would read the records before they are announced."""
    with open(path + ".keys", "rb") as file:
        return file.read().split(b"\n")


def listed(env, path):
    with open(os.path.join(path, "meta_info.txt")) as listing:
        return [line.split(".")[0].encode() for line in listing]


def undeleted(env, path):
    with env().begin() as txn:
        nextid, deleted = (json.loads(zlib.decompress(txn.get(key)))
                           for key in (b"nextid", b"deleted_ids"))
    return [b"%d" % i for i in range(1, nextid) if i not in set(deleted)]


def counted(env, path):
    with env().begin() as txn:
        return [b"%d" % i for i in range(pickle.loads(txn.get(b"length")))]


KEYS = {
    "ase_folder": undeleted, "ocp": counted,
    "caffe": in_order, "lsun": in_order, "ordered": in_order, "mmengine": listed, "ase": undeleted,
    "deepmd": lambda env, path: [b"%06d" % i for i in range(FEW)],
    "function": lambda env, path: [pair_of(i) for i in range(FEW)],
    "format": lambda env, path: [b"picture_%d" % i for i in range(FEW)],
}


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
        data.env()  # opens the environment in the main process: pickling must leave it out
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
    for epoch in range(1 if case in ("none", "spawn") else 2):
        seen = []
        for indices, good in loader:
            if not bool(good.all()):
                print("wrong bytes")
            seen += indices.tolist()
        if sorted(seen) != list(range(RECORDS)):
            print("wrong records")
    print("right")


class Layout(Dataset):
    """A map-style Dataset of LAYOUTS or FOLDERS. It finds its keys as the layout's own program does."""

    def __init__(self, path, name, begun):
        self.begun = begun
        files = [path]
        if name in FOLDERS:
            files = sorted(entry.path for entry in os.scandir(path) if entry.name.endswith("lmdb"))
        self.places = []
        for file in files:
            env = LazyEnvironment(file, lock=False, readahead=False)
            self.places += [(env, found) for found in KEYS[name](env, file)]

    def __len__(self):
        return FEW

    def __getitem__(self, index):
        self.begun.wait()
        env, found = self.places[index]
        with env().begin() as txn:
            return index, all(value(index) in txn.get(key)
                              for key in (found if isinstance(found, tuple) else (found,)))


def wait_for(condition):
    """Returns whether a condition comes true within a minute."""
    until = time.monotonic() + 60
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def counts_from_the_end(path, key):
    """Returns whether a negative index counts from the end of the last file, and one beyond is an error."""
    sampler, announced = AnnouncingSampler([-1, -FEW, 0], path, key), []
    sampler._announce_in = lambda number, indices: announced.append((number, indices))
    same = list(sampler) == [-1, -FEW, 0]
    last = len(sampler._parts) - 1
    right = announced == [(last, [sampler._parts[last].length - 1]), (0, [0, 0])]
    for beyond in -FEW - 1, FEW:
        try:
            list(AnnouncingSampler([beyond], path, key))
            right = False
        except IndexError:
            pass
    return same and right and last > 0


def layouts(folder, start, *names):
    known = {**LAYOUTS, **FOLDERS}
    for name in names or known:
        key = known[name][0]
        path = os.path.join(folder, name + ".aselmdb" if name == "ase" else name)
        torch.manual_seed(3)
        begun = torch.multiprocessing.get_context(start).Event()
        data = Layout(path, name, begun)
        sampler = AnnouncingSampler(RandomSampler(data), path, key, ahead=4 * FEW)
        before, seen, good = lmdbio.stats()["prefetch_bytes"], [], True
        batches = iter(DataLoader(data, batch_size=10, sampler=sampler, num_workers=2 if start == "fork" else 1,
                                  multiprocessing_context=start))
        # The workers wait for most of the records to be read ahead: on a busy machine they would read them first.
        announced = wait_for(lambda: lmdbio.stats()["prefetch_bytes"] - before > FEW * len(value(0)) // 2)
        begun.set()
        for indices, right in batches:
            seen += indices.tolist()
            good &= bool(right.all())
        good &= name not in FOLDERS or counts_from_the_end(path, key)
        print(name, "right" if good and sorted(seen) == list(range(FEW)) else "wrong",
              "announced" if announced else "not announced: %d bytes" % (lmdbio.stats()["prefetch_bytes"] - before))


if __name__ == "__main__":
    {"read": read, "layouts": layouts}[sys.argv[1]](*sys.argv[2:])
