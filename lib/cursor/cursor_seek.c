/* SPDX-License-Identifier: OLDAP-2.8 */
/* Sets a cursor on a key. After a miss the cursor stands where LMDB leaves it. */
#include "cursor/instance.h"

enum seek_place {
	PLACE_FOUND,     /* the top level's index is the answer */
	PLACE_THIS_PAGE, /* the key is on the page under the cursor, if anywhere */
	PLACE_ELSEWHERE, /* search from the root */
	PLACE_MISSED,    /* the key is missing, and no page need be searched */
};

/* Compares a key with an entry of the page under the cursor. */
static int entry_compare(struct cursor *cursor, const struct level *level, unsigned i,
			 const MDB_val *key, int *sign)
{
	const uint8_t *at;
	uint32_t size = cursor->tree->record.pad;

	if (level->flags & PAGE_LEAF2)
		at = page_item(LAYOUT, level->page, i, size);
	else if (unlikely(!page_entry_key(LAYOUT, level->page, cursor->page_size, i, &at, &size)))
		return snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
	*sign = compare_as(cursor->order->kind, cursor->order, key, at, size);
	return 0;
}

/* Handles a key between the first and the last of the page. */
static int place_between(struct cursor *cursor, struct level *level, const MDB_val *key,
			 enum seek_place *place)
{
	int sign = 1, rc = 0;

	if (level->index < level->count)
		rc = entry_compare(cursor, level, level->index, key, &sign);
	if (rc)
		return rc;
	if (!sign) {
		*place = PLACE_FOUND;
		return 0;
	}
	cursor->state &= (uint16_t)~CURSOR_AT_END;
	*place = PLACE_THIS_PAGE;
	return 0;
}

/* Looks at the page under the cursor before the tree is searched. Programs can see where a miss
 * leaves the cursor, so the cases are LMDB's own. The caller sets *place to PLACE_ELSEWHERE. */
static int place_on_page(struct cursor *cursor, const MDB_val *key, bool nearest,
			 enum seek_place *place)
{
	struct level *level = cursor_top(cursor);
	int sign, rc;

	rc = entry_compare(cursor, level, 0, key, &sign);
	if (rc)
		return rc;
	if (!sign) {
		level->index = 0;
		*place = PLACE_FOUND;
		return 0;
	}
	if (sign < 0) {
		if (cursor->depth == 1) {
			level->index = 0;
			*place = nearest ? PLACE_FOUND : PLACE_MISSED;
		}
		return 0;
	}
	if (level->count > 1) {
		rc = entry_compare(cursor, level, level->count - 1u, key, &sign);
		if (rc)
			return rc;
		if (!sign) {
			level->index = (uint16_t)(level->count - 1);
			*place = PLACE_FOUND;
			return 0;
		}
		if (sign < 0)
			return place_between(cursor, level, key, place);
	}
	for (struct level *up = cursor->levels; up < level; up++)
		if (up->index + 1 < up->count)
			return 0;
	level->index = level->count;
	*place = PLACE_MISSED;
	return 0;
}

/* Finds the value for the found key, by the rules of each operation. */
static int set_value(struct cursor *cursor, const struct entry *entry, MDB_val *data,
		     MDB_cursor_op op)
{
	bool both = op == MDB_GET_BOTH || op == MDB_GET_BOTH_RANGE;
	MDB_val value;
	int sign, rc;

	if (entry->flags & ENTRY_DUPS) {
		struct cursor *inner = &cursor->duplicates->cursor;

		return both ? cursor_set(inner, data, NULL, MDB_SET_RANGE, op == MDB_GET_BOTH)
			    : cursor_first(inner, data, NULL);
	}
	if (!both)
		return entry_value(cursor->snapshot, entry, data);
	rc = entry_value(cursor->snapshot, entry, &value);
	if (rc)
		return rc;
	if (cursor->data_order->kind == COMPARE_UINT && value.mv_size == 8)
		sign = compare_as(COMPARE_ULONG, NULL, data, value.mv_data, value.mv_size);
	else
		sign = compare(cursor->data_order, data, &value);
	if (sign && (op == MDB_GET_BOTH || sign > 0))
		return MDB_NOTFOUND;
	*data = value;
	return 0;
}

/* Counts a lookup by the place that it led to. */
static void seek_take(struct cursor *cursor, const MDB_val *key)
{
	const struct level *level = cursor_top(cursor), *up = cursor->depth > 1 ? level - 1 : NULL;
	const struct lookup_place at = {
		.leaf = level->page,
		.above = up ? up->page : NULL,
		.index = level->index,
		.count = level->count,
		.place = up ? up->index : 0,
		.places = up ? up->count : 0,
	};

	lookups_take(cursor->snapshot, cursor->tree, cursor->order, key, &at);
}

/* Returns the key in a LEAF2 page for every operation: only duplicates have such pages, and there
 * the key is the value. */
static int set_arrive(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	bool wants_key = op == MDB_SET_RANGE || op == MDB_SET_KEY;
	struct level *level = cursor_top(cursor);
	struct entry entry;
	int rc;

	cursor->state = CURSOR_PLACED;
	if (cursor->snapshot->lookups && !cursor->tree->duplicates)
		seek_take(cursor, key);
	if (level->flags & PAGE_LEAF2)
		return level_item(cursor, level, key);
	rc = cursor_entry(cursor, level, &entry);
	if (!rc && entry.flags & ENTRY_DUPS)
		rc = duplicates_enter(cursor->snapshot, cursor->tree, cursor->duplicates, &entry);
	if (!rc && (data || (entry.flags & ENTRY_DUPS &&
			     cursor->snapshot->answers & ANSWERS_ENTER_WITHOUT_DATA)))
		rc = set_value(cursor, &entry, data, op);
	if (!rc && wants_key)
		entry_key(&entry, key);
	return rc;
}

int cursor_set(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op, bool exact)
{
	enum seek_place place = PLACE_ELSEWHERE;
	struct level *level;
	bool found;
	int rc;

	if (!key->mv_size)
		return MDB_BAD_VALSIZE;
	duplicates_leave(cursor);
	cursor_leave(cursor);
	if (cursor->state & CURSOR_PLACED) {
		rc = place_on_page(cursor, key, op == MDB_SET_RANGE && !exact, &place);
		if (rc)
			return rc;
		if (place == PLACE_MISSED)
			return MDB_NOTFOUND;
	}
	if (place == PLACE_ELSEWHERE) {
		rc = cursor_descend(cursor, DESCEND_KEY, key);
		if (rc)
			return rc;
	}
	if (place != PLACE_FOUND) {
		level = cursor_top(cursor);
		rc = level_search(cursor, level, key, &found);
		if (rc)
			return rc;
		if (exact && !found)
			return MDB_NOTFOUND;
		if (level->index >= level->count) {
			rc = cursor_sibling(cursor, true);
			if (rc) {
				cursor->state |= CURSOR_AT_END;
				return rc;
			}
		}
	}
	return set_arrive(cursor, key, data, op);
}
