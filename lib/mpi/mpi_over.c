/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts the ranks that have come, by messages without bytes, one at a time. */
#include "config.h"
#include "mpi/mpi_over.h"

#include "mpi/mpi_wait.h"
#include "util/clock.h"

/* MPI counts as broken after so many failed calls in a row, which have taken at least so long. Time
 * alone does not count: a process that is stopped for a second has not tried for a second. */
enum { FAILURES = 16, FAILED_NAP = 1000000 /* ns, after each failure */ };
static const uint64_t patience = CLOCK_SECOND;

void mpi_over_begin(struct mpi_over *over, const struct mpi_job *job, enum mpi_over_tag tag)
{
	*over = (struct mpi_over){.comm = job->all,
				  .tag = tag,
				  .rank = job->place.rank,
				  .ranks = job->place.ranks,
				  .request = MPI_REQUEST_NULL,
				  .rc = MPI_SUCCESS};
}

/* Rank 0 receives a message from each other rank in turn, then sends one to each. If a rank comes
 * early, its message waits in MPI. */
static int messages(const struct mpi_over *over)
{
	return over->rank ? 2 : 2 * (over->ranks - 1);
}

/* Whether this rank receives the next message. */
static bool is_heard(const struct mpi_over *over)
{
	int half = messages(over) / 2;

	return over->rank ? over->done >= half : over->done < half;
}

/* Begins the next message. Returns an MPI code. */
static int post(struct mpi_over *over)
{
	int half = messages(over) / 2;
	bool sends = !is_heard(over);
	int peer = over->rank ? 0 : over->done % half + 1;

	/* While ranks agree, they exchange no other messages. */
	return sends ? MPI_Isend(NULL, 0, MPI_BYTE, peer, over->tag, over->comm, &over->request)
		     : MPI_Irecv(NULL, 0, MPI_BYTE, peer, over->agrees ? MPI_ANY_TAG : (int)over->tag, over->comm,
				 &over->request);
}

/* Counts a failure. Returns whether MPI counts as broken. */
static bool is_broken(struct mpi_over *over)
{
	uint64_t now = clock_now();

	if (!over->failures++)
		over->failing = now;
	return over->failures >= FAILURES && now - over->failing >= patience;
}

bool mpi_over_look(struct mpi_over *over)
{
	MPI_Status status;
	int there;

	while (over->rc == MPI_SUCCESS && over->done < messages(over)) {
		int rc = over->request == MPI_REQUEST_NULL ? post(over) : MPI_SUCCESS;

		there = 0;
		if (rc == MPI_SUCCESS)
			rc = MPI_Test(&over->request, &there, &status);
		else
			over->request = MPI_REQUEST_NULL;
		if (rc != MPI_SUCCESS) {
			if (is_broken(over))
				over->rc = rc;
			return over->rc != MPI_SUCCESS;
		}
		over->failures = 0;
		if (!there)
			return false;
		if (over->agrees && is_heard(over) && status.MPI_TAG == OVER_REFUSED)
			over->tag = OVER_REFUSED;
		over->done++;
	}
	return true;
}

static int await(struct mpi_over *over)
{
	struct mpi_nap nap = {0};

	while (!mpi_over_look(over)) {
		if (over->failures)
			clock_sleep(FAILED_NAP);
		else
			mpi_pause(&nap);
	}
	return over->rc;
}

int mpi_over_await(const struct mpi_job *job)
{
	struct mpi_over over;

	mpi_over_begin(&over, job, OVER_ENDED);
	return await(&over);
}

int mpi_over_agree(const struct mpi_job *job, bool can, bool *all_can)
{
	struct mpi_over over;
	int rc;

	mpi_over_begin(&over, job, can ? OVER_AGREED : OVER_REFUSED);
	over.agrees = true;
	rc = await(&over);
	*all_can = rc == MPI_SUCCESS && over.tag == OVER_AGREED;
	return rc;
}
