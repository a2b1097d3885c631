/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the thread that reads ahead of a program.
 *
 * One thread per environment. It does not exist before there is something to gain: a cursor that
 * has moved some steps one way over data that is not in memory, or for long over data that is, at
 * the cost of many page faults; or a hint.
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
	bool kernel;    /* page faults of the window make the kernel read ahead, as far as it is set
			   to */
};

/* Over a window's store; reads go through `io`, whose io_submit() and io_wait() become the
 * prefetch thread's alone. No thread yet. Returns 0 or an errno. */
int prefetch_open(struct prefetch **prefetch, struct store *store, struct io *io,
		  const struct prefetch_options *options);

/* Bytes that the kernel reads ahead by itself, if that is far enough for forward scans to be left to
 * it; else 0. Any thread. */
uint64_t prefetch_kernel_ahead(struct prefetch *prefetch);

/* Ends the thread, after what is in flight has come. */
void prefetch_close(struct prefetch *prefetch);

/* Around a fork, in the parent: nothing of the prefetch thread is changing. */
void prefetch_hold(struct prefetch *prefetch, bool hold);

/* In a forked child, at once, before prefetch_hold() ends there too: the thread is the parent's,
 * and so is what it has in flight. */
void prefetch_forked(struct prefetch *prefetch);

/* To be set in the snapshots whose cursors shall be looked ahead of. Lifetime: the prefetch's. */
struct cursor_watch *prefetch_watch(struct prefetch *prefetch);

/* The transaction of a snapshot ends: no stream looks ahead in it any more. */
void prefetch_end(struct prefetch *prefetch, const struct snapshot *snapshot);

/* Brings the leaf pages and values of n keys, in the order of their place in the file, and returns
 * at once. Keys that are not there are passed over. Returns 0 or an errno. */
int prefetch_keys(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		  const struct comparator *order, const MDB_val *keys, size_t n);

/* An entry of a leaf page that is known, with its value, or the page alone. */
struct prefetch_place {
	uint64_t page, entry;
	bool page_alone;
};

/* The same for n such places; one that is not there is passed over. */
int prefetch_places(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		    const struct prefetch_place *places, size_t n);

/* Brings the records from key `first` to key `last`, both included (NULL: to the end), as far as
 * memory goes, and returns at once. Returns 0 or an errno. */
int prefetch_range(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		   const struct comparator *order, const MDB_val *first, const MDB_val *last);

#endif
