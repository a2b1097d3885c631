#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Times epochs over the same records in a container and in compressed shards.

usage: bench_shards.py make DIRECTORY [--records N] [--bytes N]
       bench_shards.py read WAY DIRECTORY [--order sequential|shuffled] [--workers N] [--epochs N]
                       [--local DIRECTORY] [--cache BYTES] [--storage FILE]

`make` writes DIRECTORY/lmdb for lmdbio-convert, DIRECTORY/mds and DIRECTORY/tar. BITS bits (from the
environment; 4) of each byte of a record are random, so that zstd has to decode every byte of it. `read`
prints a line for each epoch: records a second, processor seconds of all processes, a digest that does
not depend on the order of the records, and with --storage, slowfs's statistics, requests and bytes. WAY
is one of:

get     py-lmdb in forked workers: a cursor, or a transaction and a get() for each record of a full shuffle
loader  lmdbio.Loader in one process, its order `sequential` or `shuffle`
mds     shards in MosaicML Streaming's format (MDS, 64 MiB of records, zstd), as StreamingDataset reads
        them: a thread of each worker unpacks the shards of the next 512 samples into --local, and removes
        the coldest shards there when they exceed --cache bytes; for each sample the worker opens the
        unpacked shard, seeks and reads. The shuffled order is a full shuffle, as StreamingDataset's
        default order is for fewer than 262,144 samples
tar     tar shards of 64 MiB of records, compressed by zstd, as WebDataset reads them: zstd's pipe into
        tarfile. The shuffled order is no full shuffle: it shuffles the shards, and the samples in a
        buffer of 1,000

