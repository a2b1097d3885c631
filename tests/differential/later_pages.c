/* SPDX-License-Identifier: OLDAP-2.8 */
/* Fills pages one behind the other, and the branches over them level by level. */
#include "later_pages.h"

#include "format/layout.h"
#include "util/checked.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROOM = LATER_PAGE - LATER_HEADER,
	TXN_AT = 8,
	PAD_AT = 16,
	FLAGS_AT = 18,
	LOWER_AT = 20,
	UPPER_AT = 22,
	RUN_AT = 20,
	ITEM = 8,
	ITEMS_MOST = ROOM / ITEM,
	LEVELS_MOST = 8,
};

static uint32_t even(uint32_t bytes)
{
	return (bytes + 1) & ~1u;
}

/* What an entry takes of a page, its offset included. */
static uint32_t taken(const struct later_entry *entry)
{
	return 2 + ENTRY_KEY + even(entry->key_size) + even(entry->bytes);
}

static void page_begin(uint8_t *page, uint64_t number, uint64_t txnid, unsigned flags)
{
	memset(page, 0, LATER_PAGE);
	store64(page, number);
	store64(page + TXN_AT, txnid);
	store16(page + FLAGS_AT, (uint16_t)flags);
	store16(page + UPPER_AT, ROOM);
}

/* Returns where the entry's header is. Whether it fits has been seen to. */
static uint8_t *page_add(uint8_t *page, const struct later_entry *entry)
{
	unsigned lower = load16(page + LOWER_AT), upper = load16(page + UPPER_AT);
	uint8_t *at;

	upper -= taken(entry) - 2;
	store16(page + LATER_HEADER + lower, (uint16_t)upper);
	store16(page + LOWER_AT, (uint16_t)(lower + 2));
	store16(page + UPPER_AT, (uint16_t)upper);
	at = page + LATER_HEADER + upper;
	store16(at + ENTRY_LOW, (uint16_t)entry->data_size);
	store16(at + ENTRY_HIGH, (uint16_t)(entry->data_size >> 16));
	store16(at + ENTRY_FLAGS, (uint16_t)entry->flags);
	store16(at + ENTRY_KEY_SIZE, (uint16_t)entry->key_size);
	memcpy(at + ENTRY_KEY, entry->key, entry->key_size);
	if (entry->bytes)
		memcpy(at + ENTRY_KEY + even(entry->key_size), entry->data, entry->bytes);
	return at;
}

/* How many entries from the first on fit into a page. */
static size_t fitting(const struct later_entry *entries, size_t count)
{
	uint32_t used = 0;
	size_t n = 0;

	while (n < count && used + taken(&entries[n]) <= ROOM)
		used += taken(&entries[n++]);
	return n;
}

/* The page below is given by its number, as the flags and the data's size say it. */
static int branches_build(struct later_sink *sink, struct later_entry *below, uint64_t *numbers,
			  size_t count, struct later_tree *tree)
{
	uint8_t page[LATER_PAGE];

	while (count > 1) {
		size_t made = 0;

		for (size_t i = 0, n; i < count; i += n) {
			struct later_entry first = below[i];
			uint64_t number = sink->take(sink, 1);
			int rc;

			if (!number)
				return MDB_MAP_FULL;
			n = fitting(below + i, count - i);
			page_begin(page, number, sink->txnid, PAGE_BRANCH);
			below[i].key_size = 0; /* whatever is smaller */
			for (size_t k = i; k < i + n; k++) {
				below[k].data_size = (uint32_t)numbers[k];
				below[k].flags = (unsigned)(numbers[k] >> 32);
				page_add(page, &below[k]);
			}
			rc = sink->put(sink, number, page, 1);
			if (rc)
				return rc;
			below[made] = first;
			numbers[made++] = number;
			tree->branch_pages++;
		}
		count = made;
		tree->depth++;
	}
	tree->root = numbers[0];
	return 0;
}

unsigned later_tree_pages(const struct later_entry *entries, size_t count)
{
	unsigned leaves = 0, pages;

	for (size_t i = 0; i < count; i += fitting(entries + i, count - i))
		leaves++;
	pages = leaves;
	/* Of a free list, whose keys are numbers. */
	while (leaves > 1) {
		enum { EACH = 2 + ENTRY_KEY + 8 };

		leaves = (leaves * EACH + ROOM - 1) / ROOM;
		pages += leaves;
	}
	return pages;
}

