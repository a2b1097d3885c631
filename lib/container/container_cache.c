/* SPDX-License-Identifier: OLDAP-2.8 */
/* Evicts the least recently taken object of a cache when another object comes. */
#include "container/container_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cache_open(struct cache *cache, size_t n, size_t size)
{
	memset(cache, 0, sizeof(*cache));
	cache->slots = calloc(n, sizeof(*cache->slots));
	if (!cache->slots)
		return ENOMEM;
	cache->n = n;
	cache->size = size;
	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->moved, NULL);
	return 0;
}

void cache_close(struct cache *cache)
{
	size_t i;

	if (!cache->slots)
		return;
	for (i = 0; i < cache->n; i++)
		free(cache->slots[i].bytes);
	free(cache->slots);
	pthread_cond_destroy(&cache->moved);
	pthread_mutex_destroy(&cache->lock);
}

/* Threads of the parent, which the child does not have, may hold the lock and the condition. */
void cache_forked(struct cache *cache)
{
	size_t i;

	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->moved, NULL);
	cache->waiting = 0;
	for (i = 0; i < cache->n; i++) {
		cache->slots[i].pins = 0;
		if (cache->slots[i].state == SLOT_FILLING)
			cache->slots[i].state = SLOT_EMPTY;
	}
}

/* Returns the key's slot, else a slot to take for the key, or NULL. The caller holds
 * cache->lock. */
static struct cache_slot *find_slot(struct cache *cache, uint64_t key)
{
	struct cache_slot *oldest = NULL;
	size_t i;

	for (i = 0; i < cache->n; i++) {
		struct cache_slot *slot = &cache->slots[i];

		if (slot->state != SLOT_EMPTY && slot->key == key)
			return slot;
		if (slot->state == SLOT_FILLING || slot->pins)
			continue;
		if (!oldest || slot->used < oldest->used)
			oldest = slot;
	}
	return oldest;
}

/* Allocates a slot's memory at its first use, so that a small container takes little. */
static bool begin_slot(struct cache *cache, struct cache_slot *slot, uint64_t key)
{
	void *bytes = slot->bytes;

	if (!bytes && posix_memalign(&bytes, 64, cache->size))
		return false;
	slot->bytes = bytes;
	slot->key = key;
	slot->state = SLOT_FILLING;
	slot->pins = 1;
	return true;
}

static void wait_for_move(struct cache *cache)
{
	cache->waiting++;
	pthread_cond_wait(&cache->moved, &cache->lock);
	cache->waiting--;
}

struct cache_slot *cache_take(struct cache *cache, uint64_t key, enum cache_want want)
{
	struct cache_slot *slot;

	pthread_mutex_lock(&cache->lock);
	for (;;) {
		bool found;

		slot = find_slot(cache, key);
		found = slot && slot->state != SLOT_EMPTY && slot->key == key;
		if (found && slot->state == SLOT_READY) {
			slot->pins++;
			break;
		}
		if (slot && !found && want != CACHE_LOOK) {
			if (!begin_slot(cache, slot, key))
				slot = NULL;
			break;
		}
		slot = NULL;
		if (want != CACHE_WAIT)
			break;
		wait_for_move(cache);
	}
	if (slot)
		slot->used = ++cache->clock;
	pthread_mutex_unlock(&cache->lock);
	return slot;
}

static void tell(struct cache *cache)
{
	if (cache->waiting)
		pthread_cond_broadcast(&cache->moved);
}

void cache_fill(struct cache *cache, struct cache_slot *slot, bool good)
{
	pthread_mutex_lock(&cache->lock);
	slot->state = good ? SLOT_READY : SLOT_EMPTY;
	if (!good) {
		slot->pins = 0;
		slot->used = 0;
	}
	tell(cache);
	pthread_mutex_unlock(&cache->lock);
}

void cache_release(struct cache *cache, struct cache_slot *slot)
{
	pthread_mutex_lock(&cache->lock);
	slot->pins--;
	tell(cache);
	pthread_mutex_unlock(&cache->lock);
}
