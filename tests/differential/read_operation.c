/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how often each kind of operation is drawn, and what it is called. */
#include "read_operation.h"

#include <lmdb.h>
#include <stdio.h>

static const struct {
	const char *name;
	unsigned weight; /* of 10,000 or so */
} kinds[OPERATION_KINDS] = {
	[OPERATION_CURSOR_GET] = {"cursor_get", 7800},
	[OPERATION_GET] = {"get", 900},
	[OPERATION_CURSOR_COUNT] = {"cursor_count", 350},
	[OPERATION_CURSOR_OPEN] = {"cursor_open", 80},
	[OPERATION_CURSOR_CLOSE] = {"cursor_close", 30},
	[OPERATION_CURSOR_RENEW] = {"cursor_renew", 60},
	[OPERATION_CURSOR_FACTS] = {"cursor_txn, cursor_dbi", 30},
	[OPERATION_CURSOR_WRITE] = {"cursor_put, cursor_del", 30},
	[OPERATION_TXN_BEGIN] = {"txn_begin", 40},
	[OPERATION_TXN_RESET] = {"txn_reset", 20},
	[OPERATION_TXN_RENEW] = {"txn_renew", 200},
	[OPERATION_TXN_COMMIT] = {"txn_commit", 15},
	[OPERATION_TXN_ABORT] = {"txn_abort", 15},
	[OPERATION_TXN_FACTS] = {"txn_id, txn_env", 30},
	[OPERATION_WRITE] = {"put, del, drop", 40},
	[OPERATION_DBI_OPEN] = {"dbi_open", 60},
	[OPERATION_DBI_CLOSE] = {"dbi_close", 10},
	[OPERATION_DBI_FACTS] = {"stat, dbi_flags", 80},
	[OPERATION_COMPARE] = {"cmp, dcmp", 150},
	[OPERATION_VALUES_STAY] = {"values stay", 20},
	[OPERATION_ENV_FACTS] = {"env facts", 40},
	[OPERATION_ENV_SET] = {"env settings", 20},
	[OPERATION_ENV_MAPSIZE] = {"env_set_mapsize", 5},
	[OPERATION_ENV_COPY] = {"env_copy", 3},
};

static const struct {
	const char *name;
	unsigned weight;
} cursor_ops[] = {
	[MDB_FIRST] = {"FIRST", 3},
	[MDB_FIRST_DUP] = {"FIRST_DUP", 4},
	[MDB_GET_BOTH] = {"GET_BOTH", 6},
	[MDB_GET_BOTH_RANGE] = {"GET_BOTH_RANGE", 6},
	[MDB_GET_CURRENT] = {"GET_CURRENT", 10},
	[MDB_GET_MULTIPLE] = {"GET_MULTIPLE", 4},
	[MDB_LAST] = {"LAST", 3},
	[MDB_LAST_DUP] = {"LAST_DUP", 4},
	[MDB_NEXT] = {"NEXT", 13},
	[MDB_NEXT_DUP] = {"NEXT_DUP", 6},
	[MDB_NEXT_MULTIPLE] = {"NEXT_MULTIPLE", 4},
	[MDB_NEXT_NODUP] = {"NEXT_NODUP", 5},
	[MDB_PREV] = {"PREV", 12},
	[MDB_PREV_DUP] = {"PREV_DUP", 6},
	[MDB_PREV_NODUP] = {"PREV_NODUP", 5},
	[MDB_SET] = {"SET", 8},
	[MDB_SET_KEY] = {"SET_KEY", 8},
	[MDB_SET_RANGE] = {"SET_RANGE", 9},
	[MDB_PREV_MULTIPLE] = {"PREV_MULTIPLE", 4},
	[MDB_PREV_MULTIPLE + 1] = {"no such operation", 1},
};

static const struct {
	const char *name;
	unsigned weight;
} key_ways[KEY_WAYS] = {
	[KEY_EXISTING] = {"an existing key", 60},
	[KEY_NEAR] = {"near an existing key", 24},
	[KEY_FIRST] = {"the first key", 4},
	[KEY_LAST] = {"the last key", 4},
	[KEY_LOWEST] = {"below all keys", 2},
	[KEY_HIGHEST] = {"above all keys", 2},
	[KEY_EMPTY] = {"an empty key", 1},
	[KEY_TOO_LONG] = {"a key of 600 bytes", 1},
	[KEY_NULL] = {"key NULL", 2},
};