int later_tree_build(struct later_sink *sink, const struct later_entry *entries, size_t count,
		     struct later_tree *tree)
{
	struct later_entry *above = calloc(count + 1, sizeof *above);
	uint64_t *numbers = calloc(count + 1, sizeof *numbers);
	uint8_t page[LATER_PAGE];
	size_t leaves = 0;
	int rc = above && numbers ? 0 : ENOMEM;

	tree->entries = count;
	tree->root = PAGE_NONE;
	for (size_t i = 0, n; i < count && !rc; i += n) {
		uint64_t number = sink->take(sink, 1);

		n = fitting(entries + i, count - i);
		if (!number || !n) {
			rc = number ? EINVAL : MDB_MAP_FULL;
			break;
		}
		page_begin(page, number, sink->txnid, PAGE_LEAF);
		for (size_t k = i; k < i + n; k++)
			page_add(page, &entries[k]);
		rc = sink->put(sink, number, page, 1);
		above[leaves] = (struct later_entry){.key = entries[i].key,
						     .key_size = entries[i].key_size};
		numbers[leaves++] = number;
	}
	tree->leaf_pages = leaves;
	tree->depth = leaves != 0;
	if (leaves && !rc)
		rc = branches_build(sink, above, numbers, leaves, tree);
	free(above);
	free(numbers);
	return rc;
}

/* Items in a page of any size. */
static void items_put(uint8_t *page, uint32_t size, const uint64_t *items, size_t count)
{
	store16(page + PAD_AT, ITEM);
	store16(page + LOWER_AT, (uint16_t)(2 * count));
	store16(page + UPPER_AT, (uint16_t)(size - LATER_HEADER - count * (ITEM - 2)));
	memcpy(page + LATER_HEADER, items, count * ITEM);
}

int later_items_build(struct later_sink *sink, const uint64_t *items, size_t count,
		      struct later_tree *tree)
{
	struct later_entry above[LEVELS_MOST];
	uint64_t numbers[LEVELS_MOST];
	uint8_t page[LATER_PAGE];
	size_t leaves = 0;

	tree->entries = count;
	tree->depth = 1;
	for (size_t i = 0; i < count; i += ITEMS_MOST) {
		size_t n = count - i < ITEMS_MOST ? count - i : ITEMS_MOST;
		uint64_t number = sink->take(sink, 1);
		int rc;

		if (!number || leaves == LEVELS_MOST)
			return number ? EINVAL : MDB_MAP_FULL;
		page_begin(page, number, sink->txnid, PAGE_LEAF | PAGE_LEAF2);
		items_put(page, LATER_PAGE, items + i, n);
		rc = sink->put(sink, number, page, 1);
		if (rc)
			return rc;
		above[leaves] = (struct later_entry){.key = items + i, .key_size = ITEM};
		numbers[leaves++] = number;
	}
	tree->leaf_pages = leaves;
	return branches_build(sink, above, numbers, leaves, tree);
}

uint32_t later_items_inside(const uint64_t *items, size_t count, uint8_t *bytes)
{
	uint32_t size = LATER_HEADER + (uint32_t)count * ITEM;

	memset(bytes, 0, LATER_HEADER);
	store16(bytes + FLAGS_AT, PAGE_LEAF | PAGE_LEAF2 | PAGE_SUB);
	items_put(bytes, size, items, count);
	return size;
}

int later_run_put(struct later_sink *sink, uint64_t number, unsigned pages, const void *value,
		  uint32_t size)
{
	uint8_t *bytes = calloc(pages, LATER_PAGE);
	int rc = bytes ? 0 : ENOMEM;

	if (!rc) {
		page_begin(bytes, number, sink->txnid, PAGE_OVERFLOW);
		store32(bytes + RUN_AT, pages);
		memcpy(bytes + LATER_HEADER, value, size);
		rc = sink->put(sink, number, bytes, pages);
	}
	free(bytes);
	return rc;
}

int later_run_build(struct later_sink *sink, const void *value, uint32_t size,
		    uint64_t reference[3])
{
	unsigned pages = later_run_pages(size);
	uint64_t number = sink->take(sink, pages);

	reference[0] = number;
	reference[1] = sink->txnid;
	reference[2] = pages;
	return number ? later_run_put(sink, number, pages, value, size) : MDB_MAP_FULL;
}
