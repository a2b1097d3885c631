# SPDX-License-Identifier: OLDAP-2.8
"""lmdbio: reads LMDB data sets in large requests, ahead of need, once per node.

    import lmdbio

    with lmdbio.Loader("train.lmdb", batch=256, seed=1) as loader:
        for epoch in range(90):
            for batch in loader.epoch(epoch):
                for key, value in batch:      # memoryviews of lmdbio's own memory, not copies
                    ...

Loader          mini-batches in an order that follows from a seed, read ahead
Records         the loader's records as a PyTorch IterableDataset
Hints           announces the records that a py-lmdb program reads next
stats           lmdbio's counters in this process
lmdbio.torch    AnnouncingSampler: read-ahead for an unmodified map-style Dataset

`python3 -m lmdbio run train.py` starts a script on lmdbio; `python3 -m lmdbio check` says whether
lmdbio takes effect on py-lmdb. The package calls the C library through ctypes.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._native import Error, library, stats
from .loader import Batch, Loader
from .hints import Hints

if TYPE_CHECKING:
    from .records import Records as Records

__version__ = "0.2.0"
__all__ = ["Batch", "Error", "Hints", "Loader", "Records", "library", "stats"]


def __getattr__(name: str) -> Any:
    # Records derives from torch's IterableDataset: the first use of Records imports torch.
    if name == "Records":
        from .records import Records
        return Records
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
