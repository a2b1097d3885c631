/* What only this file knows: how all ranks come to the same return code, and wait without haste. */
#ifndef LMDBIO_MPI_MPI_AGREE_H
#define LMDBIO_MPI_MPI_AGREE_H

#include <mpi.h>

/* Returns on all ranks the code of the lowest rank that has one which is not 0, and sets *failed to
 * that rank (0 if there is none). Collective over comm. EIO when MPI itself fails. */
int mpi_agree(MPI_Comm comm, int rc, int *failed);

/* Waits for a request that others are about to serve, and leaves them the processor: where ranks
 * are more than processors MPI's own wait keeps it for milliseconds. Returns an MPI code. */
int mpi_await_soon(MPI_Request *request);

/* Waits for a request with little use of the processor, which others of this machine may need: for
 * what may take long. Returns an MPI code. */
int mpi_await(MPI_Request *request);

#endif
