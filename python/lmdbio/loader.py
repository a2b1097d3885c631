# SPDX-License-Identifier: OLDAP-2.8
"""The batch loader: mini-batches over lmdbio's memory, without a copy."""
from __future__ import annotations

import ctypes
import errno
import importlib
import operator
import os
import sys
import threading
import time
from contextlib import nullcontext
from itertools import accumulate, compress
from types import TracebackType
from typing import Any, ContextManager, Iterator, Optional, Type, Union

from ._native import (FORKED, MDB_INCOMPATIBLE, MDB_NOLOCK, MDB_NOSUBDIR, MDB_NOTFOUND, NO_RECORD,
                      STATE_SIZE, BatchFields, Error, LoaderOptions, LoaderStats, Quality, Sample, check,
                      library, mpi_library)

ORDERS = {"sequential": 0, "shuffle": 1, "block": 2, "opportunistic": 3}
EPOCH_BITS = 48
SIZE_BITS = 8 * ctypes.sizeof(ctypes.c_size_t)
SIGNAL_NS = 100_000_000  # Ctrl-C that comes during a wait for a batch is noticed after so long
LEAVE_SECONDS = 0.001  # between two checks whether another thread has left its call, which ends soon
TAILS = {"pad": 0, "drop": 1, "wrap": 2}

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def choice(argument: str, value: str, allowed: dict[str, int]) -> int:
    """Returns the number of a word, or raises a ValueError with the argument and the valid words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{argument}={value!r}: must be one of {words}")
    return allowed[value]


def whole(argument: str, value: Any, least: int = 0, bits: int = 32) -> int:
    """Returns a whole number of at most `bits` bits, or raises an error that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument}={value!r}: must be a whole number") from None
    if not least <= number < 2**bits:
        raise ValueError(f"{argument}={number}: must be from {least} to 2**{bits} - 1")
    return number


def path_bytes(path: Any, argument: str = "path") -> bytes:
    """Returns a path as the C library takes it, or raises an error that names the argument."""
    try:
        found = os.fsencode(path)
    except TypeError:
        raise TypeError(f"{argument}={path!r}: must be a string, bytes or a path") from None
    if not found or b"\0" in found:
        raise ValueError(f"{argument}={path!r}: must be the name of a file or a directory")
    return found


def name_bytes(name: Any) -> Optional[bytes]:
    """Returns a database's name as the C library takes it, or raises an error that names the argument.

    A byte that is not UTF-8 stands in the string as in the result of os.fsdecode().
    """
    if name is None:
        return None
    if not isinstance(name, str):
        raise TypeError(f"name={name!r}: must be a string, or None for the main database")
    if not name or "\0" in name:
        raise ValueError(f"name={name!r}: must be a database's name, or None for the main database")
    try:
        return name.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise ValueError(f"name={name!r}: holds a character that UTF-8 does not have") from None


def check_opened(code: int, path: Path, name: Optional[str]) -> None:
    """Raises Error if the code of opening a database is not 0."""
    what, texts = os.fsdecode(path), {errno.ENOTSUP: "lmdbio leaves it to LMDB, as LMDBIO_DISABLE=1 wants: unset that"}
    if name is not None and code in (MDB_NOTFOUND, MDB_INCOMPATIBLE):
        what, texts = f"{what}: database {name!r}", {MDB_NOTFOUND: "there is none of this name"}
    elif code == errno.ENOENT and os.path.isdir(path):
        texts = {code: "the directory has no data.mdb, nor a container of one"}
    check(code, what, texts)


