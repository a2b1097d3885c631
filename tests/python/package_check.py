# SPDX-License-Identifier: OLDAP-2.8
"""Checks the promises of the Python package's documentation; prints a line for each case.

usage: package_check.py DIRECTORY, which is made
"""
import collections
import copy
import errno
import os
import pickle
import signal
import subprocess
import sys
import threading
import types
import zlib

import lmdb
import numpy

import damaged_set
import lmdbio
from lmdbio.announce import Announcer
from lmdbio.keys import PRESETS, parts
from lmdbio.torch import AnnouncingSampler, LazyEnvironment

RECORDS = 103
bad = False


def judge(name, good):
    global bad
    print("ok" if good else "NOT OK", name)
    bad |= not good


def refuses(name, kind, words, call):
    """Checks that a call raises an error of this kind whose text has all the words."""
    try:
        call()
        judge(name, False)
    except kind as error:
        judge(name, all(word in str(error) for word in words))


def folders(folder):
    """Checks which files of a folder an index counts through, and with which keys."""
    os.mkdir(folder)
    for name, records in (("b.lmdb", {b"length": pickle.dumps(2), b"0": b"", b"1": b"", b"other": b""}),
                          ("a.lmdb", {b"%d" % i: b"" for i in range(3)}),
                          ("c.aselmdb", {b"nextid": zlib.compress(b"4"), b"metadata": zlib.compress(b"{}"),
                                         b"deleted_ids": zlib.compress(b"[2]")}),
                          ("code.mdb", {b"length": pickle.dumps(print)})):
        with lmdb.open(os.path.join(folder, name), subdir=False, map_size=1 << 20) as env, \
                env.begin(write=True) as txn:
            for key, value in records.items():
                txn.put(key, value)

    def found(key, path):
        return [(os.path.basename(part.path), [part.keys(i) for i in range(part.length)])
                for part in parts(key, path)]

    counted = [("a.lmdb", [b"0", b"1", b"2"]), ("b.lmdb", [b"0", b"1"])]
    deleted = [("c.aselmdb", [b"1", b"3"])]
    judge("ocp_counts_through_the_files_of_a_folder", found("ocp", folder) == counted)
    judge("ocp_takes_one_file", found("ocp", folder + "/b.lmdb") == counted[1:])
    judge("ocp_takes_a_list", found("ocp", [folder + "/b.lmdb", os.fsencode(folder + "/a.lmdb")]) == counted)
    judge("ase_takes_a_pattern", found("ase", folder + "/*.aselmdb") == deleted)
    with lmdb.open(folder + "/c.aselmdb", subdir=False, readonly=True, lock=False):
        judge("ase_reads_a_file_that_the_program_has_open", found("ase", folder + "/c.aselmdb") == deleted)
    refuses("ase_names_the_file_of_a_folder_without_nextid", ValueError, ["a.lmdb", "nextid"],
            lambda: parts("ase", folder))
    refuses("ocp_unpickles_numbers_alone", ValueError, ["code.mdb", "'length' is no number"],
            lambda: parts("ocp", folder + "/code.mdb"))
    for path in (folder + "/nothing*", folder + "-absent", []):
        refuses(f"folder_without_files_is_told: {path}"[:40], ValueError, ["path=", "*.aselmdb", "'ase'"],
                lambda: parts("ase", path))
    refuses("lists_are_for_keys_that_take_them", TypeError, ["path=["],
            lambda: AnnouncingSampler([], [folder], "order"))


