/* SPDX-License-Identifier: OLDAP-2.8 */
/* Visits and judges every page that a tree reaches, each once.
 *
 * A walk trusts nothing. It enters each page at most once, whatever leads there, so that it ends on
 * any file. It reports faults to the caller, and goes on beside them.
 */
#ifndef LMDBIO_TOOLS_TREE_WALK_H
#define LMDBIO_TOOLS_TREE_WALK_H

#include "page_map.h"

#include "cursor/cursor.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum walk_kind { WALK_FREE, WALK_MAIN, WALK_NAMED, WALK_DUPLICATES };

/* A place in the file: a page, and a byte in the page. */
struct walk_place {
	uint64_t page;
	uint32_t offset;
};

/* Counts of a tree, as the walk found them. */
struct walk_counts {
	unsigned depth;
	uint64_t branch_pages, leaf_pages, overflow_pages;
	uint64_t keys, entries; /* both: without the duplicates */
	uint64_t key_bytes;
	uint64_t duplicate_branch_pages, duplicate_leaf_pages;
};

struct walk_tree {
	enum walk_kind kind;
	const char *label;       /* for reports: "main database" */
	struct walk_place where; /* of its record */
	struct tree_record record;
	struct comparators order;  /* comparators_default() of the record's flags, or the
				      caller's own */
	struct walk_counts counts; /* filled in by the walk */
	unsigned leaf_depth;       /* belongs to the walk: depth of the first leaf */
	bool items;                /* belongs to the walk: duplicates of one size */
};

/* One record: a key with one value. Duplicates have no key here. */
struct walk_value {
	struct walk_place where;
	MDB_val key;
	uint64_t size;       /* bytes of the value */
	const uint8_t *data; /* NULL if it is in overflow pages */
	uint64_t run, pages; /* then: the first page, and the pages of the run */
};

struct walker {
	struct snapshot *snapshot;
	struct page_map *used;       /* pages that the walk has reached */
	const struct page_map *free; /* pages that must not be reached, or NULL */
	bool unordered;              /* do not judge the order of keys */
	bool lenient;                /* report states that LMDB 0.9 never checks, but read on */
	uint64_t disorders;          /* keys in the wrong place */
	int rc;                      /* not 0: a page could not be read, or the caller ends the
					walk */
	void *context;
	/* Reports a fault: one line, without a full stop. */
	void (*damage)(void *context, const char *label, struct walk_place where,
		       const char *format, va_list arguments);
	/* Reports a fault that LMDB itself may have left. */
	void (*doubt)(void *context, const char *label, struct walk_place where, const char *format,
		      va_list arguments);
	/* Called in the order of keys, each may be NULL: for a leaf page of a tree that holds keys,
	 * with the number of its first record; pages that a scan visits; a record; a database named
	 * in the main one. */
	void (*leaf)(void *context, uint64_t page, uint64_t first);
	void (*step)(void *context, uint64_t page, uint64_t pages);
	void (*value)(void *context, const struct walk_tree *tree, const struct walk_value *value);
	void (*database)(void *context, const MDB_val *name, const struct tree_record *record,
			 struct walk_place where);
	uint32_t sum; /* bytes of a checksum at the end of each page */
	MDB_val key;  /* of the visited record, also for its duplicates */
	uint64_t taken[FORMAT_PAGE_MAX / 128 + 1]; /* scratch: a bit for two bytes of a page */
};

/* Visits all of a tree and compares its counts with its record. */
void walk_tree(struct walker *walker, struct walk_tree *tree);

/* Reports a fault at a place of a tree, for callers that judge values. */
void walk_damage(struct walker *walker, const struct walk_tree *tree, struct walk_place where,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
