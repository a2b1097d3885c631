/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides how processes share memory that cannot hold the file they scan.
 *
 * One read of a chunk serves all of them, as long as the last process comes to the chunk while it
 * is in memory. So no process maps more than a part of memory. No look-ahead is farther in front of
 * the last scan than memory keeps chunks that were read ahead. The program of a scan never waits
 * for another scan: a process that was stopped for a while, or is far slower, reads for itself.
 */
#include "window/store_private.h"

enum {
	SERVED_AHEAD = 3,  /* one part in so many of what may be pinned, where a server brings
			      chunks */
	SINGLE_SHARE = 2,  /* of memory, one part in so many: what a scan maps at most; */
	SEVERAL_SHARE = 4, /* ... what one of several scans maps; */
	SHARES_OF = 3,     /* ... what all scans together map: SHARES_OF parts */
	SHARES = 4,        /* ... of SHARES; */
	SHARE_LEAST = 4,   /* ... but at least so many chunks: branch, leaf, value and the next
			      one */
	SCAN_AHEAD = 2,    /* of a scan's share, one part in so many */
	SCAN_APART = 2,    /* of memory, one part in so many: until_used() in arena_rows.c */
};

void store_scan(struct store *store, int change)
{
	pthread_mutex_lock(&store->lock);
	atomic_fetch_add(&store->scans, (unsigned)change);
	store->ops->scanned(store);
	pthread_mutex_unlock(&store->lock);
}

void store_step(struct store *store, int change)
{
	pthread_mutex_lock(&store->lock);
	store->steppers += (unsigned)change;
	store->ops->scanned(store);
	pthread_mutex_unlock(&store->lock);
}

unsigned store_scanners(struct store *store)
{
	unsigned scanners = 0, steppers = 0;

	pthread_mutex_lock(&store->lock);
	if (store->arena)
		scanners = arena_scanners(store->arena, &steppers);
	pthread_mutex_unlock(&store->lock);
	return scanners + steppers ? scanners + steppers : 1;
}

uint64_t scan_share(const struct store *store)
{
	uint64_t chunks, share, least = SHARE_LEAST;
	unsigned scans, steppers;

	if (!store->arena || !atomic_load_explicit(&store->scans, memory_order_relaxed) ||
	    store->link.socket.fd >= 0 || arena_budget(store->arena) >= store->file.data)
		return 0;
	chunks = arena_budget(store->arena) / ARENA_CHUNK;
	scans = arena_scanners(store->arena, &steppers);
	share = chunks / (scans > 1 ? SEVERAL_SHARE : SINGLE_SHARE);
	if (scans > 1 && share > chunks * SHARES_OF / SHARES / scans)
		share = chunks * SHARES_OF / SHARES / scans;
	if (least < atomic_load_explicit(&store->widest, memory_order_relaxed) + SHARE_LEAST / 2)
		least = atomic_load_explicit(&store->widest, memory_order_relaxed) + SHARE_LEAST / 2;
	return share < least ? least : share;
}

bool store_maps_few(struct store *store)
{
	bool few;

	if (!atomic_load_explicit(&store->scans, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&store->lock);
	few = scan_share(store);
	pthread_mutex_unlock(&store->lock);
	return few;
}

/* Chunks that a scan may be ahead of its program, at least the next one. */
static uint64_t scan_ahead(struct store *store, uint64_t share, uint64_t chunk, bool forward)
{
	uint64_t apart = arena_budget(store->arena) / ARENA_CHUNK / SCAN_APART, behind = 0;
	unsigned scans = atomic_load_explicit(&store->scans, memory_order_relaxed);
	uint64_t ahead = share / SCAN_AHEAD / scans;

	if (scans == 1 && chunk < store->shown.chunks)
		behind = arena_front(store->arena, chunk, forward);
	/* Each direction has chunks of its own in memory. */
	if (arena_scans_meet(store->arena, forward)) {
		apart /= 2;
		ahead /= 2;
	}
	if (ahead + behind > apart)
		ahead = behind < apart ? apart - behind : 0;
	return ahead ? ahead : 1;
}

uint64_t store_ahead(struct store *store, uint64_t chunk, bool forward)
{
	uint64_t ahead = UINT64_MAX, share;

	pthread_mutex_lock(&store->lock);
	share = scan_share(store);
	if (store->arena && store->link.socket.fd >= 0)
		ahead = arena_share(store->arena) / SERVED_AHEAD;
	else if (share)
		ahead = scan_ahead(store, share, chunk, forward) * ARENA_CHUNK;
	pthread_mutex_unlock(&store->lock);
	return ahead;
}

uint64_t store_announced_most(struct store *store, bool *alone)
{
	uint64_t most = UINT64_MAX, members, transactions;

	pthread_mutex_lock(&store->lock);
	*alone = true;
	if (store->arena && !store->passes_on && arena_budget(store->arena) < store->file.data) {
		members = arena_members(store->arena);
		transactions = store->transactions ? store->transactions : 1;
		*alone = members * transactions == 1;
		most = arena_budget(store->arena) / (members * transactions);
	}
	pthread_mutex_unlock(&store->lock);
	return most;
}
