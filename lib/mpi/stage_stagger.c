/* SPDX-License-Identifier: OLDAP-2.8 */
/* Looks for the best number of readers at a time. */
#include "config.h"
#include "mpi/stage_stagger.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"

#include <lmdbio_stage.h>

enum { TOKEN_TAG = 2 };

void stage_stagger_begin(struct stage_stagger *stagger, const struct mpi_job *job, int group)
{
	*stagger = (struct stage_stagger){.comm = job->all,
					  .rank = job->place.rank,
					  .ranks = job->place.ranks,
					  .measuring = group == LMDBIO_STAGE_MEASURED};
	stagger->group = group > 0 && group < stagger->ranks ? group : stagger->ranks;
}

int stage_stagger_enter(struct stage_stagger *stagger)
{
	MPI_Request token;
	int rc;

	if (stagger->rank < stagger->group)
		return 0;
	rc = MPI_Irecv(NULL, 0, MPI_BYTE, stagger->rank - stagger->group, TOKEN_TAG, stagger->comm,
		       &token);
	if (rc == MPI_SUCCESS)
		rc = mpi_await(&token);
	return mpi_error_code(rc);
}

int stage_stagger_leave(struct stage_stagger *stagger)
{
	if (stagger->rank + stagger->group >= stagger->ranks)
		return 0;
	return mpi_error_code(MPI_Send(NULL, 0, MPI_BYTE, stagger->rank + stagger->group, TOKEN_TAG,
				       stagger->comm));
}

/* A step takes as long as its slowest rank. Half as many readers are tried as long as that is
 * faster: the curve has one valley, between a storage that is idle and one that thrashes. */
int stage_stagger_judge(struct stage_stagger *stagger, uint64_t ns)
{
	uint64_t slowest;
	int rc;

	if (!stagger->measuring)
		return 0;
	rc = mpi_allreduce(&ns, &slowest, 1, MPI_INT64_T, MPI_MAX, stagger->comm);
	if (rc != MPI_SUCCESS)
		return mpi_error_code(rc);
	if (!stagger->best || slowest < stagger->best_ns) {
		stagger->best = stagger->group;
		stagger->best_ns = slowest;
		stagger->group = (stagger->group + 1) / 2;
		stagger->measuring = stagger->best > 1;
	} else {
		stagger->measuring = false;
	}
	if (!stagger->measuring)
		stagger->group = stagger->best;
	return 0;
}
