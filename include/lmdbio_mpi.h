/* SPDX-License-Identifier: OLDAP-2.8 */
/* lmdbio_mpi.h - the functions of lmdbio for jobs of many ranks that act together.
 *
 * The functions are in liblmdbio-mpi.so.0 (pkg-config: lmdbio-mpi). Functions that take a
 * communicator are collective over it. They make a communicator of their own from it, on which
 * errors are returned, and return the same code on all ranks. No function starts or ends MPI.
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
 * options say. Each rank reads one contiguous share in few large requests, and sends other nodes
 * the bytes that they need over MPI. A copy in a directory gets its final name when all of it is on
 * the disk on all nodes; before that, and after any error, no file has that name. If all nodes
 * already have the copy, no rank reads the file. Ranks are of one node if they run on one machine
 * and in the same namespaces of network and process ids; if MPICH makes several nodes of a machine
 * (MPIR_CVAR_NUM_CLIQUES), MPI_COMM_TYPE_SHARED decides.
 *   comm     its ranks take part, and share the reading
 *   path     an environment's directory, its data file, or a container (data.mdb.zst); the same
 *            file on all ranks
 *   options  see struct lmdbio_stage_options; NULL: EINVAL
 * Collective: yes, over comm.
 * Threads: one thread at a time on a communicator; the function needs no higher thread level of MPI
 * than the calling thread does.
 * Lifetime: nothing of the arguments is kept.
 * Returns, the same on all ranks: 0; EINVAL (options); MDB_INVALID, MDB_VERSION_MISMATCH (not a
 * data file); ESTALE (the file changed meanwhile, or ranks see different files); MDB_CORRUPTED (a
 * container that is damaged); ENOMEM (no room for buffers, or the budget of a node is less than the
 * data); EBUSY (another process has kept part of a node's memory to itself for a minute); ENOSPC,
 * EDQUOT, EROFS, EACCES (the target); EIO (storage or MPI); another errno of a file operation; the
 * return code of the progress function. */
int lmdbio_mpi_stage(MPI_Comm comm, const char *path, const struct lmdbio_stage_options *options);

/* Releases the node's memory.
 * Collective: no.
 * Threads: any, once for each hold.
 * Lifetime: the hold is gone.
 * Returns: nothing. */
void lmdbio_mpi_stage_release(struct lmdbio_stage_hold *hold);

/* --- the record index ------------------------------------------------------------------------ */

/* The place of each record of a database, known to every rank. A record is what one step of
 * MDB_NEXT returns; records are numbered from 0 in the order of the cursor, as for
 * lmdbio_get_record(). */
struct lmdbio_mpi_index;

/* Numbers the records of a database. Rank 0 reads the branch pages of its tree, and each rank a
 * share of the leaf pages. No rank reads values outside of the tree.
 *   comm      its ranks take part
 *   path      an environment's directory, its data file, or a container: the same data on all
 *             ranks, as for lmdbio_mpi_loader_open()
 *   database  its name; NULL: the main one
 *   index     set to the index; NULL after an error
 * Collective: yes, over comm.
 * Threads: as lmdbio_mpi_stage().
 * Lifetime: the index is the caller's, until lmdbio_mpi_index_close(). The index belongs to the
 * snapshot that was the newest during the call, and does not change.
 * Returns, the same on all ranks: 0; EINVAL; MDB_NOTFOUND (no such database); ESTALE (ranks see
 * different data, or the file has changed meanwhile: then call again); ENOTSUP (lmdbio is
 * disabled); MDB_CORRUPTED, MDB_PAGE_NOTFOUND (a page is not sound, or the database has another
 * number of records than it says); ENOMEM; another errno or code of mdb_env_open() or of a read;
 * EIO (MPI). */
int lmdbio_mpi_index_open(MPI_Comm comm, const char *path, const char *database,
			  struct lmdbio_mpi_index **index);

/* Frees the index. NULL does nothing.
 * Collective: no. Threads: any, once. Lifetime: the index is gone. Returns: nothing. */
void lmdbio_mpi_index_close(struct lmdbio_mpi_index *index);

/* Returns the number of records in the index.
 * Collective: no. Threads: any. Lifetime: nothing is handed out. Returns: the number. */
uint64_t lmdbio_mpi_index_records(const struct lmdbio_mpi_index *index);

/* Returns the id of the transaction whose snapshot the index describes.
 * Collective: no. Threads: any. Lifetime: nothing is handed out. Returns: the id. */
