# SPDX-License-Identifier: OLDAP-2.8
"""For PyTorch: reads ahead for a map-style Dataset over LMDB that you do not change.

    from lmdbio.torch import AnnouncingSampler

    sampler = AnnouncingSampler(RandomSampler(dataset), "train.lmdb", key="{:08d}")
    loader = DataLoader(dataset, batch_size=256, sampler=sampler, num_workers=4)

The main process draws the indices of coming batches before its workers read them. The sampler
announces the records of these indices to lmdbio, and the workers find them in the node's store.
Start the program by lmdbio-run, so that the workers read through lmdbio.
"""
from __future__ import annotations

import bisect
import collections
import collections.abc
import ctypes
import importlib
import itertools
import os
import threading
from typing import Any, ContextManager, Iterable, Iterator, Sequence, Union

from .announce import Announcer, most_environments
from .keys import Key, Part, Paths, check_key, parts
from .loader import Path, name_bytes, path_bytes, whole

__all__ = ["AnnouncingSampler", "LazyEnvironment"]


def _is_batch(entry: Any) -> bool:
    """Returns whether a sampler's entry is several indices. An array or tensor of no dimension is one index."""
    return (isinstance(entry, collections.abc.Collection) and not isinstance(entry, (str, bytes))
            and getattr(entry, "ndim", 1) > 0)


