/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets the ranks of a job learn that all have come to a place, even if MPI fails in one of them.
 *
 * A rank cannot repeat an MPI_Ibarrier that fails to begin (MPI may count barriers), and other
 * ranks would stay in theirs. Here each rank sends rank 0 an empty message, and rank 0 answers all.
 * A rank repeats a failed send until MPI has failed for a second without a call that works. */
#ifndef LMDBIO_MPI_MPI_OVER_H
#define LMDBIO_MPI_MPI_OVER_H

#include "mpi/mpi_job.h"

/* Messages of one purpose have a tag of their own. */
enum mpi_over_tag { OVER_FILLED = 11, OVER_SERVED, OVER_ENDED, OVER_AGREED, OVER_REFUSED };

struct mpi_over {
	MPI_Comm comm;
	enum mpi_over_tag tag;
	bool agrees; /* also takes OVER_REFUSED, which then changes the tag */
	int rank, ranks;
	int done;            /* messages that this rank has sent or received */
	unsigned failures;   /* of calls in a row */
	uint64_t failing;    /* ns: since when calls fail */
	MPI_Request request; /* of the next message, or MPI_REQUEST_NULL */
	int rc;              /* an MPI code */
};

/* Prepares the wait for all ranks at the place that this rank has come to. Collective over all
 * ranks of the job. */
void mpi_over_begin(struct mpi_over *over, const struct mpi_job *job, enum mpi_over_tag tag);

/* Looks again. Returns true when all ranks have come, or MPI has failed: over->rc says which. */
bool mpi_over_look(struct mpi_over *over);

/* Waits until all ranks have come to the end. Returns an MPI code. After a failure, other ranks may
 * wait for this rank for ever. */
int mpi_over_await(const struct mpi_job *job);

/* The same, and sets *all_can to whether every rank can. */
int mpi_over_agree(const struct mpi_job *job, bool can, bool *all_can);

#endif