static const struct {
	const char *name;
	unsigned weight;
} item_ways[ITEM_WAYS] = {
	[ITEM_OWN] = {"its item", 55},	     [ITEM_OTHER] = {"another key's item", 12},
	[ITEM_NEAR] = {"near its item", 18}, [ITEM_LOWEST] = {"a low item", 4},
	[ITEM_HIGHEST] = {"a high item", 4}, [ITEM_EMPTY] = {"an empty item", 2},
	[ITEM_NULL] = {"data NULL", 5},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

/* An index of a table, each as often as its weight says. */
#define DRAW(table, random) draw_weighted(&(table)[0].weight, sizeof *(table), COUNT(table), random)

static uint8_t draw_weighted(const unsigned *weight, size_t stride, size_t count,
			     struct random_stream *random)
{
	const char *at = (const char *)weight;
	unsigned total = 0;
	uint64_t roll;
	size_t i;

	for (i = 0; i < count; i++)
		total += *(const unsigned *)(const void *)(at + i * stride);
	roll = random_below(random, total);
	for (i = 0; i + 1 < count; i++) {
		unsigned one = *(const unsigned *)(const void *)(at + i * stride);

		if (roll < one)
			break;
		roll -= one;
	}
	return (uint8_t)i;
}

struct read_operation operation_draw(struct random_stream *random,
				     const struct read_operation *previous)
{
	struct read_operation operation = {
		.kind = DRAW(kinds, random),
		.txn = (uint8_t)random_below(random, TXN_SLOTS),
		.cursor = (uint8_t)random_below(random, CURSOR_SLOTS),
		.table = (uint8_t)random_next(random),
		.cursor_op = DRAW(cursor_ops, random),
		.key_way = DRAW(key_ways, random),
		.item_way = DRAW(item_ways, random),
		.variant = (uint8_t)random_next(random),
		.key_pick = (uint32_t)random_next(random),
		.item_pick = (uint32_t)random_next(random),
	};

	if (previous && random_percent(random, 60)) {
		operation.cursor = previous->cursor;
		operation.table = previous->table;
		operation.txn = previous->txn;
		if (random_percent(random, 50))
			operation.key_pick = previous->key_pick;
	}
	return operation;
}

unsigned operation_repeats(const struct read_operation *operation)
{
	switch (operation->cursor_op) {
	case MDB_NEXT:
	case MDB_NEXT_DUP:
	case MDB_NEXT_NODUP:
	case MDB_NEXT_MULTIPLE:
	case MDB_PREV:
	case MDB_PREV_DUP:
	case MDB_PREV_NODUP:
	case MDB_PREV_MULTIPLE:
		return operation->variant % 16 == 5 ? 40 : 1;
	default:
		return 1;
	}
}

const char *operation_name(const struct read_operation *operation)
{
	return kinds[operation->kind].name;
}

const char *cursor_op_name(unsigned op)
{
	return op < COUNT(cursor_ops) ? cursor_ops[op].name : "no such operation";
}

void operation_describe(const struct read_operation *operation, char *text, size_t room)
{
	switch (operation->kind) {
	case OPERATION_CURSOR_GET:
		snprintf(text, room, "cursor %u: %s%s (%s %u, %s %u)", operation->cursor,
			 cursor_op_name(operation->cursor_op),
			 operation_repeats(operation) > 1 ? " many times" : "",
			 key_ways[operation->key_way].name, operation->key_pick,
			 item_ways[operation->item_way].name, operation->item_pick);
		break;
	case OPERATION_GET:
	case OPERATION_COMPARE:
	case OPERATION_WRITE:
		snprintf(text, room, "txn %u, table %u: %s (%s %u, %s %u)", operation->txn,
			 operation->table, operation_name(operation),
			 key_ways[operation->key_way].name, operation->key_pick,
			 item_ways[operation->item_way].name, operation->item_pick);
		break;
	default:
		snprintf(text, room, "%s (txn %u, cursor %u, table %u, variant %u)",
			 operation_name(operation), operation->txn, operation->cursor,
			 operation->table, operation->variant);
		break;
	}
}