def shares(path):
    """Checks that DataLoader's workers together give their rank's records, and as many as len() says."""
    import lmdbio.records

    def of_worker(among, number, **options):
        worker = types.SimpleNamespace(num_workers=among, id=number) if among else None
        lmdbio.records._worker = lambda: worker
        return [item for item in lmdbio.Records(path, 8, lock=False, **options)]

    for options in ({}, {"tail": "wrap"}, {"order": "sequential"}, {"order": "sequential", "tail": "drop"},
                    {"order": "sequential", "shares": 1}, {"order": "sequential", "shares": 4},
                    {"order": "block", "block": 5, "buffer": 2}):
        for ranks, rank, workers in ((1, 0, 2), (3, 1, 3)):
            job = {"ranks": ranks, "rank": rank, **options}
            words = "_".join(map(str, job.values()))
            alone = of_worker(0, 0, **job)
            judge(f"records_{words}_have_their_length", len(lmdbio.Records(path, 8, lock=False, **job)) == len(alone))
            batches = [batch for number in range(workers)
                       for batch in of_worker(workers, number, batches=True, **job)]
            judge(f"{workers}_workers_share_{words}", sorted(alone) == sorted(
                (bytes(key), bytes(value)) for batch in batches for key, value in batch))
            judge(f"batches_of_{workers}_workers_{words}_have_their_length", len(batches) == len(
                lmdbio.Records(path, 8, batches=True, lock=False, workers=workers, **job)))
    refuses("workers_that_are_others_are_told", ValueError, ["workers=2", "num_workers=3"],
            lambda: of_worker(3, 0, batches=True, workers=2))
    refuses("workers_of_a_communicator_are_refused", ValueError, ["comm", "num_workers=0"],
            lambda: of_worker(2, 1, comm=0x44000000))
    lmdbio.records._worker = lambda: None


def arguments(path):
    """Checks that errors name the invalid argument, and explain what the C library refuses."""
    for name, kind in ((b"inner", TypeError), (5, TypeError), ("", ValueError), ("inner\0more", ValueError)):
        for what, call in (("loader", lambda: lmdbio.Loader(path, 8, name=name)),
                           ("announcer", lambda: Announcer(path, name)),
                           ("records", lambda: lmdbio.Records(path, 8, name=name)),
                           ("sampler", lambda: AnnouncingSampler([], path, "order", name=name))):
            refuses(f"name_{name!r}_of_{what}_is_checked", kind, [f"name={name!r}"], call)
    for what, call in (("loader", lambda: lmdbio.Loader(path, 8, name="absent")),
                       ("announcer", lambda: Announcer(path, "absent"))):
        refuses(f"database_that_{what}_does_not_find_is_named", lmdbio.Error,
                [path, "'absent'", "none of this name"], call)
    for place in ("", path + "\0more"):
        refuses(f"path_{place!r:.5}_is_no_name", ValueError, [f"path={place!r}"], lambda: lmdbio.Loader(place, 8))
    os.mkdir(path + "-empty")
    refuses("directory_without_data_is_told", lmdbio.Error, [path + "-empty", "no data.mdb"],
            lambda: lmdbio.Loader(path + "-empty", 8))
    refuses("stage_dir_is_named", TypeError, ["stage_dir=5"], lambda: lmdbio.Loader(path, 8, stage_dir=5))
    refuses("shares_are_at_most_batch", ValueError, ["shares=9", "batch", "8"],
            lambda: lmdbio.Loader(path, 8, order="sequential", shares=9))
    refuses("order_is_a_word", ValueError, ["order=['shuffle']"], lambda: lmdbio.Loader(path, 8, order=["shuffle"]))
    with lmdbio.Loader(path, 8, lock=False) as loader, lmdbio.Loader(path + "-large", 8, lock=False) as other:
        refuses("state_before_an_epoch_is_explained", lmdbio.Error, ["no epoch has begun"], loader.state)
        loader.epoch(0)
        for state in (None, 64, "s" * 64):
            refuses(f"state_is_bytes: {state!r:.5}", TypeError, [f"state={state!r}", "state()"],
                    lambda: loader.resume(state))
        judge("state_is_taken_from_an_array", next(loader.resume(numpy.frombuffer(loader.state(), "u1"))).number == 0)
        for name, state in (("none", bytes(64)), ("another_data_sets", loader.state())):
            refuses(f"state_that_is_{name}_is_explained", lmdbio.Error, ["no state", "other records"],
                    lambda: other.resume(state))
    judge("closed_loader_is_false", not loader)
    script = "import lmdbio, sys; lmdbio.Loader(sys.argv[1], 8, lock=False)"
    disabled = subprocess.run([sys.executable, "-c", script, path], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "LMDBIO_DISABLE": "1"})
    judge("loader_that_is_disabled_says_by_what", disabled.returncode == 1 and "LMDBIO_DISABLE=1" in disabled.stderr)


