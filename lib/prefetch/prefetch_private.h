/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the look-ahead share. */
#ifndef LMDBIO_PREFETCH_PRIVATE_H
#define LMDBIO_PREFETCH_PRIVATE_H

#include "ahead/ahead.h"
#include "ahead/reads.h"
#include "prefetch/prefetch.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	PREFETCH_STREAMS = 16,
	PREFETCH_SUBTREES = 256,
	PREFETCH_PACE_COLD = 4096, /* steps at most before looking again for anything to gain */
};

/* What a look-ahead asks for. */
enum want { WANT_BRANCH, WANT_LEAF, WANT_VALUE, WANT_SUBTREE, WANTS };

/* The chunk that was last asked for, so that neighbours in one chunk ask for it once. Each kind of
 * want has its own: scout and walker ask in turns, for chunks far apart. */
struct want_last {
	uint64_t chunk;
	uint64_t mapped; /* the same for chunks to be mapped */
};

/* Wanted pages, gathered into one request while they are neighbours in the file, whichever way the
 * walk goes. */
struct gathered {
	enum want want;
	struct extent extent; /* empty at first */
	bool map;
};

/* A page of the tree of one key's duplicates. */
struct subtree_page {
	uint64_t number;
	uint16_t below; /* levels below it */
	bool edge;      /* on each of them only the first page, or the last one, is wanted */
	bool lone;      /* ... without the pages around */
	bool asked;     /* the page was asked for */
};

/* The pages of such trees that the stream waits for. */
struct subtrees {
	unsigned first, count;
	struct subtree_page pages[PREFETCH_SUBTREES];
};

/* Which entries a stream brings. */
struct stream_step {
	uint64_t stride; /* entries from a wanted one to the next */
	uint64_t bytes;  /* ... and the bytes that come for one, if more than its own; else 0 */
	uint64_t skip;   /* entries left before the next wanted one */
	bool counted;    /* store_step() has counted the stream */
};

/* How a stream asks for bytes (stream.c). */
struct stream_wants {
	bool dense;   /* read whole chunks: the tree is most of the file, or scattered over it */
	bool whole;   /* `dense` as the tree alone decides it, whatever records are wanted now */
	bool bounded; /* a range that ends somewhere: its neighbours are not wanted */
	unsigned requests;  /* made while it was not dense, */
	uint64_t requested; /* ... and the bytes of these */
	struct want_last last[WANTS];
	uint64_t asked; /* offset of the page that the walker itself asked for last */
};

/* What a stream and its program's thread tell each other. */
struct stream_told {
	_Atomic uint64_t average; /* bytes a step */
	_Atomic uint64_t limit;   /* bytes ahead at most */
	_Atomic uint64_t taken;   /* the program's steps */
	atomic_bool inside;       /* ... go through duplicates, not from key to key */
	atomic_bool vain;         /* it maps what was mapped: the program is to drop the stream */
};

/* The look-ahead of one cursor, in front of which two cursors of the stream walk; or of an
 * announced range, which has no cursor of the program. */
struct stream {
	struct cursor *cursor; /* the program's, or NULL */
	struct lookup *lookup; /* lookups of single records instead, or NULL */
	struct stream_step step;
	struct stream_wants wants;
	struct stream_told told;
	struct comparator order; /* of a range's keys */
	MDB_val from, to;        /* of a range; mv_data NULL: open */
	bool placed;             /* the walker stands in a leaf */
	const struct snapshot *owner;
	const void *whose; /* what its wanted ranges end with: the stream, or a range's owner */
	struct snapshot snapshot; /* its own view, which does not wait */
	struct page_copies copies;
	struct tree tree;
	struct cursor walker; /* the leaf whose values are looked at next */
	struct cursor scout;  /* the branch above the leaf that is asked for next */
	struct subtrees *subtrees; /* of an MDB_DUPSORT database, else NULL */
	uint64_t pages;            /* of the database and its duplicates, as far as known */
	bool forward;
	bool walker_done, scout_done;
	bool overtaken;          /* the walker waits for a page that the program has passed */
	bool limited;            /* by what the node's memory has room for */
	bool held;               /* memory has room for all of the file */
	bool big;                /* values stand in overflow runs */
	bool mapped;             /* bytes in memory are mapped ahead of the program, too */
	unsigned leaves_ahead;   /* from the walker to the scout */
	unsigned branches_ahead; /* asked for, behind the scout's branch */
	uint64_t steps;          /* the walker's, in entries */
	uint64_t bytes;          /* of these steps */
	uint64_t brought;        /* engine.brought when the stream began */
};

