# SPDX-License-Identifier: OLDAP-2.8
"""Makes single accesses to a file for slowfs's tests, and prints a line for each.

	read FILE OFFSET LENGTH [direct]	"LENGTH-OF-RESULT SHA256" or the errno's name
	parts FILE COUNT LENGTH THREADS		COUNT O_DIRECT reads, from offset 0 on, dealt out to threads;
						prints their microseconds
	map FILE OFFSET LENGTH			as read, through a mapping
	mapwrite FILE OFFSET TEXT		stores TEXT through a shared mapping
	lock FILE FLAVOUR			"free", or "held" by another process; posix, ofd or flock
	hold FILE FLAVOUR			takes the lock, prints "holding", and keeps the lock until its input ends
	lmdb_put DIR COUNT LENGTH		writes COUNT records by LMDB
	lmdb_sum DIR				"COUNT SHA256" of all records, read by LMDB with locking
"""
import errno
import fcntl
import hashlib
import mmap
import os
import struct
import sys
import threading
import time


def told(data):
	return "%d %s" % (len(data), hashlib.sha256(data).hexdigest())


def read(path, offset, length, how=""):
	fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if how == "direct" else 0))
	buffer = mmap.mmap(-1, int(length))
	try:
		count = os.preadv(fd, [buffer], int(offset))
	except OSError as error:
		return errno.errorcode[error.errno]
	return told(buffer[:count])


def parts(path, count, length, threads):
	count, length, threads = int(count), int(length), int(threads)
	fd = os.open(path, os.O_RDONLY | os.O_DIRECT)

	def part(first):
		buffer = mmap.mmap(-1, length)
		for i in range(first, count, threads):
			if os.preadv(fd, [buffer], i * length) != length:
				os._exit(1)

	workers = [threading.Thread(target=part, args=(i,)) for i in range(threads)]
	begin = time.monotonic_ns()
	for worker in workers:
		worker.start()
	for worker in workers:
		worker.join()
	return "%d" % ((time.monotonic_ns() - begin) // 1000)


def mapped(path, offset, length):
	with open(path, "rb") as file:
		area = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
		return told(area[int(offset):int(offset) + int(length)])


def mapwrite(path, offset, text):
	with open(path, "r+b") as file:
		area = mmap.mmap(file.fileno(), 0)
		area[int(offset):int(offset) + len(text)] = text.encode()
		area.flush()
	return text


def try_lock(fd, flavour):
	record = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
	if flavour == "posix":
		fcntl.fcntl(fd, fcntl.F_SETLK, record)
	elif flavour == "ofd":
		fcntl.fcntl(fd, 37, record)  # F_OFD_SETLK
	else:
		fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock(path, flavour):
	try:
		try_lock(os.open(path, os.O_RDWR), flavour)
	except BlockingIOError:
		return "held"
	return "free"


def hold(path, flavour):
	try_lock(os.open(path, os.O_RDWR), flavour)
	print("holding", flush=True)
	sys.stdin.read()
	return "released"


def lmdb_put(folder, count, length):
	import lmdb
	with lmdb.open(folder, map_size=1 << 30) as env:
		with env.begin(write=True) as txn:
			for i in range(int(count)):
				value = hashlib.sha256(b"%d" % i).digest() * (int(length) // 32)
				txn.put(b"%08d" % i, value)
	return str(count)


def lmdb_sum(folder):
	import lmdb
	count, digest = 0, hashlib.sha256()
	with lmdb.open(folder, readonly=True, lock=True) as env:
		with env.begin() as txn:
			for key, value in txn.cursor():
				count += 1
				digest.update(key + value)
	return "%d %s" % (count, digest.hexdigest())


COMMANDS = {
	"read": read, "parts": parts, "map": mapped, "mapwrite": mapwrite, "lock": lock,
	"hold": hold, "lmdb_put": lmdb_put, "lmdb_sum": lmdb_sum,
}
print(COMMANDS[sys.argv[1]](*sys.argv[2:]))
