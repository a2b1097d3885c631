/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes the file that a job stages, which must be the same for all ranks from the first look to
 * the last byte. */
#ifndef LMDBIO_MPI_STAGE_SOURCE_H
#define LMDBIO_MPI_STAGE_SOURCE_H

#include "env/staged.h"
#include "mpi/mpi_job.h"

#include <mpi.h>
#include <sys/types.h>

struct stage_source {
	int fd;
	char *path; /* of the file itself */
	struct staged_original original; /* job form */
	/* What is staged: the file; or, if `unpacked`, the data in a container. */
	bool unpacked;
	uint64_t size;      /* bytes */
	uint64_t snapshot;  /* transaction id of the newer meta page */
	uint32_t page_size; /* bytes; 0: a container that stays one */
	uint32_t piece;     /* bytes that are best read by one rank, a power of two */
	uint64_t device;    /* on this node: nodes may number their devices differently */
	mode_t mode;
	int rank;
};

/* Opens the data file or container that `path` names, as mdb_env_open() or directly. Returns 0 and
 * its own name, malloc'ed; or an errno, with -1 and NULL. */
int stage_file_open(const char *path, int *fd, char **name);

/* Opens what `path` leads to, and checks that all ranks have the same file. Rank 0 alone reads its
 * meta pages. `unpack`: the data in a container is wanted. Collective over the job; the code is
 * this rank's own, to be agreed on: 0, ESTALE, MDB_INVALID, MDB_VERSION_MISMATCH, MDB_CORRUPTED or
 * an errno. The caller closes the source in any case. */
int stage_source_open(struct stage_source *source, const struct mpi_job *job, const char *path,
		      bool unpack);

/* Returns 0 if the file is still what it was when it was opened, else ESTALE or an errno; to be
 * agreed on. */
int stage_source_check(const struct stage_source *source);

void stage_source_close(struct stage_source *source);

#endif
