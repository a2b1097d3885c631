/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a key or cursor operation is run on both sides and compared. */
#include "operation_run.h"
#include "original_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What key and data hold before a call, so that "not touched" can be told from "filled". */
static char untouched[16] = "untouched";

bool run_differs(struct run *run, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(run->result->difference, sizeof run->result->difference, format, list);
	va_end(list);
	run->result->differs = true;
	run_say(run, "    DIFFERENT: %s\n", run->result->difference);
	return false;
}

void run_say(struct run *run, const char *format, ...)
{
	va_list list;

	if (!run->sequence->verbose)
		return;
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
}

bool run_left_out(struct run *run, const char *why)
{
	run->result->skipped++;
	run_say(run, "    left out: %s\n", why);
	for (int i = 0; i < CASES_MAX; i++) {
		if (run->result->left_out[i].count == 0)
			snprintf(run->result->left_out[i].name,
				 sizeof run->result->left_out[i].name, "%s", why);
		if (strncmp(run->result->left_out[i].name, why, sizeof "stale-subcursor" - 1) ==
		    0) {
			run->result->left_out[i].count++;
			break;
		}
	}
	return true;
}

bool run_codes_agree(struct run *run, const char *what, const int rc[2])
{
	run_say(run, "    %s: %d\n", what, rc[0]);
	if (rc[0] == rc[1])
		return true;
	return run_differs(run, "%s: the original returns %d, %s %d", what, rc[0],
			   run->library[1]->title, rc[1]);
}

/* --- values ------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const unsigned char *bytes, size_t size)
{
	uint64_t hash = size;

	/* all of a small value, both ends and a comb of a large one */
	for (size_t at = 0; at < size; at += at < 4096 || size - at < 4096 ? 1 : 509)
		hash = (hash ^ bytes[at]) * 0x100000001b3u;
	return hash;
}

void run_keep_value(struct txn_pair *txn, const MDB_val *value)
{
	struct kept_value *kept = &txn->value[txn->keep_next];

	*kept = (struct kept_value){value->mv_data, value->mv_size,
				    hash_bytes(value->mv_data, value->mv_size)};
	txn->keep_next = (txn->keep_next + 1) % VALUES_KEPT;
	if (txn->kept < VALUES_KEPT)
		txn->kept++;
}

bool run_values_stay(struct run *run, struct txn_pair *txn)
{
	for (unsigned i = 0; i < txn->kept; i++) {
		const struct kept_value *kept = &txn->value[i];

		if (hash_bytes(kept->bytes, kept->size) != kept->hash)
			return run_differs(run,
					   "a value of %zu bytes that this transaction was given "
					   "earlier holds other bytes now",
					   kept->size);
	}
	return true;
}

static void print_value(char *text, size_t room, const MDB_val *value)
{
	size_t used = (size_t)snprintf(text, room, "%zu bytes", value->mv_size);

	if (value->mv_data == untouched) {
		snprintf(text, room, "untouched");
		return;
	}
	for (size_t i = 0; i < value->mv_size && i < 24 && used + 4 < room; i++)
		used += (size_t)snprintf(text + used, room - used, "%s%02x", i == 0 ? " " : "",
					 ((const unsigned char *)value->mv_data)[i]);
}

static bool same_bytes(const MDB_val *a, const MDB_val *b)
{
	const char *one = a->mv_data, *other = b->mv_data;

	if (a->mv_size < 65536)
		return a->mv_size == 0 || memcmp(one, other, a->mv_size) == 0;
	if (memcmp(one, other, 16384) != 0 ||
	    memcmp(one + a->mv_size - 16384, other + b->mv_size - 16384, 16384) != 0)
		return false;
	for (size_t at = 16384; at + 64 < a->mv_size; at += 4099)
		if (memcmp(one + at, other + at, 64) != 0)
			return false;
	return true;
}

