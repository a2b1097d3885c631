/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how transactions and database handles are run on both sides. */
#include "operation_txn.h"
#include "db_make.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool begin(struct run *run, unsigned slot, unsigned flags, MDB_txn *const parent[2],
		  int rc[2])
{
	struct txn_pair *txn = &run->txn[slot];
	MDB_txn *made[2] = {NULL, NULL};

	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_txn_begin(
			run->env[side], parent ? parent[side] : NULL, flags, &made[side]);
	if (rc[0] == 0 && rc[1] == 0) {
		memset(txn, 0, sizeof *txn);
		txn->side[0] = made[0];
		txn->side[1] = made[1];
	}
	return run_codes_agree(run, "txn_begin", rc);
}

struct txn_pair *run_txn(struct run *run, unsigned slot, bool *agree)
{
	int rc[2];

	if (run->txn[slot].side[0])
		return &run->txn[slot];
	*agree = begin(run, slot, MDB_RDONLY, NULL, rc);
	if (*agree && rc[0] == 0)
		return &run->txn[slot];
	/* one transaction a thread, without MDB_NOTLS: take that one */
	for (slot = 0; slot < TXN_SLOTS && *agree; slot++)
		if (run->txn[slot].side[0])
			return &run->txn[slot];
	return NULL;
}

static void table_gone(struct run *run, unsigned table)
{
	run->table[table].open = false;
	run->table[table].owner = -1;
	for (int i = 0; i < CURSOR_SLOTS; i++)
		if (run->cursor[i].side[0] && run->cursor[i].table == table)
			run->cursor[i].dead = true;
}

bool txn_end(struct run *run, unsigned slot, enum txn_ending ending)
{
	struct txn_pair *txn = &run->txn[slot];
	int rc[2] = {0, 0};

	if (!txn->side[0])
		return true;
	if (!run_values_stay(run, txn))
		return false;
	for (int side = 0; side < 2; side++) {
		if (ending == TXN_COMMIT)
			rc[side] = run->library[side]->mdb_txn_commit(txn->side[side]);
		else if (ending == TXN_ABORT)
			run->library[side]->mdb_txn_abort(txn->side[side]);
		else
			run->library[side]->mdb_txn_reset(txn->side[side]);
	}
	for (unsigned t = 0; t < run->tables; t++) {
		if (run->table[t].owner != (int)slot)
			continue;
		/* a handle outlives the transaction that opened it only if that commits */
		if (ending == TXN_COMMIT)
			run->table[t].owner = -1;
		else
			table_gone(run, t);
	}
	txn->kept = txn->keep_next = 0;
	txn->reset = true;
	if (ending == TXN_RESET)
		return true;
	memset(txn->side, 0, sizeof txn->side);
	for (int i = 0; i < CURSOR_SLOTS; i++)
		if (run->cursor[i].txn == (int)slot)
			run->cursor[i].txn = -1;
	return run_codes_agree(run, "txn_commit", rc);
}

bool txn_end_all(struct run *run)
{
	for (unsigned slot = 0; slot < TXN_SLOTS; slot++)
		if (!txn_end(run, slot, TXN_ABORT))
			return false;
	return true;
}

MDB_dbi run_dbi(const struct run *run, unsigned table)
{
	/* a closed handle's number may have become another database's */
	for (unsigned t = 0; t < run->tables && !run->table[table].open; t++)
		if (run->table[t].open && run->table[t].dbi == run->table[table].dbi)
			return 1000;
	return run->table[table].dbi;
}

static bool dbi_open(struct run *run, struct txn_pair *txn, const char *name, unsigned flags,
		     MDB_dbi *dbi, int rc[2])
{
	MDB_dbi got[2] = {4444, 4444};

	for (int side = 0; side < 2; side++)
		rc[side] =
			run->library[side]->mdb_dbi_open(txn->side[side], name, flags, &got[side]);
	*dbi = got[0];
	/* a record's key is no name in LMDB 1.0, for want of the NUL byte that ends one */
	if (run->database->later && rc[0] == MDB_INCOMPATIBLE &&
	    (rc[1] == MDB_NOTFOUND || rc[1] == EACCES))
		rc[1] = rc[0];
	if (!run_codes_agree(run, "dbi_open", rc))
		return false;
	if (rc[0] == 0 && got[0] != got[1])
		return run_differs(run, "dbi_open: the original's handle is %u, %s's %u", got[0],
				   run->library[1]->title, got[1]);
	return true;
}

