#!/usr/bin/python3
# SPDX-License-Identifier: OLDAP-2.8
"""Makes the first pages of data files that lmdbio does not read, by their layouts, and files that are no data files.

usage: formats_make.py DIRECTORY: each file's name says its kind.
"""
import os
import struct
import sys

MAGIC, NONE = 0xBEEFC0DE, (1 << 64) - 1
META = 8  # the page flag


def pages(one, count, size):
    """Two meta pages of transactions 0 and 1, and pages of zeros."""
    return b"".join(one(n).ljust(size, b"\0") for n in range(2)) + bytes((count - 2) * size)


def lmdb09(version=1, order="<", size=4096):
    """LMDB 0.9, 64-bit: a header of 16 bytes, the magic number at 16, the transaction at 144."""
    def meta(n):
        tree = struct.pack(order + "IHHQQQQQ", size, META, 0, 0, 0, 0, 0, NONE)
        main = struct.pack(order + "IHHQQQQQ", 0, 0, 0, 0, 0, 0, 0, NONE)
        return (struct.pack(order + "QHHHH", n, 0, META, 0, 0) +
                struct.pack(order + "IIQQ", MAGIC, version, 0, 1 << 20) + tree + main +
                struct.pack(order + "QQ", 1, n))
    return pages(meta, 2, size)


def lmdb09_32(size=4096):
    """LMDB 0.9 of a 32-bit program: page numbers and sizes have 4 bytes, the header 12."""
    def meta(n):
        tree = struct.pack("<IHHIIIII", size, META, 0, 0, 0, 0, 0, 0xFFFFFFFF)
        main = struct.pack("<IHHIIIII", 0, 0, 0, 0, 0, 0, 0, 0xFFFFFFFF)
        return (struct.pack("<IHHHH", n, 0, META, 0, 0) +
                struct.pack("<IIII", MAGIC, 1, 0, 1 << 20) + tree + main + struct.pack("<II", 1, n))
    return pages(meta, 2, size)


def lmdb1(size=4096, version=3):
    """LMDB 1.0: the header has the page's transaction and 24 bytes, the magic number is at 24."""
    def meta(n):
        tree = struct.pack("<IHHQQQQQ", size, META, 0, 0, 0, 0, 0, NONE)
        main = struct.pack("<IHHQQQQQ", 0, 0, 0, 0, 0, 0, 0, NONE)
        return (struct.pack("<QQHHHH", n, n, 0, META, 0, 0) +
                struct.pack("<IIQQ", MAGIC, version, 0, 1 << 20) + tree + main +
                struct.pack("<QQ", 1, n))
    return pages(meta, 2, size)


FILES = {
    "lmdb1": lmdb1(),
    "lmdb1-512": lmdb1(512),
    "lmdb1-65536": lmdb1(65536),
    "lmdb1-second": bytes(4096) + lmdb1()[4096:],
    "version2": lmdb09(version=2),
    "version2-later": lmdb1(version=2),
    "bits32": lmdb09_32(),
    "bits32-512": lmdb09_32(512),
    "byteorder": lmdb09(order=">"),
    "text": b"a line of text, and no data at all\n" * 1000,
    "short": b"hi\n",
    "zeros": bytes(9000),
    "zstd": struct.pack("<I", 0xFD2FB528) + bytes(range(200)),
    "empty": b"",
}

for name, content in FILES.items():
    with open(os.path.join(sys.argv[1], name + ".mdb"), "wb") as file:
        file.write(content)
