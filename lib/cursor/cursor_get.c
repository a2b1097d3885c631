/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs each MDB_cursor_op on a cursor. */
#include "cursor/instance.h"

/* Sets the fields that are the same for all cursors. */
static void cursor_begin(struct cursor *cursor, struct snapshot *snapshot)
{
	cursor->snapshot = snapshot;
	cursor->duplicates = NULL;
	cursor->page_size = snapshot->page_size;
	cursor->depth = 0;
	cursor->state = 0;
	cursor->serial = snapshot->serial;
	cursor->ahead = NULL;
	cursor->seen.at = 0;
	cursor->forward = true;
	cursor->pace = cursor->paced = CURSOR_PACE_FIRST;
}

void duplicates_init(struct duplicates *duplicates, struct snapshot *snapshot,
		     const struct comparator *order)
{
	struct cursor *cursor = &duplicates->cursor;

	duplicates->order = *order;
	duplicates->outer = NULL;
	duplicates->tree = (struct tree){.duplicates = true, .record.root = PAGE_NONE};
	cursor_begin(cursor, snapshot);
	cursor->tree = &duplicates->tree;
	cursor->order = &duplicates->order;
	cursor->data_order = NULL;
}

void cursor_init(struct cursor *cursor, struct snapshot *snapshot, struct tree *tree,
		 const struct comparators *comparators, struct duplicates *duplicates)
{
	cursor_begin(cursor, snapshot);
	cursor->tree = tree;
	cursor->order = &comparators->key;
	cursor->data_order = &comparators->data;
	if (tree->record.flags & MDB_DUPSORT) {
		cursor->duplicates = duplicates;
		duplicates_init(duplicates, snapshot, &comparators->data);
		duplicates->outer = cursor;
	}
	if (tree->stale) {
		/* The first use of the cursor meets the same error and returns it. */
		int rc = tree_refresh(snapshot, tree);

		(void)rc;
	}
}

static int get_current(struct cursor *cursor, MDB_val *key, MDB_val *data)
{
	struct level *level;
	struct entry entry;
	int rc;

	if (!(cursor->state & CURSOR_PLACED))
		return EINVAL;
	level = cursor_top(cursor);
	if (level->index >= level->count)
		return MDB_NOTFOUND;
	if (level->flags & PAGE_LEAF2)
		return level_item(cursor, level, key);
	rc = cursor_entry(cursor, level, &entry);
	if (rc)
		return rc;
	entry_key(&entry, key);
	if (!data)
		return 0;
	if (!(entry.flags & ENTRY_DUPS))
		return entry_value(cursor->snapshot, &entry, data);
	if (!cursor->duplicates)
		return snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
	return get_current(&cursor->duplicates->cursor, data, NULL);
}

/* Returns whether a cursor in an unusual state is placed. May clear CURSOR_AT_END. */
static __attribute__((noinline)) bool edge_state(struct cursor *cursor)
{
	const struct level *level;

	if (!(cursor->state & CURSOR_PLACED))
		return false;
	level = cursor_top(cursor);
	if (cursor->snapshot->answers & ANSWERS_EDGE_ENDS_END && cursor->duplicates &&
	    level->index < level->count)
		cursor->state &= (uint16_t)~CURSOR_AT_END;
	return true;
}

/* MDB_FIRST_DUP, MDB_LAST_DUP. */
static int get_edge_duplicate(struct cursor *cursor, MDB_val *key, MDB_val *data,
			      int (*edge)(struct cursor *, MDB_val *, MDB_val *))
{
	struct level *level;
	struct entry entry;
	int rc;

	if (!data || (unlikely(cursor->state != CURSOR_PLACED) && !edge_state(cursor)))
		return EINVAL;
	if (!cursor->duplicates)
		return MDB_INCOMPATIBLE;
	level = cursor_top(cursor);
	if (level->index >= level->count)
		return MDB_NOTFOUND;
	rc = cursor_entry(cursor, level, &entry);
	if (rc)
		return rc;
	if (!(entry.flags & ENTRY_DUPS)) {
		entry_key(&entry, key);
		return entry_value(cursor->snapshot, &entry, data);
	}
	if (!(cursor->duplicates->cursor.state & CURSOR_PLACED))
		return EINVAL;
	return edge(&cursor->duplicates->cursor, data, NULL);
}