def announced(path):
    """Checks that numbers and keys are also taken from arrays; 0 in an array is an ordinary number."""
    announcer, lib, counts = Announcer(path), lmdbio.library(), []
    real = lib.lmdbio_prefetch_records, lib.lmdbio_prefetch_keys
    lib.lmdbio_prefetch_records = lib.lmdbio_prefetch_keys = lambda txn, dbi, first, count: counts.append(count) or 0
    for numbers in (numpy.array([0]), numpy.arange(5), range(3), []):
        announcer.records(numbers)
    announcer.keys(numpy.array([b"0001", b"0002"]))
    lib.lmdbio_prefetch_records, lib.lmdbio_prefetch_keys = real
    judge(f"arrays_are_announced: {counts}", counts == [1, 5, 3, 2])
    two_bytes = memoryview(b"0005").cast("H")
    judge("key_of_larger_items_is_as_long_as_its_bytes", announcer.value(two_bytes) == b"v" * 6 and announcer.value(
        bytearray(b"0006")) == b"v" * 7)
    announcer.close()
    for name, call in (("records", lambda: announcer.records([1])), ("keys", lambda: announcer.keys([b"0001"])),
                       ("entries", announcer.entries), ("value", lambda: announcer.value(b"0001"))):
        refuses(f"{name}_of_a_closed_announcer_are_refused", lmdbio.Error, ["announcer is closed"], call)


def forked(path):
    """Checks that in a forked child each call of the parent's loader says so, also beside the child's own loader."""
    with lmdbio.Loader(path, 8, lock=False) as loader:
        batches, state = loader.epoch(0), loader.state()
        child = os.fork()
        if not child:
            told = 0
            own = lmdbio.Loader(path, 8, lock=False)
            for call in (lambda: next(batches), loader.state, loader.stats, loader.verdict, lambda: len(loader),
                         lambda: loader.records, lambda: loader.epoch(0), lambda: loader.resume(state),
                         lambda: loader.quality(0, 0, 1)):
                try:
                    call()
                except lmdbio.Error as error:
                    told += error.code == errno.ECHILD and "open one" in str(error)
            os._exit(0 if told == 9 and len(own) == 13 else 1)
        judge("forked_child_is_told_whose_loader_it_is", os.waitpid(child, 0)[1] == 0)
        judge("parents_loader_goes_on", next(batches).number == 0)


def orders(path):
    """Checks that ranks, runs and machines with different memory have one order: no default of it depends on these."""
    with lmdb.open(path, map_size=1 << 25) as env, env.begin(write=True) as txn:
        for i in range(100):
            txn.put(b"%04d" % i, b"v" * 100000)
    look = ("import ast, lmdbio, sys; "
            "loader = lmdbio.Loader(sys.argv[1], 8, lock=False, **ast.literal_eval(sys.argv[2])); loader.epoch(0); print(loader.state().hex(), [i for batch in loader for i in batch.records])")
    for options in ({"order": "block"}, {"order": "block", "memory": 1 << 20}, {"order": "opportunistic", "ranks": 2},
                    {"order": "opportunistic", "ranks": 2, "memory": 1 << 20},
                    {"order": "opportunistic", "resident": 20}):
        found = [subprocess.run([sys.executable, "-c", look, path, repr(options)], check=True, stdout=subprocess.PIPE,
                                env={**os.environ, "LMDBIO_MEMORY": memory}).stdout for memory in ("1M", "64M")]
        judge("order_is_one_in_any_memory_" + "_".join(map(str, options.values())), found[0] == found[1])


def unreadable(path):
    """Checks records of a data set in which one record cannot be read."""
    damaged_set.make(path, 30, 19)
    left = [i for i in range(30) if i != 19]
    records = lmdbio.Records(path, 8, order="sequential", skip_errors=True, lock=False)
    judge("records_leave_an_unreadable_one_out", list(records) == [
        (b"%04d" % i, b"%04d" % i * 5000) for i in left])
    judge("records_count_what_they_leave_out", records.skipped == 1)
    judge("records_in_other_processes_count_anew", pickle.loads(pickle.dumps(records)).skipped == 0)
    records = lmdbio.Records(path, 8, order="sequential", skip_errors=True, lock=False,
                             decode=lambda key, value: int(bytes(key)))
    judge("nothing_unreadable_is_decoded", list(records) == left)
    batches = list(lmdbio.Records(path, 8, order="sequential", skip_errors=True, lock=False, batches=True))
    judge("whole_batches_tell_of_an_unreadable_one", [
        (number, bytes(key)) for batch in batches for number, (key, _), error in
        zip(batch.records, batch, batch.errors) if error] == [(19, b"")])
    refuses("unreadable_records_are_errors_otherwise", lmdbio.Error, ["the next batch"],
            lambda: list(lmdbio.Records(path, 8, lock=False)))


