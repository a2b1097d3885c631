/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the state of a compacted copy in the making. */
#ifndef LMDBIO_ENV_COMPACT_PRIVATE_H
#define LMDBIO_ENV_COMPACT_PRIVATE_H

#include "env/env.h"
#include "format/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* compact_places.c: places the values of a leaf so that no value that fits between two borders
 * crosses one */

struct compact_run {
	uint8_t *where;        /* in the leaf: the number to be changed */
	uint64_t from, number; /* of its first page, in the source and in the copy */
	uint32_t pages;
	bool placed;
};

struct places {
	uint32_t border; /* pages from one border to the next; a power of two */
	bool planning;   /* gaps are noted */
	bool used;       /* a page is not where it would be without borders */
	uint32_t *gaps;  /* pages in front of border i + 1 that stay free; 0: none */
	size_t n_gaps, room;
	uint64_t free;            /* pages in all gaps */
	struct compact_run *runs; /* of one leaf, in the order of keys */
	uint32_t *order;          /* indexes of `runs`, in the order of their numbers */
	unsigned n;
	unsigned before_leaf; /* how many of `order` precede the leaf, if it is among them */
};

/* Returns 0 or ENOMEM. */
int places_open(struct places *places, uint32_t border, uint32_t page_size);
void places_close(struct places *places);

/* Numbers the n runs from *next on, and moves *next behind them. Later runs of the leaf fill the
 * pages in front of a border, unless more than a border's distance of pages lies between them in
 * key order. If `leaf_may`, the leaf may stand there too: *leaf is then its number, else 0. Returns
 * 0 or ENOMEM. */
int places_leaf(struct places *places, uint64_t *next, bool leaf_may, uint64_t *leaf);

/* Gives the numbers of free pages, from the highest down, at most as many as there are. */
struct places_walk {
	size_t left; /* gaps that have not been begun */
	uint64_t page;
	uint32_t pages; /* left in the current gap */
};
void places_walk_begin(const struct places *places, struct places_walk *walk);
uint64_t places_walk_next(const struct places *places, struct places_walk *walk);

/* compact.c */

struct compactor {
	struct snapshot *snapshot;
	const struct page_layout *layout;
	compact_put_fn *put;
	void *to;
	const struct sums *sums; /* for each page's checksum; NULL: none */
	struct places *places; /* NULL: page behind page, as the original lays them */
	bool planning;         /* nothing is put; values are not looked at */
	uint64_t next;         /* the number that the next page gets */
	uint64_t left;         /* pages that may still come: more is a leak, or a circle */
	uint64_t at;           /* pages that have been put, gaps included */
	uint64_t overflow;     /* pages of the values of the tree that is being walked */
	size_t used;
	uint8_t *buffer;
	uint8_t *zeroes; /* a page */
	uint8_t *pages;  /* a page of scratch for each level of each nested tree */
};

/* Puts `size` bytes of any kind. Returns 0 or an error of `put`. */
int compact_put(struct compactor *compactor, const uint8_t *bytes, size_t size);

/* All pages of a copy belong to its first transaction, as LMDB 1.0 leaves them. With a later
 * number, a page would pass for one that a writer has just made. */
enum {
	COMPACT_TXNID = 1,
	HEADER_MOST = 24, /* bytes of a page's header, in any layout */
};

static inline void compact_header(const struct page_layout *layout, uint8_t *page, uint64_t number)
{
	store64(page + PAGE_NUMBER, number);
	if (layout->shift)
		store64(page + PAGE_TXNID, COMPACT_TXNID);
}

/* Writes the reference that an entry with ENTRY_BIG has for its data. */
static inline void compact_reference(const struct page_layout *layout, uint8_t *where,
				     uint64_t number, uint64_t pages)
{
	compact_header(layout, where, number);
	if (layout->shift)
		store64(where + RUN_PAGES, pages);
}

/* compact_metas.c: the meta pages in front, and the free list at the end */

/* The numbers of a copy that are known before its first page is put. */
struct compact_plan {
	uint64_t root;     /* of the main tree; PAGE_NONE */
	uint64_t pages;    /* of the trees, without gaps */
	uint64_t overflow; /* pages of the main tree's values */
	uint64_t end;      /* number behind the trees' last page; the free list follows */
	uint64_t free;     /* pages in gaps */
};

/* Plans a copy without gaps, from the snapshot's meta page and its free list. */
int compact_plan(MDB_txn *txn, struct compact_plan *plan);

int compact_metas(struct compactor *compactor, MDB_txn *txn, const struct compact_plan *plan);

/* Puts the free list, if there are gaps. If it cannot name all free pages, compact_metas() has
 * returned EFBIG. */
int compact_free_list(struct compactor *compactor, const struct compact_plan *plan);

#endif
