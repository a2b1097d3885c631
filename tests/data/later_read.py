#!/usr/bin/python3
# SPDX-License-Identifier: OLDAP-2.8
"""Reads a data file of LMDB 1.0 by the format's description only, and prints its records.

usage: later_read.py [-a] FILE: key and value of each record, as lines of hexadecimal numbers that
begin with a space: with -a those of all named databases, otherwise those of the main database.
"""
import struct
import sys

HEADER, NONE = 24, (1 << 64) - 1
BRANCH, LEAF, OVERFLOW, META, ITEMS, SUB = 1, 2, 4, 8, 0x20, 0x40
BIG, TREE, DUPS = 1, 2, 4
DUPFIXED = 0x10


def even(number):
    return (number + 1) & ~1


class Record:
    """One tree, as the tree's 48 bytes describe it."""

    def __init__(self, data):
        (self.pad, self.flags, self.depth, self.branches, self.leaves, self.overflow, self.entries,
         self.root) = struct.unpack("<IHHQQQQQ", data)


class File:
    def __init__(self, name):
        with open(name, "rb") as file:
            self.data = file.read()
        first = self.meta(0)
        self.size = first[0].pad
        metas = [first, self.meta(self.size)]
        self.free, self.main, self.last, self.txn = max(metas, key=lambda meta: meta[3])

    def meta(self, at):
        flags, = struct.unpack_from("<H", self.data, at + 18)
        magic, version = struct.unpack_from("<II", self.data, at + 24)
        assert flags == META and magic == 0xBEEFC0DE and version == 3, "no meta page at %d" % at
        last, txn = struct.unpack_from("<QQ", self.data, at + 144)
        return Record(self.data[at + 48:at + 96]), Record(self.data[at + 96:at + 144]), last, txn

    def page(self, number):
        assert 2 <= number <= self.last, "page %d" % number
        page = self.data[number * self.size:(number + 1) * self.size]
        assert struct.unpack_from("<Q", page)[0] == number, "page %d is another" % number
        return page

    @staticmethod
    def nodes(page):
        lower, upper = struct.unpack_from("<HH", page, 20)
        assert lower % 2 == 0 and HEADER + lower <= HEADER + upper <= len(page), "bounds"
        for i in range(lower // 2):
            at = HEADER + struct.unpack_from("<H", page, HEADER + 2 * i)[0]
            yield (at, *struct.unpack_from("<HHHH", page, at))

    def items(self, page):
        """Yields the values in a page of duplicates, which are keys there."""
        pad, flags, lower = struct.unpack_from("<HHH", page, 16)
        if flags & ITEMS:
            for i in range(lower // 2):
                yield page[HEADER + i * pad:HEADER + (i + 1) * pad]
            return
        for at, _low, _high, _flags, size in self.nodes(page):
            yield page[at + 8:at + 8 + size]

    def leaves(self, number):
        page = self.page(number)
        flags, = struct.unpack_from("<H", page, 18)
        if flags & LEAF:
            yield page
            return
        assert flags == BRANCH, "flags %#x" % flags
        for _at, low, high, top, _size in self.nodes(page):
            yield from self.leaves(low | high << 16 | top << 32)

    def value(self, page, at, size):
        number, _txn, pages = struct.unpack_from("<QQQ", page, at)
        first = self.page(number)
        flags, run = struct.unpack_from("<HI", first, 18)
        assert flags == OVERFLOW and run == pages, "run of page %d" % number
        assert HEADER + size <= pages * self.size, "size of page %d" % number
        start = number * self.size + HEADER
        return self.data[start:start + size]

    def records(self, tree):
        """Yields each key with each of its values, or with the Record of a named database."""
        if tree.root == NONE:
            return
        for page in self.leaves(tree.root):
            for at, low, high, flags, size in self.nodes(page):
                key = page[at + 8:at + 8 + size]
                length, at = low | high << 16, at + 8 + even(size)
                data = page[at:at + length]
                if flags == BIG:
                    yield key, self.value(page, at, length)
                elif flags == TREE:
                    yield key, Record(data)
                elif flags == DUPS:
                    for item in self.items(data):
                        yield key, item
                elif flags == DUPS | TREE:
                    for leaf in self.leaves(Record(data).root):
                        for item in self.items(leaf):
                            yield key, item
                else:
                    assert flags == 0, "entry of flags %#x" % flags
                    yield key, data


def show(file, tree):
    found = 0
    for key, value in file.records(tree):
        found += 1
        if not isinstance(value, Record):
            print(" %s\n %s" % (key.hex(), value.hex()))
    assert found == tree.entries, "%d records, not %d" % (found, tree.entries)


def main():
    file = File(sys.argv[-1])
    if sys.argv[1] != "-a":
        show(file, file.main)
        return
    for key, value in file.records(file.main):
        if isinstance(value, Record):
            assert key[-1:] == b"\0", "a name without its end"
            show(file, value)


main()