def iterations(path):
    """Checks that an iteration that another one has ended says so, and takes none of the other's batches."""
    told = ["another iteration", "Loader", "Records"]
    with lmdbio.Loader(path, 8, lock=False) as loader:
        first = iter(loader)
        begun = next(first).records
        second = loader.epoch(0)
        refuses("older_iteration_says_that_another_has_begun", lmdbio.Error, told, lambda: next(first))
        seen = [number for batch in second for number in batch.records]
        judge("newer_iteration_has_all_records", sorted(seen) == list(range(RECORDS)) and seen[:8] == begun)
        refuses("older_iteration_stays_ended", lmdbio.Error, told, lambda: next(first))
        third = loader.resume(loader.state())
        judge("iteration_that_is_through_stays_so", next(second, None) is None and next(third, None) is None)
        fourth = loader.epoch(3)
        try:
            loader.resume(bytes(64))
        except lmdbio.Error:
            pass
        judge("iteration_goes_on_after_a_refused_state", len(list(fourth)) == 13)
        fifth = loader.epoch(4)
        state = loader.state()
    for name, call in (("next", lambda: next(fifth)), ("next_of_an_older_one", lambda: next(first)),
                       ("iteration", lambda: iter(loader)), ("epoch", lambda: loader.epoch(0)),
                       ("resuming", lambda: loader.resume(state)), ("state", loader.state),
                       ("length", lambda: len(loader)), ("records", lambda: loader.records), ("verdict", loader.verdict),
                       ("stats", loader.stats), ("quality", lambda: loader.quality(0, 0, 1))):
        try:
            call()
            judge(f"{name}_of_a_closed_loader_is_refused", False)
        except lmdbio.Error as error:
            judge(f"{name}_of_a_closed_loader_is_canceled", error.code == errno.ECANCELED and "closed" in str(error))
    records = lmdbio.Records(path, 8, lock=False)
    refuses("iterations_of_records_at_once_are_told", lmdbio.Error, told, lambda: list(zip(records, records)))
    judge("records_are_read_anew", len(list(records)) == RECORDS)


class Door:
    """A lock that says when a thread must wait for it."""

    def __init__(self, lock, waits):
        self.lock, self.waits = lock, waits

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.waits.set()
            self.lock.acquire()

    def __exit__(self, *error):
        self.lock.release()


def meanwhile(loader, owner, name, what):
    """Delays the next call of a function until another thread has called `what`, or waits for this thread."""
    function, over = getattr(owner, name), threading.Event()

    def run():
        try:
            what()
        finally:
            over.set()

    thread = threading.Thread(target=run)

    def call(*arguments):
        setattr(owner, name, function)
        thread.start()
        assert over.wait(60), "the other thread hangs"
        return function(*arguments)

    setattr(owner, name, call)
    loader._beginning = Door(threading.RLock(), over)
    return thread


def threads(path):
    """Checks that two threads that use a loader at once have one iteration each, or take one batch at a time."""
    told, lib, other = ["another iteration"], lmdbio.library(), []
    with lmdbio.Loader(path, 8, lock=False) as loader:
        thread = meanwhile(loader, lib, "lmdbio_loader_epoch", lambda: other.append(loader.epoch(1)))
        mine = loader.epoch(0)
        thread.join()
        refuses("iteration_that_another_thread_has_ended_at_its_beginning_says_so", lmdbio.Error, told,
                lambda: next(mine))
        judge("iteration_of_the_other_thread_has_its_epoch", {batch.epoch for batch in other[0]} == {1})
        judge("epoch_behind_those_of_two_threads_is_the_newest_ones", next(iter(loader)).epoch == 2)
        thread = meanwhile(loader, lib, "lmdbio_loader_restore", lambda: other.append(loader.epoch(2)))
        refuses("state_is_refused_while_another_thread_begins", lmdbio.Error, ["resuming"],
                lambda: loader.resume(bytes(64)))
        thread.join()
        judge("refused_state_leaves_the_other_threads_iteration", {batch.epoch for batch in other[1]} == {2})
        batches, second = loader.epoch(3), []

        def take():
            try:
                second.append(next(batches))
            except ValueError as error:
                second.append(str(error))

        thread = meanwhile(loader, loader, "_check_turn", take)
        next(batches)
        thread.join()
        judge("second_thread_in_next_is_told", "another thread waits" in str(second[0]))
        judge("batches_behind_it_follow", len(list(batches)) == len(loader) - 1)


