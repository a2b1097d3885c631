/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the module's table refers to (mpi_module.c). struct mpi_module says what each
 * function does. */
#ifndef LMDBIO_MPI_MODULE_PARTS_H
#define LMDBIO_MPI_MODULE_PARTS_H

#include "mpi/mpi_module.h"

#include <lmdbio_mpi.h>
#include <stdbool.h>

int mpi_server_begin(struct mpi_work *work);
int mpi_server_fill(const struct mpi_work *work, struct lmdbio_stage_report *report);
int mpi_server_run(const struct mpi_work *work);

int mpi_inside_begin(bool first);

/* The value of LMDBIO_NODE with which this node's programs find the held data, or "". Lives as long
 * as the hold. */
const char *stage_hold_node(const struct lmdbio_stage_hold *hold);

extern const struct mpi_sharing mpi_convert_sharing;

#endif
