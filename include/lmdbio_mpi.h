/* SPDX-License-Identifier: OLDAP-2.8 */
/* lmdbio_mpi.h - what lmdbio does for jobs of many ranks that act together.
 *
 * The functions stand in liblmdbio-mpi.so.0 (pkg-config: lmdbio-mpi). They are collective: each
 * works on a communicator of its own that it makes of the caller's, with errors returned, and ends
 * with the same return code on all ranks. They never start or end MPI.
 */
#ifndef LMDBIO_MPI_H
#define LMDBIO_MPI_H

#include <lmdbio.h>
#include <lmdbio_stage.h>
#include <mpi.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a data set's file from storage, each byte once by the job as a whole, and puts it where the
 * options say. Each rank reads one contiguous share in few large requests; what other nodes need
 * goes to them over MPI. A copy in a directory gets its final name when all of it is on the disk on
 * all nodes; before that, and after any error, there is nothing under that name. Where all nodes
 * have the copy already nothing is read. Ranks are of one node when they run on one machine and in
 * the same namespaces of network and process ids; where MPICH makes several nodes of a machine
 * (MPIR_CVAR_NUM_CLIQUES), when MPI_COMM_TYPE_SHARED says so.
 *   comm     its ranks take part, and share the reading
 *   path     an environment's directory, its data file, or a container (data.mdb.zst); the same
 *            file on all ranks
 *   options  see there; NULL: EINVAL
 * Collective: yes, over comm.
 * Threads: one thread at a time on a communicator; of MPI it needs the level that the calling
 * thread has.
 * Lifetime: nothing of the arguments is kept.
 * Returns, the same on all ranks: 0; EINVAL (options); MDB_INVALID, MDB_VERSION_MISMATCH (not a
 * data file); ESTALE (the file changed meanwhile, or ranks see different files); MDB_CORRUPTED (a
 * container that is damaged); ENOMEM (no room for buffers, or the budget of a node is less than the
 * data); EBUSY (another process has kept part of a node's memory to itself for a minute); ENOSPC,
 * EDQUOT, EROFS, EACCES (the target); EIO (storage or MPI); another errno of a file operation; what
 * the progress function has returned. */
int lmdbio_mpi_stage(MPI_Comm comm, const char *path, const struct lmdbio_stage_options *options);

/* Lets go of the node's memory.
 * Collective: no.
 * Threads: any, once for each hold.
 * Lifetime: the hold is gone.
 * Returns: nothing. */
void lmdbio_mpi_stage_release(struct lmdbio_stage_hold *hold);

/* --- the record index ------------------------------------------------------------------------ */

/* Where each record of a database stands, known to every rank. Records are what MDB_NEXT steps to,
 * numbered from 0 in the order of the cursor, as for lmdbio_get_record(). */
struct lmdbio_mpi_index;

/* Numbers the records of a database. Only pages of its tree are read, no values outside of them:
 * the branch pages by rank 0, the leaf pages dealt out to all ranks.
 *   comm      its ranks take part
 *   path      an environment's directory, its data file, or a container: the same on all ranks
 *   database  its name; NULL: the main one
 *   index     set to the index; NULL after an error
 * Collective: yes, over comm.
 * Threads: as lmdbio_mpi_stage().
 * Lifetime: the index is the caller's, until lmdbio_mpi_index_close(); it is of the snapshot that
 * was the newest, and stays as it is.
 * Returns, the same on all ranks: 0; EINVAL; MDB_NOTFOUND (no such database); ESTALE (a writer has
 * committed meanwhile, or ranks see different files; call again); ENOTSUP (lmdbio is disabled);
 * MDB_CORRUPTED, MDB_PAGE_NOTFOUND (a page is not sound, or there are not as many records as the
 * database says); ENOMEM; another errno or code of mdb_env_open() or of a read; EIO (MPI). */
int lmdbio_mpi_index_open(MPI_Comm comm, const char *path, const char *database,
			  struct lmdbio_mpi_index **index);

/* Frees it. NULL: nothing happens.
 * Collective: no. Threads: any, once. Lifetime: the index is gone. Returns: nothing. */
void lmdbio_mpi_index_close(struct lmdbio_mpi_index *index);

/* Records in it.
 * Collective: no. Threads: any. Lifetime: nothing is handed out. Returns: how many. */
uint64_t lmdbio_mpi_index_records(const struct lmdbio_mpi_index *index);

/* The transaction whose snapshot it is of.
 * Collective: no. Threads: any. Lifetime: nothing is handed out. Returns: its id. */
uint64_t lmdbio_mpi_index_snapshot(const struct lmdbio_mpi_index *index);

/* Where a record stands. Later versions add fields at the end. */
struct lmdbio_record_place {
	uint64_t size;       /* bytes; set to sizeof(struct lmdbio_record_place) before the call */
	uint64_t page;       /* number of the leaf page in the data file */
	uint64_t node;       /* the node in it, from 0 */
	uint64_t skip;       /* with duplicates: how many records from that node on */
	uint64_t nested;     /* 1: a page of a tree of duplicates, and their key stands in: */
	uint64_t owner_page;
	uint64_t owner_node;
};

/* Finds a record, in O(log(leaf pages)), without reading anything.
 *   index   the index
 *   number  of the record, from 0
 *   place   filled; see its size
 * Collective: no.
 * Threads: any.
 * Lifetime: place is the caller's.
 * Returns: 0; MDB_NOTFOUND (there are not so many); EINVAL (place->size is less than its field). */
int lmdbio_mpi_index_find(const struct lmdbio_mpi_index *index, uint64_t number,
			  struct lmdbio_record_place *place);

/* --- the batch loader ------------------------------------------------------------------------ */

/* Opens a loader of <lmdbio.h> on each rank of a job, over one database of which each has an
 * environment of its own. Which share of the batches a rank gets, and which ranks share a node
 * (as for lmdbio_mpi_stage()), follows from the communicator. All other calls are those of <lmdbio.h>,
 * on the loader that comes back.
 *
 * Where there are several nodes, and MPI was begun with MPI_THREAD_MULTIPLE, the nodes keep the
 * records for each other: each has a home with one of them, in its memory (LMDBIO_MEMORY is the
 * node's) or on its local disk (options.stage_dir, which ranks of a node name alike), which reads
 * it from storage once, and further copies as far as there is room. So the job reads storage once
 * when its nodes' memory and disks together hold the database; what has no home, and what a disk
 * that has failed had, is read whenever it is wanted. Otherwise each node reads for itself;
 * stats.peer_state and LMDBIO_VERBOSE tell. A thread of each rank answers the others. A rank that
 * has been silent for a second while it owed an answer, or that owes one for ten, is passed over
 * for storage until it has answered.
 *
 * lmdbio_loader_close() is not collective, and does not wait. The rank goes on to answer the
 * others, out of memory and a disk's file that it keeps for that, until all have closed theirs.
 * Meanwhile MPI is kept by a session, so that MPI_Finalize does not wait for the others; exit()
 * does afterwards, until they have closed, or ended MPI. A rank that exits without MPI_Finalize
 * ends the job, as ever; one that has MPI by sessions alone does so if its exit status is not 0.
 *   comm     its ranks take part
 *   loader   set to this rank's; NULL after an error
 *   path     as for lmdbio_loader_open(): the same data on all ranks, though each may read a copy
 *   flags    as for lmdbio_loader_open()
 *   name     of the database, NULL: the main one
 *   options  copied; `ranks` and `rank` are not looked at. Seed, batch, order, tail, shares, block,
 *            buffer and resident must be the same on all ranks
 * Collective: yes, over comm.
 * Threads: one thread at a time on a communicator. Of MPI it needs the level that the calling
 * thread has; memory is put together with MPI_THREAD_MULTIPLE alone.
 * Lifetime: the loader is to be closed by lmdbio_loader_close(), by each rank in its own time; the
 * communicator may be freed at once.
 * Returns, the same on all ranks: 0; EINVAL (options that make no sense, or differ between ranks);
 * ESTALE (ranks see different data); ENOTSUP (the program has no liblmdb.so.0 of this lmdbio, or
 * the environment is forwarded to the original); EIO (MPI); or as lmdbio_loader_open(). */
int lmdbio_mpi_loader_open(MPI_Comm comm, struct lmdbio_loader **loader, const char *path,
			   unsigned flags, const char *name,
			   const struct lmdbio_loader_options *options);

#ifdef __cplusplus
}
#endif

#endif
