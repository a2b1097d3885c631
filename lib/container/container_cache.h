/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shares a bounded number of objects that were read between threads.
 *
 * A slot holds one object of fixed size under a key. A thread that takes a missing key gets a slot
 * to fill, and other threads wait for it; no object is read twice at a time.
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
	unsigned pins;               /* threads that have it */
	uint64_t used;               /* time of the last take */
	uint8_t *bytes;        /* the cache's `size` of them, aligned to 64 */
};

struct cache {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t moved; /* a slot was filled, given up or released */
	unsigned waiting;
	size_t n, size;
	uint64_t clock;
	struct cache_slot *slots;
};

enum cache_want {
	CACHE_WAIT, /* for the thread that fills the key, and for a free slot */
	CACHE_TRY,  /* NULL instead of waiting */
	CACHE_LOOK, /* only a slot that is ready */
};

/* Makes n slots of `size` bytes each, allocated at their first use. Returns 0 or ENOMEM. */
int cache_open(struct cache *cache, size_t n, size_t size);
void cache_close(struct cache *cache);

/* In a forked child, before any other call: frees the slots that other threads held. */
void cache_forked(struct cache *cache);

/* Takes a key's slot: SLOT_READY, to read until cache_release(), or SLOT_FILLING, to fill and then
 * cache_fill(). Returns NULL as `want` says; with CACHE_WAIT, if there is no memory. With
 * CACHE_WAIT a thread must hold no other slot of the cache. */
struct cache_slot *cache_take(struct cache *cache, uint64_t key, enum cache_want want);

/* Ends the filling of a slot. If `good`, it stays the caller's until cache_release(); if not, it is
 * empty. */
void cache_fill(struct cache *cache, struct cache_slot *slot, bool good);
void cache_release(struct cache *cache, struct cache_slot *slot);

#endif
