/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a cursor's operations, compares the answers and prints the differences. */
#include "tree_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void fixture_open(struct fixture *fixture, uint32_t page_size, uint64_t pages)
{
	memset(fixture, 0, sizeof(*fixture));
	builder_open(&fixture->builder, page_size, pages);
}

static void fixture_unlook(struct fixture *fixture)
{
	if (!fixture->window.base)
		return;
	window_close(&fixture->window);
}

void fixture_look(struct fixture *fixture, const struct tree_record *record)
{
	struct builder *b = &fixture->builder;
	uint64_t size = b->next * b->page_size;

	fixture_unlook(fixture);
	window_borrow(&fixture->window, b->bytes, size, b->page_size);
	fixture->snapshot = (struct snapshot){.page_size = b->page_size};
	assert_int_equal(window_look(&fixture->window, b->next, size, &fixture->snapshot.view), 0);
	fixture->tree = (struct tree){.record = *record};
	comparators_default(&fixture->order, record->flags);
	fixture_rewind(fixture);
}

void fixture_rewind(struct fixture *fixture)
{
	cursor_init(&fixture->cursor, &fixture->snapshot, &fixture->tree, &fixture->order,
		    &fixture->duplicates);
}

void fixture_close(struct fixture *fixture)
{
	fixture_unlook(fixture);
	builder_close(&fixture->builder);
}

static MDB_val value_of(const char *text)
{
	return (MDB_val){.mv_size = text ? strlen(text) : 0, .mv_data = (void *)(uintptr_t)text};
}

int fixture_get(struct fixture *fixture, MDB_cursor_op op, const char *key, const char *data)
{
	fixture->key = value_of(key);
	fixture->data = value_of(data);
	return cursor_get(&fixture->cursor, &fixture->key, &fixture->data, op);
}

static bool same(const char *what, const MDB_val *value, const char *text)
{
	if (!text ||
	    (value->mv_size == strlen(text) && !memcmp(value->mv_data, text, value->mv_size)))
		return true;
	print_error("%s: \"%.*s\" (%zu bytes), wanted \"%s\"\n", what,
		    value->mv_size < 80 ? (int)value->mv_size : 80,
		    value->mv_size ? (const char *)value->mv_data : "", value->mv_size, text);
	return false;
}

bool at(const struct fixture *fixture, const char *key, const char *data)
{
	bool key_same = same("key", &fixture->key, key);

	return same("data", &fixture->data, data) && key_same;
}

bool gives(struct fixture *fixture, MDB_cursor_op op, int rc)
{
	int got = fixture_get(fixture, op, NULL, NULL);

	if (got == rc)
		return true;
	print_error("answered %d (%s), wanted %d\n", got, got ? "" : "found", rc);
	return false;
}

bool moves(struct fixture *fixture, MDB_cursor_op op, const char *key, const char *data)
{
	return gives(fixture, op, 0) && at(fixture, key, data);
}

bool breaks(struct fixture *fixture, MDB_cursor_op op, int rc)
{
	bool broke = gives(fixture, op, rc);
	size_t count;

	if (!(fixture->snapshot.blocked & SNAPSHOT_DAMAGED)) {
		print_error("the snapshot goes on after the damage\n");
		return false;
	}
	for (int next = MDB_FIRST; next <= MDB_PREV_MULTIPLE; next++)
		broke = gives(fixture, (MDB_cursor_op)next, MDB_BAD_TXN) && broke;
	if (fixture->cursor.duplicates && cursor_count(&fixture->cursor, &count) != MDB_BAD_TXN) {
		print_error("cursor_count goes on after the damage\n");
		broke = false;
	}
	return broke;
}