def loader_options(*, batch: int, order: str = "shuffle", tail: str = "pad", seed: int = 0,
                   ranks: int = 1, rank: int = 0, memory: Optional[int] = None,
                   ahead: Optional[int] = None, threads: Optional[int] = None,
                   bandwidth: Optional[int] = None, stage_dir: Optional[Path] = None,
                   stage_size: Optional[int] = None, shares: Optional[int] = None,
                   block: Optional[int] = None, buffer: Optional[int] = None,
                   resident: Optional[int] = None, skip_errors: bool = False) -> LoaderOptions:
    """Returns the C library's options from Loader's arguments, or raises an error that names the argument."""
    ranks, batch, shares = whole("ranks", ranks, 1), whole("batch", batch, 1), whole("shares", shares or 0)
    if shares > batch:
        raise ValueError(f"shares={shares}: must be at most batch, which is {batch}")
    if whole("rank", rank) >= ranks:
        raise ValueError(f"rank={rank}: must be from 0 to ranks - 1, which is {ranks - 1}")
    return LoaderOptions(
        size=ctypes.sizeof(LoaderOptions), batch=batch,
        seed=whole("seed", seed, bits=64), ranks=ranks, rank=rank,
        order=choice("order", order, ORDERS), tail=choice("tail", tail, TAILS),
        skip_errors=bool(skip_errors), memory=whole("memory", memory or 0, bits=64),
        ahead=whole("ahead", ahead or 0), threads=whole("threads", threads or 0),
        bandwidth=whole("bandwidth", bandwidth or 0, bits=64),
        stage_size=whole("stage_size", stage_size or 0, bits=64),
        shares=shares, block=whole("block", block or 0),
        buffer=whole("buffer", buffer or 0), resident=whole("resident", resident or 0, bits=64),
        stage_dir=path_bytes(stage_dir, "stage_dir") if stage_dir is not None else None)


def _stage_check(stage_dir: Optional[Path]) -> None:
    """Raises a ValueError that names the argument if it is no directory."""
    if stage_dir is not None and not os.path.isdir(stage_dir):
        raise ValueError(f"stage_dir={os.fsdecode(stage_dir)!r}: must be a directory that is "
                         "there: make it, or leave the argument out")


def handle_of(comm: Any) -> int:
    """Returns MPICH's handle of a communicator, a number."""
    if isinstance(comm, int):
        return comm
    MPI: Any = importlib.import_module("mpi4py.MPI")
    if MPI._sizeof(MPI.Comm) != ctypes.sizeof(ctypes.c_int):
        raise TypeError("comm: this mpi4py is built for another MPI than MPICH")
    return ctypes.c_int.from_address(MPI._addressof(comm)).value


# Ctrl-C raises KeyboardInterrupt between two instructions, also after a call of the C library whose
# result is not stored yet. So the object that owns a result is made before the call that fills it;
# and an owner gives its result up by an assignment right before the C call, with no call between them.


class _Given:
    """Owns a batch of the C library, from before the call that sets `pointer` until back()."""

    pointer: Any = None

    def __init__(self) -> None:
        self._process = os.getpid()
        self.pointer = ctypes.POINTER(BatchFields)()

    def back(self) -> None:
        """Gives the batch back, if there is one."""
        if self.pointer and self._process == os.getpid():
            done = library().lmdbio_batch_done
            pointer, self.pointer = self.pointer, None
            done(pointer)

    __del__ = back


class _Turn:
    """One iteration over batches, and the progress of its call for the next batch.

    given   after Ctrl-C: the batch that a call has taken and not handed out, or an empty one, if the
            C library's answer is lost. The next call, or drop(), takes it by one assignment.
    place   the loader's state before the call; valid while `placed`, until the call's batch is handed out
    busy    the thread that is in the call; 0: none
    before  the turn that this turn has ended, as long as a thread may be in one of its calls
    """

    def __init__(self, before: Optional[_Turn] = None) -> None:
        self.given: Optional[_Given] = None
        self.place, self.placed = ctypes.create_string_buffer(STATE_SIZE), False
        self.busy = 0
        self.before = before

    def is_busy(self) -> bool:
        """Returns whether another thread is in a call of this turn or of an earlier one."""
        turn: Optional[_Turn] = self
        while turn is not None and turn.busy in (0, threading.get_ident()):
            turn = turn.before
        return turn is not None

    def drop(self) -> None:
        """Gives back a batch that Ctrl-C has left here."""
        given, self.given = self.given, None
        if given is not None:
            given.back()


