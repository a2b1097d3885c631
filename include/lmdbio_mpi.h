/* lmdbio_mpi.h - what lmdbio does for jobs of many ranks that act together.
 *
 * The functions stand in liblmdbio-mpi.so.0 (pkg-config: lmdbio-mpi). They are collective: each
 * works on a communicator of its own that it makes of the caller's, with errors returned, and ends
 * with the same return code on all ranks. They never start or end MPI.
 */
#ifndef LMDBIO_MPI_H
#define LMDBIO_MPI_H

#include <lmdbio_stage.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a data set's file from storage, each byte once by the job as a whole, and puts it where the
 * options say. Each rank reads one contiguous share in few large requests; what other nodes need
 * goes to them over MPI. A copy in a directory gets its final name when all of it is on the disk on
 * all nodes; before that, and after any error, there is nothing under that name. Where all nodes
 * have the copy already nothing is read. A node is what MPI_COMM_TYPE_SHARED says.
 *   comm     its ranks take part, and share the reading
 *   path     an environment's directory, its data file, or a container (data.mdb.zst); the same
 *            file on all ranks
 *   options  see there; NULL: EINVAL
 * Collective: yes, over comm.
 * Threads: one thread at a time on a communicator; of MPI it needs the level that the calling
 * thread has.
 * Lifetime: nothing of the arguments is kept.
 * Returns, the same on all ranks: 0; EINVAL (options); MDB_INVALID, MDB_VERSION_MISMATCH (not a
 * data file); ESTALE (the file changed meanwhile, or ranks see different files); ENOTSUP (a
 * container into memory); ENOMEM (no room for buffers, or the budget of a node is less than the
 * file); ENOSPC, EDQUOT, EROFS, EACCES (the target); EIO (storage or MPI); another errno of a file
 * operation; what the progress function has returned. */
int lmdbio_mpi_stage(MPI_Comm comm, const char *path, const struct lmdbio_stage_options *options);

/* Lets go of the node's memory.
 * Collective: no.
 * Threads: any, once for each hold.
 * Lifetime: the hold is gone.
 * Returns: nothing. */
void lmdbio_mpi_stage_release(struct lmdbio_stage_hold *hold);

#ifdef __cplusplus
}
#endif

#endif
