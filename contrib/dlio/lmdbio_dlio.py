# SPDX-License-Identifier: OLDAP-2.8
"""Readers of LMDB data sets and containers for DLIO, the program of MLPerf Storage.

DLIO takes one of these classes by its name:

    reader:
      reader_classname: lmdbio_dlio.LmdbioReader

LmdbioReader       reads through lmdbio: data sets of LMDB 0.9 and 1.0, and containers
LmdbioAheadReader  the same, and announces each batch to lmdbio while it reads the batch before. It uses
                   DLIO's knowledge of the order, which MLPerf Storage's rules forbid
PyLmdbReader       reads through py-lmdb, for comparison: on the original, or on lmdbio if lmdbio-run
                   starts DLIO

Each file of DLIO's list is a data file, or a container of lmdbio-convert. Sample n of a file is its record
n in the order of the keys. DLIO needs only that each sample is read: it gives its loader an array that it
has made before.
"""
from __future__ import annotations

import array
import ctypes
from typing import Any, Iterator, Sequence

from dlio_benchmark.reader.reader_handler import FormatReader

from lmdbio._native import Value, check, library
from lmdbio.announce import Announcer, most_environments


class _Records(Announcer):
    """Reads the records of one file by their numbers.

    Two transactions take turns from batch to batch. A batch is read in the transaction in which it was
    announced, while the next batch is announced in the other one. Each transaction ends with its batch,
    so that it holds no memory.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._reading, self._following = self._begin(), self._begin()

    def turn(self, numbers: Sequence[int]) -> None:
        """Begins a batch, and announces the records of the next one."""
        lib = library()
        self._reading, self._following = self._following, self._reading
        lib.mdb_txn_reset(self._following)
        check(lib.mdb_txn_renew(self._following), self._path)
        if numbers:
            values = array.array("Q", numbers)
            check(lib.lmdbio_prefetch_records(self._following, self._dbi,
                                              values.buffer_info()[0], len(values)), self._path)

    def record(self, number: int) -> bytes:
        """Returns a copy of a record's value."""
        found = Value()
        check(library().lmdbio_get_record(self._reading, self._dbi, number, None,
                                          ctypes.byref(found)), f"{self._path}: record {number}")
        return ctypes.string_at(found.data, found.size)


class _Keyed:
    """Reads them through py-lmdb, which has no record numbers: it lists the keys when it opens a file."""

    def __init__(self, path: str) -> None:
        import lmdb
        self._env = lmdb.open(path, subdir=False, readonly=True, lock=False, readahead=False)
        with self._env.begin() as txn:
            self._keys = list(txn.cursor().iternext(values=False))

    def turn(self, numbers: Sequence[int]) -> None:
        """Does nothing: py-lmdb needs no announcement of a batch."""

    def record(self, number: int) -> bytes:
        """Returns a copy of a record's value."""
        with self._env.begin() as txn:
            value: bytes = txn.get(self._keys[number])
        return value

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()


class _LmdbReader(FormatReader):  # type: ignore[misc]
    """Reads samples for DLIO, which calls read_index() for each sample, or next() for all of them.

    DLIO closes a file after every sample unless reader.read_type says otherwise. Its environment stays
    open all the same, as in programs that train; of very many files, those used last.
    """

    _kind: Any = None

    def __init__(self, dataset_type: Any, thread_index: int, epoch: int) -> None:
        super().__init__(dataset_type, thread_index)
        self._files: dict[str, Any] = {}
        self._samples, self._indexed = 0, False

    def open(self, filename: str) -> Any:
        super().open(filename)
        return self._file(filename)

    def _file(self, filename: str) -> Any:
        """Returns an open file. Those used longest ago are closed for it, if there are many."""
        found = self._files.pop(filename, None)
        if found is None:
            # Readers that DLIO iterates over may be threads of one process.
            sharing = 1 if self._indexed else max(1, self._args.read_threads)
            while len(self._files) >= max(1, most_environments(False) // sharing):
                self._files.pop(next(iter(self._files))).close()
            found = self._kind(filename)
        self._files[filename] = found  # the last one in the dict's order
        return found

    def close(self, filename: str) -> None:
        super().close(filename)

    def get_sample(self, filename: str, sample_index: int) -> bytes:
        super().get_sample(filename, sample_index)
        if self._samples % self.batch_size == 0:
            self._turn(self._coming())
        self._samples += 1
        value: bytes = self._file(filename).record(int(sample_index))
        return value

    def _coming(self) -> list[tuple[str, int]]:
        """Returns the file and number of each sample of this reader's next batch to announce."""
        return []

    def _turn(self, coming: list[tuple[str, int]]) -> None:
        numbers: dict[str, list[int]] = {name: [] for name in self._files}
        for name, number in coming:
            self._file(name)
            numbers.setdefault(name, []).append(int(number))
        for name, file in self._files.items():
            file.turn(numbers[name])

    def next(self) -> Iterator[Any]:
        yield from super().next()

    def read_index(self, global_sample_idx: int, step: int) -> Any:
        self._indexed = True
        return super().read_index(global_sample_idx, step)

    def finalize(self) -> None:
        """Closes all files; the base class looks for them in a list of its own."""
        while self._files:
            self._files.popitem()[1].close()

    def is_index_based(self) -> bool:
        return True

    def is_iterator_based(self) -> bool:
        return True


class PyLmdbReader(_LmdbReader):
    """Reads through py-lmdb."""

    _kind = _Keyed


class LmdbioReader(_LmdbReader):
    """Reads through lmdbio, and announces nothing."""

    _kind = _Records


class LmdbioAheadReader(LmdbioReader):
    """Reads through lmdbio, and announces the next batch of this reader."""

    def _coming(self) -> list[tuple[str, int]]:
        size = self.batch_size
        if not self._indexed:
            rest = self.file_map[self.thread_index][self._samples + size:self._samples + 2 * size]
            return [(name, number) for _, name, number in rest]
        # DLIO's PyTorch loader deals batches of neighbouring indices to its workers in turn.
        first = self.image_idx + size * max(1, self._args.read_threads)
        return [self.global_index_map[index] for index in range(first, first + size)
                if index in self.global_index_map]
