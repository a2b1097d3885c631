# SPDX-License-Identifier: OLDAP-2.8
"""Checks which records AnnouncingSampler announces, and where it goes on; prints a line for each case.

usage: announcer_check.py DIRECTORY, which is made
"""
import os
import sys
import zlib

import lmdb

from lmdbio.keys import parts

bad = False


def judge(name, good):
    global bad
    print("ok" if good else "NOT OK", name)
    bad |= not good


def data_set(path, records, size=1 << 20, **options):
    with lmdb.open(path, map_size=size, **options) as env, env.begin(write=True) as txn:
        for key, value in records.items():
            txn.put(key, value)


def folders(folder):
    """Checks that an index counts through the files of a list in the order of fairchem's AseDBDataset."""
    for name in "rattled-300/b.aselmdb", "rattled-300/a.aselmdb", "rattled-300-subsampled/a.aselmdb":
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data_set(path, {b"nextid": zlib.compress(b"2"), b"1": b""}, subdir=False)
    with open(os.path.join(folder, "rattled-300", "._a.aselmdb"), "wb") as hidden:
        hidden.write(b"macOS makes such a file beside a.aselmdb")

    def found(*names):
        return [os.path.relpath(part.path, folder)
                for part in parts("ase", [os.path.join(folder, name) for name in names])]

    expected = ["rattled-300/a.aselmdb", "rattled-300/b.aselmdb", "rattled-300-subsampled/a.aselmdb"]
    judge("hidden_files_are_left_out", found("rattled-300") == expected[:2])
    judge("files_of_a_list_of_folders_follow_folder_by_folder",
          found("rattled-300-subsampled", "rattled-300") == expected)


def main(folder):
    os.mkdir(folder)
    folders(os.path.join(folder, "folders"))
    sys.exit(bad)


main(sys.argv[1])
