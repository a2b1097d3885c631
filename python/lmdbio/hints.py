# SPDX-License-Identifier: OLDAP-2.8
"""Hints: announces to lmdbio the records that a py-lmdb program reads next.

In a PyTorch data set whose sampler yields each batch of keys together with the batch that the same
worker gets next:

    class Pictures(torch.utils.data.Dataset):
        def __init__(self, path):
            self.path, self.txn = path, None

        def __getitems__(self, pair):       # once for each batch, in the worker
            now, following = pair
            if self.txn is None:            # opened in the process that uses it
                self.env = lmdb.open(self.path, readonly=True, lock=False)
                self.txn, self.hints = self.env.begin(), lmdbio.Hints(self.env)
                self.hints.prefetch_keys(self.txn, now)
            self.hints.prefetch_keys(self.txn, following)
            return [decode(self.txn.get(key)) for key in now]

Keep the transaction open: when it ends, lmdbio drops the announced records that it is not yet
reading. lmdbio.torch.AnnouncingSampler does the same for a data set that is not to be changed.
"""
from __future__ import annotations

import array
import ctypes
import importlib
import sys
from typing import Any, Optional, Sequence

from ._native import POINTER_SIZE, Stats, declare, text_of
from .loader import whole

NORMAL, SEQUENTIAL, RANDOM, STRIDE = range(4)  # enum lmdbio_advice
FOREIGN = 0  # of enum lmdbio_service


class Unusable(Exception):
    """Hints cannot be given; the text says why."""


def _is_cffi() -> bool:
    lmdb: Any = sys.modules["lmdb"]
    return bool(lmdb.Transaction.__module__ == "lmdb.cffi")


def _library_of_binding() -> ctypes.CDLL:
    """The library that py-lmdb itself calls, if it is lmdbio.

    The functions are looked up from the binding's own module, which finds lmdbio under LD_PRELOAD
    and LD_LIBRARY_PATH alike. A binding that contains an LMDB shows the mdb_* functions of that
    LMDB there: lmdbio_serves() says for a handle which library serves it.
    """
    module = importlib.import_module("lmdb_cffi" if _is_cffi() else "lmdb.cpython")
    for lib in (ctypes.CDLL(module.__file__), ctypes.CDLL(None)):
        if hasattr(lib, "lmdbio_serves"):
            return declare(lib)
    raise Unusable("this program does not run on lmdbio: start it by lmdbio-run")


def _unknown_layout() -> Unusable:
    lmdb: Any = sys.modules["lmdb"]
    return Unusable(f"the objects of py-lmdb {lmdb.__version__} have a layout that is not known")


def _word_at(thing: Any, offset: int) -> Optional[int]:
    """Returns the pointer at an offset of a Python object. The pointer must lie inside the object."""
    if offset < 2 * POINTER_SIZE or offset % POINTER_SIZE or \
            offset + POINTER_SIZE > type(thing).__basicsize__:
        raise _unknown_layout()
    return ctypes.c_void_p.from_address(id(thing) + offset).value


def _handles(env: Any, txn: Any) -> tuple[Optional[int], Optional[int]]:
    """Returns the MDB_env * and MDB_txn * of py-lmdb's objects; the second is None after txn's end.

    The cffi binding keeps them as attributes. The CPython binding's objects are C structures
    without accessors; in all of its versions the list of weak references is followed by

        Environment:  MDB_env *env;
        Transaction:  EnvObject *env;  MDB_txn *txn;   (env is NULL when the transaction has ended)

    and Python gives the list's place, as __weakrefoffset__. The word before the MDB_txn * must be
    the address of `env` itself; each call checks this before it uses the next word.
    """
    lmdb: Any = sys.modules["lmdb"]
    if _is_cffi():
        found = [int(lmdb.cffi._ffi.cast("uintptr_t", h)) for h in (env._env, txn._txn)]
        return found[0], found[1] or None
    offset = lmdb.Transaction.__weakrefoffset__ + POINTER_SIZE
    owner = _word_at(txn, offset)
    if owner is None:
        return None, None
    if owner != id(env):
        raise Unusable("the transaction belongs to another environment, or " +
                       str(_unknown_layout()))
    return (_word_at(env, lmdb.Environment.__weakrefoffset__ + POINTER_SIZE),
            _word_at(txn, offset + POINTER_SIZE))


def record_numbers(numbers: Sequence[int]) -> "array.array[int]":
    """The numbers of records as the C library takes them."""
    return array.array("Q", [whole("numbers", number, bits=64) for number in numbers])


def address_of(text: bytes) -> int:
    """Returns the address of an object's bytes, which is valid as long as the object lives."""
    return ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0


def check_bytes(argument: str, key: Any) -> None:
    """Raises a TypeError that names the argument if the key is not bytes."""
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise TypeError(f"{argument}: {key!r} must be bytes")


