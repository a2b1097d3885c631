/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps reads in flight for ranges of the file that will be wanted, and shows what has come.
 *
 * Customers put ranges into its queue. Its owner's thread starts reads of them and lands them, so
 * that what has come is shown at once, however long a program computes between two calls. It waits
 * for reads and shows what has come without its owner's lock; all else happens under it.
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
	bool map;          /* what of it is there is mapped, too */
	bool for_others; /* other processes may be the ones that read it: nothing here waits for it */
	const void *whose; /* the stream that wants it, if it is one; not to be looked into */
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
	unsigned count; /* AHEAD_PASSED at most */
	uint64_t last,
		before; /* offset of the last one, and of the last one before the look; 0: none */
};

/* Memory for SLAB_FLIGHTS neighbouring flights, one chunk each. */
struct ahead_slab {
	uint8_t *bytes; /* NULL: there is none yet */
	bool huge;      /* large reads have asked for a huge page */
};

struct ahead {
	struct store *store;
	struct io *io;             /* io_submit() and io_wait() are the engine's alone */
	pthread_mutex_t *lock;     /* the owner's, of all below */
	struct range_queue ranges; /* to be planned */
	struct range_queue later;  /* claimed by another process */
	struct range_queue trees;  /* to be brought out of a container's index, or on their way to
				      the page cache */
	struct range_queue there;  /* found in memory, to be mapped by the owner */
	struct io_request *starting[AHEAD_FLIGHTS]; /* planned, to be submitted as one */
	unsigned starting_count;
	unsigned in_flight;
	struct passed passed;
	uint64_t landed;  /* reads that have come, and what was there already */
	uint64_t brought; /* bytes of all that were begun */
	uint64_t planned; /* offset of the last that was begun */
	bool failed;      /* a read: what lies ahead is the program's to find out */
	struct flight *idle;
	struct flight flights[AHEAD_FLIGHTS];
	struct ahead_slab slabs[AHEAD_FLIGHTS / SLAB_FLIGHTS]; /* one for each pair of flights */
};

void ahead_open(struct ahead *ahead, struct store *store, struct io *io, pthread_mutex_t *lock);
/* Lands what is in flight. Without the lock. */
void ahead_close(struct ahead *ahead);
/* In a forked child, instead: what is in flight is the parent's. */
void ahead_forked(struct ahead *ahead);

/* All the following under the lock. */

/* Frees the memory that reads have come to. Nothing is in flight. */
void ahead_rest(struct ahead *ahead);

/* Puts a page of a tree into the queue of those that come by themselves. false: the store has none
 * such, and the page is to be asked for like other bytes. */
bool ahead_want_tree(struct ahead *ahead, uint64_t offset, uint64_t length);
/* Starts reads of what is wanted, until so many are in flight. true: some of it is there already,
 * so that its customer can go on. */
bool ahead_start(struct ahead *ahead, unsigned depth);
/* Waits for `min` reads without the lock, and shows what has come. */
void ahead_land(struct ahead *ahead, unsigned min);
/* Whether so many reads were begun for other processes that ahead_pass_wait() comes first. */
static inline bool ahead_passed_enough(const struct ahead *ahead)
{
	return ahead->passed.count >= AHEAD_PASSED;
}
/* Waits, without the lock, until at most AHEAD_PASSED of them are on their way. */
void ahead_pass_wait(struct ahead *ahead);
/* Waits a while, without the lock, for what another process has in hand. */
void ahead_wait(struct ahead *ahead);
/* Brings pages of trees, or waits for them, until *stopping. */
void ahead_bring_trees(struct ahead *ahead, const bool *stopping);

/* Nothing that has been asked for is still to come. */
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

/* In front, whence it was taken: order is what makes look-ahead exact. */
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

/* Removes the ranges of one stream. */
static inline void ranges_forget(struct range_queue *queue, const void *whose)
{
	for (unsigned n = queue->count; n; n--) {
		struct wanted_range range = ranges_take(queue);

		if (range.whose != whose)
			ranges_put(queue, range);
	}
}

#endif
