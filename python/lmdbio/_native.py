# SPDX-License-Identifier: OLDAP-2.8
"""Finds lmdbio's C library and declares its functions for ctypes."""
from __future__ import annotations

import ctypes
import errno
import importlib
import os
import pathlib
from typing import Any, Optional

POINTER_SIZE = ctypes.sizeof(ctypes.c_void_p)
STATE_SIZE = 64  # bytes; LMDBIO_LOADER_STATE
NO_RECORD = 2**64 - 1
STALLS = 24

MDB_NOTFOUND, MDB_MAP_RESIZED, MDB_INCOMPATIBLE = -30798, -30785, -30784
MDB_NOSUBDIR, MDB_RDONLY, MDB_NOTLS, MDB_NOLOCK = 0x4000, 0x20000, 0x200000, 0x400000


class Error(Exception):
    """A call of lmdbio failed. `code` is LMDB's, errno's or lmdbio's own number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.code, str(self)))


class Value(ctypes.Structure):
    """MDB_val: a size in bytes and an address."""

    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class Sample(ctypes.Structure):
    """struct lmdbio_sample"""

    _fields_ = [
        ("record", ctypes.c_uint64),
        ("key", Value),
        ("data", Value),
        ("error", ctypes.c_int),
    ]


class BatchFields(ctypes.Structure):
    """struct lmdbio_batch"""

    _fields_ = [
        ("epoch", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("count", ctypes.c_size_t),
        ("samples", ctypes.POINTER(Sample)),
        ("decoded", ctypes.c_void_p),
    ]


class LoaderOptions(ctypes.Structure):
    """struct lmdbio_loader_options"""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("batch", ctypes.c_uint32),
        ("ranks", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("order", ctypes.c_int),
        ("tail", ctypes.c_int),
        ("skip_errors", ctypes.c_uint32),
        ("shares", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("buffer", ctypes.c_uint32),
        ("resident", ctypes.c_uint64),
        ("memory", ctypes.c_uint64),
        ("ahead", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("bandwidth", ctypes.c_uint64),
        ("stage_dir", ctypes.c_char_p),
        ("stage_size", ctypes.c_uint64),
        ("decode", ctypes.c_void_p),
        ("decode_context", ctypes.c_void_p),
        ("decode_size", ctypes.c_size_t),
        ("decode_threads", ctypes.c_uint32),
    ]


def _counters(*names: str) -> list[tuple[str, Any]]:
    return [(name, ctypes.c_uint64) for name in names]


class LoaderStats(ctypes.Structure):
    """struct lmdbio_loader_stats"""

    _fields_ = (
        _counters("size", "batches", "samples", "errors")
        + [("stalls", ctypes.c_uint64 * STALLS)]
        + _counters(
            "stall_ns", "epoch_ns", "memory_bytes", "stage_bytes", "peer_bytes", "file_bytes",
            "storage_bytes", "staged_bytes", "stage_state", "held_bytes", "reads_at_once",
            "peer_state", "peer_records",
        )
    )


class Stats(ctypes.Structure):
    """struct lmdbio_stats"""

    _fields_ = _counters(
        "size", "storage_requests", "storage_bytes", "served_bytes", "waits", "wait_ns",
        "hits_cache", "hits_arena_own", "hits_arena_peer", "at_rest", "evictions",
        "populate_calls", "prefetch_requests", "prefetch_bytes", "prefetch_used",
        "streams_started", "streams_broken", "fallbacks", "huge_bytes",
        "loader_memory_bytes", "loader_stage_bytes", "loader_peer_bytes", "loader_file_bytes",
        "container_chunks",
    )


class DatabaseStat(ctypes.Structure):
    """MDB_stat"""

    _fields_ = [
        ("page_size", ctypes.c_uint),
        ("depth", ctypes.c_uint),
        ("branch_pages", ctypes.c_size_t),
        ("leaf_pages", ctypes.c_size_t),
        ("overflow_pages", ctypes.c_size_t),
        ("entries", ctypes.c_size_t),
    ]


class Quality(ctypes.Structure):
    """struct lmdbio_quality"""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("positions", ctypes.c_double),
        ("labels", ctypes.c_double),
        ("worst", ctypes.c_double),
        ("distinct", ctypes.c_uint64),
    ]


_INT, _HANDLE, _U64 = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64
_SIZE, _TEXT, _UINT = ctypes.c_size_t, ctypes.c_char_p, ctypes.c_uint

# name, result, parameters
FUNCTIONS: list[tuple[str, Any, list[Any]]] = [
    ("mdb_strerror", _TEXT, [_INT]),
    ("mdb_env_create", _INT, [_HANDLE]),
    ("mdb_env_set_maxdbs", _INT, [_HANDLE, _UINT]),
    ("mdb_env_set_mapsize", _INT, [_HANDLE, _SIZE]),
    ("mdb_env_open", _INT, [_HANDLE, _TEXT, _UINT, _UINT]),
    ("mdb_env_close", None, [_HANDLE]),
    ("mdb_txn_begin", _INT, [_HANDLE, _HANDLE, _UINT, _HANDLE]),
    ("mdb_txn_commit", _INT, [_HANDLE]),
    ("mdb_txn_abort", None, [_HANDLE]),
    ("mdb_txn_reset", None, [_HANDLE]),
    ("mdb_txn_renew", _INT, [_HANDLE]),
    ("mdb_txn_env", _HANDLE, [_HANDLE]),
    ("mdb_txn_id", _SIZE, [_HANDLE]),
    ("mdb_dbi_open", _INT, [_HANDLE, _TEXT, _UINT, _HANDLE]),
    ("mdb_stat", _INT, [_HANDLE, _UINT, ctypes.POINTER(DatabaseStat)]),
    ("mdb_get", _INT, [_HANDLE, _UINT, _HANDLE, ctypes.POINTER(Value)]),
    ("lmdbio_version", _TEXT, []),
    ("lmdbio_serves", _INT, [_HANDLE]),
    ("lmdbio_stats", _INT, [ctypes.POINTER(Stats)]),
    ("lmdbio_prefetch_keys", _INT, [_HANDLE, _UINT, _HANDLE, _SIZE]),
    ("lmdbio_prefetch_range", _INT, [_HANDLE, _UINT, _HANDLE, _HANDLE]),
    ("lmdbio_prefetch_records", _INT, [_HANDLE, _UINT, _HANDLE, _SIZE]),
    ("lmdbio_advise", _INT, [_HANDLE, _UINT, _INT, _UINT]),
    ("lmdbio_get_record", _INT, [_HANDLE, _UINT, _U64, _HANDLE, ctypes.POINTER(Value)]),
    ("lmdbio_loader_open", _INT,
     [ctypes.POINTER(_HANDLE), _TEXT, _UINT, _TEXT, ctypes.POINTER(LoaderOptions)]),
    ("lmdbio_loader_epoch", _INT, [_HANDLE, _U64]),
    ("lmdbio_loader_batches", _U64, [_HANDLE]),
    ("lmdbio_loader_records", _U64, [_HANDLE]),
    ("lmdbio_loader_next_within", _INT, [_HANDLE, _U64, ctypes.POINTER(ctypes.POINTER(BatchFields))]),
    ("lmdbio_loader_save", _INT, [_HANDLE, _TEXT]),
    ("lmdbio_loader_restore", _INT, [_HANDLE, _TEXT]),
    ("lmdbio_loader_quiet", None, [_HANDLE, _INT]),
    ("lmdbio_loader_stats", _INT, [_HANDLE, ctypes.POINTER(LoaderStats)]),
    ("lmdbio_loader_verdict", _SIZE, [_HANDLE, _TEXT, _SIZE]),
    ("lmdbio_loader_quality", _INT, [_HANDLE, _U64, _SIZE, _SIZE, ctypes.POINTER(Quality)]),
    ("lmdbio_loader_close", None, [_HANDLE]),
    ("lmdbio_batch_done", None, [ctypes.POINTER(BatchFields)]),
]


def declare(lib: ctypes.CDLL) -> ctypes.CDLL:
    """Declares the types of the functions of <lmdb.h> and <lmdbio.h> that this package calls."""
    for name, result, parameters in FUNCTIONS:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, parameters
    return lib


def installed_file(folder: str, *below: str) -> Optional[str]:
    """The path of a file in `bin` or `lib` that was installed with this package, or None.

    A wheel has both folders in `native` beside this module. `make install` installs a module
    _place that names its folders.
    """
    try:
        installed: Any = importlib.import_module("lmdbio._place")
        place = pathlib.Path(getattr(installed, folder.upper()))
    except ImportError:
        place = pathlib.Path(__file__).parent / "native" / folder
    file = place.joinpath(*below)
    return str(file) if file.exists() else None


_library: Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    """The C library with its functions declared.

    The library is the first of these: lmdbio, if the process has loaded it already (as under
    lmdbio-run); the file that $LIBLMDBIO names; the file that was installed with this package; the
    liblmdb.so.0 that the system finds. Raises ImportError if that file is not lmdbio.
    """
    global _library
    if _library is None:
        lib = ctypes.CDLL(None)
        if not hasattr(lib, "lmdbio_loader_open"):
            lib = ctypes.CDLL(os.environ.get("LIBLMDBIO")
                              or installed_file("lib", "lmdbio", "liblmdb.so.0")
                              or "liblmdb.so.0")
        if not hasattr(lib, "lmdbio_loader_open"):
            raise ImportError(
                f"{lib._name} is not lmdbio's library: start this program by lmdbio-run, or set "
                "LIBLMDBIO to lmdbio's liblmdb.so.0")
        _library = declare(lib)
    return _library


def mpi_library() -> ctypes.CDLL:
    """Returns liblmdbio-mpi. The functions of library() take the loaders that it opens."""
    library()
    lib = ctypes.CDLL(os.environ.get("LIBLMDBIO_MPI")
                      or installed_file("lib", "lmdbio", "liblmdbio-mpi.so.0")
                      or "liblmdbio-mpi.so.0")
    lib.lmdbio_mpi_loader_open.restype = _INT
    lib.lmdbio_mpi_loader_open.argtypes = [
        _INT, ctypes.POINTER(_HANDLE), _TEXT, _UINT, _TEXT, ctypes.POINTER(LoaderOptions)]
    return lib


# LMDB's and the system's own texts of these codes name neither a file nor a remedy.
_DAMAGED = "it is damaged: lmdbio-check says where"
_UNKNOWN = "this is no data file that lmdbio reads: lmdbio-check says what it is"
FORKED = "a forked process has none of its parent's loaders: open one in the process that uses it, or make Records"
_EXPLAINED = {-30796: _DAMAGED, -30797: _DAMAGED, -30793: _UNKNOWN, -30794: _UNKNOWN, errno.ECHILD: FORKED}


def text_of(lib: ctypes.CDLL, code: int) -> str:
    """Returns LMDB's or the system's text of a code; the system's is in the locale's encoding."""
    return os.fsdecode(lib.mdb_strerror(code))


def check(code: int, what: str, texts: Optional[dict[int, str]] = None) -> None:
    """Raises Error for a code that is not 0. `what` names the file or the step, `texts` has texts for codes."""
    if code:
        text = {**_EXPLAINED, **(texts or {})}.get(code) or text_of(library(), code)
        raise Error(code, f"{what}: {text}")


def stats() -> dict[str, int]:
    """lmdbio's counters in this process, by the names of struct lmdbio_stats in lmdbio.h."""
    found = Stats(size=ctypes.sizeof(Stats))
    check(library().lmdbio_stats(ctypes.byref(found)), "statistics")
    return {name: getattr(found, name) for name, *_ in Stats._fields_ if name != "size"}
