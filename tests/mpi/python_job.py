# SPDX-License-Identifier: OLDAP-2.8
"""A job's rank in Python that reads by lmdbio's loader, without mpi4py.

python_job.py PATH: each rank of an mpiexec reads two epochs, and prints its result.
"""
import ctypes
import ctypes.util
import sys

ctypes.CDLL(ctypes.util.find_library("lmdb"))  # the original is loaded first, as with PyTorch

import lmdbio  # noqa: E402

COMM_WORLD, THREAD_MULTIPLE = 0x44000000, 3  # as MPICH names them


def main(path):
	mpi = ctypes.CDLL(ctypes.util.find_library("mpich"), mode=ctypes.RTLD_GLOBAL)
	level, rank, ranks = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
	mpi.MPI_Init_thread(None, None, THREAD_MULTIPLE, ctypes.byref(level))
	mpi.MPI_Comm_rank(COMM_WORLD, ctypes.byref(rank))
	mpi.MPI_Comm_size(COMM_WORLD, ctypes.byref(ranks))
	with lmdbio.Loader(path, 40, seed=3, lock=False, comm=COMM_WORLD) as loader, \
			lmdbio.Loader(path, 40, seed=3, lock=False, ranks=ranks.value, rank=rank.value) as alone:
		same = seen = 0
		for epoch in range(2):
			for batch, other in zip(loader.epoch(epoch), alone.epoch(epoch)):
				same += batch.records == other.records and [bytes(value) for _, value in batch] == [
					bytes(value) for _, value in other]
				seen += len(batch)
		peers = loader.stats()["peer_records"]
		lines = ["rank %d: %d batches are the same, %d records, %d planned" % (
			rank.value, same, seen, peers)]
	for options in ({}, {"order": "sequential", "batches": True}, {"order": "sequential", "tail": "wrap"}):
		records = lmdbio.Records(path, 40, lock=False, comm=COMM_WORLD, **options)
		if rank.value == 1:  # len() is no collective call
			len(records)
		found = sum(1 for _ in records)
		lines.append("records have their length" if len(records) == found else
			"%d records, but %d are told: %s" % (found, len(records), options))
	try:
		lmdbio.Loader(path + "/nothing", 40, comm=COMM_WORLD)
	except lmdbio.Error as error:
		lines.append("refused with %d" % error.code)
	# One rank after the other: mpiexec mixes lines that come at once.
	for i in range(ranks.value):
		if i == rank.value:
			print("\n".join(lines), flush=True)
		mpi.MPI_Barrier(COMM_WORLD)
	mpi.MPI_Finalize()


main(sys.argv[1])