/* `before` is what both sides were called with. */
static bool values_agree(struct run *run, const char *what, const MDB_val *before,
			 const MDB_val after[2])
{
	bool kept[2] = {after[0].mv_data == before->mv_data, after[1].mv_data == before->mv_data};
	char text[2][120];

	if (run->sequence->verbose) {
		print_value(text[0], sizeof text[0], &after[0]);
		run_say(run, "    %s: %s\n", what, text[0]);
	}
	/* callers of the original can see how a value is aligned, up to a cache line's start; what
	 * another format gives is that format's */
	if (kept[0] == kept[1] && after[0].mv_size == after[1].mv_size &&
	    (kept[0] || (same_bytes(&after[0], &after[1]) &&
			 (after[0].mv_size == 0 || run->database->later ||
			  (size_t)after[0].mv_data % 16 == (size_t)after[1].mv_data % 16))))
		return true;
	print_value(text[0], sizeof text[0], &after[0]);
	print_value(text[1], sizeof text[1], &after[1]);
	return run_differs(run, "%s: the original's %s%s (address %% 16 = %zu), %s's %s%s (%zu)",
			   what, kept[0] ? "is the caller's still: " : "", text[0],
			   (size_t)after[0].mv_data % 16, run->library[1]->title,
			   kept[1] ? "is the caller's still: " : "", text[1],
			   (size_t)after[1].mv_data % 16);
}

/* --- keys and items to ask for ------------------------------------------------------------- */

static const struct sample *pick_sample(const struct run *run, unsigned table, uint32_t pick)
{
	const struct sample_set *set = &run->database->set[table];

	return set->count > 0 ? &set->sample[pick % set->count] : NULL;
}

/* A neighbour of bytes that exist: another byte, one more, one less. */
static size_t alter(char *bytes, size_t size, uint32_t pick, bool same_size)
{
	switch (same_size ? pick % 2 : pick % 4) {
	case 0:
		bytes[pick / 4 % size] = (char)(bytes[pick / 4 % size] + 1);
		return size;
	case 1:
		bytes[size - 1] = (char)(bytes[size - 1] - 1);
		return size;
	case 2:
		bytes[size] = (char)(pick / 4 % 3);
		return size + 1;
	default:
		return size > 1 ? size - 1 : size;
	}
}

static unsigned table_key_bytes(const struct run *run, unsigned table)
{
	if (table == run->database->plan.table_count)
		return 8; /* the free list */
	return run->database->plan.table[table].key_bytes;
}

MDB_val *run_key(const struct run *run, unsigned table, const struct read_operation *operation,
		 char *bytes, MDB_val *key)
{
	const struct sample_set *set = &run->database->set[table];
	const struct sample *sample = pick_sample(run, table, operation->key_pick);
	unsigned fixed = table_key_bytes(run, table), way = operation->key_way;

	if (way == KEY_NULL)
		return NULL;
	if (set->count > 0 && way == KEY_FIRST)
		sample = &set->sample[0];
	if (set->count > 0 && way == KEY_LAST)
		sample = &set->sample[set->count - 1];
	key->mv_data = bytes;
	key->mv_size = fixed ? fixed : 1 + operation->key_pick % 30;
	memset(bytes, way == KEY_HIGHEST || way == KEY_TOO_LONG ? 0xff : (int)operation->key_pick,
	       1024);
	if (way == KEY_LOWEST)
		memset(bytes, 0, 1024);
	/* integer comparators read the size that the database's own keys have, whatever it is here
	 */
	if (way == KEY_TOO_LONG && !fixed)
		key->mv_size = 600;
	if (way == KEY_EMPTY)
		key->mv_size = 0;
	if (way >= KEY_LOWEST || !sample)
		return key;
	key->mv_size = sample->key.mv_size;
	memcpy(bytes, sample->key.mv_data, key->mv_size);
	if (way == KEY_NEAR)
		key->mv_size = alter(bytes, key->mv_size, operation->item_pick, fixed != 0);
	return key;
}

