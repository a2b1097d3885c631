/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: that MPI is asked again and again, and what is done in between. */
#include "config.h"
#include "mpi/mpi_wait.h"

#include <sched.h>
#include <time.h>

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

int mpi_bcast(void *bytes, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	MPI_Request request;
	int rc = MPI_Ibcast(bytes, count, type, root, comm, &request);

	return rc == MPI_SUCCESS ? mpi_await_soon(&request) : rc;
}

int mpi_allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	MPI_Request request;
	int rc = MPI_Iallreduce(mine, all, count, type, op, comm, &request);

	return rc == MPI_SUCCESS ? mpi_await_soon(&request) : rc;
}

int mpi_allgather(const void *mine, void *all, int count, MPI_Datatype type, MPI_Comm comm)
{
	MPI_Request request;
	int rc = MPI_Iallgather(mine, count, type, all, count, type, comm, &request);

	return rc == MPI_SUCCESS ? mpi_await_soon(&request) : rc;
}
