/* SPDX-License-Identifier: OLDAP-2.8 */
/* Descends from a root to a leaf, and steps from a leaf to the next one. */
#include "cursor/instance.h"

#include <sched.h>

/* Prefetches the two entries of which the next step of a search will look at one. Always inlined:
 * GCC takes a function that only prefetches for one without effect. */
static inline __attribute__((always_inline)) void warm_halves(const uint8_t *page, int low,
							      int middle, int high)
{
	if (high - low < 2)
		return;
	__builtin_prefetch(page + page_offset(LAYOUT, page, (unsigned)(low + middle - 1) >> 1));
	__builtin_prefetch(page + page_offset(LAYOUT, page, (unsigned)(middle + 1 + high) >> 1));
}

/* Searches entries [low, count) by halving. `kind` is a constant in each instance, so that the
 * comparison is inlined in the loop. Returns the place of the first entry that is not below the
 * key, or -1 when an entry leaves the page. */
static inline __attribute__((always_inline)) int
search_entries(enum compare_kind kind, const struct comparator *order, const uint8_t *page,
	       uint32_t size, int low, int count, const MDB_val *key, bool *exact)
{
	int high = count - 1;

	while (low <= high) {
		int middle = (low + high) >> 1;
		const uint8_t *at;
		uint32_t at_size;
		int sign;

		if (unlikely(!page_entry_key(LAYOUT, page, size, (unsigned)middle, &at, &at_size)))
			return -1;
		warm_halves(page, low, middle, high);
		sign = compare_as(kind, order, key, at, at_size);
		if (!sign) {
			*exact = true;
			return middle;
		}
		if (sign > 0)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return low;
}

static int search_items(const struct comparator *order, const uint8_t *items, uint32_t pad,
			int count, const MDB_val *key, bool *exact)
{
	int low = 0, high = count - 1;

	while (low <= high) {
		int middle = (low + high) >> 1;
		int sign = compare_as(order->kind, order, key, items + (size_t)middle * pad, pad);

		if (!sign) {
			*exact = true;
			return middle;
		}
		if (sign > 0)
			low = middle + 1;
		else
			high = middle - 1;
	}
	return low;
}

static int search_page(const struct comparator *order, const uint8_t *page, uint32_t size, int low,
		       int count, const MDB_val *key, bool *exact)
{
	switch (order->kind) {
	case COMPARE_BYTES:
		return search_entries(COMPARE_BYTES, order, page, size, low, count, key, exact);
	case COMPARE_INTEGER:
		return search_entries(COMPARE_INTEGER, order, page, size, low, count, key, exact);
	default:
		return search_entries(order->kind, order, page, size, low, count, key, exact);
	}
}

int level_search(struct cursor *cursor, struct level *level, const MDB_val *key, bool *exact)
{
	int place;

	*exact = false;
	if (level->flags & PAGE_LEAF2)
		place = search_items(cursor->order, page_item(LAYOUT, level->page, 0, 0),
				     cursor->tree->record.pad, level->count, key, exact);
	else
		place = search_page(cursor->order, level->page, cursor->page_size, 0, level->count,
				    key, exact);
	if (unlikely(place < 0))
		return snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
	level->index = (uint16_t)place;
	return 0;
}

static inline int page_judge(const struct snapshot *snapshot, uint64_t number, const uint8_t *page,
			     unsigned *count)
{
	*count = page_count(LAYOUT, page, snapshot->page_size);
	return unlikely(!page_is_sound(LAYOUT, page, number) || !*count) ? MDB_CORRUPTED : 0;
}

/* A walk ahead of the program may have a copy of a page that the window does not show. */
static __attribute__((cold, noinline)) int page_missing(struct snapshot *snapshot, uint64_t number,
							const uint8_t **page, unsigned *count,
							int rc)
{
	if (rc == EAGAIN && snapshot->copies && !page_copy(snapshot, number, page))
		rc = page_judge(snapshot, number, *page, count);
	return rc ? snapshot_fail(snapshot, rc) : 0;
}

/* The only function that gets pages of a tree from the window. */
int tree_page(struct snapshot *snapshot, uint64_t number, const uint8_t **page, unsigned *count)
{
	int rc = window_pages(&snapshot->view, number, 1, page);

	if (likely(!rc))
		rc = page_judge(snapshot, number, *page, count);
	return likely(!rc) ? 0 : page_missing(snapshot, number, page, count, rc);
}

static int level_load(struct cursor *cursor, struct level *level, uint64_t number)
{
	const uint8_t *page;
	unsigned count, flags;
	int rc = tree_page(cursor->snapshot, number, &page, &count);

	if (unlikely(rc))
		return rc;
	flags = page_flags(LAYOUT, page);
	if (unlikely(flags & PAGE_LEAF2) &&
	    (!cursor->tree->duplicates ||
	     !page_items_fit(LAYOUT, cursor->page_size, count, cursor->tree->record.pad)))
		return snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
	level->page = page;
	level->count = (uint16_t)count;
	level->index = 0;
	level->flags = (uint16_t)flags;
	return 0;
}

/* Returns the entry of a branch page under which a key belongs, or -1. */
static int branch_place(const struct comparator *order, const uint8_t *page, uint32_t size,
			unsigned count, const MDB_val *key)
{
	bool exact = false;
	int place = search_page(order, page, size, 1, (int)count, key, &exact);

	/* Entry 0 has no key of its own: all keys below entry 1's belong there. */
	return place <= 0 || exact ? place : place - 1;
}

static int cursor_root(struct cursor *cursor)
{
	struct tree *tree = cursor->tree;
	int rc;

	if (unlikely(cursor->snapshot->blocked))
		return MDB_BAD_TXN;
	if (unlikely(tree->stale) && (rc = tree_refresh(cursor->snapshot, tree)))
		return rc;
	if (tree->inline_page)
		return 0;
	if (tree->record.root == PAGE_NONE)
		return MDB_NOTFOUND;
	rc = level_load(cursor, &cursor->levels[0], tree->record.root);
	if (!rc)
		cursor->depth = 1;
	return rc;
}

int cursor_descend(struct cursor *cursor, enum descent how, const MDB_val *key)
{
	struct level *level;
	int rc = cursor_root(cursor);

	if (rc)
		return rc;
	for (level = &cursor->levels[0]; level->flags & PAGE_BRANCH; level++) {
		uint64_t child;
		int place = how == DESCEND_FIRST ? 0 : level->count - 1;

		if (how == DESCEND_KEY)
			place = branch_place(cursor->order, level->page, cursor->page_size,
					     level->count, key);
		if (unlikely(place < 0 || cursor->depth == FORMAT_DEPTH_MAX ||
			     !page_child(LAYOUT, level->page, cursor->page_size, (unsigned)place,
					 &child))) {
			rc = snapshot_fail(cursor->snapshot, MDB_CORRUPTED);
			goto fail;
		}
		level->index = (uint16_t)place;
		rc = level_load(cursor, level + 1, child);
		if (unlikely(rc))
			goto fail;
		cursor->depth++;
	}
	cursor->state = CURSOR_PLACED;
	return 0;

fail:
	cursor->state = 0;
	return rc;
}

/* Looks a branch page up again. While its children were read, the store may have put the file back
 * under the page. A copy stays as it is. */
static int level_again(struct cursor *cursor, const struct level *level)
{
	struct window_view *view = &cursor->snapshot->view;
	uint64_t number = (uint64_t)(level->page - view->base) >> view->page_shift;
	const uint8_t *page;
	int rc;

	if (likely(!view->store) || number >= view->limit)
		return 0;
	rc = window_pages(view, number, 1, &page);
	return likely(!rc) ? 0 : snapshot_fail(cursor->snapshot, rc);
}

/* The offset of the entry with which a walk in this direction begins a page. */
static inline uint32_t edge_of(const struct cursor *cursor, const struct level *level, bool forward)
{
	return level->flags & PAGE_LEAF2
		       ? 0
		       : page_offset(LAYOUT, level->page, forward ? 0 : level->count - 1u) &
				 (cursor->page_size - 1);
}

/* Prefetches the page behind the one that a walk has reached: its header, and the entries with which
 * the walk begins it. They stand from the end of the page downwards. */
static inline __attribute__((always_inline)) void prefetch_sibling(const struct cursor *cursor,
								   const struct level *parent,
								   uint32_t edge, bool forward)
{
	enum { LINES = 8, LINE = 64 /* bytes */ }; /* 12 lines gain half as much, 20 nothing */
	const struct window_view *view = &cursor->snapshot->view;
	unsigned next = forward ? parent->index + 1u : parent->index - 1u;
	uint64_t number;
	uintptr_t at;

	if (next >= parent->count ||
	    !page_child(LAYOUT, parent->page, cursor->page_size, next, &number))
		return;
	at = (uintptr_t)view->base + (number << view->page_shift);
	__builtin_prefetch((const void *)at);
	at += forward ? edge + LINE : edge;
	for (unsigned i = 0; i < LINES; i++, at = forward ? at - LINE : at + LINE)
		__builtin_prefetch((const void *)at);
}

/* Steps to the neighbour of the lowest page, which for cursor_get() is a leaf: up to the first
 * level with a neighbour, and down again along the near edge. Returns MDB_NOTFOUND, without a move,
 * when there is none. */
int cursor_sibling(struct cursor *cursor, bool forward)
{
	struct level *level;
	int top = cursor->depth - 1, at = top - 1, rc;
	unsigned kind = cursor->levels[top].flags & (PAGE_BRANCH | PAGE_LEAF);
	uint32_t edge;

	for (; at >= 0; at--) {
		level = &cursor->levels[at];
		if (forward ? level->index + 1 < level->count : level->index > 0)
			break;
	}
	if (at < 0)
		return MDB_NOTFOUND;
	edge = edge_of(cursor, &cursor->levels[top], forward);
	rc = level_again(cursor, level);
	if (unlikely(rc))
		goto fail;
	level->index = (uint16_t)(forward ? level->index + 1 : level->index - 1);
	for (; at < top; at++, level++) {
		uint64_t child;

		rc = MDB_CORRUPTED;
		if (unlikely(!(level->flags & PAGE_BRANCH) ||
			     !page_child(LAYOUT, level->page, cursor->page_size, level->index,
					 &child)))
			goto damaged;
		rc = level_load(cursor, level + 1, child);
		if (unlikely(rc))
			goto fail;
		level[1].index = (uint16_t)(forward ? 0 : level[1].count - 1);
	}
	if (likely(level->flags & kind)) {
		/* The first entry's cache line, while the header's is on its way: nearly all leaf
		 * pages of a tree have it at the same offset. Processors drop a prefetch of a page
		 * whose address they have not translated yet, but no load. */
		(void)*(const volatile uint8_t *)(level->page + edge);
		if (cursor->snapshot->view.prefetch_pays)
			prefetch_sibling(cursor, level - 1, edge, forward);
		return 0;
	}
	rc = MDB_CORRUPTED;
damaged:
	snapshot_fail(cursor->snapshot, rc);
fail:
	cursor->state = 0;
	return rc;
}

/* Finds the entry of a key and where it stands, without a cursor. */
static inline __attribute__((always_inline)) int
tree_find(struct snapshot *snapshot, struct tree *tree, const struct comparator *order,
	  const MDB_val *key, struct entry *entry, struct lookup_place *at)
{
	uint64_t number = tree->record.root;
	const uint8_t *page;
	unsigned count, depth;
	bool exact = false;
	int place, rc;

	if (number == PAGE_NONE)
		return MDB_NOTFOUND;
	for (depth = 0; depth < FORMAT_DEPTH_MAX; depth++) {
		rc = tree_page(snapshot, number, &page, &count);
		if (unlikely(rc))
			return rc;
		if (page_flags(LAYOUT, page) & PAGE_LEAF)
			break;
		place = branch_place(order, page, snapshot->page_size, count, key);
		if (unlikely(place < 0 || !page_child(LAYOUT, page, snapshot->page_size,
						      (unsigned)place, &number)))
			return snapshot_fail(snapshot, MDB_CORRUPTED);
		at->above = page;
		at->place = (uint16_t)place;
		at->places = (uint16_t)count;
	}
	if (unlikely(depth == FORMAT_DEPTH_MAX || page_flags(LAYOUT, page) & PAGE_LEAF2))
		return snapshot_fail(snapshot, MDB_CORRUPTED);
	place = search_page(order, page, snapshot->page_size, 0, (int)count, key, &exact);
	if (unlikely(place < 0))
		return snapshot_fail(snapshot, MDB_CORRUPTED);
	if (!exact)
		return MDB_NOTFOUND;
	if (unlikely(!page_leaf_entry(LAYOUT, page, snapshot->page_size, (unsigned)place, entry)))
		return snapshot_fail(snapshot, MDB_CORRUPTED);
	at->leaf = page;
	at->index = (uint16_t)place;
	at->count = (uint16_t)count;
	return 0;
}

int tree_step(struct snapshot *snapshot, const struct comparator *order, const MDB_val *key,
	      uint64_t *number, uint64_t *pages, enum tree_step *step)
{
	const uint8_t *page;
	struct entry entry;
	bool exact = false;
	unsigned count;
	int place, rc = tree_page(snapshot, *number, &page, &count);

	if (rc)
		return rc;
	if (!(page_flags(LAYOUT, page) & PAGE_LEAF)) {
		*step = TREE_CHILD;
		place = branch_place(order, page, snapshot->page_size, count, key);
		return place >= 0 && page_child(LAYOUT, page, snapshot->page_size, (unsigned)place,
						number)
			       ? 0
			       : MDB_CORRUPTED;
	}
	*step = TREE_END;
	if (page_flags(LAYOUT, page) & PAGE_LEAF2)
		return MDB_CORRUPTED;
	place = search_page(order, page, snapshot->page_size, 0, (int)count, key, &exact);
	if (place < 0)
		return MDB_CORRUPTED;
	if (!exact || !page_leaf_entry(LAYOUT, page, snapshot->page_size, (unsigned)place, &entry))
		return 0;
	if (entry.flags & ENTRY_BIG) {
		*step = TREE_RUN;
		tree_run(snapshot, &entry, number, pages);
	} else if (entry.flags & ENTRY_DUPS && entry.flags & ENTRY_SUBTREE &&
		   entry.data_size == TREE_SIZE) {
		struct tree_record record;

		tree_record_parse(&record, entry.data);
		*step = TREE_FIRST;
		*number = record.root;
	}
	return 0;
}

int tree_get(struct snapshot *snapshot, struct tree *tree, const struct comparators *comparators,
	     const MDB_val *key, MDB_val *data)
{
	struct duplicates duplicates;
	struct lookup_place at = {0};
	struct entry entry;
	int rc;

	if (unlikely(!key->mv_size))
		return MDB_BAD_VALSIZE;
	if (unlikely(tree->stale) && (rc = tree_refresh(snapshot, tree)))
		return rc;
	rc = tree_find(snapshot, tree, &comparators->key, key, &entry, &at);
	if (rc)
		return rc;
	if (snapshot->lookups)
		lookups_take(snapshot, tree, &comparators->key, key, &at);
	if (likely(!(entry.flags & ENTRY_DUPS)))
		return entry_value(snapshot, &entry, data);
	if (!(tree->record.flags & MDB_DUPSORT))
		return snapshot_fail(snapshot, MDB_CORRUPTED);
	duplicates_init(&duplicates, snapshot, &comparators->data);
	rc = duplicates_enter(snapshot, tree, &duplicates, &entry);
	if (!rc)
		rc = cursor_first(&duplicates.cursor, data, NULL);
	if (!rc)
		snapshot_serve(snapshot, data->mv_size);
	return rc;
}

int tree_step_first(struct snapshot *snapshot, uint64_t *number, enum tree_step *step)
{
	const uint8_t *page;
	unsigned count;
	int rc = tree_page(snapshot, *number, &page, &count);

	if (rc)
		return rc;
	*step = page_flags(LAYOUT, page) & PAGE_LEAF ? TREE_END : TREE_FIRST;
	return *step == TREE_END || page_child(LAYOUT, page, snapshot->page_size, 0, number)
		       ? 0
		       : MDB_CORRUPTED;
}

int tree_value(struct snapshot *snapshot, const struct entry *entry, MDB_val *data)
{
	return entry_value(snapshot, entry, data);
}

void tree_run(const struct snapshot *snapshot, const struct entry *entry, uint64_t *number,
	      uint64_t *pages)
{
	*number = entry->flags & ENTRY_BIG ? load64(entry->data) : 0;
	*pages = entry->flags & ENTRY_BIG
			 ? value_pages(LAYOUT, entry->data_size, snapshot->view.page_shift)
			 : 0;
}

int tree_find_named(struct snapshot *snapshot, struct tree *home, const struct comparator *order,
		    const MDB_val *name, struct tree_record *record)
{
	struct lookup_place at;
	struct entry entry;
	int rc;

	if (unlikely(!name->mv_size))
		return MDB_BAD_VALSIZE;
	rc = tree_find(snapshot, home, order, name, &entry, &at);
	if (rc)
		return rc;
	if ((entry.flags & (ENTRY_DUPS | ENTRY_SUBTREE)) != ENTRY_SUBTREE)
		return MDB_INCOMPATIBLE;
	if (entry.flags & ENTRY_BIG || entry.data_size != TREE_SIZE)
		return snapshot_fail(snapshot, MDB_CORRUPTED);
	tree_record_parse(record, entry.data);
	return 0;
}

/* Makes a stale tree's record known. Its flags are the same, and threads look at them without
 * asking whether the tree is stale. */
static void record_set(struct tree *tree, const struct tree_record *record)
{
	unsigned char stale = TREE_STALE;

	if (!atomic_compare_exchange_strong(&tree->stale, &stale, TREE_CHANGING)) {
		while (atomic_load(&tree->stale) == TREE_CHANGING)
			sched_yield();
		return;
	}
	tree->record.pad = record->pad;
	tree->record.depth = record->depth;
	tree->record.branch_pages = record->branch_pages;
	tree->record.leaf_pages = record->leaf_pages;
	tree->record.overflow_pages = record->overflow_pages;
	tree->record.entries = record->entries;
	tree->record.root = record->root;
	atomic_store(&tree->stale, TREE_KNOWN);
}

int tree_refresh(struct snapshot *snapshot, struct tree *tree)
{
	const uint16_t persistent = 0x7fff;
	struct tree_record record;
	int rc = MDB_NOTFOUND; /* a closed handle has no name */

	if (tree->name->mv_size)
		rc = tree_find_named(snapshot, tree->home, tree->home_order, tree->name, &record);
	/* LMDB does not look for the name in a home without any record. */
	if (rc == MDB_NOTFOUND && tree->home->record.root != PAGE_NONE &&
	    snapshot->answers & ANSWERS_GONE_IS_BAD_DBI)
		return MDB_BAD_DBI;
	if (rc)
		return rc;
	/* A writer may have dropped the database and made it anew with other flags. */
	if ((tree->record.flags & persistent) != record.flags)
		return MDB_INCOMPATIBLE;
	record_set(tree, &record);
	return 0;
}
