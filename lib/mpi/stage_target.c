/* SPDX-License-Identifier: OLDAP-2.8 */
/* Orders how the ranks of a job make, fill and show what is staged. */
#include "config.h"
#include "mpi/stage_target.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"

#include <errno.h>

static const struct stage_target_ops nowhere = {0};

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

static int run(int (*call)(struct stage_target *target), struct stage_target *target)
{
	return call ? call(target) : 0;
}

static void undo(struct stage_target *target)
{
	if (target->maker && !target->there && target->ops->undo)
		target->ops->undo(target);
}

int stage_target_open(struct stage_target *target, int *nodes_before, int *failed)
{
	const struct mpi_place *at = &target->job->place;
	bool one = target->options->target == LMDBIO_STAGE_SHARED;
	MPI_Comm comm = target->job->all;
	int there, counted, rc = run(target->ops->name, target);

	target->maker = one ? !at->rank : !at->node_rank;
	if (!rc && target->maker)
		rc = run(target->ops->make, target);
	rc = mpi_agree(comm, rc, failed);
	if (rc)
		goto fail;
	there = target->there;
	rc = mpi_error_code(one ? mpi_bcast(&there, 1, MPI_INT, 0, comm)
				: mpi_job_tell_node(target->job, &there));
	target->there = there;
	if (!rc && !target->maker)
		rc = run(target->ops->join, target);
	rc = mpi_agree(comm, rc, failed);
	if (rc)
		goto fail;
	counted = there && !at->node_rank;
	rc = mpi_error_code(mpi_allreduce(&counted, nodes_before, 1, MPI_INT, MPI_SUM, comm));
	if (!rc)
		return 0;
fail:
	undo(target);
	return rc;
}

int stage_target_end(struct stage_target *target, int rc, int *failed)
{
	MPI_Comm comm = target->job->all;

	if (!rc) {
		/* All ranks settle before a maker shows: it shows the bytes of all ranks. */
		if (!target->there)
			rc = run(target->ops->settle, target);
		if (!rc)
			rc = stage_source_check(target->source);
		rc = mpi_agree(comm, rc, failed);
		if (!rc) {
			if (target->maker && !target->there)
				rc = run(target->ops->show, target);
			rc = mpi_agree(comm, rc, failed);
		}
	}
	if (rc)
		undo(target);
	return rc;
}
