# SPDX-License-Identifier: OLDAP-2.8
"""Sends Ctrl-C at each moment of a loader's life: the loader loses no record and leaves nothing open.

usage: interrupts_check.py DIRECTORY, which is made; prints a line for each case

A moment is a place where CPython looks for signals: after a call, at a function's beginning, in a loop.
"""
import dis
import errno
import os
import signal
import sys
import threading

import lmdb

import damaged_set
import lmdbio
from lmdbio.announce import Announcer
from lmdbio.torch import LazyEnvironment

RECORDS, BATCH = 40, 8
LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")  # instructions after which CPython looks for signals
SOURCES = tuple(os.path.join(os.path.dirname(lmdbio.__file__), name) for name in ("loader.py", "announce.py", "torch.py"))
MONITORING = getattr(sys, "monitoring", None)
TOOL = 4  # a number of sys.monitoring that no tool of CPython has
bad = False


def judge(name, good):
    global bad
    print("ok" if good else "NOT OK", name)
    bad |= not good


class Moments:
    """Counts the moments in the package's sources, and sends SIGINT at the chosen moment.

    CPython drops an exception that a __del__ raises, so Ctrl-C there cannot be a fault of the loader.
    """

    def __init__(self, chosen):
        self.chosen, self.passed, self.sent = chosen, 0, False
        self.opcodes, self.before = {}, {}

    def __enter__(self):
        if MONITORING:
            # Since CPython 3.12 a trace function misses instructions of functions that it has not seen yet.
            events = MONITORING.events
            MONITORING.use_tool_id(TOOL, "moments")
            MONITORING.register_callback(TOOL, events.PY_START, self.start)
            MONITORING.register_callback(TOOL, events.INSTRUCTION, self.instruction)
            MONITORING.set_events(TOOL, events.PY_START | events.INSTRUCTION)
        else:
            sys.settrace(self.begin)

    def __exit__(self, *_):
        if MONITORING:
            MONITORING.set_events(TOOL, 0)
            MONITORING.free_tool_id(TOOL)
        else:
            sys.settrace(None)

    def is_chosen(self, code):
        return code.co_filename in SOURCES and code.co_name not in ("__del__", "back")

    def pass_by(self, frame, offset):
        """Counts the next instruction as a moment if CPython looks for signals before it."""
        if frame.f_code not in self.opcodes:
            self.opcodes[frame.f_code] = {i.offset: i.opname for i in dis.get_instructions(frame.f_code)}
        before = self.before.get(id(frame), "")
        self.before[id(frame)] = self.opcodes[frame.f_code].get(offset, "")
        if before.startswith(LOOKS):
            self.passed += 1
            if self.passed == self.chosen:
                self.sent = True
                signal.raise_signal(signal.SIGINT)

    def start(self, code, _):
        self.before.pop(id(sys._getframe(1)), None)

    def instruction(self, code, offset):
        if self.is_chosen(code):
            self.pass_by(sys._getframe(1), offset)

    def begin(self, frame, event, _):
        if not self.is_chosen(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame, event, _):
        if event == "opcode":
            self.pass_by(frame, frame.f_lasti)
        elif event == "return":
            self.before.pop(id(frame), None)
        return self.step


