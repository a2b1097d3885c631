/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes the job that this process is a rank of, when lmdbio itself has started MPI.
 *
 * It is for programs that use MPI only through lmdbio (lmdbio-run, lmdbio-convert, lmdbio-stage). A
 * program that uses MPI itself is served on a communicator of its own or a session. */
#ifndef LMDBIO_MPI_MPI_JOB_H
#define LMDBIO_MPI_MPI_JOB_H

#include "mpi/mpi_module.h"

#include <mpi.h>

/* Data of which a process has one. In tests whose ranks are threads, each thread has its own. */
#ifndef RANK_STATIC
#define RANK_STATIC static
#endif

struct mpi_job {
	struct mpi_place place;
	MPI_Comm all;  /* every rank */
	MPI_Comm node; /* this node's ranks; MPI_COMM_NULL if there is one; may be `all` */
	MPI_Comm leaders; /* rank 0 of each node; MPI_COMM_NULL elsewhere, or with one node */
	bool played;      /* MPICH plays the nodes on one machine */
};

/* As begin, is_pmi1, end and abort of struct mpi_module. */
int mpi_job_begin(bool threads, struct mpi_place *place);
bool mpi_job_is_pmi1(void);
int mpi_job_end(void);
void mpi_job_abort(int status);

/* Make the program's own communicator the job's until mpi_job_return(). Both are collective over
 * it, and return an MPI code; mpi_job_adopt() returns MPI_SUCCESS on all ranks or on none. If a
 * rank has no memory, all ranks return from it. If a call of MPI fails in a rank, other ranks may
 * wait in it for ever. If MPI fails at the end for a second, mpi_job_adopt() ends the job. */
int mpi_job_adopt(MPI_Comm all);
int mpi_job_return(void);

/* Returns the job, between begin and end. */
const struct mpi_job *mpi_job_get(void);

/* Finds this process's place among the ranks of `all`, and makes the two other communicators. The
 * ranks of a node can share memory: they have one machine, network and process id namespace. Where
 * MPICH plays several nodes (MPIR_CVAR_NUM_CLIQUES), its nodes count. Collective over all. Returns
 * an MPI code. */
int mpi_job_place(struct mpi_job *job, MPI_Comm all);

/* Sends a number from rank 0 of the node to its other ranks. Collective over the node. Returns an
 * MPI code. */
int mpi_job_tell_node(const struct mpi_job *job, int *number);

/* Frees the communicators of mpi_job_place() except `all`. Collective over all. Returns an MPI
 * code. */
int mpi_job_leave(struct mpi_job *job);

/* Tells the launcher that MPI is over, in place of MPI_Finalize. Collective over the ranks of the
 * job, after the last call of MPI that another rank waits for. Returns true if the launcher knows:
 * then the process ends without MPI_Finalize. Returns false if the caller must call MPI_Finalize:
 * it returns in this job, or this launcher takes no words of lmdbio's. */
bool mpi_leave(const struct mpi_job *job);

enum { MPI_NODE_NAME = 300 };

/* The value of LMDBIO_NODE for this node's programs: what the user has set. If several nodes of the
 * job are one machine (MPIR_CVAR_NUM_CLIQUES), "#" and the node's number follow. "": nothing has to
 * be set. The same on all ranks of a node. */
void mpi_node_name(const struct mpi_job *job, char name[MPI_NODE_NAME]);

#endif
