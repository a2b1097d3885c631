/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a test gets a cursor over a tree that it has built in memory. */
#ifndef LMDBIO_TEST_TREE_FIXTURE_H
#define LMDBIO_TEST_TREE_FIXTURE_H

#include "page_builder.h"

#include "cursor/cursor.h"
#include "window/window.h"

#include <stdbool.h>

struct fixture {
	struct builder builder;
	struct window window;
	struct snapshot snapshot;
	struct tree tree;
	struct comparators order;
	struct cursor cursor;
	struct duplicates duplicates;
	MDB_val key, data; /* what the last call took and gave */
};

/* A builder of `pages` pages and nothing else yet; fixture_close() frees all. */
void fixture_open(struct fixture *fixture, uint32_t page_size, uint64_t pages);
/* Looks at all pages taken so far; the cursor is a fresh one over the tree of *record, in the order
 * that the record's flags name. May be called again after a change. */
void fixture_look(struct fixture *fixture, const struct tree_record *record);
void fixture_close(struct fixture *fixture);

/* A fresh cursor, with fixture->order as it is. */
void fixture_rewind(struct fixture *fixture);

/* One operation; a NULL text goes in as an empty value. Returns cursor_get()'s answer. */
int fixture_get(struct fixture *fixture, MDB_cursor_op op, const char *key, const char *data);
/* The same without key and data, answered by 0, and then with key and data as given. What differs
 * is printed. A NULL text is not compared. */
bool moves(struct fixture *fixture, MDB_cursor_op op, const char *key, const char *data);
/* The operation is answered by rc. */
bool gives(struct fixture *fixture, MDB_cursor_op op, int rc);
/* What the last call gave. */
bool at(const struct fixture *fixture, const char *key, const char *data);

/* The operation meets damage: rc, and then MDB_BAD_TXN for every call. */
bool breaks(struct fixture *fixture, MDB_cursor_op op, int rc);

#endif
