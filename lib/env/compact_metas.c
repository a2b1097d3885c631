/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the pages of a compacted copy that hold no records: the two meta pages and, if there are
 * gaps, the free list.
 *
 * The free list looks as if transactions had freed the gaps: one leaf page, whose records name the
 * pages, the highest first, in overflow pages. Each record needs a transaction of its own. So the
 * copy's is the number of records, made odd, because page 1 is the newer meta page.
 */
#include "env/compact_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FREE_MOST = 1 << 22 /* page numbers in one record */ };

/* Bytes of an entry: a transaction's number as key, and the reference to an overflow run. */
static uint32_t free_entry(const struct page_layout *layout)
{
	return ENTRY_KEY + (uint32_t)sizeof(uint64_t) + layout->reference;
}

/* Counts the snapshot's pages that no tree of records reaches: those on the free list, and the
 * list's own. */
static int count_free(MDB_txn *txn, uint64_t *count)
{
	struct tree *tree = &txn->trees[DBI_FREE];
	struct duplicates duplicates; /* no sound free list has them */
	MDB_val key, ids;
	struct cursor cursor;
	int rc;

	*count = tree->record.branch_pages + tree->record.leaf_pages + tree->record.overflow_pages;
	cursor_init(&cursor, &txn->snapshot, tree, &txn->env->slots[DBI_FREE].order, &duplicates);
	while (!(rc = cursor_get(&cursor, &key, &ids, MDB_NEXT))) {
		if (ids.mv_size < sizeof(uint64_t))
			return MDB_CORRUPTED;
		*count += load64(ids.mv_data);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* These functions take a page from the address where 0.9's offsets are right. */
static void meta_fill(uint8_t *page, MDB_txn *txn, const MDB_envinfo *info)
{
	store16(page + PAGE_FLAGS, PAGE_META);
	store32(page + META_MAGIC, FORMAT_MAGIC);
	store32(page + META_VERSION, snapshot_layout(&txn->snapshot)->version);
	store64(page + META_ADDRESS, (uintptr_t)info->me_mapaddr);
	store64(page + META_MAPSIZE, info->me_mapsize);
	store32(page + META_FREE_TREE + TREE_PAD, txn->snapshot.page_size);
	store16(page + META_FREE_TREE + TREE_FLAGS,
		(uint16_t)((txn->env->flags & 0xffff) | MDB_INTEGERKEY));
	store64(page + META_FREE_TREE + TREE_ROOT, PAGE_NONE);
	store64(page + META_MAIN_TREE + TREE_ROOT, PAGE_NONE);
	store64(page + META_LAST_PAGE, FORMAT_METAS - 1);
}

static void meta_fill_main(uint8_t *page, const struct tree_record *record,
			   const struct compact_plan *plan)
{
	uint8_t *at = page + META_MAIN_TREE;

	store32(at + TREE_PAD, record->pad);
	store16(at + TREE_FLAGS, record->flags);
	store16(at + TREE_DEPTH, record->depth);
	store64(at + TREE_BRANCH_PAGES, record->branch_pages);
	store64(at + TREE_LEAF_PAGES, record->leaf_pages);
	store64(at + TREE_OVERFLOW_PAGES, plan->overflow);
	store64(at + TREE_ENTRIES, record->entries);
	store64(at + TREE_ROOT, plan->root);
}

/* ---- the free list ---- */

static uint64_t free_records(const struct compact_plan *plan)
{
	return (plan->free + FREE_MOST - 1) / FREE_MOST;
}

/* Page numbers in record i. */
static uint64_t free_count(const struct compact_plan *plan, uint64_t i)
{
	uint64_t left = plan->free - i * FREE_MOST;

	return left < FREE_MOST ? left : FREE_MOST;
}

/* Overflow pages of record i. */
static uint64_t free_run(const struct compactor *compactor, const struct compact_plan *plan,
			 uint64_t i)
{
	return value_pages(compactor->layout, (free_count(plan, i) + 1) * sizeof(uint64_t),
			   compactor->snapshot->view.page_shift);
}

static uint64_t free_runs(const struct compactor *compactor, const struct compact_plan *plan)
{
	uint64_t pages = 0;

	for (uint64_t i = 0; i < free_records(plan); i++)
		pages += free_run(compactor, plan, i);
	return pages;
}

static void meta_fill_free(uint8_t *page, const struct compact_plan *plan, uint64_t runs)
{
	uint8_t *at = page + META_FREE_TREE;

	store16(at + TREE_DEPTH, 1);
	store64(at + TREE_LEAF_PAGES, 1);
	store64(at + TREE_OVERFLOW_PAGES, runs);
	store64(at + TREE_ENTRIES, free_records(plan));
	store64(at + TREE_ROOT, plan->end + runs);
	store64(page + META_LAST_PAGE, plan->end + runs);
}

static int free_put_number(struct compactor *compactor, uint64_t number)
{
	uint8_t bytes[sizeof(number)];

	store64(bytes, number);
	return compact_put(compactor, bytes, sizeof(bytes));
}

/* Puts the overflow run of record i, which begins at page `number`. */
static int free_put_run(struct compactor *compactor, const struct compact_plan *plan, uint64_t i,
			uint64_t number, struct places_walk *walk)
{
	uint32_t size = compactor->snapshot->page_size;
	const struct page_layout *layout = compactor->layout;
	uint64_t count = free_count(plan, i), run = free_run(compactor, plan, i);
	uint64_t tail = run * size - layout->header - (count + 1) * sizeof(number);
	uint8_t header[HEADER_MOST] = {0};
	int rc;

	compact_header(layout, header, number);
	store16(header + layout->shift + PAGE_FLAGS, PAGE_OVERFLOW);
	store32(header + layout->shift + PAGE_RUN, (uint32_t)run);
	rc = compact_put(compactor, header, layout->header);
	if (!rc)
		rc = free_put_number(compactor, count);
	for (uint64_t n = 0; n < count && !rc; n++)
		rc = free_put_number(compactor, places_walk_next(compactor->places, walk));
	return rc ? rc : compact_put(compactor, compactor->zeroes, tail);
}

/* Adds the entry of record i, whose run begins at page `number`. */
static void free_add_entry(const struct compactor *compactor, uint8_t *page,
			   const struct compact_plan *plan, uint64_t i, uint64_t number)
{
	const struct page_layout *layout = compactor->layout;
	uint32_t offset = compactor->snapshot->page_size - (uint32_t)(i + 1) * free_entry(layout);
	uint32_t length = (uint32_t)((free_count(plan, i) + 1) * sizeof(number));
	uint32_t lower = layout->header + 2 * (uint32_t)(i + 1);
	uint8_t *entry = page + offset;

	store16(page + layout->header + 2 * i, (uint16_t)(offset - layout->base));
	store16(page + layout->shift + PAGE_LOWER, (uint16_t)(lower - layout->base));
	store16(page + layout->shift + PAGE_UPPER, (uint16_t)(offset - layout->base));
	store16(entry + ENTRY_LOW, (uint16_t)length);
	store16(entry + ENTRY_HIGH, (uint16_t)(length >> 16));
	store16(entry + ENTRY_FLAGS, ENTRY_BIG);
	store16(entry + ENTRY_KEY_SIZE, sizeof(i));
	store64(entry + ENTRY_KEY, i + 1);
	compact_reference(layout, entry + ENTRY_KEY + sizeof(i), number,
			  free_run(compactor, plan, i));
}

int compact_free_list(struct compactor *compactor, const struct compact_plan *plan)
{
	uint32_t size = compactor->snapshot->page_size;
	uint64_t number = plan->end;
	struct places_walk walk;
	uint8_t *page;
	int rc = 0;

	if (!plan->free)
		return 0;
	page = calloc(1, size);
	if (!page)
		return ENOMEM;
	places_walk_begin(compactor->places, &walk);
	for (uint64_t i = 0; i < free_records(plan) && !rc; i++) {
		rc = free_put_run(compactor, plan, i, number, &walk);
		free_add_entry(compactor, page, plan, i, number);
		number += free_run(compactor, plan, i);
	}
	compact_header(compactor->layout, page, number);
	store16(page + compactor->layout->shift + PAGE_FLAGS, PAGE_LEAF);
	if (!rc)
		rc = compact_put(compactor, page, size);
	free(page);
	return rc;
}

/* ---- in front ---- */

int compact_plan(MDB_txn *txn, struct compact_plan *plan)
{
	const struct tree_record *record = &txn->trees[DBI_MAIN].record;
	uint64_t unreached;
	int rc;

	*plan = (struct compact_plan){
		.root = record->root,
		.overflow = record->overflow_pages,
		.end = FORMAT_METAS,
	};
	if (record->root == PAGE_NONE)
		return 0;
	if ((rc = count_free(txn, &unreached)))
		return rc;
	if (unreached >= txn->snapshot.view.pages - FORMAT_METAS)
		return MDB_CORRUPTED;
	plan->pages = txn->snapshot.view.pages - FORMAT_METAS - unreached;
	plan->end += plan->pages;
	plan->root = plan->end - 1;
	return 0;
}

int compact_metas(struct compactor *compactor, MDB_txn *txn, const struct compact_plan *plan)
{
	const struct tree_record *record = &txn->trees[DBI_MAIN].record;
	const struct page_layout *layout = compactor->layout;
	uint32_t size = txn->snapshot.page_size;
	uint64_t runs = free_runs(compactor, plan), pages;
	uint8_t *first, *second;
	MDB_envinfo info;
	int rc;

	if (free_records(plan) > (size - layout->header) / (free_entry(layout) + 2))
		return EFBIG;
	first = calloc(FORMAT_METAS, size);
	if (!first)
		return ENOMEM;
	rc = env_info_stored(txn->env, &info);
	if (rc)
		goto fail;
	if (compactor->sums)
		store16(first + later_sum_size_at(size), (uint16_t)sums_size(compactor->sums));
	store64(first + size + PAGE_NUMBER, 1);
	second = first + size + layout->shift;
	pages = plan->end + (plan->free ? runs + 1 : 0);
	if (plan->free && info.me_mapsize < pages * size)
		info.me_mapsize = pages * size;
	meta_fill(first + layout->shift, txn, &info);
	meta_fill(second, txn, &info);
	if (record->root != PAGE_NONE) {
		meta_fill_main(second, record, plan);
		store64(second + META_LAST_PAGE, plan->end - 1);
	} else {
		store16(second + META_MAIN_TREE + TREE_FLAGS, record->flags);
	}
	if (plan->free)
		meta_fill_free(second, plan, runs);
	if (record->root != PAGE_NONE || record->flags)
		store64(second + META_TXNID, plan->free ? free_records(plan) | 1 : 1);
	rc = compact_put(compactor, first, FORMAT_METAS * (size_t)size);
fail:
	free(first);
	return rc;
}
