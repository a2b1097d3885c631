/* SPDX-License-Identifier: OLDAP-2.8 */
/* Searches and walks a database of one snapshot.
 *
 * A cursor behaves as LMDB 0.9's, state for state: also after a miss, past the end, and between a
 * key and its duplicates. What it reads is distrusted; the answer to damage is MDB_CORRUPTED or
 * MDB_PAGE_NOTFOUND, after which the snapshot answers MDB_BAD_TXN, as the original's does.
 */
#ifndef LMDBIO_CURSOR_CURSOR_H
#define LMDBIO_CURSOR_CURSOR_H

#include "cursor/answers.h"
#include "cursor/compare.h"
#include "format/layout.h"
#include "format/meta.h"
#include "window/window.h"

#include <lmdb.h>
#include <stdbool.h>

struct cursor;
struct lookup;
struct entry;
struct snapshot;
struct tree;

/* What a cursor tells the look-ahead: after every cursor->pace steps one way it calls moved(),
 * which sets the next pace; a cursor that is set elsewhere or closed calls left(). Of records
 * that are looked up in equal steps the same is told by looked_up() and lost(). missed(): a lookup
 * has waited for pages of the tree, which the snapshot's view tells. */
struct cursor_watch {
	void (*moved)(struct cursor_watch *watch, struct cursor *cursor, bool forward);
	void (*left)(struct cursor_watch *watch, struct cursor *cursor);
	void (*looked_up)(struct cursor_watch *watch, struct snapshot *snapshot, struct tree *tree,
			  const struct comparator *order, const MDB_val *key,
			  struct lookup *lookup);
	void (*lost)(struct cursor_watch *watch, struct lookup *lookup);
	void (*missed)(struct cursor_watch *watch, struct snapshot *snapshot,
		       const struct tree *tree, const struct comparator *order, const MDB_val *key);
};

/* When a watch last looked at a cursor that it does not look ahead of. */
struct cursor_seen {
	uint64_t at;     /* nanoseconds; 0: not since the cursor was set */
	uint64_t faults; /* of the program's thread until then */
};

enum { CURSOR_PACE_FIRST = 4 }; /* steps one way before anybody is told */

enum snapshot_block {
	SNAPSHOT_FINISHED = 1, /* reset or ended */
	SNAPSHOT_DAMAGED = 2,  /* a page was not sound */
};

/* Where a record stood that was looked up. Addresses are compared alone, never followed. */
struct lookup_place {
	const uint8_t *leaf, *above; /* its leaf, and the branch over that or NULL */
	uint16_t index, count;       /* its place in the leaf, of so many */
	uint16_t place, places;      /* the leaf's in the branch */
};

/* Records of one tree that are looked up one after another, each a step forward from the last. */
struct lookup {
	uint64_t root; /* the tree's; 0: none */
	struct lookup_place last;
	uint64_t step; /* entries; 0: not known yet */
	int pace;      /* equal steps left before the watch is told */
	int paced;     /* what `pace` was set to */
	void *ahead;   /* the watch's */
};

/* Those of one thread: two, as of pictures and their labels. */
enum { LOOKUPS = 2 };
struct lookups {
	struct lookup each[LOOKUPS];
	unsigned next; /* to be given up for another */
	_Atomic bool busy; /* a thread is at them; with MDB_NOTLS several may share a transaction */
};

/* What all cursors of one transaction share. */
struct snapshot {
	struct window_view view;
	uint32_t page_size;
	enum format format; /* of the pages */
	unsigned blocked; /* enum snapshot_block bits; not 0: every call is MDB_BAD_TXN */
	unsigned serial;  /* grows with each renewal of the transaction */
	struct cursor_watch *watch; /* or NULL */
	struct lookups *lookups;    /* or NULL: they are not watched */
	uint64_t served; /* bytes of values handed out */
	unsigned answers; /* enum answers bits: those of the original that serves the environment */
};

/* What a program has said of how it will read a database. */
enum tree_pattern { PATTERN_UNKNOWN, PATTERN_SEQUENTIAL, PATTERN_RANDOM, PATTERN_STRIDE };

/* One database in one snapshot. */
struct tree {
	struct tree_record record;
	bool stale;       /* the record must be read from `home` before the first use */
	bool inline_page; /* duplicates in a sub-page: level 0 is it, there is no root */
	bool duplicates;  /* the tree of one key's duplicates */
	enum tree_pattern pattern;
	unsigned stride;  /* of PATTERN_STRIDE: entries from one that is read to the next */
	const MDB_val *name;                 /* of a stale tree */
	struct tree *home;                   /* where the name stands */
	const struct comparator *home_order; /* of the names */
};

enum cursor_state {
	CURSOR_PLACED = 1, /* the levels lead to a leaf */
	CURSOR_AT_END = 2, /* a step forward has found nothing more */
};

struct level {
	const uint8_t *page;
	uint16_t count; /* entries or items */
	uint16_t index; /* where the cursor stands; count = past the last */
	uint16_t flags; /* the page's */
};

struct cursor {
	struct snapshot *snapshot;
	struct tree *tree;
	const struct comparator *order;      /* of keys */
	const struct comparator *data_order; /* of single values with MDB_GET_BOTH */
	struct duplicates *duplicates;       /* of an MDB_DUPSORT database, else NULL */
	uint32_t page_size;                  /* of its pages: a sub-page has its own */
	uint16_t depth;                      /* levels in use */
	uint16_t state;                      /* enum cursor_state bits */
	unsigned serial;                     /* the snapshot's when the levels were last looked at */
	bool forward;                        /* the way of the last steps */
	int pace;                            /* steps left before the watch is told */
	int paced;                           /* what `pace` was set to */
	void *ahead;                         /* the watch's */
	struct cursor_seen seen;             /* the watch's, zero at first */
	struct level levels[FORMAT_DEPTH_MAX];
};

