/* What only this file knows: how the ranks of a job number the records of a database together. */
#ifndef LMDBIO_MPI_MPI_INDEX_H
#define LMDBIO_MPI_MPI_INDEX_H

#include "env/env.h"
#include "index/record_index.h"

#include <mpi.h>

/* Makes the record index of a database of a transaction that every rank has of the same snapshot. Rank
 * 0 reads the branch pages, each rank its share of the leaf pages; each has the whole index then.
 * Collective over comm. Returns the same on all ranks: 0, ESTALE, ENOMEM, EIO, or as index_build().
 */
int mpi_index_build(MPI_Comm comm, MDB_txn *txn, MDB_dbi dbi, struct record_index **index);

#endif