_Memory: Any = ctypes.c_ubyte * sys.maxsize
_SAMPLE = ctypes.sizeof(Sample)


class Batch:
    """One batch: a sequence of (key, value) memoryviews.

    The views show lmdbio's own memory, which stays valid as long as any view of the batch is alive:
    a view holds its batch, and the batch goes back to the loader when its last view is gone. A view's
    `obj` is all memory of the process: do not use it. A batch that is copied or pickled, as on its way
    from a worker of DataLoader, becomes a batch with a copy of the bytes.

    epoch    the epoch
    number   the number of the global batch in the epoch
    records  the records' numbers
    errors   for each record 0, or the code of its error (skip_errors): then its key and value are
             empty
    """

    def __init__(self, given: _Given) -> None:
        shown = given.pointer.contents
        self.epoch: int = shown.epoch
        self.number: int = shown.number
        # An array over all memory, which views slice by addresses. A view holds the array, the array the batch.
        memory = _Memory.from_address(0)
        memory._given = given
        self._memory = memoryview(memory).cast("B").toreadonly()
        first = ctypes.addressof(shown.samples.contents) if shown.count else 0
        fields = self._memory[first:first + shown.count * _SAMPLE]
        words = fields.cast("Q")
        numbers, key_sizes, keys, sizes, values = (words[i::_SAMPLE // 8].tolist() for i in range(5))
        errors = fields.cast("i")[Sample.error.offset // 4::_SAMPLE // 4].tolist()
        self.records: list[int] = numbers
        self.errors: list[int] = errors
        self._keys = list(map(slice, keys, map(operator.add, keys, key_sizes)))
        self._values = list(map(slice, values, map(operator.add, values, sizes)))
        if NO_RECORD in numbers:  # in a last batch that is not full
            real = [number != NO_RECORD for number in numbers]
            self.records, self.errors = list(compress(numbers, real)), list(compress(errors, real))
            self._keys = list(compress(self._keys, real))
            self._values = list(compress(self._values, real))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies the bytes: the memory of this batch is lmdbio's, and this process's."""
        pieces = [*map(self._memory.__getitem__, self._keys), *map(self._memory.__getitem__, self._values)]
        return _copied, (self.epoch, self.number, self.records, self.errors, b"".join(pieces), list(map(len, pieces)))

    def __len__(self) -> int:
        return len(self.records)

    def key(self, i: int) -> memoryview:
        """The key of the i-th record."""
        return self._memory[self._keys[i]]

    def value(self, i: int) -> memoryview:
        """The value of the i-th record."""
        return self._memory[self._values[i]]

    def __getitem__(self, i: int) -> tuple[memoryview, memoryview]:
        return self.key(i), self.value(i)

    def __iter__(self) -> Iterator[tuple[memoryview, memoryview]]:
        show = self._memory.__getitem__
        return zip(map(show, self._keys), map(show, self._values))

    def arrays(self, dtype: Any = "uint8") -> list[Any]:
        """The values as read-only numpy arrays over lmdbio's memory."""
        import numpy
        return [numpy.frombuffer(self.value(i), dtype=dtype) for i in range(len(self))]


def _copied(epoch: int, number: int, records: list[int], errors: list[int], memory: bytes, sizes: list[int]) -> Batch:
    """Returns a batch whose keys, and behind them its values, stand one after another in `memory`."""
    batch = Batch.__new__(Batch)
    batch.epoch, batch.number, batch.records, batch.errors = epoch, number, list(records), list(errors)
    batch._memory = memoryview(memory)
    ends = list(accumulate(sizes))
    slices = list(map(slice, map(operator.sub, ends, sizes), ends))
    batch._keys, batch._values = slices[:len(records)], slices[len(records):]
    return batch


class _Batches:
    """An iterator over batches. It goes on after an error, and loses no batch by Ctrl-C.

    Only the newest iterator of a loader gives batches, because a loader has one place in the order.
    """

    def __init__(self, loader: Loader, turn: _Turn) -> None:
        self._loader: Optional[Loader] = loader
        self._turn = turn

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Batch:
        loader, turn, thread, empty = self._loader, self._turn, threading.get_ident(), _Given()
        if loader is None:
            raise StopIteration
        if turn.busy:
            raise ValueError("another thread waits for this iterator's next batch")
        turn.busy = thread  # no call since the test, in which another thread could pass the test
        given, turn.given = turn.given or empty, None
        try:
            loader._check_turn(turn)
            batch = loader._take(turn, given)
            loader._check_turn(turn)  # Another thread may have begun an epoch meanwhile.
            turn.placed = False
        except Error:
            turn.placed = False
            loader._check_turn(turn)
            raise
        except BaseException:
            turn.given = given
            raise
        finally:
            turn.busy = 0
        if batch is None:
            self._loader = None
            raise StopIteration
        return batch


class _Quiet:
    """The context that Loader.quiet() returns, in which the loader begins no read ahead."""

    def __init__(self, loader: Loader) -> None:
        self._loader, self._call = loader, library().lmdbio_loader_quiet

    def __enter__(self) -> None:
        try:
            self._call(self._loader._handle, 1)
        except BaseException:
            self._call(self._loader._handle, 0)
            raise

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self._call(self._loader._handle, 0)


class Loader:
    """Mini-batches of an LMDB data set or of a container, read ahead of the program.

    The order is a pure function of seed, epoch and policy: the same on all machines and for any
    number of ranks. Arguments that are None have the defaults of struct lmdbio_loader_options
    (lmdbio-loader(3)).

    path         a directory with a data set or a container in it, or the file itself
    batch        records in a global batch, all ranks together
    name         a named database; None is the main one
    order        'shuffle', 'sequential', 'block' or 'opportunistic'
    tail         the treatment of a last batch that is not full: 'pad', 'drop' or 'wrap'
    seed         the order's seed
    ranks, rank  the number of processes that share each batch, and this one's number among them
    lock         False opens the data set without its lock file (MDB_NOLOCK): then no process may write.
                 True: closing the loader drops the locks of this process's other environments there (<lmdb.h>)
    comm         a communicator of an mpi4py that is built for MPICH, or MPICH's handle of one: all
                 its ranks open one loader together, and their nodes keep records for each other
    memory       bytes for batches that are read ahead
    ahead        batches that are read ahead at most
    threads      reads in flight at most
    bandwidth    bytes a second from storage at most
    stage_dir    an existing folder on a local disk, in which lmdbio keeps records that it has read
                 from storage
    stage_size   bytes in that folder at most
    shares       'sequential': the number of runs of neighbours that go side by side
    block        'block', 'opportunistic': records in a run
    buffer       'block', 'opportunistic': runs that are shuffled together; None: half of `memory`, or 256 MiB
    resident     'opportunistic': records that stay in memory
    skip_errors  True: a record that cannot be read is an entry in Batch.errors, not an exception
    """

    _handle: Any = None

    def __init__(self, path: Path, batch: int, *, name: Optional[str] = None,
                 order: str = "shuffle", tail: str = "pad", seed: int = 0,
                 ranks: int = 1, rank: int = 0, lock: bool = True, comm: Any = None,
                 memory: Optional[int] = None, ahead: Optional[int] = None,
                 threads: Optional[int] = None, bandwidth: Optional[int] = None,
                 stage_dir: Optional[Path] = None, stage_size: Optional[int] = None,
                 shares: Optional[int] = None, block: Optional[int] = None,
                 buffer: Optional[int] = None, resident: Optional[int] = None,
                 skip_errors: bool = False) -> None:
        fields = loader_options(
            batch=batch, order=order, tail=tail, seed=seed, ranks=ranks, rank=rank, memory=memory,
            ahead=ahead, threads=threads, bandwidth=bandwidth, stage_dir=stage_dir,
            stage_size=stage_size, shares=shares, block=block, buffer=buffer, resident=resident,
            skip_errors=skip_errors)
        file, database = path_bytes(path), name_bytes(name)
        flags = (0 if os.path.isdir(path) else MDB_NOSUBDIR) | (0 if lock else MDB_NOLOCK)
        lib, self._next, self._turn, self._process = library(), 0, _Turn(), os.getpid()
        self._beginning: ContextManager[Any] = threading.RLock()
        self._handle = ctypes.c_void_p()
        arguments = (ctypes.byref(self._handle), file, flags, database, ctypes.byref(fields))
        if comm is None:
            _stage_check(stage_dir)
            code = lib.lmdbio_loader_open(*arguments)
        else:
            code = mpi_library().lmdbio_mpi_loader_open(handle_of(comm), *arguments)
            if code:  # The same on all ranks; an error on one rank before this call would make the others wait.
                _stage_check(stage_dir)
        check_opened(code, path, name)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuses to be copied or pickled: deleting a copy would close the loader."""
        raise TypeError("a Loader can be neither copied nor pickled: open another one, or make Records")

    def close(self) -> None:
        """Closes the loader, at any time. Batches that are in use stay valid.

        Later and waiting calls for batches, states, numbers and counters raise an Error with ECANCELED.
        """
        if self._handle is None:
            return
        self._turn.drop()
        close, here = library().lmdbio_loader_close, self._process == os.getpid()
        handle, self._handle = self._handle, None
        if handle is not None and here:
            close(handle)

    @property
    def records(self) -> int:
        """The number of records in the database."""
        return int(library().lmdbio_loader_records(self._opened()))

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return int(library().lmdbio_loader_batches(self._opened()))

    def __bool__(self) -> bool:
        """Returns whether the loader is open, whatever its length is."""
        return self._handle is not None

    def _opened(self) -> Any:
        """Returns the C library's handle, or raises an Error: ECANCELED (closed) or ECHILD (forked)."""
        handle = self._handle
        if handle is None:
            raise Error(errno.ECANCELED, "the loader is closed")
        if self._process != os.getpid():
            raise Error(errno.ECHILD, FORKED)
        return handle

    def _check_turn(self, turn: _Turn) -> None:
        """Raises an Error if another iteration has begun, or the loader is closed."""
        self._opened()
        if self._turn is not turn:
            raise Error(errno.ECANCELED, "another iteration over this loader has begun, which ends this "
                        "one: open a Loader, or make Records, for each that goes on at the same time")

    def _take(self, turn: _Turn, given: _Given) -> Optional[Batch]:
        """Takes the next batch into `given` and returns it; None at the end of the epoch."""
        lib, handle, what = library(), self._opened(), "the next batch"
        if not turn.placed:
            check(lib.lmdbio_loader_save(handle, turn.place), what)
            turn.placed = True
        elif not given.pointer:
            check(lib.lmdbio_loader_restore(handle, turn.place), what)
        if not given.pointer:
            # CPython runs the handlers of signals, Ctrl-C's too, only between two calls of C functions.
            code = errno.ETIMEDOUT
            while code == errno.ETIMEDOUT:
                code = lib.lmdbio_loader_next_within(handle, SIGNAL_NS, ctypes.byref(given.pointer))
            if code == MDB_NOTFOUND:
                return None
            check(code, what)
        return Batch(given)

    def _begin(self, what: str, call: Any, place: Any, following: int) -> _Batches:
        """Goes to a place in an order, and returns an iterator over the batches that follow.

        Only one thread at a time begins an epoch, so that `_turn` always belongs to the order that the C loader
        is in. A forked child takes no lock, because a thread of the parent may have held it; the C loader
        refuses the call there.

        A thread in an older iterator's call may have seen that its turn was the newest, and call the C loader
        after this thread. The first call below ends that thread's wait. When that thread has left its call, the
        second call below goes to the place again, so that this iteration has the batch that the
        thread may have taken.
        """
        with self._beginning if self._process == os.getpid() else nullcontext():
            handle, turn = self._opened(), self._turn
            mine = self._turn = _Turn(turn)
            shared = turn.is_busy()
            code = call(handle, place)
            while not code and shared:
                time.sleep(LEAVE_SECONDS)
                shared = turn.is_busy()
                if not shared:
                    code = call(handle, place)
            if code:
                self._turn = turn
            else:
                self._next, mine.before = following, None
        check(code, what, {errno.EINVAL: "this is no state of a loader, or one of a data set with other records"})
        turn.drop()
        return _Batches(self, mine)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Begins an epoch and returns an iterator over its batches. This ends the iterator before it."""
        epoch = whole("epoch", epoch, bits=EPOCH_BITS)  # ctypes would truncate a larger one
        return self._begin(f"epoch {epoch}", library().lmdbio_loader_epoch, epoch, epoch + 1)

    def __iter__(self) -> Iterator[Batch]:
        """Begins the next epoch; the first one is 0."""
        return self.epoch(self._next)

    def state(self) -> bytes:
        """Returns 64 bytes that name the next batch, for resume()."""
        turn, handle = self._turn, self._opened()
        if turn.placed:
            return turn.place.raw
        state = ctypes.create_string_buffer(STATE_SIZE)
        check(library().lmdbio_loader_save(handle, state), "saving the state",
              {errno.EINVAL: "no epoch has begun: call epoch() before"})
        return state.raw

    def resume(self, state: bytes) -> Iterator[Batch]:
        """Goes on where a state was saved; returns an iterator over the rest of that epoch."""
        try:
            length, place = len(state), bytes(state)
        except TypeError:
            raise TypeError(f"state={state!r}: must be the {STATE_SIZE} bytes that state() returns") from None
        if length != STATE_SIZE or len(place) != STATE_SIZE:
            raise ValueError(f"state: must have {STATE_SIZE} bytes, not {length}")
        return self._begin("resuming", library().lmdbio_loader_restore, place,
                           int.from_bytes(place[6:12], "little") + 1)

    def quiet(self) -> _Quiet:
        """Returns a context for an allreduce: in `with loader.quiet():` the loader begins no read ahead."""
        return _Quiet(self)

    def stats(self) -> dict[str, Any]:
        """The loader's counters, by the names of struct lmdbio_loader_stats in lmdbio.h."""
        stats = LoaderStats(size=ctypes.sizeof(LoaderStats))
        check(library().lmdbio_loader_stats(self._opened(), ctypes.byref(stats)), "statistics")
        found = {name: getattr(stats, name) for name, *_ in LoaderStats._fields_
                 if name != "size"}
        found["stalls"] = list(found["stalls"])
        return found

    def verdict(self) -> str:
        """One line that answers "is I/O my bottleneck?"."""
        line = ctypes.create_string_buffer(1024)
        library().lmdbio_loader_verdict(self._opened(), line, len(line))
        return line.value.decode()

    def quality(self, epoch: int, start: int, length: int) -> dict[str, float]:
        """Measures how random the order of an epoch is; a record's label is `length` bytes of its key, from `start`.

        Returns the fields of struct lmdbio_quality in lmdbio.h.
        """
        quality = Quality(size=ctypes.sizeof(Quality))
        epoch = whole("epoch", epoch, bits=EPOCH_BITS)
        start, length = whole("start", start, bits=SIZE_BITS), whole("length", length, bits=SIZE_BITS)
        check(library().lmdbio_loader_quality(self._opened(), epoch, start, length,
                                              ctypes.byref(quality)), "the quality of the order")
        return {name: getattr(quality, name) for name, *_ in Quality._fields_ if name != "size"}
