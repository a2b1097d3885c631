/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges whether the entries of one page are where they should be and in order. */
#include "tree_walk_private.h"

#include <string.h>

/* Judges a key that follows `before` (mv_data NULL: it is the first) inside the page's range. */
static void judge_order(struct walker *walker, struct walk_tree *tree, struct walk_place where,
			unsigned i, const MDB_val *before, const MDB_val *key,
			const struct walk_range *range)
{
	const struct comparator *order =
		tree->kind == WALK_DUPLICATES ? &tree->order.data : &tree->order.key;

	if (walker->unordered)
		return;
	if (before->mv_data && compare(order, before, key) >= 0)
		walk_damage(walker, tree, where, "key %u does not come after key %u", i, i - 1);
	else if (range->low.mv_data && compare(order, key, &range->low) < 0)
		walk_damage(walker, tree, where, "key %u is below what its branch page says", i);
	else if (range->high.mv_data && compare(order, key, &range->high) >= 0)
		walk_damage(walker, tree, where, "key %u is above what its branch page says", i);
	else
		return;
	walker->disorders++;
}

/* Marks the bytes of an entry as taken. Returns whether they were free. */
static bool entry_take(struct walker *walker, const struct walk_page *page, const uint8_t *at,
		       size_t length)
{
	size_t first = (size_t)(at - page->bytes) / 2, end = first + (length + 1) / 2;

	for (size_t i = first; i < end; i++) {
		uint64_t bit = (uint64_t)1 << (i % 64);

		if (walker->taken[i / 64] & bit)
			return false;
		walker->taken[i / 64] |= bit;
	}
	return true;
}

/* Returns the length of entry i in bytes, 0 if it leaves the page. A branch page's entry is its
 * header and its key. */
static size_t entry_length(const struct page_layout *layout, const struct walk_page *page,
			   unsigned i, struct entry *entry)
{
	if (page_flags(layout, page->bytes) & PAGE_BRANCH) {
		entry->flags = 0;
		entry->data_size = 0;
		if (!page_entry_key(layout, page->bytes, page->size, i, &entry->key,
				    &entry->key_size))
			return 0;
		return ENTRY_KEY + entry->key_size;
	}
	/* LMDB 1.0 compares a database's name with the NUL at its end. */
	if (!page_whole_entry(layout, page->bytes, page->size, i, entry))
		return 0;
	return (size_t)(entry->data - entry->key) + ENTRY_KEY +
	       (entry->flags & ENTRY_BIG ? layout->reference : entry->data_size);
}

void walk_judge_entries(struct walker *walker, struct walk_tree *tree, struct walk_page *page,
			const struct walk_range *range)
{
	bool branch = page_flags(walk_layout(walker), page->bytes) & PAGE_BRANCH;
	unsigned upper = page_upper(walk_layout(walker), page->bytes);
	size_t filled = 0, room;
	MDB_val before = {0}, key;
	struct entry entry;

	memset(walker->taken, 0, (page->size / 128 + 1) * sizeof(uint64_t));
	for (unsigned i = 0; i < page->count; i++) {
		size_t length = entry_length(walk_layout(walker), page, i, &entry);
		const uint8_t *at;
		struct walk_place where;

		if (!length) {
			walk_damage(walker, tree,
				    walk_inside(page,
						page_item(walk_layout(walker), page->bytes, i, 2)),
				    "entry %u leaves the page", i);
			continue;
		}
		filled += length + length % 2;
		at = entry.key - ENTRY_KEY;
		where = walk_inside(page, at);
		if (at < page->bytes + upper || (at - page->bytes) % 2)
			walk_damage(walker, tree, where, "entry %u stands where no entry can be",
				    i);
		if (!entry_take(walker, page, at, length)) {
			walk_damage(walker, tree, where,
				    "entry %u lies over another; what comes behind it is left out",
				    i);
			if (walker->lenient && !branch)
				continue;
			page->count = i;
			return;
		}
		if (tree->kind == WALK_DUPLICATES && !branch && (entry.flags || entry.data_size))
			walk_damage(walker, tree, where,
				    "duplicate %u has flags %#x and %u bytes of value", i,
				    entry.flags, entry.data_size);
		if (branch && i == 0)
			continue; /* entry 0 has no key of its own */
		key = (MDB_val){entry.key_size, (void *)(uintptr_t)entry.key};
		if (!entry.key_size && tree->kind != WALK_DUPLICATES)
			walk_damage(walker, tree, where, "entry %u has no key", i);
		judge_order(walker, tree, where, i, &before, &key, range);
		before = key;
	}
	/* LMDB compacts the entries whenever one is removed or changes its size. */
	room = page->size - upper - (page->size == walker->snapshot->page_size ? walker->sum : 0);
	if (filled != room)
		walk_damage(
			walker, tree,
			walk_inside(page, page->bytes + walk_layout(walker)->shift + PAGE_UPPER),
			"entries of %zu bytes in a page filled with %zu", filled, room);
}

void walk_judge_items(struct walker *walker, struct walk_tree *tree, const struct walk_page *page,
		      const struct walk_range *range)
{
	uint32_t pad = page_pad(walk_layout(walker), page->bytes);
	MDB_val before = {0}, item;

	if (!page_items_fit(walk_layout(walker), page->size, page->count, pad)) {
		walk_damage(walker, tree, page->where, "%u items of %u bytes do not fit in",
			    page->count, pad);
		return;
	}
	for (unsigned i = 0; i < page->count; i++) {
		const uint8_t *at = page_item(walk_layout(walker), page->bytes, i, pad);

		item = (MDB_val){pad, (void *)(uintptr_t)at};
		judge_order(walker, tree, walk_inside(page, at), i, &before, &item, range);
		before = item;
	}
}
