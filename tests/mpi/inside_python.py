# SPDX-License-Identifier: OLDAP-2.8
"""A rank in Python that loads MPI itself and reads by py-lmdb; the last rank opens nothing.

inside_python.py PATH: prints records and bytes of the rank's part.
"""
import ctypes
import ctypes.util
import os
import subprocess
import sys

import lmdb

COMM_WORLD, THREAD_MULTIPLE = 0x44000000, 3  # as MPICH names them


def main(path):
	mpi = ctypes.CDLL(ctypes.util.find_library("mpich"), mode=ctypes.RTLD_GLOBAL)
	level, rank, ranks = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
	mpi.MPI_Init_thread(None, None, THREAD_MULTIPLE, ctypes.byref(level))
	mpi.MPI_Comm_rank(COMM_WORLD, ctypes.byref(rank))
	mpi.MPI_Comm_size(COMM_WORLD, ctypes.byref(ranks))
	readers, records, size = ranks.value - 1, 0, 0
	if rank.value < readers:
		subprocess.run(["bash", "-c", os.environ["INSIDE_READY"]], check=True)
		with lmdb.open(path, readonly=True, lock=False) as env, env.begin() as txn:
			for i, value in enumerate(txn.cursor().iternext(keys=False, values=True)):
				if i % readers == rank.value:
					records += 1
					size += len(value)
		# One call writes the whole line: ranks share the pipe, and print() may write the line's end by a call of its own.
		sys.stdout.write(f"{records} {size}\n")
		sys.stdout.flush()
	mpi.MPI_Barrier(COMM_WORLD)
	mpi.MPI_Finalize()


main(sys.argv[1])
