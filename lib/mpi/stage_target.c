/* SPDX-License-Identifier: OLDAP-2.8 */
/* Orders how the ranks of a job make, fill and show what is staged. */
#include "config.h"
#include "mpi/stage_target.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"

#include <errno.h>

static int nowhere_put(struct stage_target *target, uint64_t offset, const void *bytes,
		       uint64_t length)
{
	(void)target;
	(void)offset;
	(void)bytes;
	(void)length;
	return 0;
}

static int nothing(struct stage_target *target)
{
	(void)target;
	return 0;
}

static void nothing_undone(struct stage_target *target)
{
	(void)target;
}

static const struct stage_target_ops nowhere = {
	.make = nothing,
	.join = nothing,
	.put = nowhere_put,
	.settle = nothing,
	.show = nothing,
	.undo = nothing_undone,
	.close = nothing_undone,
};

const struct stage_target_ops *stage_target_find(enum lmdbio_stage_target kind)
{
	static const struct stage_target_ops *const targets[] = {
		[LMDBIO_STAGE_DIRECTORY] = &stage_directory,
		[LMDBIO_STAGE_SHARED] = &stage_directory,
		[LMDBIO_STAGE_MEMORY] = &stage_memory,
		[LMDBIO_STAGE_NOWHERE] = &nowhere,
		[LMDBIO_STAGE_PARTS] = &stage_parts,
	};

	return (unsigned)kind < sizeof(targets) / sizeof(targets[0]) ? targets[kind] : NULL;
}

bool stage_target_spreads(const struct stage_target *target)
{
	return target->ops->spread && target->options->target != LMDBIO_STAGE_SHARED;
}

int stage_target_open(struct stage_target *target, int *nodes_before, int *failed)
{
	const struct mpi_place *at = &target->job->place;
	bool one = target->options->target == LMDBIO_STAGE_SHARED;
	MPI_Comm comm = target->job->all;
	int there, counted, rc = 0;

	target->maker = one ? !at->rank : !at->node_rank;
	if (target->maker)
		rc = target->ops->make(target);
	rc = mpi_agree(comm, rc, failed);
	if (rc)
		goto fail;
	there = target->there;
	rc = mpi_error_code(one ? mpi_bcast(&there, 1, MPI_INT, 0, comm)
				: mpi_job_tell_node(target->job, &there));
	target->there = there;
	if (!rc && !target->maker)
		rc = target->ops->join(target);
	rc = mpi_agree(comm, rc, failed);
	if (rc)
		goto fail;
	counted = there && !at->node_rank;
	rc = mpi_error_code(mpi_allreduce(&counted, nodes_before, 1, MPI_INT, MPI_SUM, comm));
	if (!rc)
		return 0;
fail:
	if (target->maker && !target->there)
		target->ops->undo(target);
	return rc;
}

int stage_target_end(struct stage_target *target, int rc, int *failed)
{
	MPI_Comm comm = target->job->all;

	if (!rc) {
		/* First all bytes, then the makers': what they see must be everybody's. */
		if (!target->there)
			rc = target->ops->settle(target);
		if (!rc)
			rc = stage_source_check(target->source);
		rc = mpi_agree(comm, rc, failed);
		if (!rc) {
			if (target->maker && !target->there)
				rc = target->ops->show(target);
			rc = mpi_agree(comm, rc, failed);
		}
	}
	if (rc && target->maker && !target->there)
		target->ops->undo(target);
	return rc;
}
