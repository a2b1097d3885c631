/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the ranks that share a conversion ask of MPI. */
#ifndef LMDBIO_MPI_MPI_CONVERT_H
#define LMDBIO_MPI_MPI_CONVERT_H

#include "mpi/mpi_module.h"

extern const struct mpi_sharing mpi_convert_sharing;

#endif
