/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements a job of MPI's ranks. */
#include "trainer_job.h"

#include <lmdbio_mpi.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

void job_begin(struct trainer_job *job, int *argc, char ***argv)
{
	int ranks, rank, level;

	/* Without threads each node would read for itself. */
	MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	*job = (struct trainer_job){(uint32_t)ranks, (uint32_t)rank};
}

void job_end(void)
{
	MPI_Finalize();
}

int job_loader_open(const struct trainer_job *job, struct lmdbio_loader **loader, const char *path,
		    const struct lmdbio_loader_options *options)
{
	(void)job;
	return lmdbio_mpi_loader_open(MPI_COMM_WORLD, loader, path, 0, NULL, options);
}

/* MPI_Wait and MPI_Allreduce keep a processor while they wait. Where ranks share processors, the
 * rank that the others wait for would get only a part of one. */
static void request_wait(MPI_Request *request)
{
	enum { YIELDS = 64, LONGEST_NS = 1000000 };
	struct timespec pause = {.tv_nsec = 20000};
	int there = 0;

	for (unsigned looks = 0;; looks++) {
		MPI_Test(request, &there, MPI_STATUS_IGNORE);
		if (there)
			return;
		if (looks < YIELDS) {
			sched_yield();
			continue;
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < LONGEST_NS)
			pause.tv_nsec += pause.tv_nsec / 4;
	}
}

void job_sum(int64_t *numbers, size_t n)
{
	MPI_Request request;

	MPI_Iallreduce(MPI_IN_PLACE, numbers, (int)n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD,
		       &request);
	request_wait(&request);
}

void job_abort(void)
{
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}
