/* SPDX-License-Identifier: OLDAP-2.8 */
/* Selects the pages of a data file that get a second place in the index: those that a lookup passes
 * on its way to a value that lies elsewhere.
 *
 * A page is judged by its own bytes alone, whether a tree leads to it or not: a process that
 * compresses a chunk need not know the others, and the result is the same in every process. A page
 * that is long free, or a value that looks like a page, costs its copy and does no harm.
 */
#include "container/container_private.h"
#include "format/layout.h"
#include "format/meta.h"
#include "format/page.h"

/* Pages that a leaf page must lead to: so copies of leaves are at most an eighth of the data, of
 * values that fill a page each with the longest of keys. Of images they are a thousandth. */
enum { LEADS_LEAST = 8 };

/* How many pages an entry leads to. A database of its own is asked for by name. */
static uint64_t entry_leads(const struct page_layout *layout, const struct entry *entry,
			    uint32_t page_size)
{
	struct tree_record record;

	if (entry->flags & ENTRY_BIG)
		return ((uint64_t)layout->header + entry->data_size + page_size - 1) / page_size;
	if (!(entry->flags & ENTRY_SUBTREE) || entry->data_size != TREE_SIZE)
		return 0;
	if (!(entry->flags & ENTRY_DUPS))
		return LEADS_LEAST;
	tree_record_parse(&record, entry->data);
	return record.branch_pages + record.leaf_pages;
}

static bool leads_on(const struct page_layout *layout, const uint8_t *page, uint32_t page_size)
{
	unsigned count = page_count(layout, page, page_size);
	uint64_t leads = 0;
	struct entry entry;

	for (unsigned i = 0; i < count && leads < LEADS_LEAST; i++) {
		if (!page_leaf_entry(layout, page, page_size, i, &entry))
			return false;
		leads += entry_leads(layout, &entry, page_size);
	}
	return leads >= LEADS_LEAST;
}

/* Whether page `number` of a data file is one that leads to others: these bytes say so. */
static bool select_page(const struct page_layout *layout, const uint8_t *page, uint64_t number,
			uint32_t page_size)
{
	if (number < FORMAT_METAS || !page_is_sound(layout, page, number))
		return false;
	if (page_flags(layout, page) & PAGE_BRANCH)
		return page_count(layout, page, page_size) > 0;
	return !(page_flags(layout, page) & PAGE_LEAF2) && leads_on(layout, page, page_size);
}

int select_meta(const uint8_t *first, const uint8_t *second, uint32_t page_size, enum format format)
{
	struct meta a, newer;
	int newest;

	if (meta_judge(first, second, &newer, format) || newer.page_size != page_size ||
	    meta_parse(&a, first, format))
		return -1;
	newest = newer.txnid > a.txnid;
	/* The original has each transaction's in its place. */
	return (newer.txnid & 1) == (unsigned)newest ? newest : -1;
}

void container_select(enum format format, uint32_t page_size, const void *data, size_t length,
		      uint64_t offset, uint8_t *picked)
{
	const struct page_layout *layout = &page_layouts[format];
	const uint8_t *page = data;
	size_t n = length / page_size;
	uint64_t first = offset / page_size;

	for (size_t i = 0; i < n; i++, page += page_size) {
		uint8_t bit = (uint8_t)(1u << i % 8);

		if (first + i < FORMAT_METAS ||
		    select_page(layout, page, first + i, page_size))
			picked[i / 8] |= bit;
		else
			picked[i / 8] &= (uint8_t)~bit;
	}
}
