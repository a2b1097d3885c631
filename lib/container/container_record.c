/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the leaf page of a record's number.
 *
 * A tree's leaves are an array in key order with the number of each one's first record. Leaves of a
 * data set mostly hold about as many records each, so the place is guessed by proportion; every
 * other step halves what is left, so that no distribution makes it slow.
 */
#include "container/container_private.h"

#include <errno.h>
#include <lmdb.h>
#include <string.h>

static void tree_parse(const uint8_t *entry, uint64_t number, struct container_tree *tree)
{
	tree->number = number;
	tree->records = get64(entry + TREE_ENTRY_RECORDS);
	tree->leaves = get64(entry + TREE_ENTRY_LEAVES);
	tree->first = get64(entry + TREE_ENTRY_FIRST);
	tree->pages = layout_pages(tree->leaves, LEAVES_PER_PAGE);
	tree->flags = get16(entry + TREE_ENTRY_FLAGS);
	tree->name_size = get16(entry + TREE_ENTRY_NAME_SIZE);
	memcpy(tree->name, entry + TREE_ENTRY_NAME, tree->name_size);
	tree->name[tree->name_size] = '\0';
}

int container_tree(struct io *io, uint64_t number, struct container_tree *tree)
{
	struct container *container = io->state;
	struct cache_slot *slot;
	int rc;

	container_enter(container);
	if (number >= container->info.trees)
		return EINVAL;
	rc = index_take(container, LAYOUT_TREES, number / TREES_PER_PAGE, &slot);
	if (rc)
		return container_code(rc);
	tree_parse(slot->bytes + INDEX_BODY + number % TREES_PER_PAGE * TREE_ENTRY, number, tree);
	cache_release(&container->pages, slot);
	return 0;
}

int container_tree_find(struct io *io, const void *name, size_t size, struct container_tree *tree)
{
	uint64_t i, trees = container_info(io)->trees;

	for (i = 0; i < trees; i++) {
		int rc = container_tree(io, i, tree);

		if (rc)
			return rc;
		if (tree->name_size == size && (!size || memcmp(tree->name, name, size) == 0))
			return 0;
	}
	return MDB_NOTFOUND;
}

/* Page `number` of the tree's own, which must be full and within the tree. */
static int leaf_page_take(struct container *container, const struct container_tree *tree,
			  uint64_t number, struct cache_slot **slot)
{
	uint64_t left = tree->leaves - number * LEAVES_PER_PAGE;
	uint32_t entries = left < LEAVES_PER_PAGE ? (uint32_t)left : LEAVES_PER_PAGE;
	int rc = index_take(container, LAYOUT_LEAVES, tree->first + number, slot);
	const uint8_t *page, *last;

	if (rc)
		return rc;
	page = (*slot)->bytes;
	last = page + INDEX_BODY + (size_t)(entries - 1) * LEAF_ENTRY;
	if (get64(page + INDEX_BASE) == tree->number && get32(page + INDEX_ENTRIES) == entries &&
	    get64(last + LEAF_ENTRY_FIRST) < tree->records &&
	    !get64(page + INDEX_BODY + LEAF_ENTRY_FIRST) == !number)
		return 0;
	cache_release(&container->pages, *slot);
	return EBADMSG;
}

static uint64_t leaf_first(const struct cache_slot *slot, uint32_t i)
{
	return get64(slot->bytes + INDEX_BODY + (size_t)i * LEAF_ENTRY + LEAF_ENTRY_FIRST);
}

static void leaf_parse(const struct cache_slot *slot, uint32_t i, struct container_leaf *leaf)
{
	leaf->page = get64(slot->bytes + INDEX_BODY + (size_t)i * LEAF_ENTRY + LEAF_ENTRY_PAGE);
	leaf->first = leaf_first(slot, i);
}

int container_leaf(struct io *io, const struct container_tree *tree, uint64_t number,
		   struct container_leaf *leaf)
{
	struct container *container = io->state;
	struct cache_slot *slot;
	int rc;

	container_enter(container);
	if (number >= tree->leaves)
		return EINVAL;
	rc = leaf_page_take(container, tree, number / LEAVES_PER_PAGE, &slot);
	if (rc)
		return container_code(rc);
	leaf_parse(slot, (uint32_t)(number % LEAVES_PER_PAGE), leaf);
	cache_release(&container->pages, slot);
	return 0;
}

/* Between which pages of a tree a record is: the first record of page `low`, which is not behind
 * it, and of the page behind `high`, which is. */
struct page_range {
	uint64_t low, high;
	uint64_t low_first, high_first;
};

/* The page to look at next, one of low + 1 to high. */
static uint64_t range_guess(const struct page_range *range, uint64_t record, bool halve)
{
	double pages = (double)(range->high - range->low) + 1;
	double part = (double)(record - range->low_first) /
		      (double)(range->high_first - range->low_first);
	uint64_t step = halve ? (range->high - range->low + 1) / 2 : clamp_u64(part * pages);

	if (!step)
		return range->low + 1;
	return step > range->high - range->low ? range->high : range->low + step;
}

static int find_page(struct container *container, const struct container_tree *tree,
		     uint64_t record, uint64_t *number)
{
	struct page_range range = {0, tree->pages - 1, 0, tree->records};
	bool halve = false;

	while (range.low < range.high) {
		uint64_t guess = range_guess(&range, record, halve), first;
		struct cache_slot *slot;
		int rc = leaf_page_take(container, tree, guess, &slot);

		if (rc)
			return rc;
		first = leaf_first(slot, 0);
		if (first <= range.low_first || first >= range.high_first) {
			cache_release(&container->pages, slot);
			return EBADMSG;
		}
		if (record < first) {
			range.high = guess - 1;
			range.high_first = first;
		} else {
			range.low = guess;
			range.low_first = first;
			if (record <= leaf_first(slot, get32(slot->bytes + INDEX_ENTRIES) - 1))
				range.high = guess;
		}
		cache_release(&container->pages, slot);
		halve = !halve;
	}
	*number = range.low;
	return 0;
}

int container_record_leaf(struct io *io, const struct container_tree *tree, uint64_t record,
			  struct container_leaf *leaf)
{
	struct container *container = io->state;
	uint32_t low = 0, high;
	struct cache_slot *slot;
	uint64_t number = 0;
	int rc;

	container_enter(container);
	if (record >= tree->records)
		return MDB_NOTFOUND;
	rc = find_page(container, tree, record, &number);
	if (!rc)
		rc = leaf_page_take(container, tree, number, &slot);
	if (rc)
		return container_code(rc);
	high = get32(slot->bytes + INDEX_ENTRIES) - 1;
	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (leaf_first(slot, middle) <= record)
			low = middle;
		else
			high = middle - 1;
	}
	leaf_parse(slot, low, leaf);
	cache_release(&container->pages, slot);
	return 0;
}