struct announcement; /* announcements.c */

/* Whether a key may be copied. No key of a database fills a page. A program may announce a key of
 * any length, of which not all need be readable: mdb_get() reads no more of a key than the
 * database's keys have. */
static inline bool key_is_sane(const struct snapshot *snapshot, const MDB_val *key)
{
	return key->mv_size < snapshot->page_size;
}

/* A branch page, and how often lookups have waited for a page below it, less the waits that were
 * spent on reading the rest. */
struct waited_branch {
	uint64_t page;
	int waits;
};

enum { SIBLINGS_BRANCHES = 64 };

/* Whether announced records go to the page cache, for other processes (passed_on.c). */
struct passed_on {
	_Atomic bool read; /* a transaction has handed out values: this process reads them */
	bool dense;        /* announced records lie side by side: large requests are better */
	unsigned ranges,
		longer;  /* ranges asked for since `dense` was judged, and the long ones of them */
	bool wanted, on; /* `wanted`: passing on is useful; `on`: the store does so */
	uint64_t most;   /* bytes that the kernel reads by one request, plus one; 0: not asked */
};

struct prefetch {
	struct cursor_watch watch; /* first: a watch is its prefetch */
	struct store *store;
	struct prefetch_options options;
	_Atomic uint64_t kernel_ahead; /* bytes, plus one; 0: not asked yet */
	pthread_mutex_t lock;          /* guards all below */
	struct crew crew;              /* the prefetch thread, from the first look-ahead on */
	struct stream *streams[PREFETCH_STREAMS];
	struct announcement *announcements,
		**announcements_end; /* the latter unless there are none */
	size_t waiting; /* keys of these, and what each announcement takes beside them */
	struct ahead engine;
	uint64_t
		rest_at; /* clock_now(): when to give up threads and memory which nothing has needed
			    since; 0: they are in use; CLOCK_NEVER: they are gone */
	uint64_t used;   /* bytes of the reads begun that streams have reported as used */
	uint64_t mapped; /* bytes since mapped_judge() judged the last ones */
	uint64_t faults; /* page faults that these took */
	bool small;      /* the ranges are those of announced keys */
	bool some_dropped; /* of these keys, because memory would not keep their records */
	uint64_t keys;   /* announced since the last time that none were left */
	struct waited_branch branches[SIBLINGS_BRANCHES];
	struct passed_on passed_on;
	_Atomic bool owned; /* there may be a stream, or an announcement, of some transaction */
};

/* prefetch_thread.c */
/* Starts the thread if there is none, and wakes it. Under the prefetch lock. Returns 0 or an
 * errno. */
int prefetch_wake(struct prefetch *prefetch);
/* Asks for a range, and with range.map for page-table entries of what is in memory. Returns false
 * when the queue is full. Under the prefetch lock. */
bool prefetch_want(struct prefetch *prefetch, struct wanted_range range);

/* Tells readers whether announced keys are on their way. Under the prefetch lock. */
void prefetch_announce(struct prefetch *prefetch);

/* passed_on.c */
/* In a forked child, at once. */
void passed_on_forked(struct prefetch *prefetch);
/* A transaction that may have handed out values goes on, or ends. Any thread, no lock. */
void passed_on_read(struct prefetch *prefetch, const struct snapshot *snapshot);
/* The following under the prefetch lock. */

/* An announcement is made in a transaction, of records of a database. */
void passed_on_note(struct prefetch *prefetch, const struct snapshot *snapshot,
		    const struct tree *tree);
/* Judges the ranges that announced records have led to, neighbours as one. */
void passed_on_judge(struct prefetch *prefetch, const struct wanted_range *ranges, size_t n);
/* Tells the store whether to plan reads for other processes. In the prefetch thread. */
void passed_on_turn(struct prefetch *prefetch);

/* faults.c */
/* Bytes of the file that a step of a cursor leads over; *all: the bytes of all of its tree. */
uint64_t bytes_of_step(const struct cursor *cursor, uint64_t *all);
/* Whether the program goes over bytes in memory at the cost of so many page faults that a thread
 * should take them; `offset` is what it will come to next. Looks at a cursor twice, from one pace
 * to the next, and then takes a few of the faults of the next 32 MiB to measure them. In the
 * program's thread, no lock. */
bool faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset,
		     bool forward);

/* Minor faults of the calling thread. */
uint64_t faults_taken(void);
/* Whether mapping so many bytes took so many faults that it was worth it. */
bool faults_were_worth_it(uint64_t faults, uint64_t bytes);

