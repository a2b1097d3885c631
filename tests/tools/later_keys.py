#!/usr/bin/python3
# SPDX-License-Identifier: OLDAP-2.8
"""Makes data files of LMDB 1.0 with keys and names at the border of what LMDB 0.9 can hold.

usage: later_keys.py DIRECTORY: a file NAME.mdb for each of CASES below.
"""
import os
import struct
import sys

SIZE, HEADER, NONE = 4096, 24, (1 << 64) - 1
BRANCH, LEAF, META = 1, 2, 8
TREE, DUPSORT, REVERSEKEY = 2, 4, 2
TXN = 5


def even(number):
    return (number + 1) & ~1


def leaf(number, entries):
    """Returns a leaf page of entries (flags, key, data)."""
    page, offsets, upper = bytearray(SIZE), [], SIZE
    for flags, key, data in entries:
        entry = struct.pack("<HHHH", len(data) & 0xffff, len(data) >> 16, flags, len(key)) + key
        entry += bytes(even(len(key)) - len(key)) + data
        upper -= even(len(entry))
        page[upper:upper + len(entry)] = entry
        offsets.append(upper - HEADER)
    struct.pack_into("<QQHHHH", page, 0, number, TXN, 0, LEAF, 2 * len(offsets), upper - HEADER)
    struct.pack_into("<%dH" % len(offsets), page, HEADER, *offsets)
    return bytes(page)


def branch(number, children):
    """Returns a branch page of entries (page number, key); the first key is empty."""
    page, offsets, upper = bytearray(SIZE), [], SIZE
    for child, key in children:
        entry = struct.pack("<HHHH", child, 0, 0, len(key)) + key
        upper -= even(len(entry))
        page[upper:upper + len(entry)] = entry
        offsets.append(upper - HEADER)
    struct.pack_into("<QQHHHH", page, 0, number, TXN, 0, BRANCH, 2 * len(offsets), upper - HEADER)
    struct.pack_into("<%dH" % len(offsets), page, HEADER, *offsets)
    return bytes(page)


def tree(root, entries, flags=0):
    if root == NONE:
        return struct.pack("<IHHQQQQQ", 0, flags, 0, 0, 0, 0, 0, NONE)
    return struct.pack("<IHHQQQQQ", 0, flags, 1, 0, 1, 0, entries, root)


def write(name, main, pages):
    """Writes a data file. `main`: the main database's record; `pages`: the pages from page 2 on."""
    last = 1 + len(pages)
    with open(name, "wb") as file:
        for number in range(2):
            free = struct.pack("<IHHQQQQQ", SIZE, 8, 0, 0, 0, 0, 0, NONE)
            meta = struct.pack("<IIQQ", 0xBEEFC0DE, 3, 0, 1 << 20) + free + main
            meta += struct.pack("<QQ", last, TXN - 1 + number if TXN & 1 else TXN - number)
            page = struct.pack("<QQHHHH", number, 0, 0, META, 0, 0) + meta
            file.write(page + bytes(SIZE - len(page)))
        for page in pages:
            file.write(page)


def with_database(name, database, key, data, record=None):
    entries = [(0, record, b"a record")] if record else []
    entries.append((TREE, name + b"\0", tree(3, 1, database)))
    return tree(2, len(entries)), [leaf(2, entries), leaf(3, [(0, key, data)])]


def with_databases(main, flags=0):
    """Returns a main database of pairs (key, value). Without a value the key is a database's name."""
    entries, leaves = [], []
    for key, value in main:
        if value is None:
            number = 3 + len(leaves)
            leaves.append(leaf(number, [(0, b"key", b"of " + key)]))
            entries.append((TREE, key + b"\0", tree(number, 1)))
        else:
            entries.append((0, key, value))
    return tree(2, len(entries), flags), [leaf(2, entries)] + leaves


def with_border(name):
    """Returns a main database of two leaves; the second leaf begins with a database's name."""
    main = struct.pack("<IHHQQQQQ", 0, 0, 2, 1, 2, 0, 3, 2)
    whole = name + b"\0"
    return main, [branch(2, [(3, b""), (4, whole)]), leaf(3, [(0, b"a", b"first")]),
                  leaf(4, [(TREE, whole, tree(5, 1)), (0, name + b"b", b"last")]),
                  leaf(5, [(0, b"key", b"value")])]


CASES = {
    "border": with_border(b"name"),
    "fits": (tree(2, 1), [leaf(2, [(0, b"k" * 511, b"value")])]),
    "key": (tree(2, 1), [leaf(2, [(0, b"k" * 600, b"value")])]),
    "named": with_database(b"long", 0, b"k" * 512, b"value"),
    "name": with_database(b"n" * 600, 0, b"key", b"value"),
    "twin": with_database(b"twin", 0, b"key", b"value", b"twin"),
    "values": with_database(b"sorted", DUPSORT, b"key", b"v" * 700),
    "nameless": with_databases([(b"", None), (b"key", b"value")]),
    # Compared from the end, a name's NUL comes first. LMDB 0.9's order is a1 b1 c1 d1 za bb cb ax zz.
    "reversed": with_databases([(b"za", None), (b"bb", None), (b"ax", None), (b"a1", b"1"),
                                (b"b1", b"2"), (b"c1", b"3"), (b"d1", b"4"), (b"cb", b"5"),
                                (b"zz", b"6")], REVERSEKEY),
    "reversed_twin": with_databases([(b"twin", None), (b"aa", b"1"), (b"twin", b"2")], REVERSEKEY),
    # In the order of a program's own comparison.
    "own": with_databases([(b"b", None), (b"a", None)]),
    "own_reversed": with_databases([(b"zz", b"3"), (b"za", None), (b"a1", b"1"), (b"bb", None)],
                                   REVERSEKEY),
    "own_twin": with_databases([(b"twin", b"2"), (b"zz", b"1"), (b"b", None), (b"twin", None)]),
    "own_twin_behind": with_databases([(b"twin", None), (b"zz", b"1"), (b"b", None),
                                       (b"twin", b"2")]),
    "own_twin_beside": with_databases([(b"zz", b"1"), (b"twin", None), (b"twin", b"2")]),
}

for case, (top, leaves) in CASES.items():
    write(os.path.join(sys.argv[1], case + ".mdb"), top, leaves)
