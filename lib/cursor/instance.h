/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the page-reading files of this layer share. Each is compiled once for each page
 * layout.
 *
 * So the layout is a constant in these files, and the second layout costs readers of LMDB 0.9 pages
 * nothing. The real name of each function below ends with its layout's. cursor_either.c has
 * functions without such an ending, for all other layers.
 */
#ifndef LMDBIO_CURSOR_INSTANCE_H
#define LMDBIO_CURSOR_INSTANCE_H

/* lib/Makemodule.am compiles the files a second time, with 1_0. */
#ifndef CURSOR_INSTANCE
#define CURSOR_INSTANCE 0_9
#endif

#define INSTANCE_JOIN(name, instance) name##instance
#define INSTANCE_NAME(name, instance) INSTANCE_JOIN(name##_, instance)

/* The layout of the pages that this instance reads. */
#define LAYOUT (&page_layouts[INSTANCE_NAME(FORMAT, CURSOR_INSTANCE)])

#define cursor_count     INSTANCE_NAME(cursor_count, CURSOR_INSTANCE)
#define cursor_descend   INSTANCE_NAME(cursor_descend, CURSOR_INSTANCE)
#define cursor_first     INSTANCE_NAME(cursor_first, CURSOR_INSTANCE)
#define cursor_get       INSTANCE_NAME(cursor_get, CURSOR_INSTANCE)
#define cursor_init      INSTANCE_NAME(cursor_init, CURSOR_INSTANCE)
#define cursor_last      INSTANCE_NAME(cursor_last, CURSOR_INSTANCE)
#define cursor_next      INSTANCE_NAME(cursor_next, CURSOR_INSTANCE)
#define cursor_previous  INSTANCE_NAME(cursor_previous, CURSOR_INSTANCE)
#define cursor_set       INSTANCE_NAME(cursor_set, CURSOR_INSTANCE)
#define cursor_sibling   INSTANCE_NAME(cursor_sibling, CURSOR_INSTANCE)
#define duplicates_enter INSTANCE_NAME(duplicates_enter, CURSOR_INSTANCE)
#define duplicates_init  INSTANCE_NAME(duplicates_init, CURSOR_INSTANCE)
#define level_search     INSTANCE_NAME(level_search, CURSOR_INSTANCE)
#define tree_find_named  INSTANCE_NAME(tree_find_named, CURSOR_INSTANCE)
#define tree_get         INSTANCE_NAME(tree_get, CURSOR_INSTANCE)
#define tree_page        INSTANCE_NAME(tree_page, CURSOR_INSTANCE)
#define tree_refresh     INSTANCE_NAME(tree_refresh, CURSOR_INSTANCE)
#define tree_run         INSTANCE_NAME(tree_run, CURSOR_INSTANCE)
#define tree_step        INSTANCE_NAME(tree_step, CURSOR_INSTANCE)
#define tree_step_first  INSTANCE_NAME(tree_step_first, CURSOR_INSTANCE)
#define tree_value       INSTANCE_NAME(tree_value, CURSOR_INSTANCE)

#include "cursor/cursor_private.h"

static inline int cursor_entry(struct cursor *cursor, const struct level *level,
			       struct entry *entry)
{
	if (unlikely(!page_leaf_entry(LAYOUT, level->page, cursor->page_size, level->index, entry)))
		return snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
	return 0;
}

/* The same, but a database's name keeps the byte that ends it. */
static inline int cursor_whole_entry(struct cursor *cursor, const struct level *level,
				     struct entry *entry)
{
	if (unlikely(!page_whole_entry(LAYOUT, level->page, cursor->page_size, level->index,
				       entry)))
		return snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
	return 0;
}

/* Call this before window_run(): LMDB 1.0's reference to a run also says how long the run is. */
static inline void snapshot_run(struct snapshot *snapshot, const uint8_t *reference)
{
	if (LAYOUT->reference >= REFERENCE_PAGES + sizeof(uint64_t))
		atomic_store_explicit(&snapshot->view.reference, reference, memory_order_relaxed);
}

/* Finds the value of an entry, beside its key or in an overflow run. Does not touch the run's
 * pages.
 */
static inline int entry_value(struct snapshot *snapshot, const struct entry *entry, MDB_val *data)
{
	const uint8_t *run;
	uint64_t number, pages;
	int rc;

	data->mv_size = entry->data_size;
	snapshot_serve(snapshot, entry->data_size);
	if (!(entry->flags & ENTRY_BIG)) {
		data->mv_data = (void *)(uintptr_t)entry->data;
		return 0;
	}
	number = load64(entry->data);
	snapshot_run(snapshot, entry->data);
	pages = value_pages(LAYOUT, entry->data_size, snapshot->view.page_shift);
	rc = number < FORMAT_METAS ? MDB_CORRUPTED
				   : window_run(&snapshot->view, number, pages, &run);
	if (unlikely(rc))
		return snapshot_fail(snapshot, rc);
	data->mv_data = (void *)(uintptr_t)page_value(LAYOUT, run);
	return 0;
}

/* Returns the item under a cursor in a LEAF2 page. level_load() has checked that all items are
 * inside. */
static inline int level_item(const struct cursor *cursor, const struct level *level, MDB_val *key)
{
	if (key) {
		key->mv_size = cursor->tree->record.pad;
		key->mv_data = (void *)(uintptr_t)page_item(LAYOUT, level->page, level->index,
							    cursor->tree->record.pad);
	}
	return 0;
}

#endif
