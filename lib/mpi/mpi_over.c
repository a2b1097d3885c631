/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts the ranks that have come by messages without bytes, one at a time. */
#include "config.h"
#include "mpi/mpi_over.h"

#include "mpi/mpi_wait.h"

enum { FAILURES = 8 /* one after another, before MPI counts as broken */ };

void mpi_over_begin(struct mpi_over *over, const struct mpi_job *job, enum mpi_over_tag tag)
{
	*over = (struct mpi_over){.comm = job->all,
				  .tag = tag,
				  .rank = job->place.rank,
				  .ranks = job->place.ranks,
				  .request = MPI_REQUEST_NULL,
				  .rc = MPI_SUCCESS};
}

/* Rank 0 hears of each other rank in turn, then tells each. A rank that comes early is heard later: its message
 * waits in MPI. */
static int messages(const struct mpi_over *over)
{
	return over->rank ? 2 : 2 * (over->ranks - 1);
}

/* Begins the next message. Returns an MPI code. */
static int post(struct mpi_over *over)
{
	int half = messages(over) / 2;
	bool sends = over->rank ? over->done < half : over->done >= half;
	int peer = over->rank ? 0 : over->done % half + 1;

	return sends ? MPI_Isend(NULL, 0, MPI_BYTE, peer, over->tag, over->comm, &over->request)
		     : MPI_Irecv(NULL, 0, MPI_BYTE, peer, over->tag, over->comm, &over->request);
}

bool mpi_over_look(struct mpi_over *over)
{
	int there;

	while (over->rc == MPI_SUCCESS && over->done < messages(over)) {
		int rc = over->request == MPI_REQUEST_NULL ? post(over) : MPI_SUCCESS;

		there = 0;
		if (rc == MPI_SUCCESS)
			rc = MPI_Test(&over->request, &there, MPI_STATUS_IGNORE);
		else
			over->request = MPI_REQUEST_NULL;
		if (rc != MPI_SUCCESS) {
			if (++over->failures == FAILURES)
				over->rc = rc;
			return over->rc != MPI_SUCCESS;
		}
		over->failures = 0;
		if (!there)
			return false;
		over->done++;
	}
	return true;
}

int mpi_over_await(const struct mpi_job *job, enum mpi_over_tag tag)
{
	struct mpi_nap nap = {0};
	struct mpi_over over;

	mpi_over_begin(&over, job, tag);
	while (!mpi_over_look(&over))
		mpi_pause(&nap);
	return over.rc;
}
