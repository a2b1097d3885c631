/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes the job that this process is a rank of, when lmdbio itself has started MPI.
 *
 * For programs whose only use of MPI is lmdbio (lmdbio-run, lmdbio-convert, lmdbio-stage). A
 * program that uses MPI itself is served on a communicator of its own or a session, never by this.
 */
#ifndef LMDBIO_MPI_MPI_JOB_H
#define LMDBIO_MPI_MPI_JOB_H

#include "mpi/mpi_module.h"

#include <mpi.h>

/* What a process has once; tests in which threads are the ranks have it once a thread. */
#ifndef RANK_STATIC
#define RANK_STATIC static
#endif

struct mpi_job {
	struct mpi_place place;
	MPI_Comm all;  /* every rank */
	MPI_Comm node; /* the ranks of this node; MPI_COMM_NULL where there is one. May be `all` */
	MPI_Comm leaders; /* rank 0 of each node; MPI_COMM_NULL elsewhere, and where there is one
			     node */
	bool played;      /* the nodes are one machine */
};

/* As struct mpi_module says of begin, is_pmi1, end and abort. */
int mpi_job_begin(bool threads, struct mpi_place *place);
bool mpi_job_is_pmi1(void);
int mpi_job_end(void);
void mpi_job_abort(int status);

/* The job is that of the program's own communicator, until mpi_job_return(). Both collective
 * over it. They return an MPI code: mpi_job_adopt() MPI_SUCCESS on all ranks or on none. All of them return from it
 * where a rank has no memory for it. Where a call of MPI fails in a rank, others may wait in it for ever; where MPI
 * fails at the end for a second, it ends the job. */
int mpi_job_adopt(MPI_Comm all);
int mpi_job_return(void);

/* The job, between begin and end. */
const struct mpi_job *mpi_job_get(void);

/* Finds this process's place among the ranks of `all`, and makes the two other communicators. A
 * node are the ranks that can share memory: of one machine, network and process ids; where MPICH
 * plays several (MPIR_CVAR_NUM_CLIQUES), what it plays. Collective over all. Returns an MPI code.
 */
int mpi_job_place(struct mpi_job *job, MPI_Comm all);

/* Has rank 0 of the node tell the others a number. Collective over the node. Returns an MPI code.
 */
int mpi_job_tell_node(const struct mpi_job *job, int *number);

/* Frees what mpi_job_place() has made, `all` not. Collective over all. Returns an MPI code. */
int mpi_job_leave(struct mpi_job *job);

/* Tells the launcher that MPI is over, in place of MPI_Finalize. Collective over the ranks of the job, after the last call of MPI that another rank waits for.
 * Returns true if the launcher has been told: then the process ends without MPI_Finalize. Returns
 * false if MPI_Finalize is to follow: it returns in this job, or this launcher takes no words of
 * ours. */
bool mpi_leave(const struct mpi_job *job);

enum { MPI_NODE_NAME = 300 };

/* The value of LMDBIO_NODE for this node's programs: what the user has set, and where several nodes
 * of the job are one machine (MPIR_CVAR_NUM_CLIQUES) "#" and the node's number behind it. "":
 * nothing has to be set. The same on all ranks of a node. */
void mpi_node_name(const struct mpi_job *job, char name[MPI_NODE_NAME]);

#endif