/* Returns all items of the page under the second cursor and sets that cursor on the last item,
 * which counts as a step for each. */
static int get_items(struct cursor *cursor, MDB_val *data)
{
	struct cursor *inner = &cursor->duplicates->cursor;
	struct level *level = cursor_top(inner);
	uint32_t pad = inner->tree->record.pad;

	if (!page_items_fit(LAYOUT, inner->page_size, level->count, pad))
		return snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
	data->mv_size = (size_t)level->count * pad;
	snapshot_serve(cursor->snapshot, data->mv_size);
	data->mv_data = (void *)(uintptr_t)page_item(LAYOUT, level->page, 0, pad);
	level->index = (uint16_t)(level->count - 1);
	inner->pace -= level->count - 1;
	return 0;
}

/* MDB_GET_MULTIPLE, MDB_NEXT_MULTIPLE, MDB_PREV_MULTIPLE. */
static int get_multiple(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	struct cursor *inner;
	int rc = 0;

	if (!data || (op == MDB_GET_MULTIPLE && !(cursor->state & CURSOR_PLACED)))
		return EINVAL;
	if (!(cursor->tree->record.flags & MDB_DUPFIXED) || !cursor->duplicates)
		return MDB_INCOMPATIBLE;
	inner = &cursor->duplicates->cursor;
	if (op == MDB_GET_MULTIPLE) {
		if (!(inner->state & CURSOR_PLACED) || inner->state & CURSOR_AT_END)
			return 0;
		return get_items(cursor, data);
	}
	if (op == MDB_NEXT_MULTIPLE)
		rc = cursor_next(cursor, key, data, MDB_NEXT_DUP);
	else if (!(cursor->state & CURSOR_PLACED))
		rc = cursor_last(cursor, key, data);
	if (rc)
		return rc;
	if (!(inner->state & CURSOR_PLACED))
		return MDB_NOTFOUND;
	if (op == MDB_PREV_MULTIPLE) {
		rc = cursor_sibling(inner, false);
		if (!rc)
			cursor_stepped(inner, false);
	}
	return rc ? rc : get_items(cursor, data);
}

/* Finds the value of a step in an overflow run. Returns false if the ordinary way must handle
 * it. Calls no function, so that a step saves no registers. */
static inline __attribute__((always_inline)) bool
step_to_run(struct snapshot *snapshot, const uint8_t *reference, uint32_t data_size, MDB_val *data)
{
	uint64_t number = load64(reference);
	uint64_t pages = value_pages(LAYOUT, data_size, snapshot->view.page_shift);
	const uint8_t *run;

	snapshot_run(snapshot, reference);
	if (unlikely(number < FORMAT_METAS ||
		     !window_knows_run(&snapshot->view, number, pages, &run)))
		return false;
	snapshot_serve(snapshot, data_size);
	data->mv_size = data_size;
	data->mv_data = (void *)(uintptr_t)page_value(LAYOUT, run);
	return true;
}

/* Bytes of the largest value whose successor is prefetched. Scans of values of 196 KB are as fast
 * without: the processor's own prefetch follows a program through them. */
enum { AHEAD_MOST = 8 << 10 };

/* Prefetches the first lines of the value to which the next step in this direction leads, if the
 * value stands in an overflow run: the processor's own prefetch stops at the end of a page. A damaged
 * number costs only time. Returns 0. Not inlined: inlined it makes scans of 100 bytes, which do
 * without it, 3 % slower. */
static __attribute__((noinline)) int prefetch_value(struct cursor *cursor, int by)
{
	enum { LINES = 4, LINE = 64 /* bytes */ };
	const struct window_view *view = &cursor->snapshot->view;
	const struct level *level = cursor_top(cursor);
	unsigned next = level->index + (unsigned)by;
	struct entry entry;
	uintptr_t at;

	if (next >= level->count ||
	    !page_whole_entry(LAYOUT, level->page, cursor->page_size, next, &entry) ||
	    !(entry.flags & ENTRY_BIG))
		return 0;
	at = (uintptr_t)view->base + (load64(entry.data) << view->page_shift);
	for (unsigned i = 0; i < LINES; i++)
		__builtin_prefetch((const void *)(at + (uintptr_t)i * LINE));
	return 0;
}

