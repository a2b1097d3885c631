/* SPDX-License-Identifier: OLDAP-2.8 */
/* Moves a cursor to the first, last, next and previous entry, of keys and of their duplicates. */
#include "cursor/instance.h"

/* Hands out the key and value under the cursor. Enters the key's duplicates at their first or
 * last. */
static int cursor_arrive(struct cursor *cursor, MDB_val *key, MDB_val *data, bool at_first)
{
	struct level *level = cursor_top(cursor);
	struct entry entry;
	int rc;

	if (level->flags & PAGE_LEAF2)
		return level_item(cursor, level, key);
	rc = cursor_whole_entry(cursor, level, &entry);
	if (unlikely(rc))
		return rc;
	if (entry.flags & ENTRY_DUPS) {
		struct duplicates *dups = cursor->duplicates;

		rc = duplicates_enter(cursor->snapshot, cursor->tree, dups, &entry);
		if (!rc && (data || cursor->snapshot->answers & ANSWERS_ENTER_WITHOUT_DATA))
			rc = at_first ? cursor_first(&dups->cursor, data, NULL)
				      : cursor_last(&dups->cursor, data, NULL);
	} else if (data) {
		rc = entry_value(cursor->snapshot, &entry, data);
	}
	if (!rc) {
		entry.key_size = entry_key_shown(LAYOUT, entry.flags, entry.key, entry.key_size);
		entry_key(&entry, key);
	}
	return rc;
}

static inline __attribute__((always_inline)) int
cursor_edge(struct cursor *cursor, MDB_val *key, MDB_val *data, bool at_first)
{
	struct level *level;
	struct entry entry;
	int rc;

	duplicates_leave(cursor);
	cursor_leave(cursor);
	/* In a tree of one page the cursor is on the edge page already. */
	if (!(cursor->state & CURSOR_PLACED) || cursor->depth > 1) {
		rc = cursor_descend(cursor, at_first ? DESCEND_FIRST : DESCEND_LAST, NULL);
		if (rc)
			return rc;
	}
	level = cursor_top(cursor);
	level->index = (uint16_t)(at_first ? 0 : level->count - 1);
	cursor->state = at_first ? CURSOR_PLACED : CURSOR_PLACED | CURSOR_AT_END;
	if (data || level->flags & PAGE_LEAF2)
		return cursor_arrive(cursor, key, data, at_first);
	if (cursor->duplicates && cursor->snapshot->answers & ANSWERS_ENTER_WITHOUT_DATA)
		return cursor_arrive(cursor, key, NULL, at_first);
	rc = cursor_entry(cursor, level, &entry);
	if (!rc)
		entry_key(&entry, key);
	return rc;
}

int cursor_first(struct cursor *cursor, MDB_val *key, MDB_val *data)
{
	return cursor_edge(cursor, key, data, true);
}

int cursor_last(struct cursor *cursor, MDB_val *key, MDB_val *data)
{
	return cursor_edge(cursor, key, data, false);
}

/* Returns whether the entry under a cursor of an MDB_DUPSORT database has duplicates to step
 * through. Behind the last entry LMDB looks at whatever bytes lie there; bytes that are no entry
 * count as single. */
static inline __attribute__((always_inline)) bool cursor_on_duplicates(struct cursor *cursor,
								       struct entry *entry)
{
	struct level *level = cursor_top(cursor);

	if (level->index >= level->count &&
	    LAYOUT->header + 2u * level->index + 2u > cursor->page_size)
		return false;
	if (!page_whole_entry(LAYOUT, level->page, cursor->page_size, level->index, entry))
		return false;
	return entry->flags & ENTRY_DUPS;
}

int cursor_next(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	struct level *level;
	struct entry entry;
	int rc;

	if (!(cursor->state & CURSOR_PLACED))
		return cursor_first(cursor, key, data);
	level = cursor_top(cursor);
	if (cursor->state & CURSOR_AT_END) {
		if (level->index + 1 >= level->count)
			return MDB_NOTFOUND;
		cursor->state &= (uint16_t)~CURSOR_AT_END;
	}
	if (cursor->duplicates) {
		if (!cursor_on_duplicates(cursor, &entry)) {
			duplicates_leave(cursor);
			if (op == MDB_NEXT_DUP)
				return MDB_NOTFOUND;
		} else if (op != MDB_NEXT_NODUP) {
			rc = cursor_next(&cursor->duplicates->cursor, data, NULL, MDB_NEXT);
			if (op == MDB_NEXT_DUP || rc != MDB_NOTFOUND) {
				if (!rc)
					entry_key(&entry, key);
				return rc;
			}
		}
	}
	if (likely(level->index + 1 < level->count)) {
		level->index++;
	} else {
		rc = cursor_sibling(cursor, true);
		if (rc) {
			cursor->state |= CURSOR_AT_END;
			return rc;
		}
	}
	cursor_stepped(cursor, true);
	return cursor_arrive(cursor, key, data, true);
}

int cursor_previous(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	struct level *level;
	struct entry entry;
	int rc;

	if (!(cursor->state & CURSOR_PLACED)) {
		rc = cursor_last(cursor, key, data);
		if (rc)
			return rc;
		cursor_top(cursor)->index++;
	}
	level = cursor_top(cursor);
	if (cursor->duplicates && !(unlikely(level->index >= level->count) &&
				    cursor->snapshot->answers & ANSWERS_BACK_FROM_BEHIND)) {
		if (!cursor_on_duplicates(cursor, &entry)) {
			duplicates_leave(cursor);
			if (op == MDB_PREV_DUP)
				return MDB_NOTFOUND;
		} else if (op != MDB_PREV_NODUP) {
			rc = cursor_previous(&cursor->duplicates->cursor, data, NULL, MDB_PREV);
			if (op == MDB_PREV_DUP || rc != MDB_NOTFOUND) {
				if (!rc) {
					entry_key(&entry, key);
					cursor->state &= (uint16_t)~CURSOR_AT_END;
				}
				return rc;
			}
		}
	}
	cursor->state &= (uint16_t)~CURSOR_AT_END;
	if (likely(level->index > 0)) {
		level->index--;
	} else {
		rc = cursor_sibling(cursor, false);
		if (rc)
			return rc;
	}
	cursor_stepped(cursor, false);
	return cursor_arrive(cursor, key, data, false);
}
