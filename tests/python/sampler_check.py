# SPDX-License-Identifier: OLDAP-2.8
"""Reads data sets through DataLoader and AnnouncingSampler, and says "right" if all is.

usage: sampler_check.py make DIRECTORY
       sampler_check.py read DATASET fork|spawn|batch|order|none
       sampler_check.py layouts DIRECTORY fork|spawn

`layouts` reads a data set in the layout of each program that `key` knows, and in two of its own, by a
Dataset that finds its keys as that program does.
"""
import hashlib
import json
import struct
import os
import pickle
import sys
import zlib

import lmdb
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

import lmdbio
from lmdbio.torch import AnnouncingSampler, LazyEnvironment

RECORDS = 600
FEW = 100


def value(i):
    return hashlib.sha512(b"%d" % i).digest() * 500  # 32,000 bytes


def datum(i):
    """Caffe's Datum in protobuf: channels, height, width, data, label."""
    data = value(i)
    return (b"\x08\x01\x10\x01\x18" + bytes([data[0] & 127]) + b"\x22" +
            bytes([len(data) & 127 | 128, len(data) >> 7 & 127 | 128, len(data) >> 14]) + data +
            b"\x28" + bytes([i % 10]))


def caffe():
    """convert_imageset's keys: the line of its list, and the file's name."""
    return ((b"%08d_n%08d/%d.jpg" % (i, i % 7, i), datum(i)) for i in range(FEW))


def lsun():
    """Keys in hexadecimal that say nothing; an index counts them in their order."""
    keys = sorted(hashlib.sha1(b"picture %d" % i).hexdigest().encode() for i in range(FEW))
    return ((key, value(i)) for i, key in enumerate(keys))


def mmengine():
    return ((b"picture_%d" % i, value(i)) for i in range(FEW))


def ase():
    """Numbers from 1; number 3 is deleted."""
    numbers = [number for number in range(1, FEW + 2) if number != 3]
    yield from ((b"%d" % number, value(i)) for i, number in enumerate(numbers))
    yield b"nextid", zlib.compress(json.dumps(FEW + 2).encode())
    yield b"deleted_ids", zlib.compress(json.dumps([3]).encode())
    yield b"metadata", zlib.compress(b"{}")


def ase_folder():
    """The same in two files of a folder, and others in it that are none: 60 records, then 40."""
    for name, first, last in (("data0000.aselmdb", 0, 60), ("data0001.aselmdb", 60, FEW)):
        numbers = [number for number in range(1, last - first + 2) if number != 3]
        yield name, [(b"%d" % number, value(first + i)) for i, number in enumerate(numbers)] + [
            (b"nextid", zlib.compress(b"%d" % (last - first + 2))), (b"deleted_ids", zlib.compress(b"[3]"))]


def ocp():
    """Open Catalyst's: numbers from 0 in each file, and their count."""
    for name, first, last in (("data.0000.lmdb", 0, 60), ("data.0001.lmdb", 60, FEW)):
        yield name, [(b"%d" % i, value(first + i)) for i in range(last - first)] + [
            (b"length", pickle.dumps(last - first))]


def deepmd():
    yield from ((b"%06d" % i, value(i)) for i in range(FEW))
    yield b"__metadata__", (b"\x82\xa7nframes\xcd" + struct.pack(">H", FEW) +
                            b"\xadframe_idx_fmt\xa306d")


def pairs():
    """Two records for each index."""
    return ((b"%s/%d" % (half, i), value(i)) for half in (b"gt", b"lq") for i in range(FEW))


def pair_of(index):
    return b"gt/%d" % index, b"lq/%d" % index


# name: what AnnouncingSampler is given as key, and the records
LAYOUTS = {
    "caffe": ("caffe", caffe), "lsun": ("lsun", lsun), "mmengine": ("mmengine", mmengine),
    "ase": ("ase", ase), "deepmd": ("deepmd", deepmd), "ordered": ("order", lsun),
    "function": (pair_of, pairs), "format": ("picture_{}", mmengine),
}
# The same for folders of several files, whose names come before their records.
FOLDERS = {"ase_folder": ("ase", ase_folder), "ocp": ("ocp", ocp)}


def in_order(env, path):
    """Keys in their order, from a file: a walk here would bring the records before they are announced."""
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


def data_set(path, records, subdir=False):
    with lmdb.open(path, map_size=1 << 26, subdir=subdir) as env, env.begin(write=True) as txn:
        for key, stored in records:
            txn.put(key, stored)


def make(folder):
    data_set(os.path.join(folder, "set"), ((b"%08d" % i, value(i)) for i in range(RECORDS)), True)
    for name, (_, records) in LAYOUTS.items():
        alone = name == "ase"  # a file, not a directory
        data_set(os.path.join(folder, name + ".aselmdb" if alone else name), records(), not alone)
        with open(os.path.join(folder, name + ".keys"), "wb") as file:
            file.write(b"\n".join(sorted(key for key, _ in records())))
    for name, (_, files) in FOLDERS.items():
        os.mkdir(os.path.join(folder, name))
        for file, records in files():
            data_set(os.path.join(folder, name, file), records)
        with open(os.path.join(folder, name, "metadata.npz"), "w") as other:
            other.write("no data set")
    with open(os.path.join(folder, "mmengine", "meta_info.txt"), "w") as listing:
        listing.writelines("picture_%d.png (8,8,3) 1\n" % i for i in range(FEW))


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


class Layout(Dataset):
    """A map-style Dataset of LAYOUTS or FOLDERS. It finds its keys as the layout's own program does."""

    def __init__(self, path, name):
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
        env, found = self.places[index]
        with env().begin() as txn:
            return index, all(value(index) in txn.get(key)
                              for key in (found if isinstance(found, tuple) else (found,)))


def layouts(folder, start):
    for name, (key, _) in {**LAYOUTS, **FOLDERS}.items():
        path = os.path.join(folder, name + ".aselmdb" if name == "ase" else name)
        torch.manual_seed(3)
        data = Layout(path, name)
        sampler = AnnouncingSampler(RandomSampler(data), path, key, ahead=4 * FEW)
        before, seen, good = lmdbio.stats()["prefetch_bytes"], [], True
        for indices, right in DataLoader(data, batch_size=10, sampler=sampler,
                                         num_workers=2 if start == "fork" else 1,
                                         multiprocessing_context=start):
            seen += indices.tolist()
            good &= bool(right.all())
        ahead = lmdbio.stats()["prefetch_bytes"] - before
        # Keys that are not in the data set bring nothing; a worker may be the first to ask for a few.
        announced = ahead > FEW * len(value(0)) // 2
        print(name, "right" if good and sorted(seen) == list(range(FEW)) else "wrong",
              "announced" if announced else "not announced: %d bytes" % ahead)


if __name__ == "__main__":
    {"make": make, "read": read, "layouts": layouts}[sys.argv[1]](*sys.argv[2:])
