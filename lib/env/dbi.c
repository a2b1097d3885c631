/* SPDX-License-Identifier: OLDAP-2.8 */
/* Database handles: how long a handle is valid, and for which transactions.
 *
 * As in LMDB, a handle belongs to the transaction that opened it until the commit, then to the
 * environment. A transaction that ends in any other way closes its new handles. Comparators belong
 * to the environment's slot and take effect at once. The program must keep LMDB's rule that one
 * transaction at a time opens handles; any number may begin and end meanwhile.
 */
#include "env/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void tree_begin(MDB_txn *txn, MDB_dbi dbi)
{
	struct dbi_slot *slot = &txn->env->slots[dbi];

	struct tree_record record = txn->trees[dbi].record;

	/* The counts stay: if the database is gone by now, the original's mdb_stat() gives the
	 * counts that a renewed transaction saw before. */
	record.flags = slot->flags & DBI_PERSISTENT;
	record.root = PAGE_NONE;
	txn->trees[dbi] = (struct tree){
		.record = record,
		.stale = TREE_STALE,
		.name = &slot->name,
		.home = &txn->trees[DBI_MAIN],
		.home_order = &txn->env->slots[DBI_MAIN].order.key,
	};
}

static void main_order(MDB_txn *txn)
{
	struct dbi_slot *slot = &txn->env->slots[DBI_MAIN];
	struct comparators order;

	comparators_default(&order, txn->trees[DBI_MAIN].record.flags);
	pthread_mutex_lock(&txn->env->records_lock);
	/* An order that is right already stays untouched: other transactions may be comparing by
	 * it. */
	if (!slot->ordered || !comparators_equal(&slot->order, &order))
		slot->order = order;
	slot->ordered = true;
	pthread_mutex_unlock(&txn->env->records_lock);
}

/* Sets the order for a program that uses the main database's handle without opening it. Of
 * transactions that begin at the same time, the first sets it. */
static void main_order_first(MDB_txn *txn)
{
	struct dbi_slot *slot = &txn->env->slots[DBI_MAIN];

	pthread_mutex_lock(&txn->env->records_lock);
	if (!slot->ordered)
		comparators_default(&slot->order, txn->trees[DBI_MAIN].record.flags);
	slot->ordered = true;
	pthread_mutex_unlock(&txn->env->records_lock);
}

void dbi_begin(MDB_txn *txn)
{
	MDB_env *env = txn->env;

	txn->dbis = env->dbis;
	txn->dbi_state[DBI_FREE] = TXN_DBI_VALID;
	txn->dbi_state[DBI_MAIN] = TXN_DBI_VALID | TXN_DBI_USER;
	for (MDB_dbi i = DBI_CORE; i < txn->dbis; i++) {
		tree_begin(txn, i);
		txn->dbi_state[i] =
			env->slots[i].flags & DBI_OPEN ? TXN_DBI_VALID | TXN_DBI_USER : 0;
	}
	if (!env->slots[DBI_MAIN].ordered)
		main_order_first(txn);
}

static void slot_clear(struct dbi_slot *slot)
{
	free(slot->name.mv_data);
	slot->name = (MDB_val){0};
	slot->flags = 0;
}

void dbi_end(MDB_txn *txn, bool keep)
{
	MDB_env *env = txn->env;

	for (MDB_dbi i = DBI_CORE; i < txn->dbis; i++) {
		if (!(txn->dbi_state[i] & TXN_DBI_NEW))
			continue;
		if (keep)
			env->slots[i].flags = txn->trees[i].record.flags | DBI_OPEN;
		else
			slot_clear(&env->slots[i]);
	}
	if (keep && env->dbis < txn->dbis)
		env->dbis = txn->dbis;
	if (txn->dbis_most < txn->dbis)
		txn->dbis_most = txn->dbis;
	txn->dbis = 0;
}

static int dbi_open_main(MDB_txn *txn, unsigned flags, MDB_dbi *dbi)
{
	txn->trees[DBI_MAIN].record.flags |= flags & DBI_PERSISTENT;
	main_order(txn);
	*dbi = DBI_MAIN;
	return 0;
}

