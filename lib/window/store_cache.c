/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves a window from the page cache.
 *
 * The window shows the data file and nothing else. The store asks the page cache in one request for
 * bytes that a program waits for, and remembers which bytes it has seen there.
 */
#include "window/store_private.h"

#include "util/clock.h"
#include "util/memory.h"
#include "util/stats.h"

enum {
	STREAK_MAX = 4,   /* at most 4^STREAK_MAX values go unchecked */
	FOUND_LEAST = 16, /* values found in a row before any, where each fault brings one page */
	ROOM_PARTS = 4,   /* of memory; one of them is left for all else */
};

/* Brings whole chunks to a reader that has reached the look-ahead, or is in front of it. Smaller
 * requests would spoil the ranges that the look-ahead has not asked for. Chunks that are in memory,
 * or being read, cost no request. */
static bool keep_scanned(struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t first = offset / ARENA_CHUNK, last = (end - 1) / ARENA_CHUNK, asked = 0;

	if (!store_keeps(store))
		return false;
	pthread_mutex_lock(&store->lock);
	for (uint64_t chunk = first; chunk <= last; chunk++)
		if (!store->shown.taints[chunk] &&
		    !store_has(store, chunk, chunk * ARENA_CHUNK,
			       chunk_end(store, chunk) - chunk * ARENA_CHUNK))
			asked += chunk_end(store, chunk) - chunk * ARENA_CHUNK;
	pthread_mutex_unlock(&store->lock);
	offset = first * ARENA_CHUNK;
	end = chunk_end(store, last);
	if (!io_keep(store->io, offset, end - offset))
		return false;
	if (asked)
		stats_requests(1, asked);
	mark_run(store, block_of(offset), block_end(end));
	mark_sure(store, offset, end);
	return true;
}

/* The more values in a row were found in the page cache, the more of the next ones pass unchecked.
 * Where each fault brings one page, a wrong guess costs a wait for each page of the value: readers
 * that find some values because others have read them had half the rate when the first one found
 * let four others pass. */
static void count_found(struct store *store, bool found)
{
	unsigned streak = atomic_load_explicit(&store->granted.streak, memory_order_relaxed);
	unsigned least = store->file.random ? FOUND_LEAST : 0;

	streak = !found ? 0 : streak < least + STREAK_MAX ? streak + 1 : streak;
	atomic_store_explicit(&store->granted.streak, streak, memory_order_relaxed);
	if (streak > least)
		atomic_store_explicit(&store->granted.skip, 1u << 2 * (streak - least),
				      memory_order_relaxed);
}

/* Whether a value is in the page cache, as far as may be assumed or a look tells. Each value is
 * looked for while a scan brings the file. Where faults bring pages alone, fault_in() looks at all
 * of a value. */
static bool is_likely_cached(struct store *store, uint64_t offset, uint64_t end, bool lone)
{
	bool found;

	if (!store->believe_cache)
		return false;
	if (store_keeps(store))
		return is_cached_at(store, end - 1);
	if (!lone && store_takes_value(store))
		return true;
	if (store->file.random)
		return false;
	found = is_cached_at(store, offset + (end - offset) / 2);
	count_found(store, found);
	return found;
}

/* Asks the page cache for the whole range in one request. */
static int cache_bring(struct store *store, uint64_t offset, uint64_t end)
{
	bool lone = is_lone(store, offset, end), there = false;
	uint64_t began;
	int rc = 0;

	if (is_likely_cached(store, offset, end, lone))
		return 0;
	began = clock_now();
	if (!keep_scanned(store, offset, end)) {
		rc = fault_in(store, offset, end, lone, &there);
		sure_failed(store, rc);
		if (!rc) {
			mark_run(store, block_of(offset), block_end(end));
			mark_sure(store, offset, end);
		}
		if (store->file.random && store->believe_cache)
			count_found(store, there);
		if (!there)
			stats_requests(1, end - offset);
	}
	if (!there)
		store_waited(store, began);
	return rc;
}

/* A chunk that is being read is marked in `taints`. */
static enum store_plan cache_plan(struct store *store, uint64_t offset, uint64_t *length,
				  const struct plan_how *how, struct store_load *load)
{
	uint64_t chunk = offset / ARENA_CHUNK, first = block_of(offset) * ARENA_BLOCK;

	(void)how;
	if (store->shown.taints[chunk])
		return PLAN_BUSY;
	store->shown.taints[chunk] = 1;
	/* In whole blocks: a direct read accepts nothing else. */
	*load = (struct store_load){
		.offset = first,
		.length = block_end(offset + *length) * ARENA_BLOCK - first,
		.chunk = chunk,
	};
	return PLAN_LOAD;
}

static void cache_land(struct store *store, const struct store_load *load, int error)
{
	uint64_t end = load->offset + load->length;

	store->shown.taints[load->chunk] = 0;
	sure_failed(store, error);
	if (!error) {
		mark_run(store, block_of(load->offset), block_end(end));
		mark_sure(store, load->offset, end);
	}
}

static uint64_t cache_room(struct store *store)
{
	if (!store->granted.room)
		store->granted.room = memory_allowed("") / ROOM_PARTS * (ROOM_PARTS - 1);
	return store->granted.room;
}

static void cache_scanned(struct store *store)
{
	atomic_store(&store->granted.keeps,
		     atomic_load(&store->scans) && store->file.data <= cache_room(store));
}

const struct store_ops store_cache_ops = {
	.name = "page cache",
	.shows_file = true,
	.bring = cache_bring,
	.plan = cache_plan,
	.land = cache_land,
	.room = cache_room,
	.scanned = cache_scanned,
	.reads_around = cache_reads_around,
};
