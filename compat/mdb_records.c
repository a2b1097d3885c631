/* SPDX-License-Identifier: OLDAP-2.8 */
/* The exported calls that read and write records. */
#include "handles.h"

#include <errno.h>
#include <stdlib.h>

/* All code but that for a hit is in functions of its own, to which that code jumps, so that a hit
 * saves no registers. */
#define APART __attribute__((cold, noinline)) static

APART int get_elsewhere(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, const void *caller)
{
	return txn_origin(txn, caller)->call.mdb_get(txn_orig(txn), dbi, key, data);
}

/* What mdb_get() calls once it knows the pages' layout. */
typedef int tree_get_fn(struct snapshot *snapshot, struct tree *tree,
			const struct comparators *comparators, const MDB_val *key, MDB_val *data);

static inline __attribute__((always_inline)) int get_by(tree_get_fn *get, MDB_txn *txn,
							MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	if (unlikely(txn->snapshot.blocked))
		return MDB_BAD_TXN;
	return get(&txn->snapshot, &txn->trees[dbi], &txn->env->slots[dbi].order, key, data);
}

APART int get_adopted(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	int rc = txn_adopt(txn);

	return rc ? rc : get_by(tree_get, txn, dbi, key, data);
}

static inline __attribute__((always_inline)) int get_own(tree_get_fn *get, MDB_txn *txn,
							 MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	if (!key || !data || !dbi_exists(txn, dbi, TXN_DBI_USER))
		return EINVAL;
	if (unlikely(!txn_is_here(txn)))
		return get_adopted(txn, dbi, key, data);
	return get_by(get, txn, dbi, key, data);
}

EXPORT int mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	if (txn_is_own_0_9(txn))
		return get_own(tree_get_0_9, txn, dbi, key, data);
	if (txn_is_own_1_0(txn))
		return get_own(tree_get_1_0, txn, dbi, key, data);
	return get_elsewhere(txn, dbi, key, data, CALLER);
}

/* Returns the original's codes for writing in a read-only environment. */
static int refuse_write(const MDB_txn *txn, MDB_dbi dbi, const MDB_val *key)
{
	return !key || !dbi_exists(txn, dbi, TXN_DBI_USER) ? EINVAL : env_read_only(txn->env);
}

EXPORT int mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned int flags)
{
	const unsigned known = MDB_NOOVERWRITE | MDB_NODUPDATA | MDB_RESERVE | MDB_APPEND |
			       MDB_APPENDDUP;

	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_put(txn_orig(txn), dbi, key, data, flags);
	return !data || flags & ~known ? EINVAL : refuse_write(txn, dbi, key);
}

EXPORT int mdb_del(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_del(txn_orig(txn), dbi, key, data);
	return refuse_write(txn, dbi, key);
}

static int cursor_open_forwarded(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **ret)
{
	MDB_cursor *cursor = calloc(1, sizeof(*cursor));
	int rc;

	if (!cursor)
		return ENOMEM;
	cursor->origin = txn->env->origin;
	rc = cursor->origin->call.mdb_cursor_open(txn->orig, dbi, &cursor->orig);
	if (rc) {
		free(cursor);
		return rc;
	}
	cursor->kind = HANDLE_FORWARDED;
	cursor->txn = txn;
	if (txn->writes) {
		/* The original closes the cursor with the transaction. */
		cursor->next = txn->cursors;
		cursor->link = &txn->cursors;
		if (cursor->next)
			cursor->next->link = &cursor->next;
		txn->cursors = cursor;
	}
	*ret = cursor;
	return 0;
}

EXPORT int mdb_cursor_open(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **ret)
{
	bool dups;
	MDB_cursor *cursor;
	int rc;

	if (!txn_is_own(txn))
		return txn_is_ours(txn) && ret
			       ? cursor_open_forwarded(txn, dbi, ret)
			       : txn_origin(txn, CALLER)
					 ->call.mdb_cursor_open(txn_orig(txn), dbi, ret);
	if (!ret || !dbi_exists(txn, dbi, TXN_DBI_VALID))
		return EINVAL;
	if ((rc = txn_here(txn)))
		return rc;
	if (txn->snapshot.blocked)
		return MDB_BAD_TXN;
	dups = txn->trees[dbi].record.flags & MDB_DUPSORT;
	cursor = malloc(sizeof(*cursor) + (dups ? sizeof(struct duplicates) : 0));
	if (!cursor)
		return ENOMEM;
	cursor->names = txn->env->for_later.origin && dbi == DBI_MAIN;
	/* mdb_cursor_get() then checks whether the cursor has come to a name. */
	cursor->kind = cursor->names ? HANDLE_OWN_NAMES : txn->kind;
	cursor->txn = txn;
	cursor->orig = NULL;
	cursor->link = NULL;
	cursor->dbi = dbi;
	cursor_init(&cursor->cursor, &txn->snapshot, &txn->trees[dbi], &txn->env->slots[dbi].order,
		    cursor->duplicates);
	*ret = cursor;
	return 0;
}

EXPORT void mdb_cursor_close(MDB_cursor *cursor)
{
	if (!cursor_is_ours(cursor)) {
		caller_origin(CALLER)->call.mdb_cursor_close(cursor);
		return;
	}
	if (cursor->link) {
		*cursor->link = cursor->next;
		if (cursor->next)
			cursor->next->link = cursor->link;
	}
	if (cursor->orig)
		cursor->origin->call.mdb_cursor_close(cursor->orig);
	else
		cursor_end(&cursor->cursor);
	handle_end(&cursor->kind);
	free(cursor);
}

