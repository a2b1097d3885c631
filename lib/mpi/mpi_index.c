/* SPDX-License-Identifier: OLDAP-2.8 */
/* Sends the parts of an index from rank to rank, in their order. */
#include "config.h"
#include "mpi/mpi_index.h"

#include "mpi/rank_shares.h"
#include "mpi/mpi_error.h"
#include "env/staged.h"
#include "mpi/mpi_same.h"
#include "mpi/mpi_wait.h"

#include <errno.h>
#include <lmdbio_mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The most bytes of one message. Longer data goes in several. */
enum { PIECE = 1 << 22 };

struct lmdbio_mpi_index {
	struct record_index *index;
	uint64_t snapshot;
};

/* The sizes of one rank's part. */
struct part_size {
	uint64_t leaves, owners, records;
};

static int broadcast(MPI_Comm comm, void *bytes, uint64_t length, int from)
{
	uint8_t *at = bytes;
	int rc = MPI_SUCCESS;

	for (uint64_t n; length > 0 && rc == MPI_SUCCESS; length -= n, at += n) {
		n = length < PIECE ? length : PIECE;
		rc = mpi_bcast(at, (int)n, MPI_BYTE, from, comm);
	}
	return mpi_error_code(rc);
}

/* Reads the numbers of all leaf pages in rank 0, and sends them to all ranks. The code is
 * agreed. */
static int share_leaves(MPI_Comm comm, int rank, const struct snapshot *snapshot, const struct tree *tree,
			uint64_t **pages, uint64_t *count)
{
	size_t n = 0;
	int rc = 0;

	*pages = NULL;
	if (!rank)
		rc = index_leaves(snapshot, tree, 0, pages, &n);
	rc = mpi_agree(comm, rc, NULL);
	if (rc)
		return rc;
	*count = n;
	rc = broadcast(comm, count, sizeof(*count), 0);
	if (!rc && rank && *count && !(*pages = malloc(*count * sizeof(**pages))))
		rc = ENOMEM;
	rc = mpi_agree(comm, rc, NULL);
	if (!rc)
		rc = broadcast(comm, *pages, *count * sizeof(**pages), 0);
	return mpi_agree(comm, rc, NULL);
}

static int parts_allocate(struct index_part *parts, const struct part_size *sizes, int ranks, int rank)
{
	for (int i = 0; i < ranks; i++) {
		if (i == rank)
			continue;
		parts[i].count = parts[i].room = sizes[i].leaves;
		parts[i].owner_count = parts[i].owner_room = sizes[i].owners;
		parts[i].records = sizes[i].records;
		parts[i].leaves = malloc(sizes[i].leaves * sizeof(*parts[i].leaves) + 1);
		parts[i].owners = malloc(sizes[i].owners * sizeof(*parts[i].owners) + 1);
		if (!parts[i].leaves || !parts[i].owners)
			return ENOMEM;
	}
	return 0;
}

/* Sends each rank's part to all ranks. Numbers begin at 0 in each part; index_join() adds the
 * records before a part, which is the exclusive scan. */
static int share_parts(MPI_Comm comm, struct index_part *parts, int ranks, int rank)
{
	struct part_size mine = {parts[rank].count, parts[rank].owner_count, parts[rank].records};
	struct part_size *sizes = malloc((size_t)ranks * sizeof(*sizes));
	int rc = mpi_agree(comm, sizes ? 0 : ENOMEM, NULL);

	if (rc)
		goto done;
	rc = mpi_error_code(mpi_allgather(&mine, sizes, sizeof(mine), MPI_BYTE, ranks, comm));
	if (!rc)
		rc = parts_allocate(parts, sizes, ranks, rank);
	rc = mpi_agree(comm, rc, NULL);
	for (int i = 0; i < ranks && !rc; i++) {
		rc = broadcast(comm, parts[i].leaves, parts[i].count * sizeof(*parts[i].leaves), i);
		if (!rc)
			rc = broadcast(comm, parts[i].owners,
				       parts[i].owner_count * sizeof(*parts[i].owners), i);
	}
done:
	free(sizes);
	return mpi_agree(comm, rc, NULL);
}

/* Deals the leaves out: *firsts, malloc'ed, says which leaves each rank counts. The code is
 * agreed. */
static int leaves_deal(MPI_Comm comm, const struct index_kept *kept, uint64_t count, int ranks,
		       uint64_t **firsts)
{
	uint64_t *can = malloc((size_t)ranks * sizeof(*can)), mine = count;
	int rc;

	*firsts = malloc(((size_t)ranks + 1) * sizeof(**firsts));
	rc = mpi_agree(comm, can && *firsts ? 0 : ENOMEM, NULL);
	if (kept && kept->room < kept->needed)
		mine = (uint64_t)((unsigned __int128)count * kept->room / kept->needed);
	if (!rc)
		rc = mpi_agree(comm,
			       mpi_error_code(mpi_allgather(&mine, can, 1, MPI_UINT64_T, ranks, comm)),
			       NULL);
	if (!rc)
		index_share(count, can, ranks, *firsts);
	free(can);
	return rc;
}

/* Sets which records each rank has counted, and keeps this rank's part. */
static void kept_take(struct index_kept *kept, struct index_part *parts, uint64_t *firsts,
		      int ranks, int rank)
{
	firsts[0] = 0;
	for (int i = 0; i < ranks; i++)
		firsts[i + 1] = firsts[i] + parts[i].records;
	kept->firsts = firsts;
	kept->part = parts[rank];
	parts[rank] = (struct index_part){0};
}

void index_kept_free(struct index_kept *kept)
{
	free(kept->firsts);
	kept->firsts = NULL;
	index_part_free(&kept->part);
}

