/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps reads in flight for wanted ranges of the file, and shows what has come.
 *
 * Streams, lookups and announcements put ranges into the engine's queue. The owner's thread starts
 * their reads and lands them, so that bytes are shown as soon as they have come, however long a
 * program computes between two calls. It waits for reads and shows bytes without the owner's lock;
 * all else happens under that lock.
 */
#ifndef LMDBIO_AHEAD_AHEAD_H
#define LMDBIO_AHEAD_AHEAD_H

#include "window/store.h"

enum {
	AHEAD_FLIGHTS = 64,
	AHEAD_RANGES = 256,
	FLIGHT_LOADS = 2, /* a value that is no longer than a chunk lies in two at most */
	AHEAD_PASSED = AHEAD_FLIGHTS / 2,
	SLAB_FLIGHTS = 2, /* a huge page holds so many chunks */
};

/* A range of the file that will be wanted. */
struct wanted_range {
	uint64_t offset, length;
	bool map;          /* those parts that are in memory are mapped, too */
	bool unmapped;     /* a walk needs no map of the bytes */
	bool for_others;   /* an announced value, which perhaps only other processes read: nothing
			      here waits for it */
	const void *whose; /* the stream or the snapshot that it ends with, or NULL; not to be
			      looked into */
};

struct range_queue {
	struct wanted_range ranges[AHEAD_RANGES];
	unsigned first, count;
};

/* A read in flight, for parts of neighbouring chunks. */
struct flight {
	struct io_request request;
	struct store_load loads[FLIGHT_LOADS];
	unsigned count;
	struct flight *next; /* free list */
};

/* Reads that the kernel was asked to begin for other processes, since the last look at how many are
 * still on their way. */
struct passed {
	unsigned count; /* AHEAD_PASSED and one more at most */
	uint64_t last,
		before; /* offsets of the last read, and of the last one at that look; 0: none */
};

/* Memory for SLAB_FLIGHTS neighbouring flights, one chunk each. */
struct ahead_slab {
	uint8_t *bytes; /* NULL: there is none yet */
	bool huge;      /* large reads have asked for a huge page */
};

struct ahead {
	struct store *store;
	struct io *io;             /* io_submit() and io_wait() are the engine's alone */
	pthread_mutex_t *lock;     /* the owner's; guards all below */
	struct range_queue ranges; /* to be planned */
	struct range_queue later;  /* claimed by another process */
	struct range_queue trees;  /* to be brought out of a container's index, or on their way to
				      the page cache */
	struct range_queue there;  /* found in memory, to be mapped by the owner */
	struct io_request *starting[AHEAD_FLIGHTS]; /* planned, to be submitted as one */
	unsigned starting_count;
	unsigned in_flight;
	struct passed passed;
	uint64_t landed;  /* reads that have come, and ranges that were found in memory */
	uint64_t brought; /* bytes of all reads that were begun */
	uint64_t planned; /* offset of the last read that was begun */
	bool failed;      /* a read has failed: the program is to find out which */
	struct flight *idle;
	struct flight flights[AHEAD_FLIGHTS];
	struct ahead_slab slabs[AHEAD_FLIGHTS / SLAB_FLIGHTS]; /* one for each pair of flights */
};

void ahead_open(struct ahead *ahead, struct store *store, struct io *io, pthread_mutex_t *lock);
/* Lands the reads in flight. Without the owner's lock. */
void ahead_close(struct ahead *ahead);
/* In a forked child, instead: forgets the reads in flight, which are the parent's. */
void ahead_forked(struct ahead *ahead);

/* All the following under the owner's lock. */

/* Frees the memory of reads. No read is in flight. */
void ahead_rest(struct ahead *ahead);

/* Queues a page of a tree that a container brings by itself. Returns false if the store has no such
 * pages, or the queue is full: the caller then asks for the page like other bytes. */
bool ahead_want_tree(struct ahead *ahead, uint64_t offset, uint64_t length);
/* Starts reads of wanted ranges, until `depth` are in flight. Returns true if some bytes are in
 * memory already, and were not given up for others, so that a walk can go on. */
bool ahead_start(struct ahead *ahead, unsigned depth);
/* Waits for `min` reads without the owner's lock, and shows the bytes that have come. */
void ahead_land(struct ahead *ahead, unsigned min);
/* Whether so many reads were begun for other processes that ahead_pass_wait() must come first. */
static inline bool ahead_passed_enough(const struct ahead *ahead)
{
	return ahead->passed.count >= AHEAD_PASSED;
}
/* Waits, without the owner's lock, until at most AHEAD_PASSED of these reads are in flight. */
void ahead_pass_wait(struct ahead *ahead);
/* Waits a while, without the owner's lock, for a chunk that another process reads. */
void ahead_wait(struct ahead *ahead);
/* Brings pages of trees, or waits for them, until *stopping. */
void ahead_bring_trees(struct ahead *ahead, const bool *stopping);

/* Drops the ranges of a stream or a snapshot whose reads have not begun. */
void ahead_forget(struct ahead *ahead, const void *whose);

/* Whether all that was asked for has come. */
static inline bool ahead_is_quiet(const struct ahead *ahead)
{
	return !ahead->ranges.count && !ahead->later.count && !ahead->trees.count &&
	       !ahead->in_flight;
}

static inline bool ranges_put(struct range_queue *queue, struct wanted_range range)
{
	if (queue->count == AHEAD_RANGES)
		return false;
	queue->ranges[(queue->first + queue->count++) % AHEAD_RANGES] = range;
	return true;
}

/* Puts a range back in front, where it was taken from: look-ahead is exact only in order. */
static inline bool ranges_put_back(struct range_queue *queue, struct wanted_range range)
{
	if (queue->count == AHEAD_RANGES)
		return false;
	queue->first = (queue->first + AHEAD_RANGES - 1) % AHEAD_RANGES;
	queue->ranges[queue->first] = range;
	queue->count++;
	return true;
}

static inline struct wanted_range ranges_take(struct range_queue *queue)
{
	struct wanted_range range = queue->ranges[queue->first];

	queue->first = (queue->first + 1) % AHEAD_RANGES;
	queue->count--;
	return range;
}

/* Removes the ranges of one stream or snapshot. */
static inline void ranges_forget(struct range_queue *queue, const void *whose)
{
	for (unsigned n = queue->count; n; n--) {
		struct wanted_range range = ranges_take(queue);

		if (range.whose != whose)
			ranges_put(queue, range);
	}
}

#endif