/* The second cursor of an MDB_DUPSORT database: inside the duplicates of one key. */
struct duplicates {
	struct cursor cursor;
	struct tree tree;
	struct comparator order;
	struct cursor *outer; /* whose it is, or NULL */
};

/* The cursor over the keys of one inside their duplicates, or NULL. */
static inline struct cursor *cursor_outer(struct cursor *cursor)
{
	return cursor->tree->duplicates ? ((struct duplicates *)cursor)->outer : NULL;
}

static inline const struct page_layout *snapshot_layout(const struct snapshot *snapshot)
{
	return &page_layouts[snapshot->format];
}

/* Makes a fresh cursor. `duplicates` is room for the second cursor, used when the tree has
 * MDB_DUPSORT. All pointers must outlive the cursor's use. */
void cursor_init(struct cursor *cursor, struct snapshot *snapshot, struct tree *tree,
		 const struct comparators *comparators, struct duplicates *duplicates);

/* mdb_cursor_get(). Returns 0, MDB_NOTFOUND, EINVAL, MDB_INCOMPATIBLE, MDB_BAD_VALSIZE,
 * MDB_BAD_TXN, MDB_BAD_DBI (as tree_refresh()), MDB_CORRUPTED, MDB_PAGE_NOTFOUND. */
int cursor_get(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);

/* mdb_cursor_count(). Returns 0, MDB_NOTFOUND, EINVAL, MDB_INCOMPATIBLE, MDB_BAD_TXN. */
int cursor_count(struct cursor *cursor, size_t *count);

/* Whether a cursor that has just moved stands at the record of a named database. *name (or NULL) is
 * then the name as the page has it, with the NUL that ends it in LMDB 1.0. */
bool cursor_at_database(const struct cursor *cursor, MDB_val *name);

/* mdb_get(): the value of a key, the first one of its duplicates. Returns as cursor_get(). */
int tree_get(struct snapshot *snapshot, struct tree *tree, const struct comparators *comparators,
	     const MDB_val *key, MDB_val *data);

/* The two, for a caller that knows of which LMDB the pages are. */
int cursor_get_0_9(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int cursor_get_1_0(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int tree_get_0_9(struct snapshot *snapshot, struct tree *tree,
		 const struct comparators *comparators, const MDB_val *key, MDB_val *data);
int tree_get_1_0(struct snapshot *snapshot, struct tree *tree,
		 const struct comparators *comparators, const MDB_val *key, MDB_val *data);

/* One step of a search, for a look-ahead: from page *number towards a key. *step tells what
 * *number is then. Returns 0, or as cursor_get(), or EAGAIN for a view that does not wait. */
enum tree_step {
	TREE_CHILD, /* the page to look at next */
	TREE_FIRST, /* the same, and on it the first entry: of the key's duplicates the first is
		       wanted */
	TREE_RUN,   /* the first of *pages pages of the value */
	TREE_END,   /* nothing more to bring: the value is in the leaf, or there is none */
};
int tree_step(struct snapshot *snapshot, const struct comparator *order, const MDB_val *key,
	      uint64_t *number, uint64_t *pages, enum tree_step *step);
/* The next one after TREE_FIRST, to the same, or to TREE_END. */
int tree_step_first(struct snapshot *snapshot, uint64_t *number, enum tree_step *step);

/* For a caller that knows a page's number: a page of a tree and how many entries or items it has.
 * Returns as cursor_get(). */
int tree_page(struct snapshot *snapshot, uint64_t number, const uint8_t **page, unsigned *count);
/* The value of an entry of a leaf page (no duplicates' entry), and where it stands: *pages pages
 * from *number on, or 0 pages: in the leaf. Returns as cursor_get(). */
int tree_value(struct snapshot *snapshot, const struct entry *entry, MDB_val *data);
void tree_run(const struct snapshot *snapshot, const struct entry *entry, uint64_t *number,
	      uint64_t *pages);

/* All of them end: the snapshot has changed, or will not be used any more. */
void lookups_end(struct lookups *lookups, struct cursor_watch *watch);

/* A cursor that will not be used any more, or not as it was. */
static inline void cursor_leave(struct cursor *cursor)
{
	if (unlikely(cursor->ahead != NULL) && cursor->snapshot->watch)
		cursor->snapshot->watch->left(cursor->snapshot->watch, cursor);
	cursor->pace = cursor->paced = CURSOR_PACE_FIRST;
	cursor->seen.at = 0;
}

/* Before a cursor is freed or made anew. Its snapshot need not exist any more. */
static inline void cursor_end(struct cursor *cursor)
{
	if (cursor->duplicates)
		cursor_leave(&cursor->duplicates->cursor);
	cursor_leave(cursor);
}

/* The record of a named database, from the tree that holds its name. Returns 0, MDB_NOTFOUND,
 * MDB_INCOMPATIBLE (the key is no database) or as cursor_get(). */
int tree_find_named(struct snapshot *snapshot, struct tree *home, const struct comparator *order,
		    const MDB_val *name, struct tree_record *record);

/* Reads the record of a stale tree. Returns 0, MDB_INCOMPATIBLE (the database has other flags
 * now), MDB_BAD_DBI (its name is gone, and the original says it so) or as tree_find_named(). */
int tree_refresh(struct snapshot *snapshot, struct tree *tree);

#endif