uint64_t lmdbio_mpi_index_snapshot(const struct lmdbio_mpi_index *index);

/* The place of a record. Later versions add fields at the end. */
struct lmdbio_record_place {
	uint64_t size;       /* bytes; set to sizeof(struct lmdbio_record_place) before the call */
	uint64_t page;       /* number of the leaf page in the data file */
	uint64_t node;       /* the node in that page, from 0 */
	uint64_t skip;       /* with duplicates: number of the record, from that node's first on */
	uint64_t nested;     /* 1: a page of a tree of duplicates, whose key is in: */
	uint64_t owner_page;
	uint64_t owner_node;
};

/* Finds a record, in O(log(leaf pages)), without reading anything.
 *   index   the index
 *   number  of the record, from 0
 *   place   filled, at most place->size bytes
 * Collective: no.
 * Threads: any.
 * Lifetime: place is the caller's.
 * Returns: 0; MDB_NOTFOUND (no record has this number); EINVAL (place->size is less than that of
 * the field `size`). */
int lmdbio_mpi_index_find(const struct lmdbio_mpi_index *index, uint64_t number,
			  struct lmdbio_record_place *place);

/* --- the batch loader ------------------------------------------------------------------------ */

/* Opens a loader of <lmdbio.h> on each rank of a job, over one database, which each rank opens in
 * an environment of its own. The communicator decides each rank's share of the batches, and which
 * ranks share a node (as for lmdbio_mpi_stage()). All other calls on the loader are those of
 * <lmdbio.h>.
 *
 * If the ranks are on several nodes and MPI was begun with MPI_THREAD_MULTIPLE, the nodes keep the
 * records for each other. Each record has a home at one node, in the node's memory (LMDBIO_MEMORY)
 * or on its local disk (options.stage_dir, the same directory on all ranks of a node). The home
 * reads the record from storage, once; further copies fill the remaining room. So the job reads
 * storage once if its nodes' memory and disks together hold the database. The ranks read a record
 * without a home, or of a disk that has failed, from storage whenever they need it. Otherwise each
 * node reads for itself; stats.peer_state and LMDBIO_VERBOSE say so. A thread of each rank answers
 * the other ranks. If a rank owes an answer and has been silent for a second, or owes the answer
 * for ten seconds, the others read storage instead until it has answered.
 *
 * lmdbio_loader_close() is not collective, and does not wait. The rank goes on to answer the other
 * ranks, from memory and a disk's file that it keeps for that, until all have closed their loaders.
 * MPI_Finalize does not wait for that, because a session of lmdbio keeps MPI alive. exit() waits
 * afterwards, until the other ranks have closed their loaders or ended MPI. A rank that exits
 * without MPI_Finalize ends the job, as it does without lmdbio; so does a rank that uses MPI only
 * by sessions and exits with a status other than 0.
 *   comm     its ranks take part
 *   loader   set to this rank's; NULL after an error
 *   path     as for lmdbio_loader_open(): the same data on all ranks, though each may read a copy.
 *            If the ranks open neither one file nor staged copies of one file, each rank reads
 *            1,024 pieces of 4 KiB of its file, and the ranks compare these. They compare
 *            containers by checksums
 *   flags    as for lmdbio_loader_open()
 *   name     of the database, NULL: the main one
 *   options  copied; `ranks` and `rank` are ignored. Seed, batch, order, tail, shares, block,
 *            buffer and resident must be the same on all ranks
 * Collective: yes, over comm.
 * Threads: one thread at a time on a communicator. The function needs no higher thread level of MPI
 * than the calling thread does; the nodes keep records for each other only with
 * MPI_THREAD_MULTIPLE.
 * Lifetime: each rank closes its loader by lmdbio_loader_close(), in its own time; the caller may
 * free the communicator at once.
 * Returns, the same on all ranks: 0; EINVAL (options that make no sense, or differ between ranks);
 * ESTALE (ranks see different data, or the file has changed meanwhile: then call again); ENOTSUP
 * (the program has no liblmdb.so.0 of this lmdbio, or the environment is forwarded to the
 * original); EIO (MPI); or as lmdbio_loader_open(). */
int lmdbio_mpi_loader_open(MPI_Comm comm, struct lmdbio_loader **loader, const char *path,
			   unsigned flags, const char *name,
			   const struct lmdbio_loader_options *options);

#ifdef __cplusplus
}
#endif

#endif
