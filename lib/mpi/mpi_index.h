/* SPDX-License-Identifier: OLDAP-2.8 */
/* Numbers the records of a database by all ranks of a job together. */
#ifndef LMDBIO_MPI_MPI_INDEX_H
#define LMDBIO_MPI_MPI_INDEX_H

#include "env/env.h"
#include "index/record_index.h"

#include <mpi.h>

/* What a rank keeps of the leaves that it counts, for its job. */
struct index_kept {
	struct page_shelf *shelf; /* where the pages are kept */
	uint64_t room;            /* bytes that this rank has for records */
	uint64_t needed;          /* bytes that all records of the database would take there */
	/* Results, which the caller frees by index_kept_free() in any case: */
	uint64_t *firsts; /* rank -> the first record that it has counted; one more at the end */
	struct index_part part; /* what this rank has counted, with weights */
};
void index_kept_free(struct index_kept *kept);

/* Makes the record index of a tree, whose record has been read, in a snapshot that is the same on
 * every rank. Rank 0 reads the branch pages, each rank its share of the leaf pages; then each rank
 * has the whole index. `kept`: NULL on all ranks: nothing is kept, and shares are even. Collective
 * over comm. Returns the same on all ranks: 0, ENOMEM, EIO, or as index_build(). */
int mpi_index_build(MPI_Comm comm, const struct snapshot *snapshot, const struct tree *tree,
		    struct index_kept *kept, struct record_index **index);

#endif