def interrupted(batches, taken):
    """Sends Ctrl-C while an iteration waits for its next batch, or when the batch is taken and not handed out."""
    lib = lmdbio.library()
    function = lib.lmdbio_loader_next_within

    def call(*arguments):
        lib.lmdbio_loader_next_within = function
        if taken:
            function(*arguments)
        raise KeyboardInterrupt

    lib.lmdbio_loader_next_within = call
    try:
        next(batches)
    except KeyboardInterrupt:
        pass


def copies(path):
    """Checks that objects with a handle of the C library refuse to be copied or pickled, and then stay open."""
    with lmdbio.Loader(path, 8, lock=False) as loader:
        batches, announcer = loader.epoch(0), Announcer(path)
        for one in (loader, announcer):
            name = type(one).__name__
            for call in (copy.copy, copy.deepcopy, pickle.dumps):
                refuses(f"{call.__name__}_of_{name}_is_refused", TypeError, [name, "open"], lambda: call(one))
        judge("loader_that_was_not_copied_stays_open", next(batches).epoch == 0)
        judge("announcer_that_was_not_copied_stays_open", announcer.entries() == RECORDS)
        announcer.close()


def slots(path):
    """Returns the number of taken slots of the reader table. Another process looks: its LMDB changes no slot."""
    look = "import lmdb, sys; print(lmdb.open(sys.argv[1], readonly=True).readers().count('\\n') - 1)"
    return int(subprocess.run([sys.executable, "-c", look, path], check=True, stdout=subprocess.PIPE).stdout)


def locked(path):
    """Checks that announcers beside live writers leave nearly all of the reader table's 126 slots to others."""
    announcer = Announcer(path, lock=True)
    for number in range(130):
        announcer.records([number % RECORDS])
    taken = slots(path)
    judge(f"announcer_with_a_lock_takes_few_slots: {taken}", 1 <= taken <= 4)
    judge("announcer_with_a_lock_finds_records", announcer.entries() == RECORDS
          and announcer.value(b"0005") == b"v" * 6)
    announcer.close()
    records = lmdbio.Records(path, 8)
    batches = iter(records)
    next(batches)
    judge("records_are_counted_while_they_are_read", len(records) == RECORDS)
    judge("counting_records_leaves_the_slot_of_their_reader", slots(path) == 1)
    records._loader.close()
    named = lmdbio.Records(path + "-named", 8, name="inner")
    judge("records_of_a_named_database_are_counted", len(named) == RECORDS == len(list(named)))
    sampler = AnnouncingSampler(list(range(RECORDS)), path, "order", lock=True, ahead=2)
    entries = iter(sampler)
    seen = [next(entries) for _ in range(RECORDS)]
    taken = slots(path)
    judge("sampler_with_a_lock_yields_all", seen + list(entries) == list(range(RECORDS)))
    judge(f"sampler_with_a_lock_takes_few_slots: {taken}", 1 <= taken <= 4)


class Tensor:
    """The part of a tensor that DataLoader and a sampler use: indices, or a single one, which is no batch."""

    def __init__(self, numbers):
        self.numbers, self.ndim = numbers, int(isinstance(numbers, list))

    def __len__(self):
        return len(self.numbers)

    def __iter__(self):
        return iter(self.numbers)

    def __contains__(self, number):
        return number in self.numbers

    def __index__(self):
        return self.numbers


def entries(path):
    """Checks that a sampler's entries that DataLoader takes for batches are announced index by index."""
    for name, kind in (("list", list), ("tuple", tuple), ("range", lambda numbers: range(numbers[0], numbers[-1] + 1)),
                       ("set", set), ("frozenset", frozenset), ("array", numpy.array), ("deque", collections.deque),
                       ("tensor", Tensor)):
        announced = []
        batches = [kind(list(range(i, i + 4))) for i in range(0, 40, 4)]
        sampler = AnnouncingSampler(batches, path, lambda index: announced.append(int(index)) or b"%04d" % index, ahead=8)
        judge(f"batches_that_are_each_a_{name}_are_yielded", [batch is given for batch, given in zip(sampler, batches)]
              == [True] * 10)
        judge(f"batches_that_are_each_a_{name}_are_announced", sorted(announced) == list(range(40)))
        # Two batches of four are eight records: the third is announced when the first has been yielded.
        announced.clear()
        next(iter(sampler))
        judge(f"batches_that_are_each_a_{name}_are_counted_by_their_length: {len(announced)}", len(announced) <= 8)
    for name, kind in (("number", int), ("array", numpy.array), ("numpy_number", numpy.int64), ("tensor", Tensor)):
        judge(f"index_that_is_a_{name}_is_no_batch", len(list(AnnouncingSampler(
            [kind(i) for i in range(40)], path, lambda index: b"%04d" % int(index)))) == 40)
    judge("index_that_is_a_key_is_no_batch", list(AnnouncingSampler(["0001", "0002"], path, str)) == ["0001", "0002"])


