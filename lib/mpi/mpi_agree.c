/* What only this file knows: that rank and code travel as one number, of which the least wins. */
#include "config.h"
#include "mpi/mpi_agree.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

int mpi_agree(MPI_Comm comm, int rc, int *failed)
{
	/* Signed: MPICH 4.0.2 compares MPI_UINT64_T as if it were, too. */
	int64_t mine = INT64_MAX, least = INT64_MAX;
	MPI_Request request;
	int rank;

	MPI_Comm_rank(comm, &rank);
	if (rc)
		mine = (int64_t)rank << 32 | (uint32_t)rc;
	if (failed)
		*failed = 0;
	if (MPI_Iallreduce(&mine, &least, 1, MPI_INT64_T, MPI_MIN, comm, &request) != MPI_SUCCESS ||
	    mpi_await_soon(&request) != MPI_SUCCESS)
		return EIO;
	if (least == INT64_MAX)
		return 0;
	if (failed)
		*failed = (int)(least >> 32);
	return (int)(uint32_t)least;
}

int mpi_await_soon(MPI_Request *request)
{
	int done = 0, rc;

	for (;;) {
		rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS || done)
			return rc;
		sched_yield();
	}
}

int mpi_await(MPI_Request *request)
{
	enum { SHORT_NS = 20000, LONG_NS = 2000000 };
	struct timespec pause = {.tv_nsec = SHORT_NS};
	int done = 0, rc;

	for (;;) {
		rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS || done)
			return rc;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < LONG_NS)
			pause.tv_nsec *= 2;
	}
}
