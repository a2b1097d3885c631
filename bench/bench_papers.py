#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Reads a data set as the processes of a job do by each way of LMDBIO's papers.

usage: bench_papers.py make DIRECTORY RECORDS BYTES
       bench_papers.py read WAY PLACES READERS BATCH DIRECTORY...

`make` writes the data set, and DIRECTORY.places: the page of the file where each value begins.
`read` runs READERS processes on each node. A node is a DIRECTORY: the data set as that node sees it.
All processes begin at once. WAY is one of:
lmdb  each reader steps through a map of its own, and reads its part of each batch
lmm   the first reader of each node does so
dm    the first reader of each node touches its part alone, in the map, as if it had guessed its place right
dio   the first reader of all steps over all records; then as prov
prov  the first reader of each node reads its part of each batch by one pread()
coal  the first reader of each node reads its part of all batches by one pread()
The messages between the papers' processes are left out: they are no requests to storage.
bench/bench_papers.sh counts the requests of all ways on slowfs.
"""
import array
import ctypes
import mmap
import multiprocessing
import os
import sys

import lmdb

PAGE = 4096


def places_of(path, records, length):
    """Returns each value's page in the file: the value's address less that of the map, in pages."""
    found = array.array("I")
    with lmdb.open(path, readonly=True, lock=False) as env, env.begin(buffers=True) as txn:
        values = [value for _, value in txn.cursor()]
        with open("/proc/self/maps", encoding="ascii") as maps:
            base = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith("data.mdb"))
        for value in values:
            found.append((address_of(value) - base) // PAGE)
        assert len(found) == records and all(len(value) == length for value in values)
        del values, value
    return found


def address_of(view):
    """Returns the address of a read-only buffer."""
    class Buffer(ctypes.Structure):
        _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                    ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                    ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                    ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]

    buffer = Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0)
    address = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


def make(path, records, length):
    block = os.urandom(1 << 16)
    with lmdb.open(path, map_size=records * (length + 8192) + (1 << 24)) as env, env.begin(write=True) as txn:
        for i in range(records):
            txn.put(b"%08d" % i, (block[i % 4096:] + block * (length // len(block) + 1))[:length])
    with open(path + ".places", "wb") as out:
        places_of(path, records, length).tofile(out)


def own_part(batch, reader, readers):
    run = batch // readers
    return reader * run, (reader + 1) * run


def step_through(path, batch, reader, readers):
    first, end = own_part(batch, reader, readers)
    with lmdb.open(path, readonly=True, lock=False) as env, env.begin() as txn:
        cursor, number, used = txn.cursor(), 0, 0
        while cursor.next():
            if first <= number % batch < end:
                used += len(cursor.value())
            number += 1
    return used


def step_over(path):
    with lmdb.open(path, readonly=True, lock=False) as env, env.begin() as txn:
        return sum(1 for _ in txn.cursor().iternext(keys=True, values=False))


def touch(path, places, pages, batch, node, nodes):
    first, end = own_part(batch, node, nodes)
    with open(path + "/data.mdb", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        for begin in range(0, len(places) - batch + 1, batch):
            for place in places[begin + first:begin + end]:
                for page in range(place, place + pages):
                    memory[page * PAGE]  # pylint: disable=pointless-statement


def read_parts(path, places, pages, batch, node, nodes):
    first, end = own_part(batch, node, nodes)
    file = os.open(path + "/data.mdb", os.O_RDONLY)
    for begin in range(0, len(places) - batch + 1, batch):
        part = places[begin + first:begin + end]
        left, at = (max(part) + pages - min(part)) * PAGE, min(part) * PAGE
        while left:
            got = len(os.pread(file, left, at))
            left, at = left - got, at + got
    os.close(file)


def read(way, path, places, numbers):
    nodes, readers, batch, node, reader = numbers
    # All values have the same number of pages: the least distance between neighbours in the file.
    pages = min(b - a for a, b in zip(places, places[1:]) if b > a)
    if way == "lmdb":
        step_through(path, batch, node * readers + reader, nodes * readers)
    elif reader:
        return
    elif way == "lmm":
        step_through(path, batch, node, nodes)
    elif way == "dm":
        touch(path, places, pages, batch, node, nodes)
    elif way == "coal":
        read_parts(path, places, pages, len(places) // batch * batch, node, nodes)
    else:
        if way == "dio" and not node:
            step_over(path)
        read_parts(path, places, pages, batch, node, nodes)


def job(way, places_path, readers, batch, directories):
    if way not in ("lmdb", "lmm", "dm", "dio", "prov", "coal"):
        sys.exit(f"there is no way {way}")
    places = array.array("I")
    with open(places_path, "rb") as file:
        places.frombytes(file.read())
    context, nodes = multiprocessing.get_context("fork"), len(directories)
    together = context.Barrier(nodes * readers)

    def one(node, reader):
        together.wait()
        read(way, directories[node], places, (nodes, readers, batch, node, reader))

    processes = [context.Process(target=one, args=(node, reader)) for node in range(nodes) for reader in range(readers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit("a reader has failed")


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif len(sys.argv) > 6 and sys.argv[1] == "read":
        job(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6:])
    else:
        sys.exit(__doc__)