def numbers(path):
    """Checks that numbers outside the C library's range are refused."""
    with lmdbio.Loader(path, 8, lock=False) as loader:
        for number in (-1, 2**48, 2**64):
            refuses(f"epoch_{number}_is_refused", ValueError, [f"epoch={number}"], lambda: loader.epoch(number))
            refuses(f"quality_of_epoch_{number}_is_refused", ValueError, [f"epoch={number}"],
                    lambda: loader.quality(number, 0, 1))
        refuses("epoch_is_a_number", TypeError, ["epoch='1'"], lambda: loader.epoch("1"))
        refuses("quality_takes_no_start_that_is_cut_off", ValueError, ["start="], lambda: loader.quality(0, 2**64, 1))
        refuses("quality_takes_no_length_that_is_cut_off", ValueError, ["length="], lambda: loader.quality(0, 0, 2**64))
        judge("last_epoch_is_read", {batch.epoch for batch in loader.epoch(2**48 - 1)} == {2**48 - 1})


def lazy(path):
    """Checks that an environment that several threads use first is opened once, and again in a forked child."""
    opened, second, inside, ends = [], threading.Event(), threading.Event(), threading.Event()
    real, lmdb.open = lmdb.open, lambda *arguments, **options: begin()
    child = None

    def begin():
        opened.append(os.getpid())
        if child == 0:
            return "the child's"
        if len(opened) > 1:
            second.set()
            return "another"
        inside.set()
        assert ends.wait(60), "nothing ends it"
        return "the first"

    env, got = LazyEnvironment(path), []
    if hasattr(env, "_locks"):
        env._locks[os.getpid()] = Door(threading.RLock(), second)
    users = [threading.Thread(target=lambda: got.append(env())) for _ in range(2)]
    users[0].start()
    assert inside.wait(60), "it is not opened"
    users[1].start()
    assert second.wait(60), "the second thread neither waits nor opens"
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits for a thread that it does not have
        os._exit(0 if env() == "the child's" == env() else 1)
    judge("forked_child_opens_its_own_environment", os.waitpid(child, 0)[1] == 0)
    ends.set()
    for user in users:
        user.join()
    lmdb.open = real
    judge("environment_is_opened_once", len(opened) == 1 and got == ["the first"] * 2)
    judge("environment_is_copied_closed", copy.copy(env)._env is None and pickle.loads(pickle.dumps(env))._env is None)


def left(path):
    """Checks that a batch that Ctrl-C has left goes back once, even if another thread takes it during close()."""
    lib, back, taken, main_thread = lmdbio.library(), [], [], threading.get_ident()
    done = lib.lmdbio_batch_done
    with lmdbio.Loader(path, 8, lock=False) as loader:
        batches = loader.epoch(0)
        interrupted(batches, taken=True)

        class Turn(type(loader._turn)):
            """Lets the other thread take the batch while close() looks at the turn."""

            @property
            def busy(self):
                if threading.get_ident() == main_thread and not taken:
                    thread = threading.Thread(target=lambda: taken.append(next(batches)))
                    thread.start()
                    thread.join()
                return vars(self)["busy"]

            @busy.setter
            def busy(self, thread):
                vars(self)["busy"] = thread

        loader._turn.__class__ = Turn
        lib.lmdbio_batch_done = lambda pointer: (back.append(1), done(pointer))
        try:
            loader.close()
            judge("close_meets_no_batch_that_another_thread_has_taken", True)
        except AttributeError:
            judge("close_meets_no_batch_that_another_thread_has_taken", False)
    taken.clear()
    judge("batch_that_ctrl_c_has_left_goes_back_once", len(back) == 1)
    lib.lmdbio_batch_done = done