/* stream.c: what a walk asks for */
/* Adds pages to a run. Asks for the run when it is large enough, or when the pages are not its
 * neighbours; stream_gathered() asks for the rest of it. */
bool stream_gather(struct prefetch *prefetch, struct stream *stream, struct gathered *run,
		   uint64_t number, uint64_t pages);
bool stream_gathered(struct prefetch *prefetch, struct stream *stream, struct gathered *run);
bool queue_is_full(const struct prefetch *prefetch);

/* subtrees.c */
/* Whether look-ahead over the keys brings the tree of a key's duplicates as a whole; otherwise the
 * program's second cursor has a look-ahead of its own. */
bool subtree_comes_whole(const struct stream *stream, const struct tree_record *record);
/* Takes up the duplicates of a key that the walk has come to. Returns how many bytes they are. */
uint64_t subtrees_add(struct stream *stream, const struct entry *entry);
bool subtrees_are_full(const struct stream *stream);
/* Asks for pages of duplicates as the pages above them come. Under the prefetch lock. */
void subtrees_advance(struct prefetch *prefetch, struct stream *stream);
/* Estimates the pages of all trees of duplicates from those in the leaf under a cursor over the
 * keys. */
uint64_t subtrees_estimate(const struct cursor *cursor);

/* stream.c */
/* Whether a range has nothing more to ask for. */
bool stream_is_over(const struct stream *stream);
/* Walks on as far as memory, the queue and the pages in memory allow. Under the prefetch lock. */
void stream_advance(struct prefetch *prefetch, struct stream *stream);
/* Marks the pages of a cursor's levels as used: it reads them without asking at each step. */
void levels_use(struct prefetch *prefetch, const struct cursor *cursor);

/* stream_begin.c */
/* Finds where in the file a walk will be in a moment. Returns false if only the next leaf can
 * tell. */
bool find_next(const struct prefetch *prefetch, const struct cursor *cursor, bool forward,
	       uint64_t *ret);
/* Whether the kernel will have read what follows a cursor before the program wants it. The kernel
 * reads far ahead of a program that goes through a file by page faults, and the next records lie
 * close behind. */
bool kernel_reads(struct prefetch *prefetch, const struct cursor *cursor);
/* Makes a stream over a tree of so many pages, duplicates included, whose view does not wait;
 * `key_bytes` are allocated behind it. NULL: no memory. */
struct stream *stream_make(const struct snapshot *snapshot, const struct tree *tree, uint64_t pages,
			   bool forward, size_t key_bytes);
/* Gives a stream to the prefetch thread, or frees it. Under no lock. Returns 0, EAGAIN (too many)
 * or the errno of a thread that cannot be made. */
int stream_start(struct prefetch *prefetch, struct stream *stream);
/* Steps after which a stream's program reports where it is. */
int pace_of(const struct prefetch *prefetch, const struct stream *stream);
/* Ends a stream. Under no lock. Returns false if it had ended. */
bool stream_drop(struct prefetch *prefetch, const void *stream);
/* A copy of a snapshot for looking ahead: its reads never wait for storage, and its walks are not
 * watched. */
struct snapshot snapshot_ahead(const struct snapshot *snapshot);
uint64_t pages_of(const struct tree_record *record);
void stream_moved(struct cursor_watch *watch, struct cursor *cursor, bool forward);
void stream_left(struct cursor_watch *watch, struct cursor *cursor);
void stream_free(struct prefetch *prefetch, struct stream *stream);

/* lookups_ahead.c */
void stream_looked_up(struct cursor_watch *watch, struct snapshot *snapshot, struct tree *tree,
		      const struct comparator *order, const MDB_val *key, struct lookup *lookup);
void stream_lost(struct cursor_watch *watch, struct lookup *lookup);

/* siblings.c */
void siblings_missed(struct cursor_watch *watch, struct snapshot *snapshot, const struct tree *tree,
		     const struct comparator *order, const MDB_val *key);

/* announcements.c */
/* Takes every announcement on as far as it goes. Returns true if one had anything to do. Under the
 * prefetch lock. */
bool announcements_advance(struct prefetch *prefetch);
/* When no read is in flight: ends the announcements that have asked for all they want. Returns true
 * if one is left. Under the prefetch lock. */
bool announcements_settle(struct prefetch *prefetch);
void announcements_free(struct prefetch *prefetch, const struct snapshot *owner);

#endif