MDB_val *run_item(const struct run *run, unsigned table, const struct read_operation *operation,
		  char *bytes, MDB_val *item)
{
	const struct db_table *plan =
		table < run->database->plan.table_count ? &run->database->plan.table[table] : NULL;
	unsigned fixed = plan && (plan->flags & MDB_INTEGERDUP) ? plan->dup_bytes : 0;
	const struct sample *sample = pick_sample(
		run, table,
		operation->item_way == ITEM_OTHER ? operation->item_pick : operation->key_pick);
	unsigned way = operation->item_way;

	if (way == ITEM_NULL)
		return NULL;
	item->mv_data = bytes;
	item->mv_size = fixed ? fixed : 1 + operation->item_pick % 20;
	memset(bytes,
	       way == ITEM_HIGHEST  ? 0xff
	       : way == ITEM_LOWEST ? 0
				    : (int)operation->item_pick,
	       1040);
	if (way == ITEM_EMPTY && !fixed)
		item->mv_size = 0;
	if (way >= ITEM_LOWEST || !sample || !sample->item.mv_data || sample->item.mv_size == 0)
		return item;
	item->mv_size = sample->item.mv_size;
	memcpy(bytes, sample->item.mv_data, item->mv_size);
	if (way == ITEM_NEAR)
		item->mv_size = alter(bytes, item->mv_size, operation->item_pick, fixed != 0);
	return item;
}

unsigned run_table(const struct run *run, const struct read_operation *operation)
{
	unsigned table, tries;

	/* the free list is asked for rarely, and so are closed handles */
	if (run->tables == 1 || operation->table % 32 == 31)
		return run->tables - 1;
	table = operation->table % (run->tables - 1);
	for (tries = 0; tries < run->tables && !run->table[table].open && operation->variant % 8;
	     tries++)
		table = (table + 1) % run->tables;
	/* beside names of databases, whose keys differ, the main one cannot be compared */
	if (run->database->later && run->tables > 2 && run->database->plan.table[table].is_main)
		table = 1;
	return table;
}

/* --- operations ----------------------------------------------------------------------------- */

static bool run_get(struct run *run, const struct read_operation *operation)
{
	unsigned table = run_table(run, operation);
	MDB_val key, before[2] = {{0, NULL}, {77, untouched}}, keys[2], items[2];
	char bytes[1040];
	bool agree = true,
	     no_data = operation->item_way == ITEM_NULL && operation->variant % 8 == 0;
	MDB_val *wanted = run_key(run, table, operation, bytes, &key);
	struct txn_pair *txn = run_txn(run, operation->txn, &agree);
	int rc[2];

	if (!txn)
		return agree;
	before[0] = key;
	for (int side = 0; side < 2; side++) {
		keys[side] = wanted ? key : (MDB_val){0, NULL};
		items[side] = before[1];
		rc[side] = run->library[side]->mdb_get(txn->side[side], run_dbi(run, table),
						       wanted ? &keys[side] : NULL,
						       no_data ? NULL : &items[side]);
	}
	if (!run_codes_agree(run, "get", rc))
		return false;
	if (rc[0] != 0 && !run->sequence->strict)
		return true;
	if (wanted && !values_agree(run, "key", &before[0], keys))
		return false;
	if (!values_agree(run, "data", &before[1], items))
		return false;
	if (rc[0] == 0 && operation->variant % 4 == 0)
		run_keep_value(txn, &items[1]);
	return true;
}

static struct cursor_pair *open_cursor(struct run *run, const struct read_operation *operation,
				       bool *agree)
{
	struct cursor_pair *cursor = &run->cursor[operation->cursor];
	unsigned table = run_table(run, operation);
	struct txn_pair *txn = run_txn(run, operation->txn, agree);
	int rc[2];

	if (!txn)
		return NULL;
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_cursor_open(txn->side[side], run_dbi(run, table),
							       &cursor->side[side]);
	*agree = run_codes_agree(run, "cursor_open", rc);
	if (!*agree || rc[0] != 0) {
		cursor->side[0] = cursor->side[1] = NULL;
		return NULL;
	}
	cursor->txn = (int)(txn - run->txn);
	cursor->table = table;
	cursor->dbi = run_dbi(run, table);
	cursor->dead = cursor->prepared = false;
	return cursor;
}

/* The slot's cursor if it may be used, opened if the slot is empty. */
static struct cursor_pair *usable_cursor(struct run *run, const struct read_operation *operation,
					 bool *agree)
{
	struct cursor_pair *cursor = &run->cursor[operation->cursor];

	*agree = true;
	if (!cursor->side[0])
		return open_cursor(run, operation, agree);
	return cursor->txn >= 0 && !cursor->dead ? cursor : NULL;
}

static bool reads_item(unsigned op)
{
	return op == MDB_GET_BOTH || op == MDB_GET_BOTH_RANGE;
}

