/* SPDX-License-Identifier: OLDAP-2.8 */
/* How a rank tells its launcher that MPI is over, in place of MPI_Finalize. */
#ifndef LMDBIO_MPI_MPI_LEAVE_H
#define LMDBIO_MPI_MPI_LEAVE_H

#include "mpi/mpi_job.h"

#include <stdbool.h>

/* Collective over the ranks of the job, after the last call of MPI that another rank waits for.
 * Returns true if the launcher has been told: then the process ends without MPI_Finalize. Returns
 * false if MPI_Finalize is to follow: it returns in this job, or this launcher takes no words of
 * ours. */
bool mpi_leave(const struct mpi_job *job);

#endif
