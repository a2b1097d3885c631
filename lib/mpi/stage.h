/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a staging leaves behind for later users. */
#ifndef LMDBIO_MPI_STAGE_H
#define LMDBIO_MPI_STAGE_H

#include "mpi/mpi_job.h"

#include <lmdbio_mpi.h>

/* The name that programs of this node must have in LMDBIO_NODE to find what is held, or "". Lives
 * as long as the hold. */
const char *stage_hold_node(const struct lmdbio_stage_hold *hold);

#endif
