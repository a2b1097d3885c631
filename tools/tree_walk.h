/* SPDX-License-Identifier: OLDAP-2.8 */
/* Visits and judges every page that a tree reaches, each once.
 *
 * A walk trusts nothing: each page is entered at most once, whatever leads to it, so that it ends
 * on any file. What is wrong is told to the caller, and the walk goes on beside it.
 */
#ifndef LMDBIO_TOOLS_TREE_WALK_H
#define LMDBIO_TOOLS_TREE_WALK_H

#include "page_map.h"

#include "cursor/cursor.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum walk_kind { WALK_FREE, WALK_MAIN, WALK_NAMED, WALK_DUPLICATES };

/* Where something stands: a page, and a byte in it. */
struct walk_place {
	uint64_t page;
	uint32_t offset;
};

/* What a tree was found to have. */
struct walk_counts {
	unsigned depth;
	uint64_t branch_pages, leaf_pages, overflow_pages;
	uint64_t keys, entries; /* the same without duplicates */
	uint64_t key_bytes;
	uint64_t duplicate_branch_pages, duplicate_leaf_pages;
};

struct walk_tree {
	enum walk_kind kind;
	const char *label;       /* "main database" */
	struct walk_place where; /* its record */
	struct tree_record record;
	struct comparators order;  /* comparators_default() of the record's flags, or as wanted */
	struct walk_counts counts; /* the walk's to fill */
	unsigned leaf_depth;       /* the walk's own: of the first leaf */
	bool items;                /* the same: duplicates of one size */
};

/* One record: a key with one value. A duplicate comes without its key. */
struct walk_value {
	struct walk_place where;
	MDB_val key;
	uint64_t size;       /* bytes of the value */
	const uint8_t *data; /* NULL when it is in overflow pages */
	uint64_t run, pages; /* then: the first one, and how many belong to it */
};

struct walker {
	struct snapshot *snapshot;
	struct page_map *used;       /* the pages that have been reached */
	const struct page_map *free; /* pages that must not be reached, or NULL */
	bool unordered;              /* the order of keys is not judged */
	bool lenient; /* what LMDB 0.9 never looks at is told, and read all the same */
	uint64_t disorders;          /* keys that were found in the wrong place */
	int rc;                      /* not 0: a page could not be read, or the caller wants an end */
	void *context;
	/* Something is wrong: one line, without a full stop. */
	void (*damage)(void *context, const char *label, struct walk_place where,
		       const char *format, va_list arguments);
	/* The same, of a kind that LMDB itself may have left. */
	void (*doubt)(void *context, const char *label, struct walk_place where, const char *format,
		      va_list arguments);
	/* In the order of keys, each may be NULL: a leaf page of a tree that holds keys, whose
	 * first record has that number; pages that a scan comes to; a record; a database that is
	 * named in the main one. */
	void (*leaf)(void *context, uint64_t page, uint64_t first);
	void (*step)(void *context, uint64_t page, uint64_t pages);
	void (*value)(void *context, const struct walk_tree *tree, const struct walk_value *value);
	void (*database)(void *context, const MDB_val *name, const struct tree_record *record,
			 struct walk_place where);
	uint32_t sum; /* bytes of a checksum at the end of each page */
	MDB_val key;  /* of the record that is visited, also for its duplicates */
	uint64_t taken[FORMAT_PAGE_MAX / 128 + 1]; /* scratch: a bit for two bytes of a page */
};

/* Visits all of a tree and compares what it has with what its record says. */
void walk_tree(struct walker *walker, struct walk_tree *tree);

/* Says what is wrong at a place of a tree; for callers that judge values. */
void walk_damage(struct walker *walker, const struct walk_tree *tree, struct walk_place where,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
