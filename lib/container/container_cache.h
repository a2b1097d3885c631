/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shares a bounded number of objects that were read between threads.
 *
 * A slot holds one thing of fixed size under a key. A thread that takes a key that is not there
 * gets a slot to fill, and other threads wait for that; no object is read twice at a time.
 */
#ifndef LMDBIO_CONTAINER_CACHE_H
#define LMDBIO_CONTAINER_CACHE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cache_slot_state { SLOT_EMPTY, SLOT_FILLING, SLOT_READY };

struct cache_slot {
	uint64_t key;
	enum cache_slot_state state; /* a thread that has taken the slot may read it */
	unsigned pins;         /* takers */
	uint64_t used;         /* when last */
	uint8_t *bytes;        /* the cache's `size` of them, aligned to 64 */
};

struct cache {
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t moved; /* a slot was filled, given up or released */
	unsigned waiting;
	size_t n, size;
	uint64_t clock;
	struct cache_slot *slots;
};

enum cache_want {
	CACHE_WAIT, /* for the thread that fills the key, and for a free slot */
	CACHE_TRY,  /* NULL instead of waiting */
	CACHE_LOOK, /* only if it is ready */
};

/* n slots of `size` bytes each, which are allocated as they are used. 0 or ENOMEM. */
int cache_open(struct cache *cache, size_t n, size_t size);
void cache_close(struct cache *cache);

/* In a forked child, before anything else: what other threads held is free. */
void cache_forked(struct cache *cache);

/* Takes the slot of a key: SLOT_READY, to read until cache_release(); or SLOT_FILLING, to fill and
 * then cache_fill(). NULL: as `want` says; with CACHE_WAIT, no memory. With CACHE_WAIT a thread
 * must hold no other slot of the cache. */
struct cache_slot *cache_take(struct cache *cache, uint64_t key, enum cache_want want);

/* It is filled, and stays the taker's until cache_release(); or it could not be, and is not. */
void cache_fill(struct cache *cache, struct cache_slot *slot, bool good);
void cache_release(struct cache *cache, struct cache_slot *slot);

#endif