enum step {
	STEP_NONE, /* without a move: it is not that easy */
	STEP_DONE,
	STEP_TO_RUN, /* and the next value is worth a prefetch */
};

/* Entries that step_inside() leaves alone: keys with duplicates, and names of databases that end
 * with a byte which programs do not see. */
#define STEP_APART (LAYOUT->name_end ? ENTRY_DUPS | ENTRY_SUBTREE : ENTRY_DUPS)

/* Returns whether `bytes` bytes at `at` are inside `room`. Data at an even offset may begin
 * outside; the caller has checked that other data does not. */
static inline __attribute__((always_inline)) bool is_inside(uint32_t at, uint32_t bytes,
							    uint32_t room)
{
	return LAYOUT->odd ? (uint64_t)at + bytes <= room : bytes <= room - at;
}

/* Steps within a leaf page of single values, as nearly all steps of a scan do. So the code is
 * written out, and only what the caller gets lives in memory. */
static inline __attribute__((always_inline)) enum step
step_inside(struct cursor *cursor, MDB_val *key, MDB_val *data, int by)
{
	uint32_t size = cursor->page_size, offset, key_size, data_at, data_size, flags;
	struct level *level;
	const uint8_t *at;
	enum step step = STEP_DONE;
	unsigned next;

	if (unlikely(cursor->state != CURSOR_PLACED || cursor->pace <= 1 ||
		     cursor->forward != (by > 0)))
		return STEP_NONE;
	level = cursor_top(cursor);
	next = level->index + (unsigned)by; /* a step back from entry 0 wraps to a number above
					       the count */
	if (unlikely(next >= level->count || level->flags & PAGE_LEAF2))
		return STEP_NONE;
	offset = page_offset(LAYOUT, level->page, next);
	if (unlikely(offset < LAYOUT->least || offset > size - ENTRY_KEY))
		return STEP_NONE;
	at = level->page + offset;
	key_size = load16(at + ENTRY_KEY_SIZE);
	flags = load16(at + ENTRY_FLAGS);
	data_size = load16(at + ENTRY_LOW) | (uint32_t)load16(at + ENTRY_HIGH) << 16;
	size -= ENTRY_KEY + offset;
	data_at = entry_data_at(LAYOUT, key_size);
	if (unlikely((!LAYOUT->odd && data_at > size) || flags & STEP_APART))
		return STEP_NONE;
	if (flags & ENTRY_BIG) {
		if (unlikely(!is_inside(data_at, LAYOUT->reference, size)))
			return STEP_NONE;
		if (likely(data)) {
			if (!step_to_run(cursor->snapshot, at + ENTRY_KEY + data_at, data_size,
					 data))
				return STEP_NONE;
			if (data_size <= AHEAD_MOST && cursor->snapshot->view.prefetch_pays)
				step = STEP_TO_RUN;
		}
	} else {
		if (unlikely(!is_inside(data_at, data_size, size)))
			return STEP_NONE;
		if (likely(data)) {
			snapshot_serve(cursor->snapshot, data_size);
			data->mv_size = data_size;
			data->mv_data = (void *)(uintptr_t)(at + ENTRY_KEY + data_at);
		}
	}
	level->index = (uint16_t)next;
	cursor->pace--;
	if (likely(key)) {
		key->mv_size = key_size;
		key->mv_data = (void *)(uintptr_t)(at + ENTRY_KEY);
	}
	return step;
}

/* Readies a cursor after its transaction was renewed: LMDB lets it go on over the pages where it
 * stood. A writer may have changed them between the two transactions, so they are looked up
 * again. */
static int cursor_revive(struct cursor *cursor)
{
	struct window_view *view = &cursor->snapshot->view;
	bool has_pages = cursor->state & CURSOR_PLACED && !cursor->tree->inline_page;
	const uint8_t *page;
	int rc = 0;

	for (unsigned i = 0; has_pages && i < cursor->depth && !rc; i++) {
		uint64_t offset = (uint64_t)(cursor->levels[i].page - view->base);

		rc = window_pages(view, offset >> view->page_shift, 1, &page);
	}
	if (!rc && cursor->duplicates)
		rc = cursor_revive(&cursor->duplicates->cursor);
	/* The pages are gone: the cursor counts as not set. */
	if (rc == MDB_PAGE_NOTFOUND || rc == MDB_CORRUPTED || rc == MDB_BAD_CHECKSUM) {
		cursor->state = 0;
		rc = 0;
	}
	/* After a failed read, the next call looks the pages up again. */
	if (!rc)
		cursor->serial = cursor->snapshot->serial;
	return rc;
}

