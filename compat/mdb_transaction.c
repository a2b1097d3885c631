/* SPDX-License-Identifier: OLDAP-2.8 */
/* The exported calls on transactions and database handles. */
#include "handles.h"

#include <errno.h>

EXPORT int mdb_txn_begin(MDB_env *env, MDB_txn *parent, unsigned int flags, MDB_txn **txn)
{
	return env_is_ours(env) ? txn_begin(env, parent, flags, txn)
				: caller_origin(CALLER)->call.mdb_txn_begin(env, parent, flags, txn);
}

EXPORT MDB_env *mdb_txn_env(MDB_txn *txn)
{
	return txn_is_ours(txn) ? txn->env : caller_origin(CALLER)->call.mdb_txn_env(txn);
}

EXPORT size_t mdb_txn_id(MDB_txn *txn)
{
	return txn_is_own(txn) ? txn->id : txn_origin(txn, CALLER)->call.mdb_txn_id(txn_orig(txn));
}

EXPORT int mdb_txn_commit(MDB_txn *txn)
{
	if (txn_is_ours(txn))
		return txn_commit(txn);
	return origin_leave(origin_enter(caller_origin(CALLER))->call.mdb_txn_commit(txn));
}

EXPORT void mdb_txn_abort(MDB_txn *txn)
{
	if (txn_is_ours(txn))
		txn_abort(txn);
	else
		caller_origin(CALLER)->call.mdb_txn_abort(txn);
}

EXPORT void mdb_txn_reset(MDB_txn *txn)
{
	if (txn_is_ours(txn))
		txn_reset(txn);
	else
		caller_origin(CALLER)->call.mdb_txn_reset(txn);
}

EXPORT int mdb_txn_renew(MDB_txn *txn)
{
	return txn_is_ours(txn) ? txn_renew(txn) : caller_origin(CALLER)->call.mdb_txn_renew(txn);
}

EXPORT int mdb_dbi_open(MDB_txn *txn, const char *name, unsigned int flags, MDB_dbi *dbi)
{
	int rc;

	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_dbi_open(txn_orig(txn), name, flags, dbi);
	return (rc = txn_here(txn)) ? rc : dbi_open(txn, name, flags, dbi);
}

EXPORT void mdb_dbi_close(MDB_env *env, MDB_dbi dbi)
{
	if (env_is_ours(env) && env->mode == ENV_OWN)
		dbi_close(env, dbi);
	else
		env_origin(env, CALLER)->call.mdb_dbi_close(env_orig(env), dbi);
}

EXPORT int mdb_dbi_flags(MDB_txn *txn, MDB_dbi dbi, unsigned int *flags)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_dbi_flags(txn_orig(txn), dbi, flags);
	if (!dbi_exists(txn, dbi, TXN_DBI_USER))
		return EINVAL;
	*flags = txn->trees[dbi].record.flags & DBI_PERSISTENT;
	return 0;
}

EXPORT int mdb_stat(MDB_txn *txn, MDB_dbi dbi, MDB_stat *stat)
{
	const struct tree_record *record;
	int rc;

	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_stat(txn_orig(txn), dbi, stat);
	if (!stat || !dbi_exists(txn, dbi, TXN_DBI_VALID))
		return EINVAL;
	if ((rc = txn_here(txn)))
		return rc;
	if (txn->snapshot.blocked)
		return MDB_BAD_TXN;
	/* Like the original: a dropped database shows as an empty one. */
	if (txn->trees[dbi].stale)
		(void)tree_refresh(&txn->snapshot, &txn->trees[dbi]);
	record = &txn->trees[dbi].record;
	stat->ms_psize = txn->snapshot.page_size;
	stat->ms_depth = record->depth;
	stat->ms_branch_pages = record->branch_pages;
	stat->ms_leaf_pages = record->leaf_pages;
	stat->ms_overflow_pages = record->overflow_pages;
	stat->ms_entries = record->entries;
	return 0;
}

EXPORT int mdb_drop(MDB_txn *txn, MDB_dbi dbi, int del)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_drop(txn_orig(txn), dbi, del);
	if ((unsigned)del > 1 || !dbi_exists(txn, dbi, TXN_DBI_USER))
		return EINVAL;
	return env_read_only(txn->env);
}

static int set_order(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *function, bool of_data)
{
	struct comparators *order, wanted;

	if (!dbi_exists(txn, dbi, TXN_DBI_USER))
		return EINVAL;
	order = &txn->env->slots[dbi].order;
	if (function)
		wanted.key = wanted.data = (struct comparator){COMPARE_CUSTOM, function};
	else /* as LMDB does for the main database, when the program opens a name */
		comparators_default(&wanted, txn->trees[dbi].record.flags);
	if (of_data)
		order->data = wanted.data;
	else
		order->key = wanted.key;
	return 0;
}

EXPORT int mdb_set_compare(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_set_compare(txn_orig(txn), dbi, cmp);
	return set_order(txn, dbi, cmp, false);
}

EXPORT int mdb_set_dupsort(MDB_txn *txn, MDB_dbi dbi, MDB_cmp_func *cmp)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_set_dupsort(txn_orig(txn), dbi, cmp);
	return set_order(txn, dbi, cmp, true);
}

/* LMDB 0.9 stores these two functions and never uses them. */
EXPORT int mdb_set_relfunc(MDB_txn *txn, MDB_dbi dbi, MDB_rel_func *rel)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_set_relfunc(txn_orig(txn), dbi, rel);
	return dbi_exists(txn, dbi, TXN_DBI_USER) ? 0 : EINVAL;
}

EXPORT int mdb_set_relctx(MDB_txn *txn, MDB_dbi dbi, void *ctx)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_set_relctx(txn_orig(txn), dbi, ctx);
	return dbi_exists(txn, dbi, TXN_DBI_USER) ? 0 : EINVAL;
}

EXPORT int mdb_cmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b)
{
	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_cmp(txn_orig(txn), dbi, a, b);
	return compare(&txn->env->slots[dbi].order.key, a, b);
}

EXPORT int mdb_dcmp(MDB_txn *txn, MDB_dbi dbi, const MDB_val *a, const MDB_val *b)
{
	struct comparator order;

	if (!txn_is_own(txn))
		return txn_origin(txn, CALLER)->call.mdb_dcmp(txn_orig(txn), dbi, a, b);
	order = txn->env->slots[dbi].order.data;
	if (order.kind == COMPARE_UINT && a->mv_size == 8)
		order.kind = COMPARE_ULONG;
	return compare(&order, a, b);
}