EXPORT int mdb_cursor_renew(MDB_txn *txn, MDB_cursor *cursor)
{
	int rc;

	if (!txn_is_ours(txn) && !cursor_is_ours(cursor))
		return caller_origin(CALLER)->call.mdb_cursor_renew(txn, cursor);
	if (!txn_is_ours(txn) || !cursor_is_ours(cursor) ||
	    txn_is_own(txn) != cursor_is_own(cursor))
		return EINVAL;
	if (!txn_is_own(txn)) {
		rc = txn->env->origin->call.mdb_cursor_renew(txn->orig, cursor->orig);
		if (!rc)
			cursor->txn = txn;
		return rc;
	}
	if (!dbi_exists(txn, cursor->dbi, TXN_DBI_VALID))
		return EINVAL;
	if ((rc = txn_here(txn)))
		return rc;
	if (txn->snapshot.blocked)
		return MDB_BAD_TXN;
	/* The cursor got room for duplicates, or none, when it was opened. */
	if (txn->trees[cursor->dbi].record.flags & MDB_DUPSORT && !cursor->cursor.duplicates)
		return MDB_INCOMPATIBLE;
	cursor_end(&cursor->cursor);
	cursor->txn = txn;
	if (!cursor->names)
		cursor->kind = txn->kind; /* its pages may have another layout */
	cursor_init(&cursor->cursor, &txn->snapshot, &txn->trees[cursor->dbi],
		    &txn->env->slots[cursor->dbi].order, cursor->cursor.duplicates);
	return 0;
}

EXPORT MDB_txn *mdb_cursor_txn(MDB_cursor *cursor)
{
	MDB_txn *txn, *orig;

	if (!cursor_is_ours(cursor))
		return caller_origin(CALLER)->call.mdb_cursor_txn(cursor);
	/* A reader's cursor may outlive its transaction; then only the address is left. */
	if (cursor_is_own(cursor) || !cursor->link)
		return cursor->txn;
	/* The original lends a parent's cursor to the nested transaction that is active. */
	orig = cursor->origin->call.mdb_cursor_txn(cursor->orig);
	txn = cursor->txn;
	while (txn->orig != orig && txn->child)
		txn = txn->child;
	return txn;
}

EXPORT MDB_dbi mdb_cursor_dbi(MDB_cursor *cursor)
{
	return cursor_is_own(cursor)
		       ? cursor->dbi
		       : cursor_origin(cursor, CALLER)->call.mdb_cursor_dbi(cursor_orig(cursor));
}

APART int cursor_get_elsewhere(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op,
			       const void *caller)
{
	int rc;

	if (cursor_is_own(cursor)) {
		rc = txn_here(cursor->txn);
		if (!rc)
			rc = cursor_get(&cursor->cursor, key, data, op);
		/* These four operations do not change the program's key. */
		if (cursor->names && !rc && op != MDB_SET && op != MDB_GET_BOTH &&
		    op != MDB_GET_BOTH_RANGE && op != MDB_GET_MULTIPLE)
			rc = for_later_name(cursor, key);
		return rc;
	}
	return cursor_origin(cursor, caller)
		->call.mdb_cursor_get(cursor_orig(cursor), key, data, op);
}

APART int cursor_get_adopted(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	int rc = txn_adopt(cursor->txn);

	return rc ? rc : cursor_get(&cursor->cursor, key, data, op);
}

/* What mdb_cursor_get() calls once it knows the pages' layout. */
typedef int cursor_get_fn(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);

static inline __attribute__((always_inline)) int cursor_get_own(cursor_get_fn *get,
								MDB_cursor *cursor, MDB_val *key,
								MDB_val *data, MDB_cursor_op op)
{
	if (unlikely(!txn_is_here(cursor->txn)))
		return cursor_get_adopted(cursor, key, data, op);
	return get(&cursor->cursor, key, data, op);
}

EXPORT int mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	if (cursor_is_own_0_9(cursor))
		return cursor_get_own(cursor_get_0_9, cursor, key, data, op);
	if (cursor_is_own_1_0(cursor))
		return cursor_get_own(cursor_get_1_0, cursor, key, data, op);
	return cursor_get_elsewhere(cursor, key, data, op, CALLER);
}

EXPORT int mdb_cursor_put(MDB_cursor *cursor, MDB_val *key, MDB_val *data, unsigned int flags)
{
	if (!cursor_is_own(cursor))
		return cursor_origin(cursor, CALLER)
			->call.mdb_cursor_put(cursor_orig(cursor), key, data, flags);
	if (!key)
		return EINVAL;
	if (flags & MDB_MULTIPLE) {
		if (cursor->txn->env->for_later.origin && !data[1].mv_size)
			return EINVAL;
		data[1].mv_size = 0; /* the number of items written */
		if (!(cursor->cursor.tree->record.flags & MDB_DUPFIXED))
			return MDB_INCOMPATIBLE;
	}
	return env_read_only(cursor->txn->env);
}

EXPORT int mdb_cursor_del(MDB_cursor *cursor, unsigned int flags)
{
	return cursor_is_own(cursor) ? env_read_only(cursor->txn->env)
				     : cursor_origin(cursor, CALLER)
					       ->call.mdb_cursor_del(cursor_orig(cursor), flags);
}

EXPORT int mdb_cursor_count(MDB_cursor *cursor, size_t *count)
{
	int rc;

	if (!cursor_is_own(cursor))
		return cursor_origin(cursor, CALLER)
			->call.mdb_cursor_count(cursor_orig(cursor), count);
	if (!count)
		return EINVAL;
	if ((rc = txn_here(cursor->txn)))
		return rc;
	return cursor_count(&cursor->cursor, count);
}
