/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a compacted copy in the making is made of. */
#ifndef LMDBIO_ENV_COMPACT_PRIVATE_H
#define LMDBIO_ENV_COMPACT_PRIVATE_H

#include "env/env.h"
#include "format/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* compact_places.c: where the values of a leaf come to stand, so that none that fits between two
 * borders crosses one */

struct compact_run {
	uint8_t *where;        /* in the leaf: the number to be changed */
	uint64_t from, number; /* of its first page, in the source and here */
	uint32_t pages;
	bool placed;
};

struct places {
	uint32_t border; /* a border every so many pages; a power of two */
	bool planning;   /* gaps are noted */
	bool used;       /* something does not stand where it would without borders */
	uint32_t *gaps;  /* pages in front of border i + 1 that stay free; 0: none */
	size_t n_gaps, room;
	uint64_t free;            /* pages in all gaps */
	struct compact_run *runs; /* of one leaf, in the order of keys */
	uint32_t *order;          /* which of them comes first, second ... by number */
	unsigned n;
	unsigned before_leaf; /* so many of `order` stand in front of the leaf, if it is among them
			       */
};

/* 0 or ENOMEM. */
int places_open(struct places *places, uint32_t border, uint32_t page_size);
void places_close(struct places *places);

/* Gives the n runs their numbers, from *next on, which moves behind them. Pages in front of a
 * border are filled by what comes later in the same leaf and fits, but not with what stands a
 * border's distance of bytes behind in the order of keys; and by the leaf itself if it may stand
 * there: *leaf is then its number, else 0. 0 or ENOMEM. */
int places_leaf(struct places *places, uint64_t *next, bool leaf_may, uint64_t *leaf);

/* The numbers of free pages, from the highest down. *at begins as 0; false: there are no more. */
struct places_walk {
	size_t left; /* gaps that have not been begun */
	uint64_t page;
	uint32_t pages; /* of this gap still to come */
};
void places_walk_begin(const struct places *places, struct places_walk *walk);
uint64_t places_walk_next(const struct places *places, struct places_walk *walk);

/* compact.c */

struct compactor {
	struct snapshot *snapshot;
	const struct page_layout *layout;
	compact_put_fn *put;
	void *to;
	const struct sums *sums; /* of which each page has one; NULL: pages have none */
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

/* Puts these bytes, whatever they are. */
int compact_put(struct compactor *compactor, const uint8_t *bytes, size_t size);

/* All pages of a copy are of its first transaction, as LMDB 1.0 leaves them: one of a later number
 * would pass for a page that a writer has just made. */
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

/* What an entry with ENTRY_BIG has for its data. */
static inline void compact_reference(const struct page_layout *layout, uint8_t *where,
				     uint64_t number, uint64_t pages)
{
	compact_header(layout, where, number);
	if (layout->shift)
		store64(where + RUN_PAGES, pages);
}

/* compact_metas.c: what stands in front, and the free list behind */

/* What is known of a copy before its first page is put. */
struct compact_plan {
	uint64_t root;     /* of the main tree; PAGE_NONE */
	uint64_t pages;    /* of the trees, without gaps */
	uint64_t overflow; /* pages of the main tree's values */
	uint64_t end;  /* number behind the last page of a tree, of which the free list's follow */
	uint64_t free; /* pages in gaps */
};

/* Without gaps: from what the snapshot's meta page and its free list say. */
int compact_plan(MDB_txn *txn, struct compact_plan *plan);

int compact_metas(struct compactor *compactor, MDB_txn *txn, const struct compact_plan *plan);

/* Nothing when there are no gaps. EFBIG: more free pages than the free list can name. */
int compact_free_list(struct compactor *compactor, const struct compact_plan *plan);

#endif
