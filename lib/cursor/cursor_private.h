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

/* lookups.c */
/* Counts a record that was looked up by its key, and tells the watch of equal steps. */
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

enum { LINE = 64 }; /* bytes that a processor fetches at once */

/* Has the processor fetch lines of a page, from `offset` on, that a scan comes to in a moment: its
 * own prefetching stops at the end of a page. Wherever the number leads, nothing but time can be
 * lost. Inlined always, because GCC takes a function that does nothing else for one without effect.
 */
static inline __attribute__((always_inline)) void
warm_lines(const struct snapshot *snapshot, uint64_t number, uint32_t offset, unsigned lines)
{
	uintptr_t at =
		(uintptr_t)snapshot->view.base + (number << snapshot->view.page_shift) + offset;

	for (unsigned i = 0; i < lines; i++)
		__builtin_prefetch((const void *)(at + (uintptr_t)i * LINE));
}

/* Damage stops a snapshot for good; other errors may pass. */
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

/* Whether there is anything in a tree but the page under a cursor. */
static inline bool cursor_leads_on(const struct cursor *cursor)
{
	return cursor->depth > 1 || cursor->tree->record.overflow_pages || cursor->duplicates;
}

/* After a step from one entry to the next: counts towards telling the watch. */
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
