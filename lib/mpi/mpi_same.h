/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells whether all ranks of a job look at the same data. */
#ifndef LMDBIO_MPI_MPI_SAME_H
#define LMDBIO_MPI_MPI_SAME_H

#include "env/env.h"

#include <mpi.h>

/* Compares what the ranks see of a database, whose record has been read into `tree`. Ranks may have
 * copies of the data set. If all ranks have the same file in the same state, or staged copies of
 * it, this reads the tree's root page and nothing else. Otherwise each rank also reads 1,024 pieces
 * of 4 KiB of its file; if all ranks have containers, only if these have different contents or
 * chunks of different sizes. Collective over comm; a rank that
 * has failed before may call mpi_agree() instead. Returns the same on all ranks: 0; ESTALE (ranks
 * see different data, or a file has changed since its rank opened it); MDB_CORRUPTED; the errno of
 * a read; EIO (MPI). */
int mpi_same_data(MPI_Comm comm, const MDB_txn *txn, const struct tree *tree);

#endif
