# SPDX-License-Identifier: OLDAP-2.8
"""Maps a data set's indices to keys, by the conventions of known programs."""
from __future__ import annotations

import glob
import io
import json
import os
import pathlib
import pickle
import zlib
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

from .announce import Announcer
from .loader import Path, path_bytes

KeyFunction = Callable[[Any], Union[bytes, str, Sequence[bytes]]]
Key = Union[str, KeyFunction]
Paths = Union[Path, Sequence[Path]]


class Part(NamedTuple):
    """One of the data sets whose records an index counts through, one data set after another."""

    path: Path
    keys: Optional[KeyFunction]  # of an index in this part; None: the index is the record's number
    length: Optional[int]        # indices in this part; None: all


def _stored(path: Path, *names: bytes) -> tuple[int, list[Optional[bytes]]]:
    """Returns the number of a data set's records, and the values of some keys.

    The call opens an environment of lmdbio's own: py-lmdb opens a file only once in a process, and
    the program may have opened it.
    """
    reader = Announcer(path, depth=1)
    try:
        return reader.entries(), [reader.value(name) for name in names]
    finally:
        reader.close()


def _mmengine(path: Path) -> KeyFunction:
    """BasicSR, MMEditing: lines of meta_info.txt are 'NAME.png (HEIGHT,WIDTH,CHANNELS) LEVEL'.

    The name may have blanks. Of a line without a dot, the name ends at the first blank.
    """
    listing = pathlib.Path(os.fsdecode(path), "meta_info.txt")
    lines = listing.read_text().splitlines()
    keys = [line.split("." if "." in line else " ")[0].encode() for line in lines if line]
    return lambda index: keys[index]


def _ase(path: Path) -> Part:
    """ASE's LMDB back end: keys are numbers from 1 below `nextid`, without the deleted ones."""
    nextid, deleted = (None if value is None else json.loads(zlib.decompress(value))
                       for value in _stored(path, b"nextid", b"deleted_ids")[1])
    if nextid is None:
        raise ValueError(f"key='ase': {os.fsdecode(path)} has no record 'nextid'")
    gone = set(deleted or ())
    kept: Sequence[int] = range(1, nextid)
    if gone:
        kept = [number for number in kept if number not in gone]
    return Part(path, lambda index: b"%d" % kept[int(index)], len(kept))


class _Number(pickle.Unpickler):
    """Loads only plain values, because the source of a data set may not be trusted."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no number")


def _ocp(path: Path) -> Part:
    """Open Catalyst's LmdbDataset: keys are numbers from 0 below the pickled number `length`."""
    entries, (length,) = _stored(path, b"length")
    try:
        count = entries if length is None else int(_Number(io.BytesIO(length)).load())
    except Exception as error:
        raise ValueError(f"key='ocp': {os.fsdecode(path)}: 'length' is no number: {error}") from None
    return Part(path, lambda index: b"%d" % int(index), count)


def _deepmd(path: Path) -> KeyFunction:
    """DeePMD-kit: `frame_idx_fmt` in the msgpack map `__metadata__`; by default 12 digits."""
    metadata = _stored(path, b"__metadata__")[1][0] or b""
    found = metadata.find(b"frame_idx_fmt")
    form = "012d"
    if found >= 0:
        at = found + len(b"frame_idx_fmt")
        length = metadata[at] & 31 if metadata[at:at + 1] and metadata[at] >> 5 == 5 else 0
        form = metadata[at + 1:at + 1 + length].decode() or form
    return lambda index: format(int(index), form).encode()


# Presets of one data set, and presets of several data sets, which are the files of a folder.
SINGLE: dict[str, Optional[Callable[[Path], KeyFunction]]] = {
    "order": None, "caffe": None, "lsun": None, "mmengine": _mmengine, "deepmd": _deepmd,
}
SPREAD: dict[str, tuple[Callable[[Path], Part], tuple[str, ...]]] = {
    "ase": (_ase, (".aselmdb", ".lmdb")), "ocp": (_ocp, (".lmdb",)),
}
PRESETS = sorted([*SINGLE, *SPREAD])


def _is_spread(key: Key) -> bool:
    return isinstance(key, str) and key in SPREAD


def check_key(key: Key, path: Paths) -> None:
    """Raises an error that lists the valid values if `key` or `path` has another one."""
    known = "must be a function, a format such as '{:08d}', or one of " + ", ".join(map(repr, PRESETS))
    if not callable(key) and not isinstance(key, str):
        raise TypeError(f"key={key!r}: {known}")
    if isinstance(key, str) and key not in PRESETS and "{" not in key:
        raise ValueError(f"key={key!r}: {known}")
    for one in path if _is_spread(key) and isinstance(path, (list, tuple)) else [path]:
        path_bytes(one)


def _inside(place: str, endings: tuple[str, ...]) -> list[str]:
    """Returns a data set itself, or the files with one of the endings in a folder or of a pattern.

    As in fairchem, hidden files do not count: macOS makes a file `._NAME` beside a copied file.
    """
    if os.path.isdir(place):
        inside = os.path.join(glob.escape(place), "")
        if not glob.glob(inside + "data.mdb*"):
            return [name for name in glob.glob(inside + "*") if name.endswith(endings)]
    if os.path.exists(place):
        return [place]
    return [name for name in glob.glob(place) if name.endswith(endings)]


def _files(key: str, paths: Paths) -> list[str]:
    """Returns the files of a data set that has several files, in the order in which its program counts.

    fairchem's AseDBDataset sorts the paths of a list, then the names in each folder: the files of a folder `a` come
    before those of `a-more`, whose full names are the smaller ones.
    """
    endings = SPREAD[key][1]
    places = sorted(os.fsdecode(path) for path in (paths if isinstance(paths, (list, tuple)) else [paths]))
    found = [sorted(_inside(place, endings)) for place in places]
    if not all(found) or not found:
        where = places[found.index([])] if found else paths
        raise ValueError(f"path={where!r}: there is no file {' or '.join('*' + e for e in endings)}, "
                         f"which key={key!r} reads")
    return sum(found, [])


def parts(key: Key, path: Paths) -> list[Part]:
    """Returns the data sets that an index counts through, each with its keys."""
    check_key(key, path)
    if _is_spread(key):
        return [SPREAD[str(key)][0](file) for file in _files(str(key), path)]
    only: Any = path
    if callable(key):
        return [Part(only, key, None)]
    if key in SINGLE:
        preset = SINGLE[key]
        return [Part(only, preset(only) if preset else None, None)]
    form = key
    return [Part(only, lambda index: form.format(index).encode(), None)]