static bool run_cursor_get_once(struct run *run, const struct read_operation *operation)
{
	MDB_cursor_op op = (MDB_cursor_op)operation->cursor_op;
	MDB_val before[2], keys[2], items[2], *key, *item;
	char key_bytes[1040], item_bytes[1056];
	struct cursor_pair *cursor;
	const char *forbidden;
	bool agree, fresh;
	int rc[2];

	cursor = usable_cursor(run, operation, &agree);
	if (!cursor)
		return agree;
	before[0] = before[1] = (MDB_val){77, untouched};
	key = run_key(run, cursor->table, operation, key_bytes, &before[0]);
	item = run_item(run, cursor->table, operation, item_bytes, &before[1]);
	if (item && !reads_item(op))
		*item = (MDB_val){78, untouched};
	forbidden = original_state_forbids(cursor->side[0], op, item == NULL, cursor->prepared);
	if (forbidden)
		return run_left_out(run, forbidden);
	fresh = !original_state_positioned(cursor->side[0]);
	for (int side = 0; side < 2; side++) {
		keys[side] = before[0];
		items[side] = before[1];
		rc[side] = run->library[side]->mdb_cursor_get(cursor->side[side],
							      key ? &keys[side] : NULL,
							      item ? &items[side] : NULL, op);
	}
	cursor->prepared = original_state_prepared(cursor->prepared, op, fresh, item == NULL,
						   key && before[0].mv_size == 0, rc[0]);
	run->last_code = rc[0];
	if (!run_codes_agree(run, cursor_op_name(op), rc))
		return false;
	if (rc[0] != 0 && !run->sequence->strict)
		return true;
	if ((key && !values_agree(run, "key", &before[0], keys)) ||
	    (item && !values_agree(run, "data", &before[1], items)))
		return false;
	if (rc[0] == 0 && item && operation->variant % 4 == 0 && items[0].mv_data != untouched)
		run_keep_value(&run->txn[cursor->txn], &items[1]);
	if (rc[0] == 0 && key && keys[1].mv_data != before[0].mv_data &&
	    operation->variant % 8 == 1)
		run_keep_value(&run->txn[cursor->txn], &keys[1]);
	return true;
}

static bool run_cursor_get(struct run *run, const struct read_operation *operation)
{
	unsigned left = operation_repeats(operation);

	do {
		run->last_code = -1; /* nothing done: no cursor, or left out */
		if (!run_cursor_get_once(run, operation))
			return false;
	} while (--left > 0 && run->last_code == 0);
	return true;
}

static bool run_cursor_count(struct run *run, const struct read_operation *operation)
{
	bool agree;
	struct cursor_pair *cursor = usable_cursor(run, operation, &agree);
	size_t count[2] = {7777, 7777};
	const char *forbidden;
	int rc[2];

	if (!cursor)
		return agree;
	forbidden = original_state_forbids_count(cursor->side[0]);
	if (forbidden)
		return run_left_out(run, forbidden);
	for (int side = 0; side < 2; side++)
		rc[side] = run->library[side]->mdb_cursor_count(
			cursor->side[side], operation->variant == 3 ? NULL : &count[side]);
	if (!run_codes_agree(run, "cursor_count", rc))
		return false;
	if (count[0] != count[1])
		return run_differs(run, "cursor_count: the original counts %zu, %s %zu", count[0],
				   run->library[1]->title, count[1]);
	return true;
}

static bool run_cursor_close(struct run *run, const struct read_operation *operation)
{
	struct cursor_pair *cursor = &run->cursor[operation->cursor];

	for (int side = 0; side < 2 && cursor->side[0]; side++)
		run->library[side]->mdb_cursor_close(cursor->side[side]);
	cursor->side[0] = cursor->side[1] = NULL;
	return true;
}

