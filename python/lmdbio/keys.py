# SPDX-License-Identifier: OLDAP-2.8
"""Which keys a data set's indices stand for, by the conventions of known programs."""
from __future__ import annotations

import importlib
import json
import os
import pathlib
import zlib
from typing import Any, Callable, Optional, Sequence, Union

from .loader import Path

KeyFunction = Callable[[Any], Union[bytes, str, Sequence[bytes]]]
Key = Union[str, KeyFunction]


def _stored(path: Path, *names: bytes) -> list[Optional[bytes]]:
    """The values of some keys of a data set."""
    lmdb: Any = importlib.import_module("lmdb")
    with lmdb.open(os.fspath(path), readonly=True, lock=False,
                   subdir=os.path.isdir(path)) as env, env.begin() as txn:
        return [txn.get(name) for name in names]


def _mmengine(path: Path) -> KeyFunction:
    """BasicSR, MMEditing: meta_info.txt names 'NAME.png (HEIGHT,WIDTH,CHANNELS) LEVEL' a line."""
    listing = pathlib.Path(os.fsdecode(path), "meta_info.txt")
    lines = listing.read_text().splitlines()
    keys = [line.split(" ")[0].split(".")[0].encode() for line in lines if line]
    return lambda index: keys[index]


def _ase(path: Path) -> KeyFunction:
    """ASE's LMDB back end: keys are numbers from 1 below `nextid`, without the deleted ones."""
    nextid, deleted = (None if value is None else json.loads(zlib.decompress(value))
                       for value in _stored(path, b"nextid", b"deleted_ids"))
    if nextid is None:
        raise ValueError(f"key='ase': {os.fsdecode(path)} has no record 'nextid'")
    if not deleted:
        return lambda index: b"%d" % (int(index) + 1)
    gone = set(deleted)
    kept = [number for number in range(1, nextid) if number not in gone]
    return lambda index: b"%d" % kept[index]


def _deepmd(path: Path) -> KeyFunction:
    """DeePMD-kit: `frame_idx_fmt` in the msgpack map `__metadata__`; by default 12 digits."""
    metadata = _stored(path, b"__metadata__")[0] or b""
    found = metadata.find(b"frame_idx_fmt")
    form = "012d"
    if found >= 0:
        at = found + len(b"frame_idx_fmt")
        length = metadata[at] & 31 if metadata[at:at + 1] and metadata[at] >> 5 == 5 else 0
        form = metadata[at + 1:at + 1 + length].decode() or form
    return lambda index: format(int(index), form).encode()


PRESETS: dict[str, Optional[Callable[[Path], KeyFunction]]] = {
    "order": None, "caffe": None, "lsun": None,
    "mmengine": _mmengine, "ase": _ase, "deepmd": _deepmd,
}


def check_key(key: Key) -> None:
    """Raises an error that says what `key` may be."""
    known = "must be a function, a format such as '{:08d}', or one of " + ", ".join(map(repr, PRESETS))
    if not callable(key) and not isinstance(key, str):
        raise TypeError(f"key={key!r}: {known}")
    if isinstance(key, str) and key not in PRESETS and "{" not in key:
        raise ValueError(f"key={key!r}: {known}")


def key_function(key: Key, path: Path) -> Optional[KeyFunction]:
    """The function from an index to its key or keys; None: the index is the record's number."""
    check_key(key)
    if callable(key):
        return key
    if key in PRESETS:
        preset = PRESETS[key]
        return preset(path) if preset else None
    form = key
    return lambda index: form.format(index).encode()