/* Finds the slot of a name that is open already, else the first free one. Returns whether it is
 * open. */
static bool slot_find(const MDB_txn *txn, const MDB_val *name, MDB_dbi *found)
{
	*found = txn->dbis;
	for (MDB_dbi i = DBI_CORE; i < txn->dbis; i++) {
		const MDB_val *open = &txn->env->slots[i].name;

		if (!open->mv_size) {
			if (*found == txn->dbis)
				*found = i;
		} else if (open->mv_size == name->mv_size &&
			   !memcmp(open->mv_data, name->mv_data, name->mv_size)) {
			*found = i;
			return true;
		}
	}
	return false;
}

static MDB_val name_of(const MDB_txn *txn, const char *text)
{
	return (MDB_val){.mv_size = strlen(text) + snapshot_layout(&txn->snapshot)->name_end,
			 .mv_data = (void *)(uintptr_t)text};
}

/* Finds the record of a named database in the main database. */
static int named_find(MDB_txn *txn, const MDB_val *name, unsigned flags, struct tree_record *record)
{
	struct tree *home = &txn->trees[DBI_MAIN];
	int rc;

	/* A main database with these flags cannot hold named databases. */
	if (home->record.flags & (MDB_DUPSORT | MDB_INTEGERKEY))
		return flags & MDB_CREATE ? MDB_INCOMPATIBLE : MDB_NOTFOUND;
	rc = tree_find_named(&txn->snapshot, home, &txn->env->slots[DBI_MAIN].order.key, name,
			     record);
	return rc == MDB_NOTFOUND && flags & MDB_CREATE ? env_read_only(txn->env) : rc;
}

int dbi_find(MDB_txn *txn, const char *text, struct tree *tree, MDB_val *name)
{
	struct tree_record record;
	int rc;

	if (!text) {
		*tree = txn->trees[DBI_MAIN];
		return 0;
	}
	*name = name_of(txn, text);
	rc = named_find(txn, name, 0, &record);
	if (!rc)
		*tree = (struct tree){.record = record};
	return rc;
}

int dbi_open(MDB_txn *txn, const char *text, unsigned flags, MDB_dbi *dbi)
{
	const unsigned known = MDB_REVERSEKEY | MDB_DUPSORT | MDB_INTEGERKEY | MDB_DUPFIXED |
			       MDB_INTEGERDUP | MDB_REVERSEDUP | MDB_CREATE;
	struct tree_record record;
	struct dbi_slot *slot;
	MDB_val name;
	MDB_dbi found;
	int rc;

	if (flags & ~known)
		return EINVAL;
	if (txn->snapshot.blocked)
		return MDB_BAD_TXN;
	if (!text)
		return dbi_open_main(txn, flags, dbi);
	name = name_of(txn, text);
	if (slot_find(txn, &name, &found)) {
		*dbi = found;
		return 0;
	}
	if (found >= txn->env->maxdbs)
		return MDB_DBS_FULL;
	rc = named_find(txn, &name, flags, &record);
	if (rc)
		return rc;
	slot = &txn->env->slots[found];
	slot->name.mv_data = strdup(text);
	if (!slot->name.mv_data)
		return ENOMEM;
	slot->name.mv_size = name.mv_size;
	comparators_default(&slot->order, record.flags);
	tree_begin(txn, found);
	txn->trees[found].record = record;
	txn->trees[found].stale = TREE_KNOWN;
	/* slot->flags change with the commit: until then the handle is the transaction's. */
	txn->dbi_state[found] = TXN_DBI_NEW | TXN_DBI_VALID | TXN_DBI_USER;
	if (found == txn->dbis)
		txn->dbis++;
	*dbi = found;
	return 0;
}

void dbi_close(MDB_env *env, MDB_dbi dbi)
{
	if (dbi >= DBI_CORE && dbi < env->maxdbs && env->slots[dbi].name.mv_data)
		slot_clear(&env->slots[dbi]);
}

void dbi_free_all(MDB_env *env)
{
	for (MDB_dbi i = DBI_CORE; i < env->maxdbs; i++)
		free(env->slots[i].name.mv_data);
	free(env->slots);
}