/* The orders that the database was written with: at once after each opening, which has put back
 * LMDB's own (mdb_dbi_open of the main database) or has none of ours yet. */
static bool set_orders(struct run *run, struct txn_pair *txn, MDB_dbi dbi,
		       const struct db_table *plan)
{
	int rc[2];

	for (int side = 0; side < 2 && plan->custom_keys; side++)
		rc[side] =
			run->library[side]->mdb_set_compare(txn->side[side], dbi, db_compare_keys);
	if (plan->custom_keys && !run_codes_agree(run, "set_compare", rc))
		return false;
	for (int side = 0; side < 2 && plan->custom_items; side++)
		rc[side] =
			run->library[side]->mdb_set_dupsort(txn->side[side], dbi, db_compare_items);
	return !plan->custom_items || run_codes_agree(run, "set_dupsort", rc);
}

bool txn_open_table(struct run *run, unsigned slot, unsigned table, unsigned flags)
{
	const struct db_table *plan = &run->database->plan.table[table];
	struct table_state *state = &run->table[table];
	MDB_dbi dbi;
	int rc[2];

	if (!dbi_open(run, &run->txn[slot], plan->is_main ? NULL : plan->name, flags, &dbi, rc))
		return false;
	if (rc[0] != 0)
		return true;
	if (!state->open && !plan->is_main)
		state->owner = (int)slot;
	state->open = true;
	state->dbi = dbi;
	return set_orders(run, &run->txn[slot], dbi, plan);
}

static bool run_dbi_open(struct run *run, const struct read_operation *operation)
{
	static const unsigned extra[] = {
		0, 0, 0, MDB_CREATE, MDB_DUPSORT, MDB_INTEGERKEY | MDB_CREATE, 0x80, 0x100000};
	unsigned table = operation->table % run->tables, flags = extra[operation->variant % 8];
	struct txn_pair *txn;
	char bytes[1060];
	MDB_val key;
	MDB_dbi dbi;
	int rc[2];
	bool agree = true;

	txn = run_txn(run, operation->txn, &agree);
	if (!txn)
		return agree;
	/* lmdb.h: a transaction that uses this function must finish before any other may use it */
	for (unsigned slot = 0; slot < TXN_SLOTS; slot++)
		if (run->txn[slot].side[0] && &run->txn[slot] != txn && !run->txn[slot].reset)
			return true;
	if (run->database->plan.table_count == 0 || operation->variant / 8 % 4 == 0) {
		/* a name that is absent, or a plain record's key */
		if (table >= run->database->plan.table_count ||
		    !run_key(run, table, operation, bytes, &key))
			return dbi_open(run, txn, "absent", flags, &dbi, rc);
		bytes[key.mv_size] = '\0';
		for (unsigned t = 0; t < run->database->plan.table_count; t++)
			if (strcmp(run->database->plan.table[t].name, bytes) == 0)
				return true;
		return dbi_open(run, txn, bytes, flags, &dbi, rc);
	}
	if (table >= run->database->plan.table_count)
		return true;
	/* flags that the main database does not have would turn it into another kind in memory */
	if (run->database->plan.table[table].is_main)
		flags &= ~(unsigned)(MDB_DUPSORT | MDB_INTEGERKEY);
	return txn_open_table(run, (unsigned)(txn - run->txn), table, flags);
}