static __attribute__((noinline)) int get_by_operation(struct cursor *cursor, MDB_val *key,
						       MDB_val *data, MDB_cursor_op op)
{
	switch (op) {
	case MDB_NEXT:
	case MDB_NEXT_DUP:
	case MDB_NEXT_NODUP:
		return cursor_next(cursor, key, data, op);
	case MDB_PREV:
	case MDB_PREV_DUP:
	case MDB_PREV_NODUP:
		return cursor_previous(cursor, key, data, op);
	case MDB_FIRST:
		return cursor_first(cursor, key, data);
	case MDB_LAST:
		return cursor_last(cursor, key, data);
	case MDB_GET_CURRENT:
		return get_current(cursor, key, data);
	case MDB_GET_BOTH:
	case MDB_GET_BOTH_RANGE:
		if (!data)
			return EINVAL;
		if (!cursor->duplicates)
			return MDB_INCOMPATIBLE;
		/* fallthrough */
	case MDB_SET:
	case MDB_SET_KEY:
	case MDB_SET_RANGE:
		return key ? cursor_set(cursor, key, data, op, op != MDB_SET_RANGE) : EINVAL;
	case MDB_FIRST_DUP:
		return get_edge_duplicate(cursor, key, data, cursor_first);
	case MDB_LAST_DUP:
		return get_edge_duplicate(cursor, key, data, cursor_last);
	case MDB_GET_MULTIPLE:
	case MDB_NEXT_MULTIPLE:
	case MDB_PREV_MULTIPLE:
		return get_multiple(cursor, key, data, op);
	}
	return EINVAL;
}

static __attribute__((noinline)) int get_any(struct cursor *cursor, MDB_val *key, MDB_val *data,
					     MDB_cursor_op op)
{
	uint64_t served;
	int rc;

	if (unlikely(cursor->snapshot->blocked))
		return MDB_BAD_TXN;
	if (unlikely(cursor->serial != cursor->snapshot->serial) && (rc = cursor_revive(cursor)))
		return rc;
	served = cursor->snapshot->served;
	rc = get_by_operation(cursor, key, data, op);
	/* A duplicate is a key of the second cursor, and `served` does not count keys. */
	if (cursor->duplicates && data && !rc && cursor->snapshot->served == served &&
	    op != MDB_GET_MULTIPLE)
		snapshot_serve(cursor->snapshot, data->mv_size);
	return rc;
}

int cursor_get(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	bool ready = likely(!cursor->duplicates && !cursor->snapshot->blocked &&
			    cursor->serial == cursor->snapshot->serial);
	enum step step = STEP_NONE;
	int by = 1;

	if (ready && op == MDB_NEXT)
		step = step_inside(cursor, key, data, 1);
	if (ready && op == MDB_PREV)
		step = step_inside(cursor, key, data, by = -1);
	if (likely(step == STEP_DONE))
		return 0;
	if (step == STEP_TO_RUN)
		return prefetch_value(cursor, by);
	return get_any(cursor, key, data, op);
}

int cursor_count(struct cursor *cursor, size_t *count)
{
	struct level *level;
	struct entry entry;
	int rc;

	if (!cursor->duplicates)
		return MDB_INCOMPATIBLE;
	if (cursor->snapshot->blocked)
		return MDB_BAD_TXN;
	if (cursor->serial != cursor->snapshot->serial && (rc = cursor_revive(cursor)))
		return rc;
	if (!(cursor->state & CURSOR_PLACED))
		return EINVAL;
	level = cursor_top(cursor);
	if (level->index >= level->count)
		return MDB_NOTFOUND;
	cursor->state &= (uint16_t)~CURSOR_AT_END;
	rc = cursor_entry(cursor, level, &entry);
	if (rc)
		return rc;
	if (!(entry.flags & ENTRY_DUPS)) {
		*count = 1;
		return 0;
	}
	if (!(cursor->duplicates->cursor.state & CURSOR_PLACED))
		return EINVAL;
	*count = cursor->duplicates->tree.record.entries;
	return 0;
}