class AnnouncingSampler:
    """Yields the entries of another sampler, and announces their records to lmdbio before.

    sampler  a Sampler of indices or a BatchSampler (DataLoader's sampler= or batch_sampler=)
    path     the data set: a directory, or a data file; with 'ase' and 'ocp' also a folder of files,
             a pattern ('train/*.aselmdb'), or a list of these, through which an index counts
    key      the records that an index stands for: a function that returns a key or several, a format
             string ('{:08d}'), or a preset: 'order' (the n-th record of the database), 'caffe',
             'lsun' (both as 'order'), 'mmengine' (the n-th line of meta_info.txt), 'ase'
             (fairchem's .aselmdb), 'ocp' (Open Catalyst's .lmdb), 'deepmd' (DeePMD-kit's frames)
    name     a named database; None is the main one
    lock     True takes up to four slots in each file's reader table during an iteration, beside live writers,
             which reuse a page only about 64 announcements (of half of `ahead` records) after they freed it.
             The process that iterates must not have the data set open itself, unless with lock=False: LMDB
             opens a lock file once in a process (<lmdb.h>). Its workers may
    ahead    records that are announced in front of the yielded one: this many at most, half as many
             at least; DataLoader's own prefetch_factor comes on top

    The process that iterates makes the announcements, in an environment of its own, which it opens
    at its first iteration. So the sampler can be made before workers are forked.
    """

    def __init__(self, sampler: Iterable[Any], path: Paths, key: Key, *, name: Union[str, None] = None,
                 lock: bool = False, ahead: int = 256) -> None:
        whole("ahead", ahead, 1)
        check_key(key, path)
        name_bytes(name)
        self.sampler, self.path, self.key = sampler, path, key
        self.name, self.lock, self.ahead = name, lock, ahead
        self._parts: list[Part] = []
        self._ends: list[int] = []  # for each part: the first index behind it
        self._announcers: dict[int, Announcer] = {}
        self._process = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_parts": [], "_ends": [], "_announcers": {}, "_process": 0}

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """Passes the epoch on to the other sampler (DistributedSampler has one)."""
        self.sampler.set_epoch(epoch)  # type: ignore[attr-defined]

    def _announce(self, drawn: Sequence[Any]) -> None:
        indices: list[Any] = []
        for entry in drawn:
            if _is_batch(entry):
                indices.extend(entry)
            else:
                indices.append(entry)
        if self._parts[0].length is None:
            self._announce_in(0, indices)
            return
        shares: dict[int, list[int]] = {}
        for index in map(int, indices):
            place = index + self._ends[-1] if index < 0 else index  # as torch's ConcatDataset counts
            if not 0 <= place < self._ends[-1]:
                raise IndexError(f"index {index}: path={self.path!r} has {self._ends[-1]} records")
            number = bisect.bisect(self._ends, place)
            shares.setdefault(number, []).append(place - (self._ends[number - 1] if number else 0))
        for number, share in shares.items():
            self._announce_in(number, share)

    def _announce_in(self, number: int, indices: Sequence[Any]) -> None:
        part, announcer = self._parts[number], self._announcer(number)
        if part.keys is None:
            announcer.records(self._numbers(announcer, indices))
            return
        keys: list[bytes] = []
        for index in indices:
            found: Any = part.keys(index)
            if isinstance(found, (bytes, str)):
                found = [found]
            keys += [key if isinstance(key, bytes) else key.encode() for key in found]
        announcer.keys(keys)

    def _numbers(self, announcer: Announcer, indices: Sequence[Any]) -> list[int]:
        """Returns the numbers of records. Numbers above the last one are left to lmdbio: the data set may grow."""
        numbers = [int(index) for index in indices]
        if numbers and min(numbers) < 0:
            end = announcer.entries()
            if min(numbers) < -end:
                raise IndexError(f"index {min(numbers)}: path={self.path!r} has {end} records")
            numbers = [number + end if number < 0 else number for number in numbers]
        return numbers

    def _announcer(self, number: int) -> Announcer:
        """Returns the announcer of a part. Those used longest ago are closed for it, if there are many."""
        found = self._announcers.pop(number, None)
        if found is None:
            most = most_environments(self.lock)
            while len(self._announcers) >= most:
                self._announcers.pop(next(iter(self._announcers))).close()
            depth = max(8, 64 // len(self._parts))
            found = Announcer(self._parts[number].path, self.name, self.lock, depth)
        self._announcers[number] = found  # the last one in the dict's order
        return found

    def _open(self) -> None:
        if self._process != os.getpid():
            self._parts = parts(self.key, self.path)
            self._ends = list(itertools.accumulate(part.length or 0 for part in self._parts))
            self._announcers = {}
            self._process = os.getpid()

    def _rest(self) -> None:
        """Lets a writer reuse the pages of the announced snapshots, until the next announcement."""
        if self._process == os.getpid():
            for announcer in self._announcers.values():
                announcer.rest()

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._entries()
        finally:
            self._rest()

    def _entries(self) -> Iterator[Any]:
        self._open()
        source = iter(self.sampler)
        waiting: collections.deque[Any] = collections.deque()
        group = 0  # entries that are drawn and announced together: about half of `ahead` records
        while True:
            if len(waiting) <= group:
                first = list(itertools.islice(source, 1)) if not group else []
                if first:
                    width = len(first[0]) if _is_batch(first[0]) else 1
                    group = max(1, self.ahead // 2 // max(1, width))
                drawn = first + list(itertools.islice(source, max(group, 1)))
                if drawn:
                    self._announce(drawn)
                    waiting.extend(drawn)
            if not waiting:
                return
            yield waiting.popleft()


def _keep(inherited: Any) -> None:
    """Has a forked child never free its parent's environment, not even when the interpreter ends.

    py-lmdb closes an environment that is freed. In a child, LMDB's mdb_env_close() takes the parent's slots out of
    the reader table, and drops the locks of the environment that the child has opened.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


class LazyEnvironment:
    """An lmdb.Environment that each process opens for itself, at its first use.

    DataLoader pickles a Dataset for workers that are started by "spawn", and an open
    lmdb.Environment cannot be pickled. Workers share by mistake an environment that was opened
    before a fork. This object keeps the arguments of lmdb.open() instead:

        def __init__(self, path):
            self.env = LazyEnvironment(path, lock=False, readahead=False)

        def __getitem__(self, index):
            with self.env().begin() as txn:
                ...
    """

    def __init__(self, path: Path, **options: Any) -> None:
        path_bytes(path)
        self.path = path
        self.options = {"readonly": True, "subdir": os.path.isdir(path), **options}
        self._env: Any = None
        self._process = 0
        # A lock for each process: a thread of the parent may have held the parent's when a child was forked.
        self._locks: dict[int, ContextManager[Any]] = {}

    def __call__(self) -> Any:
        process = os.getpid()
        if self._process != process:
            with self._locks.setdefault(process, threading.RLock()):
                self._open(process)
        return self._env

    def _open(self, process: int) -> None:
        """Opens the environment, unless another thread has opened it meanwhile."""
        if self._process != process:
            lmdb: Any = importlib.import_module("lmdb")
            if self._env is not None:
                _keep(self._env)
            # No call stands between these assignments, in which Ctrl-C could come: py-lmdb opens a
            # file only once in a process.
            self._env = lmdb.open(os.fspath(self.path), **self.options)
            self._process = process

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_env": None, "_process": 0, "_locks": {}}
