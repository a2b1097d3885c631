# SPDX-License-Identifier: OLDAP-2.8
"""Announcer: an environment of lmdbio's own that brings records into the node's store."""
from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from typing import Any, Optional, Sequence

from ._native import (MDB_MAP_RESIZED, MDB_NOLOCK, MDB_NOSUBDIR, MDB_NOTFOUND, MDB_NOTLS, MDB_RDONLY, DatabaseStat,
                      Error, Value, check, library)
from .hints import key_values, record_numbers
from .loader import Path, check_opened, name_bytes, path_bytes, whole

SLOTS = 4  # an announcer takes at most these of a reader table's 126, which all processes share


def most_environments(lock: bool) -> int:
    """Returns how many environments may take a quarter of this process's descriptors, with their lock files if any."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(1, limit // (8 if lock else 4))


class Announcer:
    """Brings records of a data set into this node's store, for all processes that read them.

    An announcer opens the data set beside the program's own environments. Processes of the node
    that read the same file on lmdbio share the store (lmdbio(7)), so workers find the announced
    records there.

    path    a directory with a data set or a container in it, or the file itself
    name    a named database; None is the main one
    lock    True takes up to SLOTS slots in the data set's reader table, beside live writers
    depth   announcements that may be under way; lmdbio drops an older one that it has not begun

    An announcement belongs to a transaction. When the transaction ends, lmdbio drops the reads that
    it has not begun. `depth` transactions take turns, so that announcements read the newest snapshot
    and an old one is released. With a lock each transaction takes a slot of the reader table: there
    are at most SLOTS transactions, and each makes several announcements in its turn.
    """

    _env: Any = None

    def __init__(self, path: Path, name: Optional[str] = None, lock: bool = False,
                 depth: int = 64) -> None:
        depth, file, database = whole("depth", depth, 1), path_bytes(path), name_bytes(name)
        self._path, self._process, self._lock = os.fsdecode(path), os.getpid(), lock
        self._txns: list[Any] = []
        self._most = min(depth, SLOTS) if lock else depth  # transactions
        self._each = depth // self._most  # announcements of a transaction in its turn
        self._turn, self._left = -1, 0  # the transaction that has its turn, and its announcements left
        lib, env = library(), ctypes.c_void_p()
        self._env = env  # stored before the call, because Ctrl-C may come after each call (loader.py)
        check(lib.mdb_env_create(ctypes.byref(env)), self._path)
        try:
            check(lib.mdb_env_set_maxdbs(env, 4), self._path)
            flags = MDB_RDONLY | MDB_NOTLS | (0 if lock else MDB_NOLOCK)
            flags |= 0 if os.path.isdir(path) else MDB_NOSUBDIR
            check_opened(lib.mdb_env_open(env, file, flags, 0o644), path, None)
            self._dbi = self._open_database(name, database)
        except Exception:
            self.close()
            raise

    def _open_database(self, name: Optional[str], database: Optional[bytes]) -> int:
        """Returns the MDB_dbi of a database, which all transactions can use after the commit here."""
        dbi, txn = ctypes.c_uint(), self._begin()
        lib = library()
        check_opened(lib.mdb_dbi_open(txn, database, 0, ctypes.byref(dbi)), self._path, name)
        commit = lib.mdb_txn_commit
        del self._txns[-1]
        check(commit(txn), self._path)
        return dbi.value

    def _begin(self) -> Any:
        """Begins a transaction, the last of self._txns."""
        txn = ctypes.c_void_p()
        self._txns.append(txn)
        code = self._begin_in(txn)
        if code:
            del self._txns[-1]
        check(code, self._path)
        return txn

    def _begin_in(self, txn: Any) -> int:
        return int(library().mdb_txn_begin(self._env, None, MDB_RDONLY, ctypes.byref(txn)))

    def _next(self, turn_ends: bool = False) -> Any:
        """Returns the next announcement's transaction: the last one's, a new one, or the oldest, renewed."""
        if not self._env:
            raise Error(errno.ECANCELED, f"{self._path}: the announcer is closed")
        if self._left and not turn_ends:
            self._left -= 1
            return self._txns[self._turn]
        self._left = 0
        try:
            self._advance()
        except Error as error:
            if error.code != MDB_MAP_RESIZED:
                raise
            # A writer has enlarged the data set. Its new map can be made when no transaction uses the old one.
            self._end()
            check(library().mdb_env_set_mapsize(self._env, 0), self._path)
            self._advance()
        self._left = self._each - 1
        return self._txns[self._turn]

    def _advance(self) -> None:
        """Gives the turn to a new transaction, or to the oldest one, which is renewed."""
        if len(self._txns) < self._most:
            self._begin()
            self._turn = len(self._txns) - 1
        else:
            self._turn = (self._turn + 1) % self._most
            self._renew(self._txns[self._turn])

    def _renew(self, txn: Any) -> None:
        if txn:
            library().mdb_txn_reset(txn)
            check(library().mdb_txn_renew(txn), self._path)
        else:  # Ctrl-C came before the transaction had begun.
            check(self._begin_in(txn), self._path)

    def keys(self, keys: Sequence[bytes]) -> None:
        """Announces the records of some keys."""
        if len(keys):
            address, kept = key_values(keys)
            check(library().lmdbio_prefetch_keys(self._next(), self._dbi, address, len(keys)),
                  self._path)
            del kept

    def records(self, numbers: Sequence[int]) -> None:
        """Announces records by their numbers, counted from 0 in the order of the keys."""
        if len(numbers):
            values = record_numbers(numbers)
            check(library().lmdbio_prefetch_records(self._next(), self._dbi,
                                                    values.buffer_info()[0], len(values)),
                  self._path)

    def entries(self) -> int:
        """Returns the number of records in the database."""
        found = DatabaseStat()
        check(library().mdb_stat(self._next(True), self._dbi, ctypes.byref(found)), self._path)
        return int(found.entries)

    def value(self, key: bytes) -> Optional[bytes]:
        """Returns a copy of the value of one key; None if the database has no such key."""
        found, (address, kept) = Value(), key_values([key])
        code = library().mdb_get(self._next(True), self._dbi, address, ctypes.byref(found))
        del kept
        if code == MDB_NOTFOUND:
            return None
        check(code, self._path)
        return ctypes.string_at(found.data, found.size)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuses to be copied or pickled: deleting a copy would close the environment."""
        raise TypeError("an Announcer can be neither copied nor pickled: open another one")

    def close(self) -> None:
        """Drops the announced records that have not been read, and closes the environment."""
        if not self._env or self._process != os.getpid():
            return
        close = library().mdb_env_close
        self._end()
        env, self._env = self._env, None
        close(env)

    def rest(self) -> None:
        """Ends the transactions that have slots in a reader table: no writer keeps pages for them."""
        if self._lock and self._process == os.getpid():
            self._end()

    def _end(self) -> None:
        """Ends all transactions."""
        abort, self._left = library().mdb_txn_abort, 0
        while self._txns:
            txn = self._txns[-1]
            del self._txns[-1]
            if txn:
                abort(txn)

    def __del__(self) -> None:
        self.close()
