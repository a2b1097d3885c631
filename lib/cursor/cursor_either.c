/* SPDX-License-Identifier: OLDAP-2.8 */
/* Dispatches other layers' calls to the instance for the layout of a snapshot's pages
 * (instance.h). */
#include "cursor/cursor_private.h"

#define EITHER(name, snapshot) ((snapshot)->format == FORMAT_1_0 ? name##_1_0 : name##_0_9)

__typeof__(cursor_count) cursor_count_0_9, cursor_count_1_0;
__typeof__(cursor_descend) cursor_descend_0_9, cursor_descend_1_0;
__typeof__(cursor_get) cursor_get_0_9, cursor_get_1_0;
__typeof__(cursor_init) cursor_init_0_9, cursor_init_1_0;
__typeof__(cursor_sibling) cursor_sibling_0_9, cursor_sibling_1_0;
__typeof__(level_search) level_search_0_9, level_search_1_0;
__typeof__(tree_find_named) tree_find_named_0_9, tree_find_named_1_0;
__typeof__(tree_get) tree_get_0_9, tree_get_1_0;
__typeof__(tree_page) tree_page_0_9, tree_page_1_0;
__typeof__(tree_refresh) tree_refresh_0_9, tree_refresh_1_0;
__typeof__(tree_run) tree_run_0_9, tree_run_1_0;
__typeof__(tree_step) tree_step_0_9, tree_step_1_0;
__typeof__(tree_step_first) tree_step_first_0_9, tree_step_first_1_0;
__typeof__(tree_value) tree_value_0_9, tree_value_1_0;

int cursor_count(struct cursor *cursor, size_t *count)
{
	return EITHER(cursor_count, cursor->snapshot)(cursor, count);
}

bool cursor_at_database(const struct cursor *cursor, MDB_val *name)
{
	const struct level *level;
	struct entry entry;

	if (!(cursor->state & CURSOR_PLACED) || cursor->serial != cursor->snapshot->serial ||
	    cursor->snapshot->blocked)
		return false;
	level = &cursor->levels[cursor->depth - 1];
	if (level->index >= level->count || level->flags & PAGE_LEAF2 ||
	    !page_whole_entry(snapshot_layout(cursor->snapshot), level->page, cursor->page_size,
			      level->index, &entry) ||
	    !entry_is_database(entry.flags))
		return false;
	if (name)
		*name = (MDB_val){entry.key_size, (void *)(uintptr_t)entry.key};
	return true;
}

int cursor_descend(struct cursor *cursor, enum descent how, const MDB_val *key)
{
	return EITHER(cursor_descend, cursor->snapshot)(cursor, how, key);
}

int cursor_get(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	return EITHER(cursor_get, cursor->snapshot)(cursor, key, data, op);
}

void cursor_init(struct cursor *cursor, struct snapshot *snapshot, struct tree *tree,
		 const struct comparators *comparators, struct duplicates *duplicates)
{
	EITHER(cursor_init, snapshot)(cursor, snapshot, tree, comparators, duplicates);
}

int cursor_sibling(struct cursor *cursor, bool forward)
{
	return EITHER(cursor_sibling, cursor->snapshot)(cursor, forward);
}

int level_search(struct cursor *cursor, struct level *level, const MDB_val *key, bool *exact)
{
	return EITHER(level_search, cursor->snapshot)(cursor, level, key, exact);
}

int tree_find_named(struct snapshot *snapshot, struct tree *home, const struct comparator *order,
		    const MDB_val *name, struct tree_record *record)
{
	return EITHER(tree_find_named, snapshot)(snapshot, home, order, name, record);
}

int tree_get(struct snapshot *snapshot, struct tree *tree, const struct comparators *comparators,
	     const MDB_val *key, MDB_val *data)
{
	return EITHER(tree_get, snapshot)(snapshot, tree, comparators, key, data);
}

int tree_page(struct snapshot *snapshot, uint64_t number, const uint8_t **page, unsigned *count)
{
	return EITHER(tree_page, snapshot)(snapshot, number, page, count);
}

int tree_refresh(struct snapshot *snapshot, struct tree *tree)
{
	return EITHER(tree_refresh, snapshot)(snapshot, tree);
}

void tree_run(const struct snapshot *snapshot, const struct entry *entry, uint64_t *number,
	      uint64_t *pages)
{
	EITHER(tree_run, snapshot)(snapshot, entry, number, pages);
}

int tree_step(struct snapshot *snapshot, const struct comparator *order, const MDB_val *key,
	      uint64_t *number, uint64_t *pages, enum tree_step *step)
{
	return EITHER(tree_step, snapshot)(snapshot, order, key, number, pages, step);
}

int tree_step_first(struct snapshot *snapshot, uint64_t *number, enum tree_step *step)
{
	return EITHER(tree_step_first, snapshot)(snapshot, number, step);
}

int tree_value(struct snapshot *snapshot, const struct entry *entry, MDB_val *data)
{
	return EITHER(tree_value, snapshot)(snapshot, entry, data);
}
