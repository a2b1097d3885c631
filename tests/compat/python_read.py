# SPDX-License-Identifier: OLDAP-2.8
"""Reads data sets in each way that py-lmdb has, and prints the results.

usage: python_read.py DIRECTORY SCRATCH

The output must be the same on the original and on lmdbio.
"""
import hashlib
import os
import sys

import lmdb

directory, scratch = sys.argv[1:]
CURSOR_MOVES = ("first", "next", "prev", "last", "first_dup", "last_dup", "next_dup", "prev_dup",
	"next_nodup", "prev_nodup")


def show(what, *values):
	print(what, *(bytes(v) if isinstance(v, (memoryview, bytes)) and len(v) < 60
		else hashlib.sha256(v).hexdigest()[:16] if isinstance(v, (memoryview, bytes)) else v
		for v in values))


def digest(items):
	total, count = hashlib.sha256(), 0
	for key, data in items:
		total.update(b"%d %d " % (len(key), len(data)))
		total.update(key)
		total.update(data)
		count += 1
	return count, total.hexdigest()[:16]


def attempt(what, call, *arguments, **named):
	"""Prints the result, or the kind of error."""
	try:
		show(what, repr(call(*arguments, **named)))
	except lmdb.Error as error:
		show(what, type(error).__name__)


def read_plain(path, **how):
	env = lmdb.open(path, readonly=True, subdir=False, **how)
	show("plain", how)
	for buffers in (False, True):
		with env.begin(buffers=buffers) as txn:
			show("forward", *digest(txn.cursor()))
			show("backward", *digest(txn.cursor().iterprev()))
			for i in range(0, 3000, 97):
				show("get", i, txn.get(b"%08d_n%d" % (i, i % 7), b"none"))
			show("id", txn.id(), "entries", txn.stat()["entries"])
	stat, info = env.stat(), env.info()
	show("stat", sorted(stat.items()))
	show("info", sorted((k, v) for k, v in info.items() if k != "num_readers"))
	show("key size", env.max_key_size(), "readers", env.max_readers(), "path", os.path.basename(env.path()))
	show("flags", sorted(env.flags().items()))
	attempt("write transaction", env.begin, write=True)
	with env.begin() as txn:
		attempt("put", txn.put, b"a", b"b")
		attempt("delete", txn.delete, b"00000001_n1")
		attempt("get of nothing", txn.get, b"")
		attempt("get of a long key", txn.get, b"k" * 600)
	attempt("sync", env.sync, True)
	env.close()


def walk(cursor, seed):
	"""Makes many moves of all kinds. Returns a hash of what the moves find."""
	total = hashlib.sha256()
	state = seed
	for _ in range(3000):
		state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
		move = CURSOR_MOVES[(state >> 33) % len(CURSOR_MOVES)]
		call, arguments = getattr(cursor, move), ()
		if (state >> 50) % 16 < 2:
			move = ("set_range", "set_key")[(state >> 50) % 16]
			call, arguments = getattr(cursor, move), (b"key%03d" % ((state >> 20) % 64),)
		try:
			found = b"1" if call(*arguments) else b"0"
		except lmdb.Error as error:
			found = type(error).__name__.encode()
		total.update(move.encode() + found)
		if found == b"1":
			total.update(bytes(cursor.key()) + b"=" + bytes(cursor.value()))
	return total.hexdigest()[:16]


def read_named(path):
	env = lmdb.open(path, readonly=True, max_dbs=16)
	names = {}
	with env.begin() as txn:
		show("names", [bytes(key) for key in txn.cursor().iternext(values=False)])
	for name in (b"words", b"dups", b"fixed", b"integers", b"intdups", b"reverse", b"empty"):
		names[name] = env.open_db(name, create=False)
	attempt("a database that is not there", env.open_db, b"nowhere", create=False)
	for buffers in (False, True):
		with env.begin(buffers=buffers) as txn:
			for name, db in names.items():
				show("database", name, sorted(txn.stat(db).items()), sorted(db.flags(txn).items()))
				show("forward", *digest(txn.cursor(db)))
				show("backward", *digest(txn.cursor(db).iterprev()))
				show("without duplicates", *digest(txn.cursor(db).iternext_nodup(values=True)))
				if name in (b"dups", b"fixed", b"intdups"):
					read_duplicates(txn, db)
				if name != b"integers":
					show("walk", name, walk(txn.cursor(db), 7))
	env.close()


