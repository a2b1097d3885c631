/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the thread that reads ahead of a program.
 *
 * Each environment has one. The thread begins when there is something to gain: when the program has
 * announced something, or when a cursor has moved some steps one way over data that is not in
 * memory. A cursor that moves over data in memory starts the thread only after long, and only if it
 * takes many page faults.
 */
#ifndef LMDBIO_PREFETCH_PREFETCH_H
#define LMDBIO_PREFETCH_PREFETCH_H

#include "cursor/cursor.h"
#include "window/store.h"

struct prefetch;

struct prefetch_options {
	uint64_t ahead; /* bytes at most between a program and its look-ahead; 0: a share of the
			   budget */
	unsigned depth; /* reads in flight at most */
	bool kernel;    /* the kernel reads ahead at page faults of the window, as far as it is set
			   to */
};

/* Makes the look-ahead of a window's store. Reads go through `io`, whose io_submit() and io_wait()
 * become the prefetch thread's alone. Starts no thread yet. Returns 0 or an errno. */
int prefetch_open(struct prefetch **prefetch, struct store *store, struct io *io,
		  const struct prefetch_options *options);

/* Bytes that the kernel reads ahead by itself, if these are enough to leave forward scans to it;
 * else 0. Any thread. */
uint64_t prefetch_kernel_ahead(struct prefetch *prefetch);

/* Ends the thread, after the reads in flight have come. */
void prefetch_close(struct prefetch *prefetch);

/* Around a fork, in the parent: between the two calls the prefetch thread changes nothing. */
void prefetch_hold(struct prefetch *prefetch, bool hold);

/* In a forked child, at once, before prefetch_hold() ends there too: forgets the thread and its
 * reads in flight, which are the parent's. */
void prefetch_forked(struct prefetch *prefetch);

/* The watch to set in snapshots whose cursors are to have look-ahead. Lifetime: that of
 * `prefetch`. */
struct cursor_watch *prefetch_watch(struct prefetch *prefetch);

/* The transaction of a snapshot ends: no stream looks ahead in it any more. */
void prefetch_end(struct prefetch *prefetch, const struct snapshot *snapshot);

/* Brings the leaf pages and values of n keys, in the order of their place in the file, and returns
 * at once. Passes over keys that the database does not have. Returns 0 or an errno. */
int prefetch_keys(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		  const struct comparator *order, const MDB_val *keys, size_t n);

/* An entry of a known leaf page, with its value, or the page alone. */
struct prefetch_place {
	uint64_t page, entry;
	bool page_alone;
};

/* The same for n such places; passes over places that do not exist. */
int prefetch_places(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		    const struct prefetch_place *places, size_t n);

/* Brings the records from key `first` to key `last`, both included (NULL: to the end), as far as
 * memory goes, and returns at once. Returns 0 or an errno. */
int prefetch_range(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		   const struct comparator *order, const MDB_val *first, const MDB_val *last);

#endif
