/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings all ranks to the same return code. */
#ifndef LMDBIO_MPI_MPI_AGREE_H
#define LMDBIO_MPI_MPI_AGREE_H

#include <mpi.h>

/* Returns on all ranks the code of the lowest rank that has one which is not 0, and sets *failed to
 * that rank (0 if there is none). Collective over comm. EIO when MPI itself fails. */
int mpi_agree(MPI_Comm comm, int rc, int *failed);

#endif