bench/bench_shards.sh runs all ways on slowfs.
"""
import argparse
import ctypes
import hashlib
import io
import json
import os
import random
import resource
import struct
import subprocess
import sys
import tarfile
import threading
import time

SHARD = 1 << 26  # bytes of records in a shard: MDSWriter's default
AHEAD = 512      # samples: StreamingDataset's predownload, eight batches of 64
BUFFER = 1000    # samples: WebDataset's usual shuffle(1000)
BATCH = 64
BITS = int(os.environ.get("BITS", "4"))


class Zstd:
    """Calls libzstd, for which Python 3.11 has no module. Other threads run during the calls of ctypes."""

    def __init__(self):
        self.library = ctypes.CDLL("libzstd.so.1")
        for name in ("ZSTD_compress", "ZSTD_decompress", "ZSTD_compressBound", "ZSTD_getFrameContentSize"):
            getattr(self.library, name).restype = ctypes.c_size_t
        self.library.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
        self.library.ZSTD_compress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
                                               ctypes.c_int]
        self.library.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        self.library.ZSTD_getFrameContentSize.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def compress(self, data, level=3):
        out = ctypes.create_string_buffer(self.library.ZSTD_compressBound(len(data)))
        length = self.library.ZSTD_compress(out, len(out), data, len(data), level)
        return out.raw[:length]

    def decompress(self, data):
        out = bytearray(self.library.ZSTD_getFrameContentSize(data, len(data)))
        place = (ctypes.c_char * len(out)).from_buffer(out)
        if self.library.ZSTD_decompress(place, len(out), data, len(data)) != len(out):
            raise ValueError("a shard is not whole")
        return out


def key_of(record):
    return b"%08d" % record


def value_of(record, length):
    """Returns letters, each of which holds BITS random bits."""
    digits = random.Random(record).randbytes((length + 1) // 2).hex()[:length]
    return digits.translate({ord(digit): format(int(digit, 16) % 2**BITS, "x") for digit in set(digits)}).encode()


def digest_of(value):
    """Returns a digest of some bytes of each page of a value."""
    return int.from_bytes(hashlib.blake2b(bytes(value[::509]), digest_size=8).digest(), "little")


# Writing.

def make_lmdb(path, records, length):
    import lmdb
    with lmdb.open(path, map_size=records * (length + 8192) + (1 << 24), sync=False) as env:
        for first in range(0, records, 1000):
            with env.begin(write=True) as txn:
                for record in range(first, min(records, first + 1000)):
                    txn.put(key_of(record), value_of(record, length), append=True)


def shards_of(records, length):
    each = max(1, SHARD // length)
    return [range(first, min(records, first + each)) for first in range(0, records, each)]


def make_mds(path, records, length):
    os.mkdir(path)
    config = {"version": 2, "format": "mds", "compression": "zstd:3", "hashes": [], "size_limit": SHARD,
              "column_names": ["value"], "column_encodings": ["bytes"], "column_sizes": [None]}
    text, zstd, index = json.dumps(config, sort_keys=True).encode(), Zstd(), []
    for number, members in enumerate(shards_of(records, length)):
        values = [value_of(record, length) for record in members]
        offsets = [4 + 4 * (len(values) + 1) + len(text)]
        for value in values:
            offsets.append(offsets[-1] + 4 + len(value))
        raw = b"".join([struct.pack("<I%dI" % len(offsets), len(values), *offsets), text]
                       + [struct.pack("<I", len(value)) + value for value in values])
        packed, name = zstd.compress(raw), "shard.%05d.mds" % number
        with open(os.path.join(path, name + ".zstd"), "wb") as file:
            file.write(packed)
        index.append(dict(config, samples=len(values), raw_data={"basename": name, "bytes": len(raw), "hashes": {}},
                          zip_data={"basename": name + ".zstd", "bytes": len(packed), "hashes": {}}))
    with open(os.path.join(path, "index.json"), "w") as file:
        json.dump({"version": 2, "shards": index}, file)


def make_tar(path, records, length):
    os.mkdir(path)
    zstd = Zstd()
    for number, members in enumerate(shards_of(records, length)):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for record in members:
                member = tarfile.TarInfo("%08d.bin" % record)
                member.size = length
                tar.addfile(member, io.BytesIO(value_of(record, length)))
        with open(os.path.join(path, "%05d.tar.zst" % number), "wb") as file:
            file.write(zstd.compress(raw.getvalue()))


def make(options):
    make_lmdb(os.path.join(options.path, "lmdb"), options.records, options.bytes)
    make_mds(os.path.join(options.path, "mds"), options.records, options.bytes)
    make_tar(os.path.join(options.path, "tar"), options.records, options.bytes)


# Reading: each way yields the values of a worker's part of an epoch.

def part_of(count, order, seed, worker, workers):
    """Returns a worker's positions: consecutive ones, or each `workers`-th of a full shuffle."""
    if order == "sequential":
        return list(range(count * worker // workers, count * (worker + 1) // workers))
    every = list(range(count))
    random.Random(seed).shuffle(every)
    return every[worker::workers]


class Get:
    def __init__(self, options):
        self.options = options

    def begin(self):
        import lmdb
        self.env = lmdb.open(self.options.path, readonly=True, lock=False, readahead=False)
        self.records = self.env.stat()["entries"]

    def epoch(self, number, worker):
        part = part_of(self.records, self.options.order, number, worker, self.options.workers)
        if self.options.order == "sequential":
            with self.env.begin(buffers=True) as txn, txn.cursor() as cursor:
                cursor.set_key(key_of(part[0]))
                for _, (_, value) in zip(part, cursor):
                    yield value
        else:
            for record in part:
                with self.env.begin(buffers=True) as txn:
                    yield txn.get(key_of(record))


class Loader:
    def __init__(self, options):
        self.options = options
        options.workers = 1

    def begin(self):
        import lmdbio
        self.loader = lmdbio.Loader(self.options.path, BATCH, lock=False,
                                    order="shuffle" if self.options.order == "shuffled" else "sequential")

    def epoch(self, number, _):
        for batch in self.loader.epoch(number):
            for _, value in batch:
                yield value


class Mds:
    """Keeps local copies that belong to all workers: `state` and `used` are in shared memory."""

    ABSENT, COMING, LOCAL = range(3)

    def __init__(self, options):
        import multiprocessing
        self.options, self.zstd = options, Zstd()
        with open(os.path.join(options.path, "index.json")) as file:
            self.shards = json.load(file)["shards"]
        self.places = [(number, i) for number, shard in enumerate(self.shards) for i in range(shard["samples"])]
        fork = multiprocessing.get_context("fork")
        self.moved, self.clock = fork.Condition(), fork.Value("Q", 0, lock=False)
        self.state = fork.Array("B", len(self.shards), lock=False)
        self.used = fork.Array("Q", len(self.shards), lock=False)

    def begin(self):
        pass

    def local(self, number):
        return os.path.join(self.options.local, self.shards[number]["raw_data"]["basename"])

    def make_room(self, number):
        """Removes the coldest shards. The caller holds the condition's lock."""
        while self.options.cache:
            there = [n for n, state in enumerate(self.state) if state != self.ABSENT]
            if sum(self.shards[n]["raw_data"]["bytes"] for n in there) <= self.options.cache:
                break
            cold = [n for n in there if self.state[n] == self.LOCAL and n != number]
            if not cold:
                break
            coldest = min(cold, key=lambda n: self.used[n])
            self.state[coldest] = self.ABSENT
            os.unlink(self.local(coldest))

    def prepare(self, number):
        with self.moved:
            self.clock.value += 1
            self.used[number] = self.clock.value
            while self.state[number] == self.COMING:
                self.moved.wait()
            if self.state[number] == self.LOCAL:
                return
            self.state[number] = self.COMING
            self.make_room(number)
        shard = self.shards[number]
        with open(os.path.join(self.options.path, shard["zip_data"]["basename"]), "rb", 0) as file:
            raw = self.zstd.decompress(file.read())
        with open(self.local(number), "wb", 0) as file:
            file.write(raw)
        with self.moved:
            self.state[number] = self.LOCAL
            self.moved.notify_all()

    def sample(self, number, i):
        while True:
            self.prepare(number)
            try:
                with open(self.local(number), "rb", 0) as file:
                    file.seek(4 + 4 * i)
                    begin, end = struct.unpack("<II", file.read(8))
                    file.seek(begin)
                    return memoryview(file.read(end - begin))[4:]
            except FileNotFoundError:
                continue  # another worker has evicted it

    def run_ahead(self, part):
        for position in part:
            if not self.wanted.acquire() or self.ended:
                return
            self.prepare(self.places[position][0])

    def epoch(self, number, worker):
        part = part_of(len(self.places), self.options.order, number, worker, self.options.workers)
        self.wanted, self.ended = threading.Semaphore(AHEAD), False
        ahead = threading.Thread(target=self.run_ahead, args=(part,))
        ahead.start()
        for position in part:
            yield self.sample(*self.places[position])
            self.wanted.release()
        self.ended = True
        self.wanted.release()
        ahead.join()


class Tar:
    def __init__(self, options):
        self.options = options

    def begin(self):
        self.shards = sorted(os.listdir(self.options.path))

    def stream(self, shards):
        for name in shards:
            with subprocess.Popen(["zstd", "-dcq", os.path.join(self.options.path, name)],
                                  stdout=subprocess.PIPE) as pipe:
                with tarfile.open(fileobj=pipe.stdout, mode="r|", bufsize=1 << 20) as tar:
                    for member in tar:
                        yield tar.extractfile(member).read()

    def epoch(self, number, worker):
        shards = list(self.shards)
        if self.options.order == "sequential":
            yield from self.stream(shards[worker::self.options.workers])
            return
        chance, kept = random.Random(number), []
        chance.shuffle(shards)
        for value in self.stream(shards[worker::self.options.workers]):
            if len(kept) < BUFFER:
                kept.append(value)
                continue
            place = chance.randrange(BUFFER)
            kept[place], value = value, kept[place]
            yield value
        chance.shuffle(kept)
        yield from kept


WAYS = {"get": Get, "loader": Loader, "mds": Mds, "tar": Tar}


def spent():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def storage(options):
    """Returns the requests that slowfs has served, and their bytes."""
    if not options.storage:
        return None
    with open(options.storage) as file:
        counts = dict(line.rsplit(" ", 1) for line in file if " " in line)
    return int(counts["requests"]), int(counts["bytes"])


def work(way, worker, orders, answers):
    """Runs a worker: for each byte that it receives it reads an epoch and answers with a line."""
    way.begin()
    epoch = 0
    while os.read(orders, 1):
        seen = count = 0
        before = spent()
        for value in way.epoch(epoch, worker):
            seen ^= digest_of(value)
            count += 1
        os.write(answers, b"%d %.6f %d\n" % (count, spent() - before, seen))
        epoch += 1


def read(options):
    way = WAYS[options.way](options)
    pipes = [(os.pipe(), os.pipe()) for _ in range(options.workers)]
    for worker, ((told, _), (_, answer)) in enumerate(pipes):
        if os.fork() == 0:
            for (_, order), _ in pipes:
                os.close(order)
            work(way, worker, told, answer)
            sys.stdout.flush()
            os._exit(0)
        os.close(told)
        os.close(answer)
    answers = [os.fdopen(answer) for _, (answer, _) in pipes]
    asked = storage(options)
    for epoch in range(options.epochs):
        began = time.monotonic()
        for (_, order), _ in pipes:
            os.write(order, b"1")
        told = [answer.readline().split() for answer in answers]
        seconds = time.monotonic() - began
        seen = 0
        for _, _, digest in told:
            seen ^= int(digest)
        count = sum(int(count) for count, _, _ in told)
        line = "epoch %d: %.0f records/s %.2f cpu-s %d records %016x" % (
            epoch + 1, count / seconds, sum(float(taken) for _, taken, _ in told), count, seen)
        asked, before = storage(options), asked
        if asked:
            line += " %d requests %d bytes" % (asked[0] - before[0], asked[1] - before[1])
        print(line, flush=True)
    for (_, order), _ in pipes:
        os.close(order)
    for _ in pipes:
        os.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="what", required=True)
    maker, reader = commands.add_parser("make"), commands.add_parser("read")
    maker.add_argument("path")
    maker.add_argument("--records", type=int, default=4000)
    maker.add_argument("--bytes", type=int, default=100000)
    reader.add_argument("way", choices=WAYS)
    reader.add_argument("path")
    reader.add_argument("--order", choices=("sequential", "shuffled"), default="sequential")
    reader.add_argument("--workers", type=int, default=2)
    reader.add_argument("--epochs", type=int, default=1)
    reader.add_argument("--local")
    reader.add_argument("--cache", type=int, default=0)
    reader.add_argument("--storage")
    options = parser.parse_args()
    if options.what == "make":
        make(options)
    else:
        read(options)


if __name__ == "__main__":
    sys.exit(main())
