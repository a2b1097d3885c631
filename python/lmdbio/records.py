# SPDX-License-Identifier: OLDAP-2.8
"""Records: the batch loader as an iterable data set that PyTorch's workers share."""
from __future__ import annotations

import ctypes
import os
from itertools import compress
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional

from ._native import mpi_library
from .announce import Announcer
from .loader import Loader, Path, handle_of, loader_options, name_bytes, path_bytes, whole

if TYPE_CHECKING:
    class _Base:
        """Stands for torch's IterableDataset, so that mypy needs no torch."""

    def _worker() -> Any:
        """Stands for torch's get_worker_info."""
else:
    try:
        from torch.utils.data import IterableDataset as _Base
        from torch.utils.data import get_worker_info as _worker
    except ImportError:
        class _Base:
            """The base class of Records if torch is not installed."""

        def _worker():
            return None


class Records(_Base):
    """An iterable of decoded samples, or of whole batches, for torch.utils.data.DataLoader.

    A Records object can be pickled and forked: each worker opens a loader of its own and gets its
    share of every batch. Without torch, Records is a plain iterable. A process has one iteration at a
    time: a new one ends the one before, which raises lmdbio.Error at its next batch.

    path, batch  as for Loader, like all further keyword arguments
    decode       decode(key, value) makes a sample of two memoryviews; None gives bytes of both
    batches      True: decode(batch) is called with each whole Batch instead; None gives the Batch itself,
                 of which a worker hands out a copy
    ranks, rank  the number of processes of the job, and this one's number; comm= gives both
    workers      for len() with batches=True: DataLoader's num_workers; each worker gives its own
                 part of every batch
    skip_errors  True: a record that cannot be read is left out, and counted in the attribute
                 `skipped`, which each of DataLoader's workers has for itself. With batches=True
                 the record is an entry in Batch.errors
    """

    def __init__(self, path: Path, batch: int, *, decode: Optional[Callable[..., Any]] = None,
                 batches: bool = False, ranks: int = 1, rank: int = 0, workers: int = 0,
                 **options: Any) -> None:
        super().__init__()
        path_bytes(path)
        name_bytes(options.get("name"))
        self.workers = whole("workers", workers)
        loader_options(batch=batch, ranks=ranks, rank=rank, **{
            word: value for word, value in options.items() if word not in ("name", "lock", "comm")})
        self.path, self.batch, self.decode, self.batches = path, batch, decode, batches
        self.ranks, self.rank, self.options = ranks, rank, options
        self.epoch = self.skipped = 0
        self._loader: Optional[Loader] = None
        self._of: Optional[tuple[int, int, int]] = None
        self._length: Optional[int] = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None, "_of": None, "skipped": 0}

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration reads.

        Workers that DataLoader keeps (persistent_workers=True) have the epoch that they were made with, and
        read it again: leave that argument out.
        """
        self.epoch = epoch

    def __len__(self) -> int:
        """Returns the samples in an epoch of this rank and all its workers; the batches with batches=True."""
        if self._length is None:
            full, rest = divmod(self._records(), self.batch)
            if self.options.get("tail") == "drop":
                rest = 0
            self._length = ((full + bool(rest)) * (self.workers or 1) if self.batches
                            else self._samples(full, rest))
        return self._length

    def _records(self) -> int:
        """Returns the number of records in the database.

        The call opens no lock file: closing one drops the locks of all environments that the process has open there.
        """
        reader = Announcer(self.path, self.options.get("name"), depth=1)
        try:
            return reader.entries()
        finally:
            reader.close()

    def _samples(self, full: int, rest: int) -> int:
        """Counts the places of each batch that are this rank's, as lib/loader/loader_order.c does."""
        ranks, rank = self._job()
        if self._is_strided():
            places = range(rank, self.batch, ranks)
        else:
            places = range(self.batch * rank // ranks, self.batch * (rank + 1) // ranks)
        if rest and self.options.get("tail") == "wrap":
            rest = self.batch
        return full * len(places) + sum(place < rest for place in places)

    def _is_strided(self) -> bool:
        """Returns whether a rank has every ranks-th place of a batch, and not a run of neighbours."""
        return self.options.get("order") == "sequential" and (self.options.get("shares") or 1) == 1

    def _job(self) -> tuple[int, int]:
        """Returns the number of ranks in the job, and the rank of this process."""
        comm = self.options.get("comm")
        if comm is None:
            return self.ranks, self.rank
        ranks, rank, mpi = ctypes.c_int(), ctypes.c_int(), mpi_library()
        for call, found in (mpi.MPI_Comm_size, ranks), (mpi.MPI_Comm_rank, rank):
            if call(handle_of(comm), ctypes.byref(found)):
                raise ValueError(f"comm={comm!r}: MPI knows no such communicator")
        return ranks.value, rank.value

    def _open(self) -> Loader:
        worker = _worker()
        if worker and self.options.get("comm") is not None:
            raise ValueError("comm: a worker of DataLoader is no rank of a communicator: "
                             "set num_workers=0, or give ranks and rank")
        workers, number = (worker.num_workers, worker.id) if worker else (1, 0)
        if self.batches and worker and workers != (self.workers or workers):
            raise ValueError(f"workers={self.workers}: DataLoader has num_workers={workers}")
        of = (os.getpid(), workers, number)
        if self._of != of or self._loader is None:
            # Together the workers have the places that the rank has without workers.
            among = (self.rank + self.ranks * number if self._is_strided()
                     else self.rank * workers + number)
            self._loader = Loader(self.path, self.batch, ranks=self.ranks * workers, rank=among,
                                  **self.options)
            self._of = of
        return self._loader

    def __iter__(self) -> Iterator[Any]:
        for batch in self._open().epoch(self.epoch):
            if self.batches:
                yield self.decode(batch) if self.decode else batch
                continue
            readable = [not error for error in batch.errors]
            self.skipped += readable.count(False)
            for key, value in compress(batch, readable):
                yield self.decode(key, value) if self.decode else (bytes(key), bytes(value))
