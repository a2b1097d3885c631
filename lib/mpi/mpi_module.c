/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lists the functions that the module shows to programs without MPI. */
#include "config.h"
#include "mpi/module_parts.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_job.h"
#include "mpi/mpi_wait.h"

static int module_gather(void)
{
	return mpi_error_code(mpi_barrier(mpi_job_get()->all));
}

static int module_stage(const char *path, const struct lmdbio_stage_options *options)
{
	return lmdbio_mpi_stage(mpi_job_get()->all, path, options);
}

extern const struct mpi_module lmdbio_mpi_module;
__attribute__((visibility("default"))) const struct mpi_module lmdbio_mpi_module = {
	.version = MPI_MODULE_VERSION,
	.release = PACKAGE_VERSION,
	.begin = mpi_job_begin,
	.is_pmi1 = mpi_job_is_pmi1,
	.serve_begin = mpi_server_begin,
	.serve_fill = mpi_server_fill,
	.serve = mpi_server_run,
	.inside = mpi_inside_begin,
	.end = mpi_job_end,
	.abort = mpi_job_abort,
	.gather = module_gather,
	.stage = module_stage,
	.stage_node = stage_hold_node,
	.stage_release = lmdbio_mpi_stage_release,
	.sharing = &mpi_convert_sharing,
};
