# SPDX-License-Identifier: OLDAP-2.8
"""Records: the batch loader as an iterable data set that PyTorch's workers share."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional

from .loader import Loader, Path, loader_options, path_bytes

if TYPE_CHECKING:
    class _Base:
        """Stands for torch's IterableDataset, for which mypy needs no torch."""

    def _worker() -> Any:
        """Stands for torch's get_worker_info."""
else:
    try:
        from torch.utils.data import IterableDataset as _Base
        from torch.utils.data import get_worker_info as _worker
    except ImportError:
        class _Base:
            """What Records derives from where torch is not installed."""

        def _worker():
            return None


class Records(_Base):
    """An iterable of decoded samples, or of whole batches, for torch.utils.data.DataLoader.

    A Records object can be pickled and forked: each worker opens a loader of its own and gets its
    share of every batch. Without torch it is a plain iterable.

    path, batch  as for Loader, and so are all further keyword arguments
    decode       decode(key, value) makes a sample of two memoryviews; None gives bytes of both
    batches      True: decode(batch) is called with each whole Batch instead
    ranks, rank  processes of the job, and the number of this one
    """

    def __init__(self, path: Path, batch: int, *, decode: Optional[Callable[..., Any]] = None,
                 batches: bool = False, ranks: int = 1, rank: int = 0, **options: Any) -> None:
        super().__init__()
        path_bytes(path)
        loader_options(batch=batch, ranks=ranks, rank=rank, **{
            word: value for word, value in options.items() if word not in ("name", "lock", "comm")})
        self.path, self.batch, self.decode, self.batches = path, batch, decode, batches
        self.ranks, self.rank, self.options = ranks, rank, options
        self.epoch = 0
        self._loader: Optional[Loader] = None
        self._of: Optional[tuple[int, int, int]] = None
        self._length: Optional[int] = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None, "_of": None}

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that the next iteration reads."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Samples in an epoch of this rank, or batches with batches=True."""
        if self._length is None:
            with Loader(self.path, self.batch, ranks=self.ranks, rank=self.rank,
                        **self.options) as loader:
                self._length = len(loader) if self.batches else self._samples(loader)
        return self._length

    def _samples(self, loader: Loader) -> int:
        """Counts the places of each batch that are this rank's, as lib/loader/loader_order.c does."""
        whole, rest = divmod(loader.records, self.batch)
        strided = self.options.get("order") == "sequential" and not self.options.get("shares")
        if strided:
            places = range(self.rank, self.batch, self.ranks)
        else:
            places = range(self.batch * self.rank // self.ranks,
                           self.batch * (self.rank + 1) // self.ranks)
        tail = self.options.get("tail", "pad")
        if rest == 0 or tail == "drop":
            last = 0
        elif tail == "wrap":
            last = len(places)
        else:
            last = sum(place < rest for place in places)
        return whole * len(places) + last

    def _open(self) -> Loader:
        worker = _worker()
        workers, number = (worker.num_workers, worker.id) if worker else (1, 0)
        of = (os.getpid(), workers, number)
        if self._of != of or self._loader is None:
            self._loader = Loader(self.path, self.batch, ranks=self.ranks * workers,
                                  rank=self.rank * workers + number, **self.options)
            self._of = of
        return self._loader

    def __iter__(self) -> Iterator[Any]:
        for batch in self._open().epoch(self.epoch):
            if self.batches:
                yield self.decode(batch) if self.decode else batch
                continue
            for key, value in batch:
                yield self.decode(key, value) if self.decode else (bytes(key), bytes(value))
