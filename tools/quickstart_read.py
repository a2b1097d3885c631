# SPDX-License-Identifier: OLDAP-2.8
"""Reads a whole data set by plain python3-lmdb. The script knows nothing of lmdbio.

usage: quickstart_read.py PATH
Prints the number of records, of bytes in keys and values, and a checksum over all of them.
"""
import sys
import zlib

import lmdb

# PyTorch projects' loaders open a file in this way, for many processes and a file larger than memory.
env = lmdb.open(sys.argv[1], readonly=True, subdir=False, lock=False, readahead=False)
records = size = checksum = 0
with env.begin(buffers=True) as txn:
	for key, value in txn.cursor():
		checksum = zlib.crc32(value, zlib.crc32(key, checksum))
		size += len(key) + len(value)
		records += 1
env.close()
print(records, size, "%08x" % checksum)
