#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Calls the readers of contrib/dlio as DLIO does. Compares each sample with py-lmdb's value, and the announced records
with the records that are read.

usage: dlio_check.py make FOLDER
       dlio_check.py read CLASS HOW SUFFIX FOLDER DATA...
       dlio_check.py many CLASS HOW FOLDER

`make` writes two data files, one.lmdb and two.lmdb. `read` reads FOLDER/NAME.SUFFIX for each file NAME.lmdb of
DATA. `many` makes more files of two records than the process may open, and reads them.
HOW is `index`, as DLIO's PyTorch loader reads: two workers, each every second batch, by read_index(); or
`iterate`, as DLIO's other loaders do: by next(). A stand-in replaces the parts of DLIO that a reader uses.
"""
import abc
import os
import resource
import sys
import types

import lmdb

RECORDS, BATCH, WORKERS = 48, 4, 2


class Kind:
    """Stands for the words of DLIO's enumerations."""
    TRAIN, ON_DEMAND = "train", "on_demand"


class Arguments:
    """Stands for DLIO's configuration, as a reader and its base class read it."""

    def __init__(self, names):
        self.read_threads, self.batch_size, self.num_samples_per_file = WORKERS, BATCH, RECORDS
        self.read_type, self.resized_image = Kind.ON_DEMAND, b"made before"
        samples = [(name, number) for name in names for number in range(RECORDS)]
        # An arbitrary order: a worker's samples are not neighbours in a file.
        self.index = {i: samples[i * 29 % len(samples)] for i in range(len(samples))}
        share = len(samples) // WORKERS
        self.files = {worker: [(i, *self.index[i]) for i in range(worker * share, (worker + 1) * share)]
                      for worker in range(WORKERS)}


class FormatReader(abc.ABC):
    """Stands for DLIO's base class: the same methods, with the same results, called in the same order."""

    arguments = None

    def __init__(self, dataset_type, thread_index):
        self._args, self.thread_index, self.dataset_type = self.arguments, thread_index, dataset_type
        self.open_file_map, self.image_idx, self.step = {}, 0, 1
        self.batch_size = self._args.batch_size
        self.global_index_map, self.file_map = self._args.index, self._args.files

    @abc.abstractmethod
    def open(self, filename):
        return None

    @abc.abstractmethod
    def close(self, filename):
        pass

    @abc.abstractmethod
    def get_sample(self, filename, sample_index):
        return None

    def _one(self, filename, sample_index, keep):
        if self.open_file_map.get(filename) is None:
            self.open_file_map[filename] = self.open(filename)
        self.get_sample(filename, sample_index)
        if not keep:
            self.close(filename)
            self.open_file_map[filename] = None
        return self._args.resized_image

    @abc.abstractmethod
    def read_index(self, global_sample_idx, step):
        self.step, self.image_idx = step, global_sample_idx
        return self._one(*self.global_index_map[global_sample_idx], False)

    @abc.abstractmethod
    def next(self):
        batch = []
        for self.image_idx, filename, sample_index in self.file_map[self.thread_index]:
            batch.append(self._one(filename, sample_index, True))
            if len(batch) == self.batch_size:
                yield batch
                batch = []

    @abc.abstractmethod
    def finalize(self):
        raise AssertionError("DLIO's own looks for files in a list that there is not")

    @abc.abstractmethod
    def is_index_based(self):
        return False

    @abc.abstractmethod
    def is_iterator_based(self):
        return False


def stand_in():
    """Makes the modules of DLIO that a reader imports."""
    for name in ("dlio_benchmark", "dlio_benchmark.reader", "dlio_benchmark.reader.reader_handler"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["dlio_benchmark.reader.reader_handler"].FormatReader = FormatReader


def make(folder):
    for first, name in enumerate(("one", "two")):
        with lmdb.open(os.path.join(folder, name + ".lmdb"), subdir=False, map_size=1 << 25) as env:
            with env.begin(write=True) as txn:
                for i in range(RECORDS):
                    size = (0, 100, 3000, 40000 + i, 150000)[i % 5]
                    txn.put(b"%d-%05d" % (first, i), bytes([i + 1, first]) * (size // 2) + b"!" * (size % 2))


def read(kind, how, suffix, folder, data):
    stand_in()
    import lmdbio_dlio
    expected = {}
    for path in data:
        name = os.path.join(folder, os.path.basename(path)[:-len("lmdb")] + suffix)
        with lmdb.open(path, subdir=False, readonly=True, lock=False) as env, env.begin() as txn:
            for number, value in enumerate(txn.cursor().iternext(keys=False)):
                expected[name, number] = value
    FormatReader.arguments = Arguments(sorted({name for name, _ in expected}))

    seen = []

    class Reader(getattr(lmdbio_dlio, kind)):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.told, self.taken = [], []

        def _turn(self, coming):
            self.told += [(name, int(number)) for name, number in coming]
            super()._turn(coming)

        def get_sample(self, filename, sample_index):
            value = super().get_sample(filename, sample_index)
            assert value == expected[filename, sample_index], (filename, sample_index)
            seen.append((filename, sample_index))
            self.taken.append((filename, int(sample_index)))
            return value

    announced, turn = [], lmdbio_dlio._Records.turn

    def watched(self, numbers):
        announced.extend((self._path, number) for number in numbers)
        turn(self, numbers)

    lmdbio_dlio._Records.turn = watched
    readers = [Reader(Kind.TRAIN, worker, 0) for worker in range(WORKERS)]
    assert all(reader.is_index_based() and reader.is_iterator_based() for reader in readers)
    if how == "index":
        for first in range(0, len(expected), BATCH):
            for i in range(first, first + BATCH):
                assert readers[first // BATCH % WORKERS].read_index(i, first // BATCH) == b"made before"
    else:
        for batches in zip(*(reader.next() for reader in readers)):
            assert all(len(batch) == BATCH for batch in batches)
    for reader in readers:
        reader.finalize()
        reader.finalize()
    assert sorted(seen) == sorted(expected), "not every sample once"
    if kind == "LmdbioAheadReader":
        # All records but those of each worker's first batch, each once.
        assert len(announced) == len(set(announced)) == len(expected) - WORKERS * BATCH, len(announced)
        assert all(reader.told == reader.taken[BATCH:] for reader in readers), "another batch than the next is announced"
    else:
        assert not announced
    print(f"right: {len(seen)} samples, {len(announced)} announced")


def many(kind, how, folder):
    global RECORDS
    RECORDS, paths = 2, [os.path.join(folder, "%03d.lmdb" % number) for number in range(80)]
    for path in paths:
        with lmdb.open(path, subdir=False, map_size=1 << 20) as env, env.begin(write=True) as txn:
            for i in range(RECORDS):
                txn.put(b"%d" % i, os.fsencode(path) + b"%d" % i)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    read(kind, how, "lmdb", folder, paths)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    elif sys.argv[1] == "many":
        many(*sys.argv[2:])
    else:
        read(*sys.argv[2:6], sys.argv[6:])
