#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""What only this file knows: how a loader in Python tells lmdbio which records come next.

An example to copy from. Records are read by py-lmdb as ever; beside it, the calls of <lmdbio.h>
are reached by ctypes. Where they are not there, or cannot be used safely, every hint does nothing
and `Hints.why_not` says why: the records are the same either way.

    lmdbio-run -- python3 lmdbio_loader.py DATASET

reads a data set twice in shuffled order, without and with hints, and prints records per second.
In a PyTorch data set:

    class Announced(torch.utils.data.Sampler):
        '''Batches of keys; with each the keys that the same worker gets next.'''
        def __init__(self, keys, batch, workers):
            self.keys, self.batch, self.step = keys, batch, max(1, workers)
        def __iter__(self):
            order = [self.keys[i] for i in torch.randperm(len(self.keys)).tolist()]
            batches = [order[i:i + self.batch] for i in range(0, len(order), self.batch)]
            for i, now in enumerate(batches):  # worker w gets batches w, w + workers, ...
                yield now, batches[i + self.step] if i + self.step < len(batches) else []
        def __len__(self):
            return -(-len(self.keys) // self.batch)

    class Records(torch.utils.data.Dataset):
        def __init__(self, path):
            self.path, self.txn = path, None
        def __getitems__(self, pair):  # once per batch, in the worker
            now, following = pair
            if self.txn is None:       # opened where it is used
                self.env = lmdb.open(self.path, readonly=True, lock=False)
                self.txn, self.hints = self.env.begin(), Hints(self.env)
                self.hints.prefetch_keys(self.txn, now)
            self.hints.prefetch_keys(self.txn, following)
            return [decode(self.txn.get(key)) for key in now]

    loader = torch.utils.data.DataLoader(Records(path), num_workers=4,
        batch_sampler=Announced(keys, 256, workers=4))

The transaction stays open: when it ends, what was announced and not yet begun is dropped.
"""
import argparse
import array
import concurrent.futures
import ctypes
import hashlib
import multiprocessing
import os
import random
import sys
import time

import lmdb

NORMAL, SEQUENTIAL, RANDOM, STRIDE = range(4)  # enum lmdbio_advice
POINTER = ctypes.sizeof(ctypes.c_void_p)
STATISTICS = ("size", "storage_requests", "storage_bytes", "served_bytes", "waits", "wait_ns",
	"hits_cache", "hits_arena_own", "hits_arena_peer", "at_rest", "evictions", "populate_calls",
	"prefetch_requests", "prefetch_bytes", "prefetch_used", "streams_started", "streams_broken",
	"fallbacks", "huge_bytes")


class Statistics(ctypes.Structure):
	"""struct lmdbio_stats"""
	_fields_ = [(name, ctypes.c_uint64) for name in STATISTICS]


class Place(ctypes.Structure):
	"""Dl_info, see dladdr(3)"""
	_fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
		("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


class Unusable(Exception):
	"""Hints cannot be given; the text says why."""


def binding_is_cffi():
	return lmdb.Transaction.__module__ == "lmdb.cffi"


def library_of_binding():
	"""The library that py-lmdb itself calls, if it is lmdbio.

	Looked up from the binding's own module, whose dependencies it is among: under LD_PRELOAD and
	LD_LIBRARY_PATH alike. ctypes.CDLL(None) would also show lmdbio to a binding that has an LMDB of
	its own inside, and must not be given the handles of that.
	"""
	if binding_is_cffi():
		import lmdb_cffi as module
	else:
		import lmdb.cpython as module
	library = ctypes.CDLL(module.__file__)
	bases = []
	for name in ("mdb_txn_begin", "lmdbio_prefetch_keys"):
		place = Place()
		try:
			function = ctypes.cast(getattr(library, name), ctypes.c_void_p)
		except AttributeError:
			raise Unusable("this program does not run on lmdbio (start it by lmdbio-run)") from None
		ctypes.CDLL(None).dladdr(function, ctypes.byref(place))
		bases.append(place.base)
	if bases[0] != bases[1]:
		raise Unusable("py-lmdb has an LMDB of its own")
	size, pointer = ctypes.c_size_t, ctypes.c_void_p
	for name, result, arguments in (
			("mdb_txn_env", pointer, [pointer]),
			("mdb_txn_id", size, [pointer]),
			("mdb_dbi_open", ctypes.c_int, [pointer, ctypes.c_char_p, ctypes.c_uint, pointer]),
			("mdb_strerror", ctypes.c_char_p, [ctypes.c_int]),
			("lmdbio_prefetch_keys", ctypes.c_int, [pointer, ctypes.c_uint, pointer, size]),
			("lmdbio_prefetch_range", ctypes.c_int, [pointer, ctypes.c_uint, pointer, pointer]),
			("lmdbio_advise", ctypes.c_int, [pointer, ctypes.c_uint, ctypes.c_int, ctypes.c_uint]),
			("lmdbio_stats", ctypes.c_int, [pointer])):
		function = getattr(library, name)
		function.restype, function.argtypes = result, arguments
	return library


def word_at(thing, offset):
	"""The pointer at an offset of a Python object; refuses what is not a whole one inside of it."""
	if offset < 2 * POINTER or offset % POINTER or offset + POINTER > type(thing).__basicsize__:
		raise Unusable("py-lmdb %s lays its objects out in another way" % lmdb.__version__)
	return ctypes.c_void_p.from_address(id(thing) + offset).value


def handles(env, txn):
	"""The MDB_env * and MDB_txn * behind py-lmdb's objects. The second is None when txn has ended.

	The cffi binding keeps them as attributes. The CPython binding's objects are C structures with
	no way to ask; in all of its versions the list of weak references is followed by

	    Environment:  MDB_env *env;
	    Transaction:  EnvObject *env;  MDB_txn *txn;   (env is NULL when the transaction has ended)

	and Python tells where that list is, as __weakrefoffset__. That the word before the MDB_txn * is
	the address of `env` itself is looked at each time, before any of this is believed.
	"""
	if binding_is_cffi():
		address = [int(lmdb.cffi._ffi.cast("uintptr_t", h)) for h in (env._env, txn._txn)]
		return address[0], address[1] or None
	offset = lmdb.Transaction.__weakrefoffset__ + POINTER
	owner = word_at(txn, offset)
	if owner is None:
		return None, None
	if owner != id(env):
		raise Unusable("the transaction belongs to another environment, or py-lmdb %s lays its "
			"objects out in another way" % lmdb.__version__)
	return word_at(env, lmdb.Environment.__weakrefoffset__ + POINTER), word_at(txn, offset + POINTER)


class Hints:
	"""lmdbio's hints for an environment that py-lmdb has opened with readonly=True."""

	def __init__(self, env):
		self.env, self.why_not, self.library = env, None, None
		try:
			self.library = library_of_binding()
			with env.begin() as txn:
				self._check(txn)
		except (Unusable, OSError, ImportError) as error:
			self.why_not = str(error)

	def _check(self, txn):
		"""What the library says about the handles must be what the binding says."""
		if not self.env.flags()["readonly"]:
			raise Unusable("the environment is open for writing")
		env, handle = handles(self.env, txn)
		if not env or not handle or self.library.mdb_txn_env(handle) != env or \
				self.library.mdb_txn_id(handle) != txn.id():
			raise Unusable("py-lmdb %s lays its objects out in another way" % lmdb.__version__)

	def _handle(self, txn):
		"""Looked up each time: py-lmdb uses a C transaction again for another object."""
		handle = handles(self.env, txn)[1]
		if not handle:
			raise lmdb.Error("the transaction has ended")
		return handle

	def _done(self, rc):
		if rc:
			raise lmdb.Error(self.library.mdb_strerror(rc).decode())

	def dbi(self, txn, name=None):
		"""The MDB_dbi of a database, by its name; one that env.open_db() has opened keeps its handle."""
		if self.why_not:
			return 0
		number = ctypes.c_uint()
		self._done(self.library.mdb_dbi_open(self._handle(txn), name, 0, ctypes.byref(number)))
		return number.value

	def prefetch_keys(self, txn, keys, dbi=1):
		"""Announces the records of a sequence of keys. 1 is the MDB_dbi of the unnamed database."""
		if self.why_not or not keys:
			return
		joined = b"".join(keys)
		address = ctypes.cast(joined, ctypes.c_void_p).value
		values = array.array("Q" if POINTER == 8 else "I")
		for key in keys:  # MDB_val: size, address
			values.append(len(key))
			values.append(address)
			address += len(key)
		self._done(self.library.lmdbio_prefetch_keys(self._handle(txn), dbi,
			values.buffer_info()[0], len(keys)))

	def prefetch_range(self, txn, first=None, last=None, dbi=1):
		"""Announces the records from key `first` to key `last`, both included; None: to the end."""
		if self.why_not:
			return
		kept = [None if key is None else bytes(key) for key in (first, last)]
		ends = [None if key is None else (ctypes.c_size_t * 2)(len(key),
			ctypes.cast(key, ctypes.c_void_p).value) for key in kept]
		self._done(self.library.lmdbio_prefetch_range(self._handle(txn), dbi, *ends))

	def advise(self, txn, advice, stride=1, dbi=1):
		"""NORMAL, SEQUENTIAL, RANDOM or STRIDE."""
		if not self.why_not:
			self._done(self.library.lmdbio_advise(self._handle(txn), dbi, advice, stride))

	def statistics(self):
		"""lmdbio's counters in this process, by name; empty without lmdbio."""
		if not self.library:
			return {}
		stats = Statistics(size=ctypes.sizeof(Statistics))
		self._done(self.library.lmdbio_stats(ctypes.byref(stats)))
		return {name: getattr(stats, name) for name in STATISTICS[1:]}


def shuffled_batches(keys, batch, seed):
	order = list(keys)
	random.Random(seed).shuffle(order)
	return [order[i:i + batch] for i in range(0, len(order), batch)]


def read_batches(txn, hints, batches):
	"""The values, batch after batch; while one is used the next is on its way."""
	if hints and batches:
		hints.prefetch_keys(txn, batches[0])
	for i, batch in enumerate(batches):
		if hints and i + 1 < len(batches):
			hints.prefetch_keys(txn, batches[i + 1])
		yield [txn.get(key) for key in batch]


def open_data(path):
	return lmdb.open(path, readonly=True, lock=False, readahead=False,
		subdir=os.path.isdir(path))


def data_file(path):
	return os.path.join(path, "data.mdb") if os.path.isdir(path) else path


def forget_pages(path):
	"""Asks the kernel to drop the file's clean pages, so that both passes begin alike."""
	fd = os.open(data_file(path), os.O_RDONLY)
	try:
		os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
	finally:
		os.close(fd)


def all_keys(path):
	"""A training set's keys usually stand in a list beside it; here they are read from it."""
	with open_data(path) as env, env.begin() as txn:
		return list(txn.cursor().iternext(keys=True, values=False))


def one_pass(path, batches, hinted):
	"""Reads all once: seconds, bytes, a digest of what was read, requests ahead, why there were none."""
	forget_pages(path)
	seen, length = hashlib.sha256(), 0
	start = time.perf_counter()
	with open_data(path) as env, env.begin() as txn:
		hints = Hints(env) if hinted else None
		for values in read_batches(txn, hints, batches):
			for value in values:
				seen.update(value)
				length += len(value)
		seconds = time.perf_counter() - start
		ahead = hints.statistics().get("prefetch_requests", 0) if hints else 0
	return seconds, length, seen.hexdigest(), ahead, hints.why_not if hints else None


def alone(function, *arguments):
	"""Calls a function in a new process: nothing of an earlier pass is left in it."""
	context = multiprocessing.get_context("spawn")
	with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
		return pool.submit(function, *arguments).result()


def main():
	parser = argparse.ArgumentParser(description="Reads an LMDB data set in shuffled order, without "
		"and with announcing the next batch to lmdbio.")
	parser.add_argument("dataset", help="an LMDB directory, or a data file")
	parser.add_argument("--batch", type=int, default=256, metavar="RECORDS")
	parser.add_argument("--seed", type=int, default=1)
	options = parser.parse_args()
	if options.batch < 1:
		parser.error("a batch has one record at least")
	keys = alone(all_keys, options.dataset)
	batches = shuffled_batches(keys, options.batch, options.seed)
	digests = set()
	for hinted in (False, True):
		seconds, length, digest, ahead, why_not = alone(one_pass, options.dataset, batches, hinted)
		digests.add(digest)
		print("%-13s %d records, %.1f MB, %.3f s, %.0f records/s%s" % (
			"with hints:" if hinted else "without:", len(keys), length / 1e6, seconds,
			len(keys) / seconds, ", %d requests ahead" % ahead if hinted else ""))
		if why_not:
			print("no hints were given: " + why_not, file=sys.stderr)
	if len(digests) != 1:
		sys.exit("the two passes have read different records")


if __name__ == "__main__":
	main()
