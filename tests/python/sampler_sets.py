# SPDX-License-Identifier: OLDAP-2.8
"""Makes the data sets that sampler_check.py reads: one in the layout of each program that `key` knows, and others.

usage: sampler_sets.py DIRECTORY
"""
import hashlib
import json
import os
import pickle
import struct
import sys
import zlib

import lmdb

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
    """Arbitrary keys in hexadecimal; an index counts them in their order."""
    keys = sorted(hashlib.sha1(b"picture %d" % i).hexdigest().encode() for i in range(FEW))
    return ((key, value(i)) for i, key in enumerate(keys))


def mmengine():
    return ((b"picture_%d" % i, value(i)) for i in range(FEW))


def ase():
    """ASE's keys: numbers from 1; number 3 is deleted."""
    numbers = [number for number in range(1, FEW + 2) if number != 3]
    yield from ((b"%d" % number, value(i)) for i, number in enumerate(numbers))
    yield b"nextid", zlib.compress(json.dumps(FEW + 2).encode())
    yield b"deleted_ids", zlib.compress(json.dumps([3]).encode())
    yield b"metadata", zlib.compress(b"{}")


def ase_folder():
    """ASE's keys in two files of a folder, of 60 and 40 records."""
    for name, first, last in (("data0000.aselmdb", 0, 60), ("data0001.aselmdb", 60, FEW)):
        numbers = [number for number in range(1, last - first + 2) if number != 3]
        yield name, [(b"%d" % number, value(first + i)) for i, number in enumerate(numbers)] + [
            (b"nextid", zlib.compress(b"%d" % (last - first + 2))), (b"deleted_ids", zlib.compress(b"[3]"))]


def ocp():
    """Open Catalyst's keys: numbers from 0 in each file, and their count."""
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


# name: AnnouncingSampler's argument `key`, and the records
LAYOUTS = {
    "caffe": ("caffe", caffe), "lsun": ("lsun", lsun), "mmengine": ("mmengine", mmengine),
    "ase": ("ase", ase), "deepmd": ("deepmd", deepmd), "ordered": ("order", lsun),
    "function": (pair_of, pairs), "format": ("picture_{}", mmengine),
}
# The same for folders of several files: a file's name comes before its records.
FOLDERS = {"ase_folder": ("ase", ase_folder), "ocp": ("ocp", ocp)}


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


if __name__ == "__main__":
    make(sys.argv[1])
