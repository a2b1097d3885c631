/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how a rank waits for others and leaves them the processor. */
#ifndef LMDBIO_MPI_MPI_WAIT_H
#define LMDBIO_MPI_MPI_WAIT_H

#include <mpi.h>

/* Waits for a request that others are about to serve. MPI's own wait keeps the processor: where
 * ranks are more than processors that takes up to 40 ms each time. Returns an MPI code. */
int mpi_await_soon(MPI_Request *request);

/* Waits for a request with little use of the processor, which others of this machine may need: for
 * what may take long. Returns an MPI code. */
int mpi_await(MPI_Request *request);

/* MPI's collective calls of the same names, with the same codes, that wait by mpi_await_soon().
 * mpi_allgather: `count` of each rank. */
int mpi_bcast(void *bytes, int count, MPI_Datatype type, int root, MPI_Comm comm);
int mpi_allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm);
int mpi_allgather(const void *mine, void *all, int count, MPI_Datatype type, MPI_Comm comm);

#endif
