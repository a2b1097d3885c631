# SPDX-License-Identifier: OLDAP-2.8
"""Checks which records AnnouncingSampler announces, and where it goes on; prints a line for each case.

usage: announcer_check.py DIRECTORY, which is made
"""
import os
import pickle
import resource
import subprocess
import sys
import zlib

import lmdb

import lmdbio
from lmdbio.announce import Announcer
from lmdbio.keys import parts
from lmdbio.torch import AnnouncingSampler

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


def grown(folder):
    """Checks that an announcer goes on when a writer has made the data set larger than its map was."""
    write = ("import lmdb, sys\n"
             "with lmdb.open(sys.argv[1], map_size=1 << 24) as env, env.begin(write=True) as txn:\n"
             "    for i in range(1000):\n"
             "        txn.put(b'new-%04d' % i, b'v' * 4000)\n")
    for depth in 1, 8:  # the transaction of the next announcement is renewed, or begins
        path = f"{folder}-{depth}"
        data_set(path, {b"%04d" % i: b"v" * 100 for i in range(100)})
        announcer = Announcer(path, lock=True, depth=depth)
        announcer.records([0])
        subprocess.run([sys.executable, "-c", write, path], check=True)
        try:
            announcer.records([1])
            good = announcer.value(b"new-0999") == b"v" * 4000 and announcer.entries() == 1100
        except lmdbio.Error as error:
            print(error)
            good = False
        judge(f"announcer_{depth}_deep_goes_on_in_a_larger_map", good)
        announcer.close()


def rested(path):
    """Checks that a sampler with a lock pins no snapshot between two iterations, however they end."""
    data_set(path, {b"%04d" % i: b"v" for i in range(100)})
    sampler = AnnouncingSampler(range(100), path, key="order", lock=True, ahead=10)
    look = ("import lmdb, sys\n"
            "with lmdb.open(sys.argv[1]) as env:\n"
            "    print(env.readers())\n")

    def pins():
        """Returns the transactions of readers that are not idle, as another process sees them."""
        shown = subprocess.run([sys.executable, "-c", look, path], check=True, stdout=subprocess.PIPE, text=True)
        last = [line.split()[-1] for line in shown.stdout.splitlines() if line.strip()]
        return [word for word in last if word.isdigit()]

    for how, end in ("ends", list), ("is_left", lambda entries: entries.close()):
        entries = iter(sampler)
        next(entries)
        judge(f"sampler_that_{how}_has_pinned_a_snapshot", pins() != [])
        end(entries)
        judge(f"sampler_that_{how}_pins_none_then", pins() == [])


def many(folder):
    """Checks that a folder of more files than a process may open leaves descriptors to the program."""
    os.mkdir(folder)
    files, limits = 100, resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(files):
        data_set(os.path.join(folder, "%04d.lmdb" % number), {b"0": b"", b"length": pickle.dumps(1)}, subdir=False)
    sampler, most = AnnouncingSampler([i * 37 % files for i in range(3 * files)], folder, "ocp", ahead=20), 0
    # Never more than half of the limit are open: the descriptors that are open now, and a quarter of the limit.
    before = len(os.listdir("/proc/self/fd"))
    limit = max(80, 4 * before)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))
        for _ in sampler:
            most = max(most, len(os.listdir("/proc/self/fd")))
    except (lmdbio.Error, OSError) as error:
        print(error)
        most = limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    judge(f"folder_of_many_files_leaves_descriptors: {most} of {limit}", before < most <= limit // 2)
    last = {i * 37 % files for i in range(3 * files - 5, 3 * files)}
    judge("files_that_were_announced_last_stay_open", last <= set(sampler._announcers))


def texts(path):
    """Checks that an error's text is shown if the C library's locale is another one than UTF-8."""
    lib, announcer = lmdbio.library(), Announcer(path)
    strerror, lib.mdb_strerror = lib.mdb_strerror, lambda code: b"Ung\xfcltig"
    try:
        announcer.value(b"")
        told = "no error"
    except (lmdbio.Error, UnicodeError) as error:
        told = str(error)
    lib.mdb_strerror = strerror
    announcer.close()
    judge(f"error_in_latin_1_is_told: {told!a}", told == f"{path}: " + os.fsdecode(b"Ung\xfcltig"))


def negative(folder):
    """Checks that a negative index counts from the end where an index is a number, in one data set too."""
    os.mkdir(folder)
    plain, counted = os.path.join(folder, "plain"), os.path.join(folder, "counted.lmdb")
    data_set(plain, {b"%d" % i: b"" for i in range(5)})
    data_set(counted, {b"length": pickle.dumps(3), **{b"%d" % i: b"" for i in range(3)}}, subdir=False)
    announced = []
    real = Announcer.records, Announcer.keys
    Announcer.records = Announcer.keys = lambda announcer, found: announced.extend(found)
    for key, path, expected in (("order", plain, [4, 0, 1]), ("lsun", plain, [4, 0, 1]),
                                ("ocp", counted, [b"2", b"0", b"1"])):
        announced.clear()
        length = 5 if path == plain else 3
        try:
            good = list(AnnouncingSampler([-1, -length, 1], path, key)) == [-1, -length, 1] and announced == expected
        except ValueError as error:
            print(error)
            good = False
        judge(f"negative_index_of_{key}_counts_from_the_end", good)
        for beyond in (-length - 1, length) if key == "ocp" else (-length - 1,):
            try:
                list(AnnouncingSampler([beyond], path, key))
                good = False
            except IndexError as error:
                good = f"index {beyond}" in str(error)
            judge(f"index_{beyond}_of_{key}_is_refused", good)
    Announcer.records, Announcer.keys = real


def listed(folder):
    """Checks that a line of meta_info.txt gives the key that BasicSR takes from it: all before the first dot."""
    os.mkdir(folder)
    with open(os.path.join(folder, "meta_info.txt"), "w", encoding="ascii") as listing:
        listing.write("000/00000001.png (720,1280,3) 1\nmy picture.png (8,8,3) 1\nbare (8,8,3) 1\n")
    keys = parts("mmengine", folder)[0].keys
    found = [keys(i) for i in range(3)]
    judge(f"name_with_a_blank_is_a_key: {found}", found == [b"000/00000001", b"my picture", b"bare"])


def named(path):
    """Checks that a database whose name is not UTF-8 is found by the string that os.fsdecode() makes of such bytes."""
    with lmdb.open(path, max_dbs=1, map_size=1 << 20) as env:
        with env.begin(write=True, db=env.open_db(b"\xe9t\xe9")) as txn:
            txn.put(b"0", b"value")
    name, found = "\udce9t\udce9", []
    try:
        found += lmdbio.Records(path, 8, name=name, lock=False)
        found += AnnouncingSampler([0], path, "order", name=name)
    except ValueError as error:
        print(repr(error))
    judge("database_with_a_name_in_latin_1_is_found", found == [(b"0", b"value"), 0])
    try:
        lmdbio.Loader(path, 8, name="\ud800")
        told = "no error"
    except ValueError as error:
        told = str(error)
    judge(f"name_that_no_database_has_is_named: {told!a}", told.startswith("name='\\ud800'"))


def main(folder):
    os.mkdir(folder)
    grown(os.path.join(folder, "grown"))
    folders(os.path.join(folder, "folders"))
    named(os.path.join(folder, "named"))
    listed(os.path.join(folder, "listed"))
    negative(os.path.join(folder, "negative"))
    texts(os.path.join(folder, "grown-1"))
    many(os.path.join(folder, "many"))
    rested(os.path.join(folder, "rested"))
    sys.exit(bad)


main(sys.argv[1])
