/* SPDX-License-Identifier: OLDAP-2.8 */
/* Names the nodes of a job, so that the processes of one share memory and those of different
 * ones do not. */
#ifndef LMDBIO_MPI_MPI_NODE_H
#define LMDBIO_MPI_MPI_NODE_H

#include "mpi/mpi_job.h"

enum { MPI_NODE_NAME = 300 };

/* The value of LMDBIO_NODE for this node's programs: what the user has set, and where several nodes
 * of the job are one machine (MPIR_CVAR_NUM_CLIQUES) "#" and the node's number behind it. "":
 * nothing has to be set. The same on all ranks of a node. */
void mpi_node_name(const struct mpi_job *job, char name[MPI_NODE_NAME]);

#endif
