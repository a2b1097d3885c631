/* What only this file knows: how MPI is started and ended, and which ranks share a node. */
#include "config.h"
#include "mpi/mpi_job.h"

#include "mpi/mpi_error.h"

#include <errno.h>
#include <stddef.h>

static struct mpi_job job = {.all = MPI_COMM_NULL, .node = MPI_COMM_NULL, .leaders = MPI_COMM_NULL};

const struct mpi_job *mpi_job_get(void)
{
	return &job;
}

int mpi_job_place(struct mpi_job *place, MPI_Comm all)
{
	struct mpi_place *at = &place->place;
	int rc;

	place->all = all;
	place->node = place->leaders = MPI_COMM_NULL;
	MPI_Comm_rank(all, &at->rank);
	MPI_Comm_size(all, &at->ranks);
	rc = MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, at->rank, MPI_INFO_NULL, &place->node);
	if (rc != MPI_SUCCESS)
		return rc;
	MPI_Comm_rank(place->node, &at->node_rank);
	MPI_Comm_size(place->node, &at->node_ranks);
	rc = MPI_Comm_split(all, at->node_rank ? MPI_UNDEFINED : 0, at->rank, &place->leaders);
	if (rc != MPI_SUCCESS)
		return rc;
	if (!at->node_rank) {
		MPI_Comm_rank(place->leaders, &at->node);
		MPI_Comm_size(place->leaders, &at->nodes);
	}
	rc = MPI_Bcast(&at->node, 1, MPI_INT, 0, place->node);
	return rc == MPI_SUCCESS ? MPI_Bcast(&at->nodes, 1, MPI_INT, 0, place->node) : rc;
}

int mpi_job_leave(struct mpi_job *place)
{
	int rc = MPI_SUCCESS;

	if (place->leaders != MPI_COMM_NULL)
		rc = MPI_Comm_free(&place->leaders);
	if (place->node != MPI_COMM_NULL && rc == MPI_SUCCESS)
		rc = MPI_Comm_free(&place->node);
	return rc;
}

int mpi_job_begin(bool threads, struct mpi_place *place)
{
	int needed = threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided, rc;

	rc = MPI_Init_thread(NULL, NULL, needed, &provided);
	if (rc != MPI_SUCCESS)
		return mpi_error_code(rc);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (provided < needed) {
		MPI_Finalize();
		return ENOTSUP;
	}
	rc = MPI_Comm_dup(MPI_COMM_WORLD, &job.all);
	if (rc == MPI_SUCCESS)
		rc = mpi_job_place(&job, job.all);
	if (rc != MPI_SUCCESS) {
		mpi_job_end();
		return mpi_error_tell(rc, "the ranks of a node");
	}
	*place = job.place;
	return 0;
}

int mpi_job_adopt(MPI_Comm all)
{
	return mpi_job_place(&job, all);
}

int mpi_job_return(void)
{
	int rc = mpi_job_leave(&job);

	job.all = MPI_COMM_NULL;
	return rc;
}

int mpi_job_end(void)
{
	int rc = mpi_job_leave(&job);

	if (job.all != MPI_COMM_NULL && rc == MPI_SUCCESS)
		rc = MPI_Comm_free(&job.all);
	/* Whatever could not be freed: who does not finalize takes the whole job down. */
	return mpi_error_code(MPI_Finalize() == MPI_SUCCESS ? rc : MPI_ERR_OTHER);
}

void mpi_job_abort(int status)
{
	MPI_Abort(MPI_COMM_WORLD, status);
}
