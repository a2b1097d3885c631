# SPDX-License-Identifier: OLDAP-2.8
"""Reads a data set as a shuffled loader does, with hints or without, and prints a line for each read.

usage: hints_read.py make DIRECTORY     a data set: records of 10 bytes to many pages, and a named one
       hints_read.py plain DIRECTORY    py-lmdb alone
       hints_read.py hints DIRECTORY    the same with lmdbio.Hints
       hints_read.py refused DIRECTORY  calls that lmdbio.Hints must refuse

The lines of "plain" and "hints" must be the same.
"""
import hashlib
import os
import sys

import lmdb

sys.path[:0] = [os.path.join(os.environ["top_srcdir"], "python", *more) for more in ((), ("examples",))]
import lmdbio
import hinted_epoch as loader
from lmdbio.hints import NORMAL, STRIDE, Unusable

RECORDS, NAMED = 3000, 600


def value(i):
	block = hashlib.sha512(b"%d" % i).digest()
	return (block * 200)[:10 + i * 7919 % 12000]


def make(path):
	with lmdb.open(path, map_size=1 << 28, max_dbs=2) as env:
		named = env.open_db(b"named", dupsort=False)
		with env.begin(write=True) as txn:
			for i in range(RECORDS):
				txn.put(b"%08d" % i, value(i))
			for i in range(NAMED):
				txn.put(b"%04d" % i, value(i + RECORDS), db=named)


def told(what, values):
	seen = hashlib.sha256()
	for found in values:
		seen.update(b"-" if found is None else b"%d %s" % (len(found), found))
	print(what, len(values), seen.hexdigest()[:16])


def batches():
	keys = [b"%08d" % i for i in range(RECORDS)]
	return loader.shuffled_batches(keys + [b"nowhere%d" % i for i in range(20)], 100, 7)


def read(path, hinted):
	env = lmdb.open(path, readonly=True, lock=False, max_dbs=2)
	named = env.open_db(b"named", create=False)
	hints = lmdbio.Hints(env) if hinted else None
	names = loader.shuffled_batches([b"%04d" % i for i in range(NAMED)], 50, 3)
	with env.begin() as txn:
		for batch in loader.read_batches(txn, hints, batches()):
			told("batch", batch)
		dbi = hints.dbi(txn, b"named") if hints else None
		for keys in names[:6]:
			if hints:
				hints.prefetch_keys(txn, keys, dbi)
			told("named", [txn.get(key, db=named) for key in keys])
	with env.begin() as txn:  # a C transaction that py-lmdb may have used before
		if hints:
			hints.prefetch_range(txn, b"00000100", b"00000400")
			hints.advise(txn, STRIDE, 3)
		told("range", [bytes(v) for k, v in txn.cursor() if b"00000100" <= k <= b"00000400"])
		if hints:
			hints.advise(txn, NORMAL)
			hints.prefetch_range(txn)
	if hints:
		print("why not:", hints.why_not, file=sys.stderr)
		print("ahead:", hints.statistics().get("prefetch_requests"), file=sys.stderr)
	env.close()


def refused(path):
	"""Prints the outcome of calls with C handles that do not exist or belong to another object."""
	env = lmdb.open(path, readonly=True, lock=False)
	hints = lmdbio.Hints(env)
	print("usable" if hints.why_not is None else hints.why_not)
	txn = env.begin()
	txn.abort()
	other = lmdb.open(os.path.join(path, "other"), map_size=1 << 20)
	print("writing:", lmdbio.Hints(other).why_not)
	for what, call in (("ended", lambda: hints.prefetch_keys(txn, [b"a"])),
			("other", lambda: hints.prefetch_keys(other.begin(), [b"a"])),
			("dbi", lambda: hints.prefetch_keys(env.begin(), [b"a"], 77))):
		try:
			call()
			print(what, "accepted")
		except (lmdb.Error, Unusable):
			print(what, "refused")
	for call in (lambda: hints.prefetch_keys(env.begin(), [b"a"], dbi="a"), lambda: hints.dbi(env.begin(), "a"),
			lambda: hints.prefetch_range(env.begin(), 5), lambda: hints.prefetch_range(env.begin(), None, "a")):
		try:
			call()
			print("accepted")
		except TypeError as error:
			print(error)


if __name__ == "__main__":
	how, where = sys.argv[1:]
	if how == "make":
		make(where)
	elif how == "refused":
		refused(where)
	else:
		read(where, how == "hints")
