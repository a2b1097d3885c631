#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""What only this file knows: an epoch by lmdbio's batch loader beside the same epoch by py-lmdb.

    lmdbio-run -- python3 lmdbio_batches.py DATASET

reads a data set once in lmdbio's shuffled order through its loader, then the same records in the same
order with py-lmdb's get(), compares all bytes, and prints records per second of both, what the loader
has to say of the I/O, and how random the order is. An example to copy from.
"""
import argparse
import hashlib
import os
import sys
import time

import lmdb
import lmdbio


def by_loader(loader, epoch):
	"""(keys in order, digest of the values, seconds)"""
	keys, digest, began = [], hashlib.sha256(), time.monotonic()
	for batch in loader.epoch(epoch):
		for key, value in batch:
			keys.append(bytes(key))
			digest.update(value)
	return keys, digest.hexdigest(), time.monotonic() - began


def by_get(path, keys):
	digest, began = hashlib.sha256(), time.monotonic()
	env = lmdb.open(path, readonly=True, lock=False, readahead=False, subdir=os.path.isdir(path))
	with env.begin(buffers=True) as txn:
		for key in keys:
			digest.update(txn.get(key))
	env.close()
	return digest.hexdigest(), time.monotonic() - began


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("path", metavar="DATASET")
	parser.add_argument("--batch", type=int, default=256)
	parser.add_argument("--seed", type=int, default=0)
	parser.add_argument("--epoch", type=int, default=0)
	parser.add_argument("--order", choices=lmdbio.ORDERS, default="shuffle")
	parser.add_argument("--memory", type=int, help="bytes for batches read ahead")
	options = parser.parse_args()
	with lmdbio.Loader(options.path, options.batch, order=options.order, seed=options.seed,
			lock=False, memory=options.memory) as loader:
		keys, digest, seconds = by_loader(loader, options.epoch)
		print("loader: %d records, %d a second" % (len(keys), len(keys) / seconds))
		print("loader:", loader.verdict())
		print("order: positions %(positions).3f, labels %(labels).3f of a full shuffle"
			% loader.quality(options.epoch, 0, 2))
	found, seconds = by_get(options.path, keys)
	print("py-lmdb: %d records, %d a second" % (len(keys), len(keys) / seconds))
	if found != digest:
		sys.exit("the bytes differ")


if __name__ == "__main__":
	main()
