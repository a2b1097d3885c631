/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compares the data that the ranks of a job have opened, step by step, as far as their files
 * differ.
 *
 * Two data sets of one shape can agree in all that LMDB records of them: size, transaction, meta
 * pages and branch pages. Only the file's own identity tells them apart, or the values do. */
#include "config.h"
#include "mpi/mpi_same.h"

#include "container/container.h"
#include "mpi/mpi_wait.h"
#include "util/hash.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum {
	PIECES = 1024, /* so that other values in 0.5 % of the pages escape 6 times in 1,000 */
	PIECE = 4096,  /* bytes */
};

/* What byte copies of a data set agree on. */
struct seen {
	struct identity content; /* content form */
	uint64_t root, entries;  /* of the tree */
	uint64_t page_size;      /* bytes */
	uint64_t root_hash;      /* XXH3-64 of the root page; 0: the tree is empty */
};

/* The kinds of files that a rank may have opened. */
enum kind { PLAIN, PACKED, KINDS };

static int seen_take(const MDB_txn *txn, const struct tree *tree, struct seen *seen)
{
	struct snapshot snapshot = txn->snapshot;
	const uint8_t *page;
	int rc = 0;

	*seen = (struct seen){
		.content = identity_content(&txn->identity),
		.root = tree->record.root,
		.entries = tree->record.entries,
		.page_size = snapshot.page_size,
	};
	/* The keys in the root page are seldom those of another data set. */
	if (tree->record.root < snapshot.view.limit) {
		rc = window_pages(&snapshot.view, tree->record.root, 1, &page);
		if (!rc)
			seen->root_hash = hash_bytes(page, snapshot.page_size);
	}
	return rc;
}

/* Returns the identity of the file that the program has named: a staged copy's seal vouches that
 * the copy has that file's bytes. */
static struct identity file_of(const MDB_txn *txn)
{
	return identity_job(txn->env->staged ? &txn->env->original : &txn->identity);
}

/* The pieces of the data that are hashed. */
struct sample {
	uint64_t first, size; /* bytes of the file: behind the meta pages, and all */
	uint64_t all, count;  /* pieces: of the data, and hashed */
};

static struct sample sample_of(const MDB_txn *txn)
{
	struct sample sample = {
		.first = FORMAT_METAS * (uint64_t)txn->snapshot.page_size,
		.size = txn->identity.size,
	};
	uint64_t bytes = sample.size > sample.first ? sample.size - sample.first : 0;

	sample.all = bytes / PIECE + (bytes % PIECE != 0);
	sample.count = sample.all < PIECES ? sample.all : PIECES;
	return sample;
}

/* Returns where the i-th piece begins: at a random place of its part of the data, the same on all
 * ranks. Pieces at even distances could meet the same page of each value. */
static uint64_t piece_at(const struct sample *sample, uint64_t i)
{
	uint64_t from = sample->all * i / sample->count,
		 end = sample->all * (i + 1) / sample->count;

	return sample->first + (from + hash_bytes(&i, sizeof(i)) % (end - from)) * PIECE;
}

static int piece_read(const MDB_env *env, void *piece, size_t length, uint64_t offset)
{
	size_t done;
	int rc;

	if (!env->packed)
		return whole_read(env->data, piece, length, offset, ESTALE);
	rc = io_read(&env->packed->data, piece, length, offset, &done);
	return rc ? container_code(rc) : done == length ? 0 : MDB_CORRUPTED;
}

/* Hashes a sample of the data, or all of it if it is small; no meta pages, because a container has
 * others than its data file. */
static int sample_hash(const MDB_txn *txn, uint64_t *hash)
{
	const MDB_env *env = txn->env;
	struct sample sample = sample_of(txn);
	uint8_t piece[PIECE];
	struct stat st;

	*hash = 0;
	/* The kernel reads the pieces at the same time: cold ones in a sixth of the time on an SSD. */
	for (uint64_t i = 0; i < sample.count && !env->packed; i++)
		(void)posix_fadvise(env->data, (off_t)piece_at(&sample, i), PIECE,
				    POSIX_FADV_WILLNEED);
	for (uint64_t i = 0; i < sample.count; i++) {
		uint64_t at = piece_at(&sample, i), left = sample.size - at;
		size_t length = left < PIECE ? (size_t)left : PIECE;
		int rc = piece_read(env, piece, length, at);

		if (rc)
			return rc;
		*hash = hash_seeded(piece, length, *hash);
	}
	/* A file that another one's bytes have overwritten shows these to all ranks by now, but
	 * a rank that opened it before may have kept some of the older bytes. */
	if (fstat(env->packed ? env->packed->fd : env->data, &st))
		return errno;
	return identity_holds(&txn->identity, &st) ? 0 : ESTALE;
}

/* Returns 0 if all ranks have the same bytes in `mine`, ESTALE, or EIO. */
static int all_same(MPI_Comm comm, const void *mine, size_t size)
{
	return mpi_agree(comm, mpi_same(comm, mine, size, ESTALE), NULL);
}

/* Whether any rank has a file of a kind. */
static int kinds_find(MPI_Comm comm, const MDB_txn *txn, int any[KINDS])
{
	int mine[KINDS] = {[PLAIN] = !txn->env->packed, [PACKED] = txn->env->packed != NULL};
	int rc = mpi_allreduce(mine, any, KINDS, MPI_INT, MPI_MAX, comm);

	return mpi_agree(comm, rc == MPI_SUCCESS ? 0 : EIO, NULL);
}

/* Whether all containers have the same chunks. The content hash covers the hashes of all of them. */
static int same_chunks(MPI_Comm comm, const struct packed *packed)
{
	const struct container_info *info = container_info(&packed->data);
	uint64_t mine[] = {info->content_hash, info->chunk_size};

	return all_same(comm, mine, sizeof(mine));
}

/* Compares the data of files that are not the same file in the same state. */
static int same_copies(MPI_Comm comm, const MDB_txn *txn)
{
	uint64_t hash;
	int any[KINDS], rc = kinds_find(comm, txn, any);

	if (!rc && !any[PACKED])
		rc = all_same(comm, &txn->identity.metas, sizeof(txn->identity.metas));
	if (rc)
		return rc;
	if (!any[PLAIN] && (rc = same_chunks(comm, txn->env->packed)) != ESTALE)
		return rc;
	rc = mpi_agree(comm, sample_hash(txn, &hash), NULL);
	return rc ? rc : all_same(comm, &hash, sizeof(hash));
}

int mpi_same_data(MPI_Comm comm, const MDB_txn *txn, const struct tree *tree)
{
	struct identity file = file_of(txn);
	struct seen seen;
	int rc = mpi_agree(comm, seen_take(txn, tree, &seen), NULL);

	if (!rc)
		rc = all_same(comm, &seen, sizeof(seen));
	if (rc)
		return rc;
	rc = all_same(comm, &file, sizeof(file));
	return rc == ESTALE ? same_copies(comm, txn) : rc;
}
