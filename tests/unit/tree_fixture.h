/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives a test a cursor over a tree that it has built in memory. */
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
	MDB_val key, data; /* key and data of the last call, before and after it */
};

/* A builder of `pages` pages and nothing else yet; fixture_close() frees all. */
void fixture_open(struct fixture *fixture, uint32_t page_size, uint64_t pages);
/* Uses all pages taken so far, with a fresh cursor over the tree of *record, in the order that the
 * record's flags name. May be called again after a change. */
void fixture_look(struct fixture *fixture, const struct tree_record *record);
void fixture_close(struct fixture *fixture);

/* A fresh cursor, with fixture->order as it is. */
void fixture_rewind(struct fixture *fixture);

/* One operation; a NULL text goes in as an empty value. Returns cursor_get()'s answer. */
int fixture_get(struct fixture *fixture, MDB_cursor_op op, const char *key, const char *data);
/* The same without key and data as input. Returns whether the call returned 0 and gave this key and
 * data. Differences are printed; a NULL text is not compared. */
bool moves(struct fixture *fixture, MDB_cursor_op op, const char *key, const char *data);
/* Whether the operation returns rc. */
bool gives(struct fixture *fixture, MDB_cursor_op op, int rc);
/* Whether the last call gave this key and data. */
bool at(const struct fixture *fixture, const char *key, const char *data);

/* Whether the operation returns rc because of damage, and every later call MDB_BAD_TXN. */
bool breaks(struct fixture *fixture, MDB_cursor_op op, int rc);

#endif
