/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets the ranks of a job learn that all have come to a place, though a call of MPI fails in one of them.
 *
 * A rank that fails to begin MPI_Ibarrier cannot begin it again, because MPI may count barriers, and would leave the
 * others in theirs. Here each rank sends a message without bytes to rank 0, which answers when it has all of them; a
 * message that could not be sent is sent again, until MPI has failed for a second without a call that works. */
#ifndef LMDBIO_MPI_MPI_OVER_H
#define LMDBIO_MPI_MPI_OVER_H

#include "mpi/mpi_job.h"

/* Messages of one purpose have a tag of their own. */
enum mpi_over_tag { OVER_FILLED = 11, OVER_SERVED, OVER_ENDED, OVER_AGREED, OVER_REFUSED };

struct mpi_over {
	MPI_Comm comm;
	enum mpi_over_tag tag;
	bool agrees; /* a message of OVER_REFUSED is as good as one of OVER_AGREED, and changes the tag */
	int rank, ranks;
	int done;            /* messages that this rank has sent or received */
	unsigned failures;   /* of calls, one after another */
	uint64_t failing;    /* ns: since when */
	MPI_Request request; /* of the next message, or MPI_REQUEST_NULL */
	int rc;              /* an MPI code */
};

/* This rank has come. Collective over all ranks of the job. */
void mpi_over_begin(struct mpi_over *over, const struct mpi_job *job, enum mpi_over_tag tag);

/* Looks on. Returns true when all ranks have come, or MPI fails for ever: over->rc says which. */
bool mpi_over_look(struct mpi_over *over);

/* Waits until all ranks have come to the end. Returns an MPI code; not MPI_SUCCESS: the others may wait for this rank for ever. */
int mpi_over_await(const struct mpi_job *job);

/* The same, and sets *all_can to whether each rank can. */
int mpi_over_agree(const struct mpi_job *job, bool can, bool *all_can);

#endif
