/* SPDX-License-Identifier: OLDAP-2.8 */
/* Searches and walks a database of one snapshot.
 *
 * A cursor behaves as LMDB 0.9's, state for state: also after a miss, past the end, and between a
 * key and its duplicates. It distrusts the pages that it reads. A damaged page gives MDB_CORRUPTED
 * or MDB_PAGE_NOTFOUND; after that the snapshot answers MDB_BAD_TXN, as the original's does.
 */
#ifndef LMDBIO_CURSOR_CURSOR_H
#define LMDBIO_CURSOR_CURSOR_H

#include "cursor/answers.h"
#include "cursor/compare.h"
#include "format/layout.h"
#include "format/meta.h"
#include "window/window.h"

#include <lmdb.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cursor;
struct lookup;
struct entry;
struct snapshot;
struct tree;

/* The look-ahead's functions that cursors and lookups call. A cursor calls moved() after every
 * cursor->pace steps in one direction, and moved() sets the next pace. A cursor calls left() when
 * the program sets it elsewhere or closes it. Lookups in equal steps call looked_up() and lost() in
 * the same way. A lookup calls missed() if it waited for pages of the tree, as the snapshot's view
 * says. */
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

/* When a watch last looked at a cursor without starting a look-ahead for it. */
struct cursor_seen {
	uint64_t at;     /* nanoseconds; 0: not since the cursor was set */
	uint64_t faults; /* of the program's thread until then */
};

enum { CURSOR_PACE_FIRST = 4 }; /* steps in one direction before the first call of moved() */

enum snapshot_block {
	SNAPSHOT_FINISHED = 1, /* reset or ended */
	SNAPSHOT_DAMAGED = 2,  /* a page was not sound */
};

/* Where a looked-up record stood. The addresses are only compared, never followed. */
struct lookup_place {
	const uint8_t *leaf, *above; /* its leaf; the branch page over that leaf, or NULL */
	uint16_t index, count;       /* the record's place in the leaf, and the leaf's entries */
	uint16_t place, places;      /* the leaf's place in the branch page, and that page's
					entries */
};

/* A series of lookups in one tree, each a step forward from the last. */
struct lookup {
	uint64_t root; /* root page of the tree; 0: none */
	struct lookup_place last;
	uint64_t step; /* entries; 0: not known yet */
	int pace;      /* equal steps left before the watch is called */
	int paced;     /* what `pace` was set to */
	void *ahead;   /* belongs to the watch */
};

/* The series of one thread: two, as a program may look up pictures and their labels in turn. */
enum { LOOKUPS = 2 };
struct lookups {
	struct lookup each[LOOKUPS];
	unsigned next;     /* the series to replace next */
	bool shared;       /* threads may share the transaction (MDB_NOTLS) */
	_Atomic unsigned busy; /* if so, a thread uses these lookups: fork_generation of its
				  process, plus one; 0: none */
};

enum {
	PAGE_COPIES_CURSORS = 3,
	PAGE_COPIES = 1 + PAGE_COPIES_CURSORS * (FORMAT_DEPTH_MAX + 1),
};

/* The pages that a walk ahead of the program has copied (page_copies.c). */
struct page_copies {
	const struct cursor *cursors[PAGE_COPIES_CURSORS]; /* of the walk, or NULL */
	uint8_t *bytes;                /* PAGE_COPIES pages, or NULL: there are no copies */
	uint64_t numbers[PAGE_COPIES]; /* of the pages; 0: none */
	unsigned last;                 /* the place that was taken last */
};

/* State that all cursors of one transaction share. */
struct snapshot {
	struct window_view view;
	uint32_t page_size;
	enum format format; /* of the pages */
	unsigned blocked;   /* enum snapshot_block bits; not 0: every call returns MDB_BAD_TXN */
	unsigned serial;  /* grows with each renewal of the transaction */
	struct cursor_watch *watch; /* or NULL */
	struct lookups *lookups;    /* or NULL: lookups are not watched */
	struct page_copies *copies; /* for pages that the window does not show; or NULL */
	_Atomic uint64_t served;    /* bytes of values handed out; see snapshot_serve() */
	unsigned answers; /* enum answers bits of the environment's original */
};

/* Counts bytes of values. Where threads share a transaction (MDB_NOTLS), some may go uncounted: a
 * locked addition would cost each value five nanoseconds. */
static inline void snapshot_serve(struct snapshot *snapshot, uint64_t bytes)
{
	bytes += atomic_load_explicit(&snapshot->served, memory_order_relaxed);
	atomic_store_explicit(&snapshot->served, bytes, memory_order_relaxed);
}

/* Whether a tree's record is known in this snapshot. */
enum tree_state { TREE_KNOWN, TREE_STALE, TREE_CHANGING };

/* How the program says it will read a database. */
enum tree_pattern { PATTERN_UNKNOWN, PATTERN_SEQUENTIAL, PATTERN_RANDOM, PATTERN_STRIDE };

