/* What only this file knows: the job that this process is a rank of, when lmdbio itself has started
 * MPI.
 *
 * For programs whose only use of MPI is lmdbio (lmdbio-run, lmdbio-convert, lmdbio-stage). A
 * program that uses MPI itself is served on a communicator of its own or a session, never by this.
 */
#ifndef LMDBIO_MPI_MPI_JOB_H
#define LMDBIO_MPI_MPI_JOB_H

#include "mpi/mpi_module.h"

#include <mpi.h>

struct mpi_job {
	struct mpi_place place;
	MPI_Comm all;     /* every rank, not MPI_COMM_WORLD itself */
	MPI_Comm node;    /* the ranks of this node */
	MPI_Comm leaders; /* rank 0 of each node; MPI_COMM_NULL elsewhere */
};

/* As struct mpi_module says of begin, end and abort. */
int mpi_job_begin(bool threads, struct mpi_place *place);
int mpi_job_end(void);
void mpi_job_abort(int status);

/* The job is that of a communicator of somebody else's, until mpi_job_return(). Both collective over
 * it. They return an MPI code. */
int mpi_job_adopt(MPI_Comm all);
int mpi_job_return(void);

/* The job, between begin and end. */
const struct mpi_job *mpi_job_get(void);

/* Finds this process's place among the ranks of `all`, and makes the two other communicators.
 * Collective over all. Returns an MPI code. */
int mpi_job_place(struct mpi_job *job, MPI_Comm all);

/* Frees what mpi_job_place() has made, `all` not. Collective over all. Returns an MPI code. */
int mpi_job_leave(struct mpi_job *job);

#endif
