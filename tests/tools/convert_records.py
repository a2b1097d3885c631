# SPDX-License-Identifier: OLDAP-2.8
"""Compares every record of an import with the sources, which it reads without
lmdbio: convert_records.py KIND ENVIRONMENT SOURCE..."""
import os
import struct
import sys
import tarfile

import lmdb

kind, environment, sources = sys.argv[1], sys.argv[2], sys.argv[3:]


def files(root):
    for directory, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                yield os.path.relpath(path, os.fsencode(root)), open(path, "rb").read()


def label_lines(path):
    for line in open(path, "rb"):
        yield line.rstrip().rsplit(b" ", 1)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def datum(data):
    """Returns the fields of a Datum by their numbers, each once and in order."""
    fields, at, last = {}, 0, 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag >> 3 > last, "fields out of order"
        last = tag >> 3
        value, at = varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        else:
            assert tag & 7 == 0
        fields[last] = value
    return fields


def check_datum(value, image, label):
    fields = datum(value)
    assert fields[4] == image and fields[7] == 1
    assert fields[5] == label % (1 << 64)
    if image[:4] == b"\x89PNG":
        width, height = struct.unpack(">II", image[16:24])
        assert (fields[1], fields[2], fields[3]) == (3, height, width), fields
    elif image[:2] == b"\xff\xd8":
        assert (fields[1], fields[2], fields[3]) == (3, 40, 30), fields
    else:
        assert not {1, 2, 3} & set(fields)


def tars():
    for number, path in enumerate(sources):
        with tarfile.open(path, errors="surrogateescape") as tar:
            for member in tar:
                if member.isfile() or member.islnk():
                    name = member.name.encode(errors="surrogateescape").removeprefix(b"./")
                    yield number, name, member.islnk(), tar.extractfile(member).read()


def samples():
    wanted, number, before = {}, -1, None
    for shard, name, link, data in tars():
        directory, base = os.path.split(name)
        stem, dot, extension = base.partition(b".")
        if link or not stem or not extension:
            continue
        key = shard, os.path.join(directory, stem)
        if key != before:
            number, before = number + 1, key
            wanted[b"%010d.__key__" % number] = key[1]
        wanted[b"%010d.%s" % (number, extension)] = data
    return wanted


env = lmdb.open(environment, readonly=True, lock=False, subdir=os.path.isdir(environment))
with env.begin() as txn:
    found = {bytes(k): bytes(v) for k, v in txn.cursor()}
    assert list(found) == sorted(found)
if kind == "tree":
    wanted = dict(files(sources[0]))
elif kind == "labelled":
    wanted = dict(files(sources[0]))
    wanted.update({path + b".cls": label for path, label in label_lines(sources[1])})
elif kind == "tar":
    wanted = {name: data for _, name, _, data in tars()}
elif kind == "webdataset":
    wanted = samples()
elif kind == "datums":
    wanted = dict(files(sources[0]))
    assert set(found) == set(wanted), set(found) ^ set(wanted)
    for path, label in label_lines(sources[1]):
        check_datum(found[path], wanted[path], int(label))
    sys.exit(0)
elif kind == "images":
    lines = list(label_lines(sources[0]))
    assert list(found) == [b"%08d_%s" % (i, path) for i, (path, _) in enumerate(lines)]
    for i, (path, label) in enumerate(lines):
        image = open(os.path.join(os.fsencode(sources[1]), path), "rb").read()
        check_datum(found[b"%08d_%s" % (i, path)], image, int(label))
    sys.exit(0)
assert wanted and found == wanted, sorted(set(found) ^ set(wanted))[:10]
