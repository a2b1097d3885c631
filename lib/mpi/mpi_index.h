/* What only this file knows: how the ranks of a job number the records of a database together. */
#ifndef LMDBIO_MPI_MPI_INDEX_H
#define LMDBIO_MPI_MPI_INDEX_H

#include "env/env.h"
#include "index/record_index.h"

#include <mpi.h>

/* Makes the record index of a tree, whose record has been read, in a snapshot that is the same on
 * every rank. Rank 0 reads the branch pages, each rank its share of the leaf pages; each has the whole
 * index then. `calls`: of the core that the snapshot is of. Collective over comm. Returns the same on
 * all ranks: 0, ENOMEM, EIO, or as index_build(). */
int mpi_index_build(MPI_Comm comm, const struct index_calls *calls, const struct snapshot *snapshot,
		    const struct tree *tree, struct record_index **index);

#endif
