/* SPDX-License-Identifier: OLDAP-2.8 */
/* Exports the hints of <lmdbio.h>, and the call for a record by its number. */
#include "handles.h"
#include "index/record_index.h"
#include "util/thread.h"

#include <errno.h>
#include <lmdbio.h>
#include <stdlib.h>

/* Checks a hint's handles. Returns 0 and *own, or the error for the program. */
static int hint_check(MDB_txn *txn, MDB_dbi dbi, bool *own)
{
	unsigned flags;
	int rc;

	*own = false;
	if (!txn)
		return EINVAL;
	if (!txn_is_ours(txn))
		return 0; /* the handle of an LMDB that lmdbio leaves alone */
	if (!txn_is_own(txn))
		return txn->env->origin->call.mdb_dbi_flags(txn->orig, dbi, &flags) ? EINVAL : 0;
	if (txn->snapshot.blocked)
		return MDB_BAD_TXN;
	if (!dbi_exists(txn, dbi, TXN_DBI_USER))
		return EINVAL;
	if ((rc = txn_here(txn)))
		return rc == MDB_BAD_TXN ? rc : 0;
	*own = true;
	return 0;
}

/* Returns the tree of a database with its record read, or NULL if there is nothing to read
 * ahead. */
static struct tree *hint_tree(MDB_txn *txn, MDB_dbi dbi)
{
	struct tree *tree = &txn->trees[dbi];

	return txn->env->prefetch && (!tree->stale || !tree_refresh(&txn->snapshot, tree)) ? tree
											   : NULL;
}

EXPORT int lmdbio_prefetch_keys(MDB_txn *txn, MDB_dbi dbi, const MDB_val *keys, size_t n)
{
	UNCANCELLED;
	struct tree *tree;
	bool own;
	int rc = n && !keys ? EINVAL : hint_check(txn, dbi, &own);

	if (rc || !own || !(tree = hint_tree(txn, dbi)))
		return rc;
	/* A hint does not report a lack of memory. */
	(void)prefetch_keys(txn->env->prefetch, &txn->snapshot, tree,
			    &txn->env->slots[dbi].order.key, keys, n);
	return 0;
}

EXPORT int lmdbio_prefetch_range(MDB_txn *txn, MDB_dbi dbi, const MDB_val *first,
				 const MDB_val *last)
{
	UNCANCELLED;
	struct tree *tree;
	bool own;
	int rc = hint_check(txn, dbi, &own);

	if (rc || !own || !(tree = hint_tree(txn, dbi)))
		return rc;
	(void)prefetch_range(txn->env->prefetch, &txn->snapshot, tree,
			     &txn->env->slots[dbi].order.key, first, last);
	return 0;
}

/* Finds the places of records, and the keys of records in a tree of duplicates. */
static size_t places_of(const struct record_index *index, bool duplicates, const uint64_t *numbers,
			size_t n, struct prefetch_place *places)
{
	struct index_place place;
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		if (index_find(index, numbers[i], &place))
			continue;
		places[found++] =
			(struct prefetch_place){place.page, place.entry + place.skip, duplicates};
		if (place.nested)
			places[found++] = (struct prefetch_place){place.owner_page, 0, true};
	}
	return found;
}

EXPORT int lmdbio_prefetch_records(MDB_txn *txn, MDB_dbi dbi, const uint64_t *numbers, size_t n)
{
	UNCANCELLED;
	struct prefetch_place *places;
	struct record_index *index;
	struct tree *tree;
	size_t found;
	bool own;
	int rc = n && !numbers ? EINVAL : hint_check(txn, dbi, &own);

	if (rc || !own || !n || !(tree = hint_tree(txn, dbi)))
		return rc;
	rc = records_take(txn, dbi, &index);
	if (rc)
		return rc;
	places = n < SIZE_MAX / 2 / sizeof(*places) ? malloc(2 * n * sizeof(*places)) : NULL;
	if (places) {
		found = places_of(index, tree->record.flags & MDB_DUPSORT, numbers, n, places);
		(void)prefetch_places(txn->env->prefetch, &txn->snapshot, tree, places, found);
	}
	free(places);
	records_give(txn->env, index);
	return 0;
}

EXPORT int lmdbio_advise(MDB_txn *txn, MDB_dbi dbi, enum lmdbio_advice advice, unsigned stride)
{
	UNCANCELLED;
	static const enum tree_pattern patterns[] = {
		[LMDBIO_NORMAL] = PATTERN_UNKNOWN,
		[LMDBIO_SEQUENTIAL] = PATTERN_SEQUENTIAL,
		[LMDBIO_RANDOM] = PATTERN_RANDOM,
		[LMDBIO_STRIDE] = PATTERN_STRIDE,
	};
	bool own;
	int rc;

	if ((unsigned)advice > LMDBIO_STRIDE || (advice == LMDBIO_STRIDE && !stride))
		return EINVAL;
	rc = hint_check(txn, dbi, &own);
	if (rc || !own)
		return rc;
	txn->trees[dbi].pattern = patterns[advice];
	txn->trees[dbi].stride = advice == LMDBIO_STRIDE ? stride : 1;
	if (advice == LMDBIO_RANDOM && txn->env->stored)
		store_guess(&txn->env->store, GUESS_NOTHING);
	return 0;
}

EXPORT int lmdbio_get_record(MDB_txn *txn, MDB_dbi dbi, uint64_t number, MDB_val *key,
			     MDB_val *data)
{
	UNCANCELLED;
	struct record_index *index;
	struct index_place place;
	int rc;

	if (!txn)
		return EINVAL;
	if (!txn_is_own(txn))
		return ENOTSUP;
	if (txn->snapshot.blocked)
		return MDB_BAD_TXN;
	if (!dbi_exists(txn, dbi, TXN_DBI_USER))
		return EINVAL;
	if ((rc = txn_here(txn)))
		return rc;
	rc = records_take(txn, dbi, &index);
	if (rc)
		return rc;
	rc = index_find(index, number, &place);
	if (!rc)
		rc = index_get(&txn->snapshot, &txn->trees[dbi], &place, key, data);
	records_give(txn->env, index);
	return rc;
}
