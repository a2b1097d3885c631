/* SPDX-License-Identifier: OLDAP-2.8 */
/* The file that a job stages, which must be the same for all ranks from the first look to the last
 * byte. */
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
	/* What is staged: the file; or, unpacked, the data in a container. */
	bool unpacked;
	uint64_t size;      /* bytes */
	uint64_t snapshot;  /* transaction id of the newer meta page */
	uint32_t page_size; /* bytes; 0: of a container that stays one */
	uint32_t piece;     /* bytes that are best read by one rank, a power of two */
	uint64_t device;    /* here: nodes may number theirs differently */
	mode_t mode;
	int rank;
};

/* Opens what `path` leads to and sees that all ranks have the same file. Rank 0 alone reads its
 * meta pages. `unpack`: of a container its data is wanted. Collective over comm; the code is one
 * rank's own, to be agreed on: 0, ESTALE, MDB_INVALID, MDB_VERSION_MISMATCH, MDB_CORRUPTED or an
 * errno. To be closed in any case. */
int stage_source_open(struct stage_source *source, const struct mpi_job *job, const char *path,
		      bool unpack);

/* Whether it is still what it was when it was opened. 0 or ESTALE, or an errno; to be agreed on. */
int stage_source_check(const struct stage_source *source);

void stage_source_close(struct stage_source *source);

#endif