def read_duplicates(txn, db):
	cursor = txn.cursor(db)
	for i in range(0, 60, 7):
		key = b"key%03d" % i
		show("set", cursor.set_key(key), "count", cursor.count() if cursor.set_key(key) else None)
		show("duplicates", *digest(cursor.iternext_dup(keys=True)))
		if cursor.set_key(key) and cursor.last_dup():
			last = bytes(cursor.value())
			show("pair", cursor.set_key_dup(key, last), cursor.set_range_dup(key, last[:-1]),
				cursor.set_key_dup(key, b"\xff" * 12))
	keys = [b"key%03d" % i for i in (1, 5, 3, 99, 40)]
	show("getmulti", *digest(cursor.getmulti(keys, dupdata=True)))
	if db.flags(txn)["dupfixed"]:
		size = 8 if db.flags(txn)["integerdup"] else 12
		show("getmulti by pages", *digest(cursor.getmulti(keys, dupdata=True, dupfixed_bytes=size)))


def read_in_child(env, expected, inside=None):
	"""Reads all records in a forked child. Returns the child's exit status: 0 if all are right."""
	child = os.fork()
	if not child:
		status = 1
		try:
			with env.begin(buffers=True) as txn:
				status = 0 if digest(txn.cursor()) == expected else 2
			if inside is not None and digest(inside.cursor()) != expected:
				status = 3
		finally:
			os._exit(status)
	return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read_forked(path):
	env = lmdb.open(path, readonly=True, subdir=False)
	with env.begin() as txn:
		expected = digest(txn.cursor())
	show("child of an idle parent", read_in_child(env, expected))
	with env.begin() as txn:
		cursor = txn.cursor()
		cursor.first()
		show("child of a reading parent", read_in_child(env, expected))
		show("the parent reads on", digest(cursor) == expected, digest(txn.cursor()) == expected)
	show("two at once", [read_in_child(env, expected) for _ in range(2)])
	env.close()


def show_copy(what, path):
	"""Reads a compact copy, because its pages' unused bytes may differ."""
	env = lmdb.open(path, readonly=True, max_dbs=16, lock=False, subdir=os.path.isdir(path))
	file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
	show(what, "bytes", os.path.getsize(file), sorted(env.stat().items()), env.info()["last_pgno"])
	for name in (b"words", b"dups", b"fixed", b"integers", b"intdups", b"reverse", b"empty"):
		db = env.open_db(name, create=False)
		with env.begin() as txn:
			show(what, name, *digest(txn.cursor(db)), sorted(txn.stat(db).items()))
	env.close()


def copy(path):
	env = lmdb.open(path, readonly=True, max_dbs=16)
	for compact in (False, True):
		target = os.path.join(scratch, "copy%d" % compact)
		os.makedirs(target)
		env.copy(target, compact=compact)
		show_copy("copy", target)
		stream = os.path.join(scratch, "stream%d" % compact)
		with open(stream, "wb") as file:
			env.copyfd(file.fileno(), compact=compact)
		show_copy("stream", stream)
		with open(os.path.join(target, "data.mdb"), "rb") as one, open(stream, "rb") as other:
			one, other = one.read(), other.read()
			show("copy and stream alike", one == other)
			if not compact:
				show("bytes", hashlib.sha256(one).hexdigest())
	env.reader_check()
	with env.begin():
		lines = env.readers().splitlines()
		show("reader lines", len(lines), lines[0].split())
	env.close()
	attempt("copy of a closed environment", env.copy, scratch)


plain, named = os.path.join(directory, "plain.mdb"), os.path.join(directory, "named")
read_plain(plain)
read_plain(plain, lock=False, readahead=False)
read_plain(plain, max_spare_txns=4, map_size=1 << 30)
read_named(named)
read_forked(plain)
copy(named)
attempt("missing directory", lmdb.open, os.path.join(directory, "nowhere"), readonly=True)
attempt("directory without data", lmdb.open, scratch, readonly=True)
