/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves a node while the process's own work goes on.
 *
 * The server is one more member of each arena that the node's processes have: it takes their wishes
 * and brings chunks. A chunk has an owner among the nodes; the owner's server alone reads it from
 * storage, keeps it, and hands it to the others. No process depends on it: a member whose wish is
 * not fulfilled in time, and a server whose peer does not answer in time, reads storage.
 */
#ifndef LMDBIO_MPI_MPI_SERVER_H
#define LMDBIO_MPI_MPI_SERVER_H

#include "mpi/mpi_module.h"

/* As struct mpi_module says of serve_begin, serve_fill and serve. */
int mpi_server_begin(struct mpi_work *work);
int mpi_server_fill(const struct mpi_work *work, struct lmdbio_stage_report *report);
int mpi_server_run(const struct mpi_work *work);

#endif