class Between:
    """Lets another thread begin an epoch when this thread is about to call the C library for an older iteration.

    This thread makes its call when the other thread's first call has returned. `late`: the other thread then waits
    until this thread's iteration has returned or raised an error.
    """

    def __init__(self, loader, name, epoch, late):
        self.lib, self.name, self.late = lmdbio.library(), name, late
        self.begun, self.over = threading.Event(), threading.Event()
        self.functions = {word: getattr(self.lib, word) for word in (name, "lmdbio_loader_epoch")}
        self.thread = threading.Thread(target=lambda: setattr(self, "batches", loader.epoch(epoch)))

    def older(self, *arguments):
        setattr(self.lib, self.name, self.functions[self.name])
        self.thread.start()
        assert self.begun.wait(60), "the other thread hangs"
        return self.functions[self.name](*arguments)

    def newer(self, *arguments):
        code = self.functions["lmdbio_loader_epoch"](*arguments)
        self.begun.set()
        assert not self.late or self.over.wait(60), "the older iteration hangs"
        return code

    def run(self, call):
        """Returns the error that the call raises, and the batches of the other thread's iteration."""
        setattr(self.lib, self.name, self.older)
        self.lib.lmdbio_loader_epoch = self.newer
        error = None
        try:
            call()
        except lmdbio.Error as raised:
            error = raised
        self.over.set()
        self.thread.join(60)
        self.lib.lmdbio_loader_epoch = self.functions["lmdbio_loader_epoch"]
        return error, [(batch.epoch, batch.number) for batch in self.batches]


def older(path):
    """Checks that an older iteration takes neither a batch nor the place of a newer iteration."""
    with lmdbio.Loader(path, 8, lock=False) as loader:
        for number, (late, left) in enumerate(((False, False), (True, False), (False, True), (True, True))):
            batches, epoch = loader.epoch(10), 11 + number
            next(batches)
            if left:  # then the next call restores the place
                interrupted(batches, taken=False)
            between = Between(loader, "lmdbio_loader_restore" if left else "lmdbio_loader_next_within", epoch, late)
            error, seen = between.run(lambda: next(batches))
            words = ("before_" if late else "after_") + ("restoring" if left else "taking")
            judge(f"older_iteration_is_told_of_a_newer_one_{words}", error and "another iteration" in str(error))
            judge(f"newer_iteration_has_all_batches_{words}", seen == [(epoch, i) for i in range(len(loader))])


