/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the pieces that the files of the walk share. */
#ifndef LMDBIO_TOOLS_TREE_WALK_PRIVATE_H
#define LMDBIO_TOOLS_TREE_WALK_PRIVATE_H

#include "tree_walk.h"

#include "format/page.h"

/* The keys that a page may hold: from `low` to below `high`; mv_data NULL: no bound. */
struct walk_range {
	MDB_val low, high;
};

/* A page of a tree, or a sub-page, during its judgement. */
struct walk_page {
	const uint8_t *bytes;
	uint32_t size;
	unsigned count;          /* entries or items */
	struct walk_place where; /* its first byte */
};

static inline const struct page_layout *walk_layout(const struct walker *walker)
{
	return snapshot_layout(walker->snapshot);
}

/* tree_page.c: judges the entries or items of a page, each and against each other: inside the page,
 * not overlapping, keys in order and in range. Reduces the count of a page with overlapping
 * entries: each entry that the walk follows has a byte of its own, or the walk could be endless. */
void walk_judge_entries(struct walker *walker, struct walk_tree *tree, struct walk_page *page,
			const struct walk_range *range);
void walk_judge_items(struct walker *walker, struct walk_tree *tree, const struct walk_page *page,
		      const struct walk_range *range);

static inline struct walk_place walk_inside(const struct walk_page *page, const uint8_t *at)
{
	return (struct walk_place){page->where.page,
				   page->where.offset + (uint32_t)(at - page->bytes)};
}

#endif
