/* SPDX-License-Identifier: OLDAP-2.8 */
/* Builds trees of LMDB 1.0's pages out of entries in their order, for the live writer of that format.
 *
 * From the description in lib/format/layout.h, and not from the table that the reader under test uses.
 */
#ifndef TESTS_LATER_PAGES_H
#define TESTS_LATER_PAGES_H

#include <stddef.h>
#include <stdint.h>

enum {
	LATER_PAGE = 4096,
	LATER_HEADER = 24,
	LATER_TREE = 48,       /* bytes of a tree's record */
	LATER_REFERENCE = 24,  /* ... of a reference to an overflow run */
	LATER_ENTRY_MOST = 2034, /* ... of an entry; a larger value goes into a run */
};

/* Where pages come from and go to. */
struct later_sink {
	/* The first of `count` pages in a row, or 0: there is no room. */
	uint64_t (*take)(struct later_sink *sink, unsigned count);
	/* Stores whole pages; returns 0 or an errno. */
	int (*put)(struct later_sink *sink, uint64_t number, const void *bytes, unsigned count);
	uint64_t txnid;
};

struct later_entry {
	const void *key, *data;
	uint32_t key_size, data_size;
	uint32_t bytes; /* of data in the page: LATER_REFERENCE with ENTRY_BIG */
	unsigned flags;
};

/* A tree's record (48 bytes), in the order that it has in a page. */
struct later_tree {
	uint32_t pad;
	uint16_t flags, depth;
	uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

/* The pages that entries take: leaves, then what is above. */
unsigned later_tree_pages(const struct later_entry *entries, size_t count);
/* Writes a tree and completes its record, but for its overflow pages. Returns 0, MDB_MAP_FULL or an
 * errno. */
int later_tree_build(struct later_sink *sink, const struct later_entry *entries, size_t count,
		     struct later_tree *tree);
/* The same of items of 8 bytes without entries, as duplicates have it. */
int later_items_build(struct later_sink *sink, const uint64_t *items, size_t count,
		      struct later_tree *tree);
/* Such items in a page inside an entry. Returns its size. */
uint32_t later_items_inside(const uint64_t *items, size_t count, uint8_t *bytes);
/* How many pages a value takes. */
static inline unsigned later_run_pages(uint32_t size)
{
	return (LATER_HEADER - 1 + size) / LATER_PAGE + 1;
}

/* Stores a value in a run of pages that has been taken. Returns 0 or an errno. */
int later_run_put(struct later_sink *sink, uint64_t number, unsigned pages, const void *value,
		  uint32_t size);
/* The same in one that it takes, and fills the reference to it. Returns MDB_MAP_FULL as well. */
int later_run_build(struct later_sink *sink, const void *value, uint32_t size,
		    uint64_t reference[3]);

#endif
