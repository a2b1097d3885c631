# SPDX-License-Identifier: OLDAP-2.8
"""Prints the content of a data.mdb, by a walk over its pages that shares no code with
lmdbio or LMDB:
    convert_pages.py index FILE     the record index, in the lines that convert_index prints
    convert_pages.py records FILE   every record of every database, in order"""
import hashlib
import struct
import sys

what = sys.argv[1]
data = open(sys.argv[2], "rb").read()
NONE = (1 << 64) - 1
BIG, SUBTREE, DUPS = 1, 2, 4
LEAF2 = 0x20


def tree(record):
    pad, flags, depth, branch, leaf, overflow, entries, root = struct.unpack("<IHHQQQQQ", record)
    return root, depth, entries


psize = struct.unpack_from("<I", data, 40)[0]
meta = max((data[i * psize:(i + 1) * psize] for i in (0, 1)),
           key=lambda m: struct.unpack_from("<Q", m, 144)[0])


def count(page):
    return (struct.unpack_from("<H", page, 12)[0] - 16) // 2


def nodes(page):
    for i in range(count(page)):
        at = struct.unpack_from("<H", page, 16 + 2 * i)[0]
        low, high, flags, ksize = struct.unpack_from("<HHHH", page, at)
        yield low, high, flags, page[at + 8:at + 8 + ksize], page[at + 8 + ksize:]


def entries(page):
    for low, high, flags, key, rest in nodes(page):
        yield flags, key, rest, low | high << 16


def records(page):
    n = 0
    for flags, key, rest, size in entries(page):
        n += 1 if not flags & DUPS else tree(rest[:48])[2] if flags & SUBTREE else count(rest)
    return n


def leaves(root, depth):
    if root == NONE:
        return
    page = data[root * psize:(root + 1) * psize]
    if depth == 1:
        yield root, page
        return
    for low, high, flags, key, rest in nodes(page):
        yield from leaves(low | high << 16 | flags << 32, depth - 1)


def duplicates(page):
    """Returns the values in a page of duplicates, which are keys there."""
    flags, pad = struct.unpack_from("<H", page, 10)[0], struct.unpack_from("<H", page, 8)[0]
    if flags & LEAF2:
        return [page[16 + i * pad:16 + (i + 1) * pad] for i in range(count(page))]
    return [key for flags, key, rest, size in entries(page)]


def values(flags, rest, size):
    if flags & BIG:
        at = struct.unpack_from("<Q", rest)[0] * psize + 16
        return [data[at:at + size]]
    if not flags & DUPS:
        return [rest[:size]]
    if not flags & SUBTREE:
        return duplicates(rest[:size])
    root, depth, _ = tree(rest[:48])
    return [value for _, page in leaves(root, depth) for value in duplicates(page)]


def show_index(name, record):
    root, depth, total = tree(record)
    first = pages = 0
    for number, page in leaves(root, depth):
        print("[%s] %d %d" % (name, number, first))
        first += records(page)
        pages += 1
    print("[%s] records %d %d" % (name, pages, first))
    assert first == total


def show_records(name, record):
    root, depth, total = tree(record)
    n = 0
    print("[%s] flags %d" % (name, struct.unpack_from("<H", record, 4)[0]))
    for _, page in leaves(root, depth):
        for flags, key, rest, size in entries(page):
            found = [b"a database"] if flags & (SUBTREE | DUPS) == SUBTREE else values(flags, rest, size)
            n += len(found)
            for value in found:
                print(key.hex(), len(value), hashlib.md5(value).hexdigest())
    print("[%s] records %d" % (name, n))
    assert n == total


sys.stdout.reconfigure(encoding="latin1")
show = {"index": show_index, "records": show_records}[what]
main = meta[88:136]
show("", main)
for number, page in leaves(*tree(main)[:2]):
    for flags, key, rest, size in entries(page):
        if flags & (SUBTREE | DUPS) == SUBTREE:
            show(key.decode("latin1"), rest[:48])