def is_open(path):
    """Returns whether this process maps the data file or has it open."""
    file = os.path.join(os.path.realpath(path), "data.mdb")
    with open("/proc/self/maps") as maps:
        mapped = any(line.rstrip().endswith(file) for line in maps)
    links = (os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
    return mapped or any(os.path.exists(link) and os.readlink(link) == file for link in links)


def whole_epoch(path):
    with lmdbio.Loader(path, BATCH, seed=2) as loader:
        return [number for batch in loader.epoch(1) for number in batch.records]


class Life:
    """A loader's life: the loader begins an epoch, takes two batches, resumes there, takes one more, closes."""

    def __init__(self, path):
        self.path, self.seen, self.loader, self.batches = path, [], None, None

    def live(self):
        self.loader = lmdbio.Loader(self.path, BATCH, seed=2, memory=1 << 16)
        self.batches = self.loader.epoch(1)
        for _, batch in zip(range(2), self.batches):
            self.seen += batch.records
        state, self.batches = self.loader.state(), None
        self.batches = self.loader.resume(state)
        for _, batch in zip(range(1), self.batches):
            self.seen += batch.records
        self.loader.close()

    def has_all(self, expected):
        """Returns whether the seen records and the rest are the whole epoch, here and in a loader that resumes."""
        if self.loader is None or self.loader._handle is None:
            return True
        try:
            state = self.loader.state()
        except lmdbio.Error:  # Ctrl-C came before the epoch
            return not self.seen
        with lmdbio.Loader(self.path, BATCH) as other:
            resumed = [number for batch in other.resume(state) for number in batch.records]
        batches = self.batches or self.loader.resume(state)
        rest = [number for batch in batches for number in batch.records]
        return self.seen + resumed == expected and self.seen + rest == expected


def lives(path):
    expected, chosen, lost, left = whole_epoch(path), 0, [], []
    while True:
        chosen += 1
        life, moments = Life(path), Moments(chosen)
        try:
            with moments:
                life.live()
        except KeyboardInterrupt:
            pass
        if not life.has_all(expected):
            lost.append(chosen)
        if life.loader is not None:
            life.loader.close()
        if is_open(path):
            left.append(chosen)
        if not moments.sent:
            break
    print(f"-- {chosen - 1} moments of a loader")
    judge("ctrl_c_has_many_moments", chosen > 60)
    judge(f"ctrl_c_loses_no_record: {lost}", not lost)
    judge(f"ctrl_c_leaves_nothing_open: {left}", not left)


def announces(announcer):
    """Announces by each transaction of an announcer, and once more. Returns whether all calls succeed."""
    try:
        for number in range(announcer._most * announcer._each + 1):
            announcer.records([number])
        return True
    except lmdbio.Error:
        return False


def announcers(path, depth):
    def live():
        nonlocal made
        made = Announcer(path, lock=True, depth=depth)
        for number in range(depth + 1):
            made.records([number])
        made.close()

    chosen, left, ended = 0, [], []
    while True:
        chosen += 1
        made, moments = None, Moments(chosen)
        try:
            with moments:
                live()
        except KeyboardInterrupt:
            pass
        if made is not None and made._env:
            if not announces(made):
                ended.append(chosen)
            made.close()
        made = None
        if is_open(path):
            left.append(chosen)
        if not moments.sent:
            break
    print(f"-- {chosen - 1} moments of an announcer, {depth} deep")
    judge(f"ctrl_c_in_an_announcer_leaves_nothing_open: {left}", chosen > 20 and not left)
    judge(f"announcer_goes_on_after_ctrl_c: {ended}", not ended)


def environments(path):
    """Checks that an environment opens at its next use if Ctrl-C has ended its first use."""
    chosen, good = 0, True
    while True:
        chosen += 1
        env, moments = LazyEnvironment(path, lock=False), Moments(chosen)
        try:
            with moments:
                env()
        except KeyboardInterrupt:
            pass
        try:
            env().close()
        except lmdb.Error:
            good = False
        if not moments.sent:
            break
    judge("ctrl_c_leaves_an_environment_that_opens", good and chosen > 3)


def inside(name):
    """Makes the next call of a C function end with Ctrl-C, as if Ctrl-C had come during the call."""
    lib = lmdbio.library()
    function = getattr(lib, name)

    def call(*arguments):
        setattr(lib, name, function)
        function(*arguments)
        signal.raise_signal(signal.SIGINT)

    setattr(lib, name, call)


def interrupted(call):
    try:
        call()
        return False
    except KeyboardInterrupt:
        return True


def quiets(loader):
    """Checks that the loader is not quiet any more if Ctrl-C ends quiet() at its beginning."""
    lib, asked = lmdbio.library(), []
    function = lib.lmdbio_loader_quiet

    def call(handle, begin):
        asked.append(begin)
        function(handle, begin)
        if begin:
            signal.raise_signal(signal.SIGINT)

    lib.lmdbio_loader_quiet = call
    judge("ctrl_c_in_quiet_arrives", interrupted(loader.quiet().__enter__))
    judge("ctrl_c_leaves_no_loader_quiet", asked == [1, 0])
    lib.lmdbio_loader_quiet = function


def calls(path):
    """Sends Ctrl-C while the C library works, which takes nearly all of a loader's time."""
    inside("lmdbio_loader_open")
    judge("ctrl_c_while_a_loader_opens_arrives", interrupted(lambda: lmdbio.Loader(path, BATCH)))
    judge("ctrl_c_while_a_loader_opens_leaves_nothing_open", not is_open(path))
    with lmdbio.Loader(path, BATCH, seed=2) as loader:
        judge("an_open_loader_is_seen", is_open(path))
        batches, seen = loader.epoch(1), []
        for number in range(RECORDS // BATCH):
            inside("lmdbio_loader_next_within")
            judge(f"ctrl_c_while_batch_{number}_is_awaited_arrives", interrupted(lambda: next(batches)))
            seen += next(batches).records
        judge("next_hands_out_what_ctrl_c_has_left", seen == whole_epoch(path))
        inside("lmdbio_loader_next_within")
        judge("ctrl_c_at_the_end_arrives", interrupted(lambda: next(batches)))
        judge("ctrl_c_at_the_end_leaves_the_end", next(batches, None) is None)
        quiets(loader)
        inside("lmdbio_loader_next_within")
        interrupted(lambda: next(loader.epoch(0)))
    judge("close_gives_a_batch_back_that_ctrl_c_has_left", not is_open(path))


def waits(path):
    """Sends Ctrl-C while the C library waits for storage that gives a byte a second."""
    make(path, 50 * RECORDS)
    lib = lmdbio.library()
    function, waiting, over, closed = lib.lmdbio_loader_next_within, threading.Event(), threading.Event(), []

    def call(handle, ns, batch):
        code = function(handle, 0, batch)
        if code != errno.ETIMEDOUT:
            return code
        waiting.set()
        return function(handle, ns, batch)

    def press():
        waiting.wait()
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        if not over.wait(60):
            closed.append(True)
            loader.close()  # ends a wait that Ctrl-C has not ended

    with lmdbio.Loader(path, BATCH, seed=2, memory=1 << 16, bandwidth=1) as loader:
        batches, presses = loader.epoch(1), threading.Thread(target=press)
        presses.start()
        lib.lmdbio_loader_next_within = call
        try:
            arrives = interrupted(lambda: list(batches))
        except lmdbio.Error:
            arrives = False
        lib.lmdbio_loader_next_within = function
        over.set()
        waiting.set()
        presses.join()
        judge("ctrl_c_while_storage_is_awaited_arrives", arrives and not closed)


def errors(path):
    damaged_set.make(path, RECORDS, 19)
    with lmdbio.Loader(path, BATCH, order="sequential", lock=False) as loader:
        batches, seen, told = loader.epoch(0), [], 0
        for number in range(RECORDS // BATCH):
            inside("lmdbio_loader_next_within")
            interrupted(lambda: next(batches))
            try:
                seen += next(batches).records
            except lmdbio.Error:
                told += 1
        judge("an_error_that_ctrl_c_has_hidden_is_told", told == 1)
        judge("batches_after_an_error_follow", seen == [i for i in range(RECORDS) if i // BATCH != 19 // BATCH])


def make(path, records):
    with lmdb.open(path, map_size=1 << 26) as env, env.begin(write=True) as txn:
        for i in range(records):
            txn.put(b"%04d" % i, b"v" * 5000)


def main(path):
    make(path, RECORDS)
    calls(path)
    waits(path + "-awaited")
    lives(path)
    announcers(path, 2)
    announcers(path, 8)  # each transaction has two announcements in its turn
    environments(path)
    errors(path + "-damaged")
    with lmdb.open(path, readonly=True) as env:
        judge("no_reader_slot_is_taken", "no active readers" in env.readers())
    sys.exit(bad)


main(sys.argv[1])
