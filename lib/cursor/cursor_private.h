/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the pieces that the files of this layer share. */
#ifndef LMDBIO_CURSOR_PRIVATE_H
#define LMDBIO_CURSOR_PRIVATE_H

#include "cursor/cursor.h"
#include "format/page.h"

#include <errno.h>
#include <limits.h>

enum descent { DESCEND_FIRST, DESCEND_LAST, DESCEND_KEY };

/* descend.c */
int level_search(struct cursor *cursor, struct level *level, const MDB_val *key, bool *exact);
int cursor_descend(struct cursor *cursor, enum descent how, const MDB_val *key);
int cursor_sibling(struct cursor *cursor, bool forward);

/* page_copies.c */
/* A copy of a page, for a view that does not wait. It stays as long as a cursor of snapshot->copies
 * points to it, or until the next copy. Returns 0; EAGAIN if the store gives none. */
int page_copy(struct snapshot *snapshot, uint64_t number, const uint8_t **page);

/* lookups.c */
/* Counts a lookup of a record by its key, and calls the watch after equal steps. */
void lookups_take(struct snapshot *snapshot, struct tree *tree, const struct comparator *order,
		  const MDB_val *key, const struct lookup_place *place);

/* cursor_move.c */
int cursor_first(struct cursor *cursor, MDB_val *key, MDB_val *data);
int cursor_last(struct cursor *cursor, MDB_val *key, MDB_val *data);
int cursor_next(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int cursor_previous(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);

/* cursor_seek.c */
int cursor_set(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op, bool exact);

/* duplicates.c */
void duplicates_init(struct duplicates *duplicates, struct snapshot *snapshot,
		     const struct comparator *order);
int duplicates_enter(struct snapshot *snapshot, const struct tree *tree,
		     struct duplicates *duplicates, const struct entry *entry);

/* Blocks a snapshot for good after damage. Other errors may pass. */
static inline int snapshot_fail(struct snapshot *snapshot, int rc)
{
	if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_BAD_CHECKSUM)
		snapshot->blocked |= SNAPSHOT_DAMAGED;
	return rc;
}

static inline struct level *cursor_top(struct cursor *cursor)
{
	return &cursor->levels[cursor->depth - 1];
}

static inline void duplicates_leave(struct cursor *cursor)
{
	if (cursor->duplicates)
		cursor->duplicates->cursor.state = 0;
}

static inline void entry_key(const struct entry *entry, MDB_val *key)
{
	if (key) {
		key->mv_size = entry->key_size;
		key->mv_data = (void *)(uintptr_t)entry->key;
	}
}

/* Returns whether a look-ahead has any page to read besides the page under the cursor. */
static inline bool cursor_leads_on(const struct cursor *cursor)
{
	return cursor->depth > 1 || cursor->tree->record.overflow_pages || cursor->duplicates;
}

/* Counts a step from one entry to the next, and calls the watch when the pace is used up. */
static inline void cursor_stepped(struct cursor *cursor, bool forward)
{
	if (likely(--cursor->pace > 0 && cursor->forward == forward))
		return;
	if (cursor->forward != forward) {
		cursor_leave(cursor);
		cursor->forward = forward;
	} else if (cursor->snapshot->watch && cursor_leads_on(cursor)) {
		cursor->snapshot->watch->moved(cursor->snapshot->watch, cursor, forward);
	} else {
		cursor->pace = cursor->paced = INT_MAX;
	}
}

#endif
