# SPDX-License-Identifier: OLDAP-2.8
"""Makes two data sets from the files of a machine.

usage: quickstart_make.py DIRECTORY MEBIBYTES

files.mdb  a record for each file: its bytes are the value, its number and path the key, as Caffe's
           converter makes them
lines.mdb  a record for each line of the text files: the line is the value, its number the key
"""
import os
import shutil
import sys

import lmdb

# Documents and pictures first, then source, then programs and libraries.
PLACES = ("/usr/share", "/usr/include", "/usr/lib", "/usr/bin", "/usr/sbin", "/opt", "/usr/local")
LARGEST = 32 << 20
LONGEST_KEY = 511
TEXT = (".txt", ".h", ".hpp", ".c", ".py", ".pm", ".pl", ".html", ".xml", ".json", ".md", ".am", ".m4",
	".conf", ".list", ".css", ".js", ".rst", ".texi", ".csv")
LINES = 3000  # for each MiB
BATCH = 64 << 20


def files():
	"""Yields regular files that are not empty and no larger than LARGEST, always in the same order."""
	for place in PLACES:
		for directory, names, found in os.walk(place):
			names.sort()
			for name in sorted(found):
				path = os.path.join(directory, name)
				try:
					status = os.lstat(path)
				except OSError:
					continue
				if os.path.isfile(path) and not os.path.islink(path) and 0 < status.st_size <= LARGEST:
					yield path


def contents(path):
	try:
		with open(path, "rb") as file:
			return file.read()
	except OSError:
		return b""


class Writer:
	"""Puts records in key order, and commits every BATCH bytes. A complete file gets its final name."""

	def __init__(self, path, map_size):
		self.path = path
		self.env = lmdb.open(path + ".new", subdir=False, map_size=map_size, sync=False, lock=False)
		self.txn = self.env.begin(write=True)
		self.records = self.bytes = self.pending = 0

	def put(self, key, value):
		self.txn.put(key, value, append=True)
		self.records += 1
		self.bytes += len(key) + len(value)
		self.pending += len(key) + len(value)
		if self.pending >= BATCH:
			self.txn.commit()
			self.txn = self.env.begin(write=True)
			self.pending = 0

	def close(self):
		self.txn.commit()
		self.env.sync(True)
		self.env.close()
		os.rename(self.path + ".new", self.path)
		print("%s: %d records, %d MiB" % (self.path, self.records, self.bytes >> 20))


def make_files(path, wanted):
	writer = Writer(path, wanted * 4 + (1 << 28))
	rounds = 0
	while writer.bytes < wanted:
		before = writer.bytes
		for name in files():
			value = contents(name)
			if value:
				key = b"%010d_%s" % (writer.records, os.fsencode(name))
				writer.put(key[:LONGEST_KEY], value)
			if writer.bytes >= wanted:
				break
		if writer.bytes == before:
			sys.exit("no readable files found in " + " ".join(PLACES))
		rounds += 1
	if rounds > 1:
		print("This machine's files are fewer than %d MiB: each is there up to %d times, under"
			" other numbers." % (wanted >> 20, rounds))
	writer.close()


def make_lines(path, wanted):
	writer = Writer(path, 4 << 30)
	for name in files():
		if not name.endswith(TEXT):
			continue
		for line in contents(name).splitlines():
			if line:
				writer.put(b"%010d" % writer.records, line[:1000])
		if writer.records >= wanted:
			break
	writer.close()


def main():
	directory, wanted = sys.argv[1], int(sys.argv[2]) << 20
	todo = [name for name in ("files.mdb", "lines.mdb")
		if not os.path.exists(os.path.join(directory, name))]
	if todo and shutil.disk_usage(directory).free < wanted * 2:
		sys.exit("%s: %d MiB of free space are needed" % (directory, wanted * 2 >> 20))
	for name in ("files.mdb", "lines.mdb"):
		leftover = os.path.join(directory, name + ".new")
		if os.path.exists(leftover):
			os.remove(leftover)
	if "files.mdb" in todo:
		make_files(os.path.join(directory, "files.mdb"), wanted)
	if "lines.mdb" in todo:
		make_lines(os.path.join(directory, "lines.mdb"), LINES * (wanted >> 20))


main()