static bool run_dbi_close(struct run *run, const struct read_operation *operation)
{
	static const MDB_dbi wild[] = {0, 1, 1000, 0x7fffffff, 0xfffffffe};
	unsigned table = run_table(run, operation);

	if (!txn_end_all(run))
		return false;
	for (int side = 0; side < 2; side++)
		run->library[side]->mdb_dbi_close(run->env[side], wild[operation->variant % 5]);
	if (table >= run->database->plan.table_count || run->database->plan.table[table].is_main ||
	    !run->table[table].open || operation->variant % 3 == 0)
		return true;
	for (int side = 0; side < 2; side++)
		run->library[side]->mdb_dbi_close(run->env[side], run->table[table].dbi);
	table_gone(run, table);
	return true;
}

static bool run_dbi_facts(struct run *run, const struct read_operation *operation)
{
	unsigned table = run_table(run, operation), flags[2] = {0, 0};
	MDB_stat stat[2];
	bool agree = true;
	struct txn_pair *txn = run_txn(run, operation->txn, &agree);
	MDB_dbi dbi = operation->variant == 9 ? 500 : run_dbi(run, table);
	int rc[2];

	if (!txn)
		return agree;
	memset(stat, 0, sizeof stat);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_stat(
			txn->side[side], dbi, operation->variant == 8 ? NULL : &stat[side]);
	if (!run_codes_agree(run, "stat", rc))
		return false;
	if (run->database->later)
		stat[1].ms_psize = stat[0].ms_psize;
	if (memcmp(&stat[0], &stat[1], sizeof stat[0]) != 0)
		return run_differs(
			run,
			"stat: the original has %zu entries, depth %u, %zu+%zu+%zu pages, "
			"%s %zu, %u, %zu+%zu+%zu",
			stat[0].ms_entries, stat[0].ms_depth, stat[0].ms_branch_pages,
			stat[0].ms_leaf_pages, stat[0].ms_overflow_pages, run->library[1]->title,
			stat[1].ms_entries, stat[1].ms_depth, stat[1].ms_branch_pages,
			stat[1].ms_leaf_pages, stat[1].ms_overflow_pages);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_dbi_flags(txn->side[side], dbi, &flags[side]);
	if (!run_codes_agree(run, "dbi_flags", rc))
		return false;
	if (flags[0] != flags[1])
		return run_differs(run, "dbi_flags: the original has %#x, %s %#x", flags[0],
				   run->library[1]->title, flags[1]);
	return true;
}

static bool signs_agree(struct run *run, const char *what, const int result[2])
{
	int sign[2] = {(result[0] > 0) - (result[0] < 0), (result[1] > 0) - (result[1] < 0)};

	return run_codes_agree(run, what, sign);
}

/* Only for handles that are open: both functions call what is there without a look. */
static bool run_compare(struct run *run, const struct read_operation *operation)
{
	unsigned table = run_table(run, operation);
	bool free_list = table == run->database->plan.table_count, agree = true;
	const struct sample_set *set = &run->database->set[table];
	const struct sample *sample =
		set->count > 0 ? &set->sample[operation->item_pick % set->count] : NULL;
	char bytes[1060];
	MDB_val value;
	struct txn_pair *txn = run_txn(run, operation->txn, &agree);
	int result[2];

	if (!txn || !sample || !run->table[table].open)
		return agree;
	if (run_key(run, table, operation, bytes, &value) && value.mv_size > 0) {
		for (int side = 0; side < 2; side++)
			result[side] = run->library[side]->mdb_cmp(
				txn->side[side], run->table[table].dbi, &value, &sample->key);
		if (!signs_agree(run, "cmp", result))
			return false;
	}
	if (free_list || !(run->database->plan.table[table].flags & MDB_DUPSORT) ||
	    !sample->item.mv_data)
		return true; /* without MDB_DUPSORT the original calls a NULL pointer */
	if (!run_item(run, table, operation, bytes, &value))
		return true;
	for (int side = 0; side < 2; side++)
		result[side] = run->library[side]->mdb_dcmp(txn->side[side], run->table[table].dbi,
							    &value, &sample->item);
	return signs_agree(run, "dcmp", result);
}

