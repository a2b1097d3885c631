# SPDX-License-Identifier: OLDAP-2.8
"""Makes the data sets that the unmodified clients read.

usage: python_make.py DIRECTORY
"""
import hashlib
import os
import struct
import sys

import lmdb


def value(seed, size):
	"""`size` bytes that follow from the seed."""
	block = hashlib.sha512(str(seed).encode()).digest()
	return (block * (size // len(block) + 1))[:size]


def make_plain(path):
	"""Like Caffe's: zero-padded keys, values from a few bytes to many pages; one file, no directory."""
	env = lmdb.open(path, map_size=1 << 28, subdir=False, lock=True)
	for start in range(0, 3000, 500):
		with env.begin(write=True) as txn:
			for i in range(start, start + 500):
				txn.put(b"%08d_n%d" % (i, i % 7), value(i, (i * 37) % 9000))
	with env.begin(write=True) as txn:  # freed pages and holes
		for i in range(0, 3000, 11):
			txn.delete(b"%08d_n%d" % (i, i % 7))
	env.close()


def make_named(path):
	"""Named databases with every sort of keys and duplicates that py-lmdb can make."""
	env = lmdb.open(path, map_size=1 << 28, max_dbs=16)
	with env.begin(write=True) as txn:
		words = env.open_db(b"words", txn)
		dups = env.open_db(b"dups", txn, dupsort=True)
		fixed = env.open_db(b"fixed", txn, dupsort=True, dupfixed=True)
		integers = env.open_db(b"integers", txn, integerkey=True)
		intdups = env.open_db(b"intdups", txn, dupsort=True, dupfixed=True, integerdup=True)
		reverse = env.open_db(b"reverse", txn, reverse_key=True)
		env.open_db(b"empty", txn)
		for i in range(2000):
			txn.put(b"word%05d" % (i * 7919 % 2000), value(i, i % 50), db=words)
			txn.put(struct.pack("=Q", i * 31), value(i, 10), db=integers)
			txn.put(b"%d" % (i * 13), b"%d" % i, db=reverse)
		for i in range(60):
			for j in range(1 if i % 3 == 0 else i * 20):
				txn.put(b"key%03d" % i, b"%d-%s" % (j, value(j, j % 40)), db=dups)
				txn.put(b"key%03d" % i, value(i * 1000 + j, 12), db=fixed)
				txn.put(b"key%03d" % i, struct.pack("=Q", j * 3), db=intdups)
		txn.put(b"plain", b"beside the names")
	env.close()


if __name__ == "__main__":
	os.makedirs(sys.argv[1], exist_ok=True)
	make_plain(os.path.join(sys.argv[1], "plain.mdb"))
	make_named(os.path.join(sys.argv[1], "named"))