int mpi_index_build(MPI_Comm comm, const struct snapshot *snapshot, const struct tree *tree,
		    struct index_kept *kept, struct record_index **index)
{
	struct index_part *parts = NULL;
	uint64_t *pages = NULL, *firsts = NULL, count = 0, first, end;
	int ranks = 0, rank = 0, rc = mpi_error_code(MPI_Comm_rank(comm, &rank));

	if (!rc)
		rc = mpi_error_code(MPI_Comm_size(comm, &ranks));
	if (!rc && !(parts = calloc((size_t)ranks, sizeof(*parts))))
		rc = ENOMEM;
	rc = mpi_agree(comm, rc, NULL);
	if (!rc)
		rc = share_leaves(comm, rank, snapshot, tree, &pages, &count);
	if (!rc)
		rc = leaves_deal(comm, kept, count, ranks, &firsts);
	if (rc)
		goto done;
	first = firsts[rank];
	end = firsts[rank + 1];
	rc = index_count(snapshot, tree, 0, pages ? pages + first : NULL, end - first,
			 kept ? kept->shelf : NULL, &parts[rank]);
	rc = mpi_agree(comm, rc, NULL);
	if (!rc)
		rc = share_parts(comm, parts, ranks, rank);
	if (!rc)
		rc = index_join(index, tree, parts, (size_t)ranks);
	rc = mpi_agree(comm, rc, NULL);
	if (!rc && kept) {
		kept_take(kept, parts, firsts, ranks, rank);
		firsts = NULL;
	}
done:
	for (int i = 0; parts && i < ranks; i++)
		index_part_free(&parts[i]);
	free(parts);
	free(firsts);
	free(pages);
	return rc;
}

/* Opens the database of the newest snapshot, as this rank sees it. */
static int transaction_open(const char *path, const char *database, MDB_env **env, MDB_txn **txn,
			    struct tree *tree)
{
	/* Without a lock file, so that the program may have the environment open itself. */
	unsigned flags = MDB_RDONLY | MDB_NOTLS | MDB_NOLOCK;
	struct stat st;
	MDB_val name;
	int rc = env_create(env);

	if (rc) {
		*env = NULL;
		return rc;
	}
	if (!stat(path, &st) && !S_ISDIR(st.st_mode))
		flags |= MDB_NOSUBDIR;
	rc = env_open(*env, path, flags, 0664);
	if (!rc && (*env)->mode != ENV_OWN)
		rc = ENOTSUP;
	if (!rc)
		rc = txn_begin(*env, NULL, MDB_RDONLY, txn);
	if (!rc)
		rc = dbi_find(*txn, database, tree, &name);
	return rc;
}

/* Without a reader's slot, the pages of a snapshot are only safe until the next commit. */
static int still_newest(const MDB_env *env, const MDB_txn *txn)
{
	struct staged_original now;
	int rc;

	if (env->packed)
		return 0;
	rc = staged_identify(env->data, &now);
	return rc ? rc : now.identity.snapshot == txn->id ? 0 : ESTALE;
}

__attribute__((visibility("default"))) int
lmdbio_mpi_index_open(MPI_Comm comm, const char *path, const char *database,
		      struct lmdbio_mpi_index **ret)
{
	struct lmdbio_mpi_index *index = calloc(1, sizeof(*index));
	MPI_Comm own = MPI_COMM_NULL;
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	struct tree tree;
	int rc;

	if (mpi_comm_dup(comm, &own) != MPI_SUCCESS) {
		free(index);
		return EIO;
	}
	rc = !index ? ENOMEM : path && ret ? 0 : EINVAL;
	if (!rc)
		rc = transaction_open(path, database, &env, &txn, &tree);
	rc = mpi_agree(own, rc, NULL);
	if (!rc)
		rc = mpi_same_data(own, txn, &tree);
	if (!rc)
		rc = mpi_index_build(own, &txn->snapshot, &tree, NULL, &index->index);
	if (!rc)
		index->snapshot = txn->id;
	if (txn) /* changes by a writer may have looked like damage */
		rc = still_newest(env, txn) == ESTALE ? ESTALE : rc;
	rc = mpi_agree(own, rc, NULL);
	if (txn)
		txn_abort(txn);
	env_close(env);
	MPI_Comm_free(&own);
	if (rc) {
		lmdbio_mpi_index_close(index);
		index = NULL;
	}
	if (ret)
		*ret = index;
	return rc;
}

__attribute__((visibility("default"))) void lmdbio_mpi_index_close(struct lmdbio_mpi_index *index)
{
	if (!index)
		return;
	index_free(index->index);
	free(index);
}

__attribute__((visibility("default"))) uint64_t
lmdbio_mpi_index_records(const struct lmdbio_mpi_index *index)
{
	return index_records(index->index);
}

__attribute__((visibility("default"))) uint64_t
lmdbio_mpi_index_snapshot(const struct lmdbio_mpi_index *index)
{
	return index->snapshot;
}

__attribute__((visibility("default"))) int
lmdbio_mpi_index_find(const struct lmdbio_mpi_index *index, uint64_t number,
		      struct lmdbio_record_place *place)
{
	struct lmdbio_record_place filled = {0};
	struct index_place found;
	int rc;

	if (place->size < sizeof(place->size))
		return EINVAL;
	rc = index_find(index->index, number, &found);
	if (rc)
		return rc;
	filled = (struct lmdbio_record_place){
		.size = place->size < sizeof(filled) ? place->size : sizeof(filled),
		.page = found.page,
		.node = found.entry,
		.skip = found.skip,
		.nested = found.nested,
		.owner_page = found.nested ? found.owner_page : 0,
		.owner_node = found.nested ? found.owner_entry : 0,
	};
	memcpy(place, &filled, filled.size);
	return 0;
}