static bool run_write(struct run *run, const struct read_operation *operation)
{
	static const unsigned flags[] = {0, MDB_NOOVERWRITE, MDB_APPEND, MDB_NODUPDATA, 0x4000000};
	MDB_val key = {3, (char[]){"key"}}, data = {4, (char[]){"data"}};
	bool agree = true;
	struct txn_pair *txn = run_txn(run, operation->txn, &agree);
	MDB_dbi dbi = run_dbi(run, run_table(run, operation));
	int rc[2];

	if (!txn)
		return agree;
	for (int side = 0; side < 2; side++) {
		const struct library *library = run->library[side];

		switch (operation->variant % 3) {
		case 0:
			rc[side] = library->mdb_put(txn->side[side], dbi,
						    operation->variant % 7 == 0 ? NULL : &key,
						    &data, flags[operation->variant % 5]);
			break;
		case 1:
			rc[side] = library->mdb_del(txn->side[side], dbi, &key,
						    operation->variant % 2 ? NULL : &data);
			break;
		default:
			rc[side] =
				library->mdb_drop(txn->side[side], dbi, operation->variant / 3 % 3);
			break;
		}
	}
	return run_codes_agree(run,
			       operation->variant % 3 == 0   ? "put"
			       : operation->variant % 3 == 1 ? "del"
							     : "drop",
			       rc);
}

static bool run_begin(struct run *run, const struct read_operation *operation)
{
	struct txn_pair *txn = &run->txn[operation->txn];
	int rc[2];

	if (operation->variant % 4 == 0) /* a write transaction */
		return begin(run, operation->txn, 0, NULL, rc);
	if (txn->side[0]) /* a child of a read transaction */
		return begin(run, operation->txn, operation->variant % 2 ? MDB_RDONLY : 0,
			     txn->side, rc);
	return begin(run, operation->txn, MDB_RDONLY, NULL, rc);
}

static bool run_renew(struct run *run, const struct read_operation *operation)
{
	struct txn_pair *txn = &run->txn[operation->txn];
	int rc[2];

	if (!txn->side[0])
		return true;
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_txn_renew(txn->side[side]);
	if (rc[0] == 0)
		txn->reset = false;
	return run_codes_agree(run, "txn_renew", rc);
}

static bool run_txn_facts(struct run *run, const struct read_operation *operation)
{
	struct txn_pair *txn = &run->txn[operation->txn];
	size_t id[2];

	if (!txn->side[0])
		return true;
	for (int side = 0; side < 2; side++) {
		id[side] = run->library[side]->mdb_txn_id(txn->side[side]);
		if (run->library[side]->mdb_txn_env(txn->side[side]) != run->env[side])
			return run_differs(run, "txn_env: %s's is not the environment",
					   run->library[side]->title);
	}
	if (id[0] != id[1])
		return run_differs(run, "txn_id: the original has %zu, %s %zu", id[0],
				   run->library[1]->title, id[1]);
	return true;
}

bool operation_txn_run(struct run *run, const struct read_operation *operation)
{
	struct txn_pair *txn = &run->txn[operation->txn];

	switch (operation->kind) {
	case OPERATION_TXN_BEGIN:
		return run_begin(run, operation);
	case OPERATION_TXN_RESET:
		return txn_end(run, operation->txn, TXN_RESET);
	case OPERATION_TXN_RENEW:
		return run_renew(run, operation);
	case OPERATION_TXN_COMMIT:
		return txn_end(run, operation->txn, TXN_COMMIT);
	case OPERATION_TXN_ABORT:
		return txn_end(run, operation->txn, TXN_ABORT);
	case OPERATION_TXN_FACTS:
		return run_txn_facts(run, operation);
	case OPERATION_WRITE:
		return run_write(run, operation);
	case OPERATION_DBI_OPEN:
		return run_dbi_open(run, operation);
	case OPERATION_DBI_CLOSE:
		return run_dbi_close(run, operation);
	case OPERATION_DBI_FACTS:
		return run_dbi_facts(run, operation);
	case OPERATION_COMPARE:
		return run_compare(run, operation);
	default: /* OPERATION_VALUES_STAY */
		return !txn->side[0] || run_values_stay(run, txn);
	}
}