def key_values(keys: Sequence[bytes]) -> tuple[int, tuple[bytes, "array.array[int]"]]:
    """Returns the address of an array of MDB_val for some keys, and the objects that hold its bytes."""
    for key in keys:
        check_bytes("keys", key)
    joined = b"".join(keys)
    address = address_of(joined)
    values = array.array("Q" if POINTER_SIZE == 8 else "I")
    for key in keys:  # an MDB_val is a size and an address
        size = len(key) if isinstance(key, bytes) else memoryview(key).nbytes  # len() counts a memoryview's items
        values.append(size)
        values.append(address)
        address += size
    return values.buffer_info()[0], (joined, values)


class Hints:
    """lmdbio's hints for an environment that py-lmdb has opened with readonly=True.

    If hints cannot be given (the program does not run on lmdbio, the environment is open for
    writing), each method does nothing, and `why_not` says why; otherwise `why_not` is None.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.why_not: Optional[str] = None
        self.library: Optional[ctypes.CDLL] = None
        try:
            self.library = _library_of_binding()
            with env.begin() as txn:
                self._check(self.library, txn)
        except (Unusable, OSError, ImportError, KeyError) as error:
            self.why_not = str(error)

    def _check(self, lib: ctypes.CDLL, txn: Any) -> None:
        """Checks that the library and the binding agree on the handles."""
        if not self.env.flags()["readonly"]:
            raise Unusable("the environment is open for writing")
        env, handle = _handles(self.env, txn)
        if env and lib.lmdbio_serves(env) == FOREIGN:
            raise Unusable("py-lmdb has an LMDB of its own, which lmdbio does not reach")
        if not env or not handle or lib.mdb_txn_env(handle) != env or \
                lib.mdb_txn_id(handle) != txn.id():
            raise _unknown_layout()

    def _handle(self, txn: Any) -> int:
        """Returns the MDB_txn * of a transaction. py-lmdb uses one for several objects: do not keep it."""
        handle = _handles(self.env, txn)[1]
        if not handle:
            raise self._error("the transaction has ended")
        return handle

    @staticmethod
    def _error(text: str) -> Exception:
        lmdb: Any = sys.modules["lmdb"]
        error: Exception = lmdb.Error(text)
        return error

    def _call(self, name: str, txn: Any, *arguments: Any) -> None:
        assert self.library is not None
        code = getattr(self.library, name)(self._handle(txn), *arguments)
        if code:
            raise self._error(text_of(self.library, code))

    def dbi(self, txn: Any, name: Optional[bytes] = None) -> int:
        """Returns the MDB_dbi of a database by its name: the same one if env.open_db() has opened it."""
        if self.why_not:
            return 0
        if name is not None:
            check_bytes("name", name)
        number = ctypes.c_uint()
        self._call("mdb_dbi_open", txn, name, 0, ctypes.byref(number))
        return number.value

    def prefetch_keys(self, txn: Any, keys: Sequence[bytes], dbi: int = 1) -> None:
        """Announces the records of some keys. 1 is the MDB_dbi of the unnamed database."""
        if self.why_not or not len(keys):
            return
        address, kept = key_values(keys)
        self._call("lmdbio_prefetch_keys", txn, whole("dbi", dbi), address, len(keys))
        del kept

    def prefetch_range(self, txn: Any, first: Optional[bytes] = None, last: Optional[bytes] = None,
                       dbi: int = 1) -> None:
        """Announces the records from key `first` to key `last`, both included; None: no bound."""
        if self.why_not:
            return
        for argument, end in ("first", first), ("last", last):
            if end is not None:
                check_bytes(argument, end)
        kept = [None if key is None else bytes(key) for key in (first, last)]
        ends = [None if key is None else
                (ctypes.c_size_t * 2)(len(key), address_of(key))
                for key in kept]
        self._call("lmdbio_prefetch_range", txn, whole("dbi", dbi), *ends)

    def prefetch_records(self, txn: Any, numbers: Sequence[int], dbi: int = 1) -> None:
        """Announces records by their numbers, counted from 0 in the order of the keys."""
        if self.why_not or not len(numbers):
            return
        values = record_numbers(numbers)
        self._call("lmdbio_prefetch_records", txn, whole("dbi", dbi), values.buffer_info()[0], len(values))

    def advise(self, txn: Any, advice: int, stride: int = 1, dbi: int = 1) -> None:
        """Says how a database will be read: NORMAL, SEQUENTIAL, RANDOM or STRIDE."""
        if advice not in (NORMAL, SEQUENTIAL, RANDOM, STRIDE):
            raise ValueError(f"advice={advice!r}: must be NORMAL, SEQUENTIAL, RANDOM or STRIDE")
        stride = whole("stride", stride, 1)
        if not self.why_not:
            self._call("lmdbio_advise", txn, whole("dbi", dbi), advice, stride)

    def statistics(self) -> dict[str, int]:
        """lmdbio's counters in this process, by name; empty if the program does not run on lmdbio."""
        if self.library is None:
            return {}
        found = Stats(size=ctypes.sizeof(Stats))
        code = self.library.lmdbio_stats(ctypes.byref(found))
        if code:
            raise self._error(text_of(self.library, code))
        return {name: getattr(found, name) for name, *_ in Stats._fields_ if name != "size"}
