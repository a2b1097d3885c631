/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets only so many ranks read at the same time.
 *
 * A token goes from rank r to rank r + group: a rank without one waits. Ranks that read together
 * are neighbours in the file. After Pumma et al., "Scalable Deep Learning via I/O Analysis and
 * Optimization" (ACM TOPC 6(2), 2019), section 4, where the group's size was found by hand.
 */
#ifndef LMDBIO_MPI_STAGE_STAGGER_H
#define LMDBIO_MPI_STAGE_STAGGER_H

#include "mpi/mpi_job.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct stage_stagger {
	MPI_Comm comm;
	int rank, ranks;
	int group; /* in force; ranks: no rank waits */
	bool measuring;
	int best; /* the group that took the least time so far; 0: none yet */
	uint64_t best_ns;
};

/* `group` as in struct lmdbio_stage_options. */
void stage_stagger_begin(struct stage_stagger *stagger, const struct mpi_job *job, int group);

/* Around a step's read: waits for the turn, and passes it on. Return 0 or EIO. */
int stage_stagger_enter(struct stage_stagger *stagger);
int stage_stagger_leave(struct stage_stagger *stagger);

/* After a step that took this rank so long, its turn's coming included: chooses the next group
 * while it is being measured. Collective; returns 0 or EIO. */
int stage_stagger_judge(struct stage_stagger *stagger, uint64_t ns);

#endif
