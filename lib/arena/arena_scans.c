/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells processes that scan one file how far apart they are.
 *
 * Each process publishes where its look-ahead is: its front. One word holds all of a front, and no
 * process reads other memory because of it, so the accesses are relaxed. A front counts only until
 * as many chunks have been claimed as memory holds. So a stopped, dead or far slower process soon
 * does not count.
 */
#include "arena/arena_private.h"

/* A front: chunk plus one, direction, and the clock when the scan came there. 0: there is none. */
enum { FRONT_CHUNK_BIT = 33, FRONT_BACKWARD_BIT = 32 };

void arena_scanning(struct arena *arena, unsigned scans, unsigned steppers)
{
	struct arena_row *row = arena_own_row(arena);

	atomic_store_explicit(&row->scans, (uint16_t)scans, memory_order_relaxed);
	atomic_store_explicit(&row->steppers, (uint16_t)steppers, memory_order_relaxed);
	atomic_store_explicit(&row->front, 0, memory_order_relaxed);
}

unsigned arena_scanners(const struct arena *arena, unsigned *steppers)
{
	unsigned scanners = 0;

	*steppers = 0;
	for (unsigned i = 1; i <= arena_rows_high(arena); i++) {
		const struct arena_row *row = &arena->rows[i];
		bool scans = atomic_load_explicit(&row->scans, memory_order_relaxed);

		scanners += scans;
		*steppers += !scans && atomic_load_explicit(&row->steppers, memory_order_relaxed);
	}
	return scanners;
}

static uint64_t front_of(uint64_t chunk, bool forward, uint32_t clock)
{
	return (chunk + 1) << FRONT_CHUNK_BIT | (uint64_t)!forward << FRONT_BACKWARD_BIT | clock;
}

static bool is_backward(uint64_t front)
{
	return front >> FRONT_BACKWARD_BIT & 1;
}

static bool is_fresh(uint64_t front, uint32_t clock, uint64_t chunks)
{
	int32_t age = (int32_t)(clock - (uint32_t)front);

	return front && (age < 0 || (uint64_t)age <= chunks);
}

/* Returns the chunks from another scan's front up to `chunk`; UINT64_MAX: that scan has passed the
 * chunk, or goes the other way. */
static uint64_t distance(uint64_t front, uint64_t chunk, bool forward)
{
	uint64_t at = (front >> FRONT_CHUNK_BIT) - 1;

	if (is_backward(front) == forward || (forward ? at > chunk : at < chunk))
		return UINT64_MAX;
	return forward ? chunk - at : at - chunk;
}

uint64_t arena_front(struct arena *arena, uint64_t chunk, bool forward)
{
	uint64_t chunks = arena_limit(arena) / ARENA_BLOCKS, farthest = 0;
	_Atomic uint64_t *own = &arena_own_row(arena)->front;
	uint32_t clock = atomic_load_explicit(&arena->head->clock, memory_order_relaxed);
	uint64_t now = front_of(chunk, forward, clock);

	if ((atomic_load_explicit(own, memory_order_relaxed) ^ now) >> FRONT_BACKWARD_BIT)
		atomic_store_explicit(own, now, memory_order_relaxed);
	for (unsigned i = 1; i <= arena_rows_high(arena); i++) {
		uint64_t front = atomic_load_explicit(&arena->rows[i].front, memory_order_relaxed);
		uint64_t behind = distance(front, chunk, forward);

		if (is_fresh(front, clock, chunks) && behind <= chunks && behind > farthest)
			farthest = behind;
	}
	return farthest;
}

bool arena_scans_meet(const struct arena *arena, bool forward)
{
	uint64_t chunks = arena_limit(arena) / ARENA_BLOCKS;
	uint32_t clock = atomic_load_explicit(&arena->head->clock, memory_order_relaxed);

	for (unsigned i = 1; i <= arena_rows_high(arena); i++) {
		uint64_t front = atomic_load_explicit(&arena->rows[i].front, memory_order_relaxed);

		if (is_fresh(front, clock, chunks) && is_backward(front) == forward)
			return true;
	}
	return false;
}