static bool run_cursor_renew(struct run *run, const struct read_operation *operation)
{
	struct cursor_pair *cursor = &run->cursor[operation->cursor];
	struct txn_pair *txn;
	bool agree = true;
	int rc[2];

	if (!cursor->side[0])
		return true;
	txn = run_txn(run, operation->txn, &agree);
	if (!txn)
		return agree;
	/* its dbi may be another database's by now: the original would trust its old sub-cursor */
	for (unsigned t = 0; t < run->tables; t++)
		if (run->table[t].open && run->table[t].dbi == cursor->dbi && t != cursor->table)
			return run_left_out(run, "dbi-of-another");
	for (int side = 0; side < 2; side++)
		rc[side] =
			run->library[side]->mdb_cursor_renew(txn->side[side], cursor->side[side]);
	if (rc[0] == 0 && rc[1] == 0) {
		cursor->txn = (int)(txn - run->txn);
		cursor->dead = !run->table[cursor->table].open;
		cursor->prepared = false;
	}
	return run_codes_agree(run, "cursor_renew", rc);
}

static bool run_cursor_facts(struct run *run, const struct read_operation *operation)
{
	bool agree, same[2];
	struct cursor_pair *cursor = usable_cursor(run, operation, &agree);
	MDB_dbi dbi[2];

	if (!cursor)
		return agree;
	for (int side = 0; side < 2; side++) {
		dbi[side] = run->library[side]->mdb_cursor_dbi(cursor->side[side]);
		same[side] = run->library[side]->mdb_cursor_txn(cursor->side[side]) ==
			     run->txn[cursor->txn].side[side];
	}
	if (dbi[0] != dbi[1])
		return run_differs(run, "cursor_dbi: the original has %u, %s %u", dbi[0],
				   run->library[1]->title, dbi[1]);
	if (!same[1])
		return run_differs(run,
				   "cursor_txn: %s's is not the transaction that it was made in",
				   run->library[1]->title);
	return true;
}

static bool run_cursor_write(struct run *run, const struct read_operation *operation)
{
	static const unsigned flags[] = {0, MDB_NOOVERWRITE, MDB_CURRENT, MDB_APPEND,
					 MDB_NODUPDATA};
	bool agree, put = operation->variant % 2 == 0;
	struct cursor_pair *cursor = usable_cursor(run, operation, &agree);
	MDB_val key = {3, (char[]){"key"}}, data = {4, (char[]){"data"}};
	int rc[2];

	if (!cursor)
		return agree;
	for (int side = 0; side < 2; side++)
		rc[side] = put ? run->library[side]->mdb_cursor_put(
					 cursor->side[side],
					 operation->variant % 16 == 0 ? NULL : &key, &data,
					 flags[operation->variant / 16 % 5])
			       : run->library[side]->mdb_cursor_del(
					 cursor->side[side],
					 operation->variant % 4 == 1 ? MDB_NODUPDATA : 0);
	return run_codes_agree(run, put ? "cursor_put" : "cursor_del", rc);
}

static bool operation_run(struct run *run, const struct read_operation *operation)
{
	bool agree = true;

	switch (operation->kind) {
	case OPERATION_CURSOR_GET:
		return run_cursor_get(run, operation);
	case OPERATION_GET:
		return run_get(run, operation);
	case OPERATION_CURSOR_COUNT:
		return run_cursor_count(run, operation);
	case OPERATION_CURSOR_OPEN:
		run_cursor_close(run, operation);
		open_cursor(run, operation, &agree);
		return agree;
	case OPERATION_CURSOR_CLOSE:
		return run_cursor_close(run, operation);
	case OPERATION_CURSOR_RENEW:
		return run_cursor_renew(run, operation);
	case OPERATION_CURSOR_FACTS:
		return run_cursor_facts(run, operation);
	case OPERATION_CURSOR_WRITE:
		return run_cursor_write(run, operation);
	default:
		return operation_env_run(run, operation);
	}
}

bool sequence_run(const struct sequence *sequence, const struct read_operation *operations,
		  unsigned count, struct sequence_result *result)
{
	static struct run run;
	char text[300];

	memset(&run, 0, sizeof run);
	run.sequence = sequence;
	run.database = sequence->database;
	run.library[0] = &library_original;
	run.library[1] = sequence->ours;
	run.result = result;
	run.tables = sequence->database->plan.table_count + 1;
	if (!run_open(&run))
		return false;
	for (result->at = 0; result->at < count; result->at++) {
		if (sequence->verbose) {
			operation_describe(&operations[result->at], text, sizeof text);
			run_say(&run, "  %4u %s\n", result->at, text);
		}
		if (!operation_run(&run, &operations[result->at]))
			return false;
		result->done++;
	}
	return run_close(&run);
}
