/* What only this file knows: which functions the module shows to programs without MPI. */
#include "config.h"
#include "mpi/mpi_module.h"

#include "mpi/mpi_job.h"

extern const struct mpi_module lmdbio_mpi_module;
__attribute__((visibility("default"))) const struct mpi_module lmdbio_mpi_module = {
	.version = MPI_MODULE_VERSION,
	.release = PACKAGE_VERSION,
	.begin = mpi_job_begin,
	.end = mpi_job_end,
	.abort = mpi_job_abort,
};