/* One database in one snapshot. */
struct tree {
	struct tree_record record;
	/* enum tree_state: the record of a stale tree must be read from `home` before the first
	 * use. One of the threads that share the transaction does so. */
	atomic_uchar stale;
	bool inline_page; /* duplicates in a sub-page, which is level 0; there is no root */
	bool duplicates;  /* the tree of one key's duplicates */
	enum tree_pattern pattern;
	unsigned stride; /* of PATTERN_STRIDE: entries from one read entry to the next */
	const MDB_val *name;                 /* of a stale tree */
	struct tree *home;                   /* the tree that holds the name */
	const struct comparator *home_order; /* of the names */
};

enum cursor_state {
	CURSOR_PLACED = 1, /* the levels lead to a leaf */
	CURSOR_AT_END = 2, /* a step forward found no further entry */
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
	unsigned serial;                     /* the snapshot's when the levels were last checked */
	bool forward;                        /* direction of the last steps */
	int pace;                            /* steps left before the watch is called */
	int paced;                           /* what `pace` was set to */
	void *ahead;                         /* belongs to the watch */
	struct cursor_seen seen;             /* belongs to the watch, zero at first */
	struct level levels[FORMAT_DEPTH_MAX];
};

/* The second cursor of an MDB_DUPSORT database: inside the duplicates of one key. */
struct duplicates {
	struct cursor cursor;
	struct tree tree;
	struct comparator order;
	struct cursor *outer; /* the cursor over the keys, or NULL */
};

/* Returns the cursor over the keys if this cursor walks one key's duplicates, else NULL. */
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

/* Returns whether a cursor that has just moved stands at the record of a named database. *name (or
 * NULL) is then the name as the page has it, with the NUL that ends it in LMDB 1.0. */
bool cursor_at_database(const struct cursor *cursor, MDB_val *name);

/* mdb_get(): the value of a key, the first one of its duplicates. Returns as cursor_get(). */
int tree_get(struct snapshot *snapshot, struct tree *tree, const struct comparators *comparators,
	     const MDB_val *key, MDB_val *data);

/* The same two for one page layout, for a caller that knows the layout. */
int cursor_get_0_9(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int cursor_get_1_0(struct cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op);
int tree_get_0_9(struct snapshot *snapshot, struct tree *tree,
		 const struct comparators *comparators, const MDB_val *key, MDB_val *data);
int tree_get_1_0(struct snapshot *snapshot, struct tree *tree,
		 const struct comparators *comparators, const MDB_val *key, MDB_val *data);

/* One step of a look-ahead's search, from page *number towards a key. *step says what *number is
 * afterwards. Returns 0, or as cursor_get(), or EAGAIN for a view that does not wait. */
enum tree_step {
	TREE_CHILD, /* the page to look at next */
	TREE_FIRST, /* the same; the key's first duplicate is under the first entry of that page */
	TREE_RUN,   /* the first of *pages pages of the value */
	TREE_END,   /* nothing more to bring: the value is in the leaf, or there is none */
};
int tree_step(struct snapshot *snapshot, const struct comparator *order, const MDB_val *key,
	      uint64_t *number, uint64_t *pages, enum tree_step *step);
/* Takes the next step after TREE_FIRST: *step is TREE_FIRST again, or TREE_END. */
int tree_step_first(struct snapshot *snapshot, uint64_t *number, enum tree_step *step);

/* Finds a tree's page by its number, and how many entries or items the page has. Returns as
 * cursor_get(). */
int tree_page(struct snapshot *snapshot, uint64_t number, const uint8_t **page, unsigned *count);
/* Finds the value of a leaf page's entry (not an entry of duplicates). tree_run() says where that
 * value stands: *pages pages from *number on, or 0 pages if the value is in the leaf. tree_value()
 * returns as cursor_get(). */
int tree_value(struct snapshot *snapshot, const struct entry *entry, MDB_val *data);
void tree_run(const struct snapshot *snapshot, const struct entry *entry, uint64_t *number,
	      uint64_t *pages);

/* Ends all series, when the snapshot has changed or will not be used any more. */
void lookups_end(struct lookups *lookups, struct cursor_watch *watch);

/* Tells the watch that a cursor is set elsewhere or will not be used any more. */
static inline void cursor_leave(struct cursor *cursor)
{
	if (unlikely(cursor->ahead != NULL) && cursor->snapshot->watch)
		cursor->snapshot->watch->left(cursor->snapshot->watch, cursor);
	cursor->pace = cursor->paced = CURSOR_PACE_FIRST;
	cursor->seen.at = 0;
}

/* Call this before a cursor is freed or initialised again. Its snapshot need not exist any more. */
static inline void cursor_end(struct cursor *cursor)
{
	if (cursor->duplicates)
		cursor_leave(&cursor->duplicates->cursor);
	cursor_leave(cursor);
}

/* Finds the record of a named database in the tree that holds its name. Returns 0, MDB_NOTFOUND,
 * MDB_INCOMPATIBLE (the key is no database) or as cursor_get(). */
int tree_find_named(struct snapshot *snapshot, struct tree *home, const struct comparator *order,
		    const MDB_val *name, struct tree_record *record);

/* Reads the record of a stale tree. Returns 0, MDB_INCOMPATIBLE (the database has other flags now),
 * MDB_BAD_DBI (its name is gone, and the original returns this code) or as tree_find_named(). */
int tree_refresh(struct snapshot *snapshot, struct tree *tree);

#endif
