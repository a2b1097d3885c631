/* SPDX-License-Identifier: OLDAP-2.8 */
/* Packs rank and code into one number, of which the least wins. */
#include "config.h"
#include "mpi/mpi_agree.h"

#include "mpi/mpi_wait.h"

#include <errno.h>
#include <stdint.h>

int mpi_agree(MPI_Comm comm, int rc, int *failed)
{
	/* Signed: MPICH 4.0.2 compares MPI_UINT64_T as if it were, too. */
	int64_t mine = INT64_MAX, least = INT64_MAX;
	int rank;

	MPI_Comm_rank(comm, &rank);
	if (rc)
		mine = (int64_t)rank << 32 | (uint32_t)rc;
	if (failed)
		*failed = 0;
	if (mpi_allreduce(&mine, &least, 1, MPI_INT64_T, MPI_MIN, comm) != MPI_SUCCESS)
		return EIO;
	if (least == INT64_MAX)
		return 0;
	if (failed)
		*failed = (int)(least >> 32);
	return (int)(uint32_t)least;
}