def main(path):
    judge("import_leaves_torch_alone", "torch" not in sys.modules)
    with lmdb.open(path, map_size=1 << 24) as env, env.begin(write=True) as txn:
        for i in range(RECORDS):
            txn.put(b"%04d" % i, b"v" * (i + 1))
    judge("version_is_named", lmdbio.__version__ == lmdbio.library().lmdbio_version().decode())
    refuses("order_names_its_words", ValueError, ["order='random'", "'shuffle'", "'block'"],
            lambda: lmdbio.Loader(path, 8, order="random"))
    refuses("tail_names_its_words", ValueError, ["tail='cut'", "'pad'"],
            lambda: lmdbio.Loader(path, 8, tail="cut"))
    refuses("batch_is_checked", ValueError, ["batch=0"], lambda: lmdbio.Loader(path, 0))
    refuses("stage_dir_is_checked", ValueError, ["stage_dir='/no/such'", "make it"],
            lambda: lmdbio.Loader(path, 4, stage_dir="/no/such"))
    refuses("rank_is_checked", ValueError, ["rank=2"],
            lambda: lmdbio.Loader(path, 8, ranks=2, rank=2))
    for argument, value in (("seed", -1), ("memory", -1), ("ahead", 2**32), ("threads", -1),
                            ("block", -1), ("resident", -1), ("ranks", 0)):
        refuses(f"{argument}_is_checked", ValueError, [f"{argument}={value}"],
                lambda: lmdbio.Loader(path, 8, **{argument: value}))
    refuses("batch_is_a_number", TypeError, ["batch='8'"], lambda: lmdbio.Loader(path, "8"))
    refuses("path_is_named", TypeError, ["path=None"], lambda: lmdbio.Loader(None, 8))
    refuses("records_name_the_argument_when_they_are_made", ValueError, ["order='random'"],
            lambda: lmdbio.Records(path, 8, order="random"))
    refuses("records_refuse_misspelt_options_when_they_are_made", TypeError, ["sed"],
            lambda: lmdbio.Records(path, 8, sed=1))
    refuses("misspelt_option_is_refused", TypeError, ["sed"], lambda: lmdbio.Loader(path, 8, sed=1))
    refuses("missing_data_set_is_named", lmdbio.Error, ["/nowhere"],
            lambda: lmdbio.Loader("/nowhere", 8))
    error = pickle.loads(pickle.dumps(lmdbio.Error(2, "text")))
    judge("errors_cross_processes", (error.code, str(error)) == (2, "text"))
    for options in ({}, {"tail": "drop"}, {"tail": "wrap"}, {"order": "sequential"},
                    {"ranks": 3, "rank": 1}, {"ranks": 3, "rank": 2, "order": "sequential"}):
        records = lmdbio.Records(path, 8, lock=False, **options)
        judge("records_have_their_length_%s" % "_".join(map(str, options.values())),
              len(records) == sum(1 for _ in records))
    judge("whole_batches_have_their_length",
          len(lmdbio.Records(path, 8, batches=True, lock=False)) == 13)
    stats = lmdbio.stats()
    judge("stats_are_named_as_in_lmdbio_h", stats.keys() >= {"storage_bytes", "prefetch_used", "huge_bytes"})
    with lmdb.open(path + "-named", max_dbs=1) as env:
        with env.begin(write=True, db=env.open_db(b"inner")) as txn:
            for i in range(RECORDS):
                txn.put(b"%04d" % i, b"v")
    for place, name in ((path, None), (path + "-named", "inner")):
        announcer = Announcer(place, name, depth=2)
        for i in range(5):  # more than depth: transactions take turns
            announcer.keys([b"%04d" % i, b"absent"])
            announcer.records([i, RECORDS + 7])
        announcer.close()
    judge("announcers_take_turns_in_named_databases_too", True)
    refuses("announcer_names_the_database", lmdbio.Error, ["'absent'", path],
            lambda: Announcer(path, name="absent"))
    for what, argument, value, words in (
            (ValueError, "key", "cafe", ["key='cafe'", "'lsun'"]), (TypeError, "key", 5, ["key=5"]),
            (ValueError, "ahead", 0, ["ahead=0"]), (TypeError, "path", None, ["path=None"])):
        refuses(f"sampler_names_{argument}_{value}_when_it_is_made", what, words,
                lambda: AnnouncingSampler(**{"sampler": [], "path": path, "key": "order",
                                             argument: value}))
    refuses("depth_is_checked", ValueError, ["depth=0"], lambda: Announcer(path, depth=0))
    with lmdb.open(path, readonly=True) as env, env.begin() as txn:
        hints = lmdbio.Hints(env)
        judge("hints_say_why_not", "lmdbio-run" in str(hints.why_not))
        hints.prefetch_keys(txn, [b"0001"])
        refuses("advice_names_its_words", ValueError, ["advice=9", "STRIDE"],
                lambda: hints.advise(txn, 9))
        refuses("stride_is_checked", ValueError, ["stride=0"],
                lambda: hints.advise(txn, 3, stride=0))
    announcer = Announcer(path)
    refuses("keys_are_bytes", TypeError, ["keys: '0001'"], lambda: announcer.keys(["0001"]))
    refuses("numbers_are_checked", ValueError, ["numbers=-1"], lambda: announcer.records([-1]))
    refuses("key_names_its_presets", ValueError, ["key='cafe'", "'caffe'", "'ase'"],
            lambda: parts("cafe", path))
    refuses("ase_without_nextid_says_so", ValueError, ["nextid", path],
            lambda: parts("ase", path))
    judge("format_makes_keys", parts("{:04d}", path)[0].keys(7) == b"0007")
    judge("presets_are_those_documented", PRESETS == [
        "ase", "caffe", "deepmd", "lsun", "mmengine", "ocp", "order"])
    folders(path + "-folder")
    shares(path)
    orders(path + "-large")
    arguments(path)
    announced(path)
    forked(path)
    iterations(path)
    threads(path)
    older(path)
    left(path)
    copies(path)
    numbers(path)
    entries(path)
    lazy(path)
    locked(path)
    unreadable(path + "-damaged")
    sys.exit(bad)


main(sys.argv[1])
