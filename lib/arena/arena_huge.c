/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives coming chunks their memory in huge pages.
 *
 * A memfd has 4 KiB pages, unless the administrator allows larger ones; making, filling, mapping
 * and freeing small pages takes longer than the copy. MADV_COLLAPSE (Linux 6.1) makes huge pages of
 * a range without special rights, and bytes can be read from storage straight into them. Each call
 * waits for all processors, so one call makes many pages. A huge page is two chunks, which would
 * have to be evicted together, so only arenas with room for the whole file get huge pages.
 */
#include "arena/arena_private.h"

#include "util/clock.h"
#include "util/huge.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum {
	SLOW_NS = 1500000, /* a huge page that takes longer costs more than it saves a process */
	SAVED_NS = 500000, /* this much more for each other process that scans: faults */
	MISSES = 3,        /* failures in a row: no support in the kernel, or fragmented memory */
};

static bool has_room_for_all(const struct arena *arena)
{
	return arena_limit(arena) >= arena->needs;
}

static uint64_t pair_bits(uint64_t chunk)
{
	return UINT64_C(3) << (chunk % 64 & ~UINT64_C(1));
}

/* Whether no process has tried to make a pair's page: one tries, once. */
static bool is_first_try(struct arena_group *group, uint64_t chunk)
{
	return !(atomic_fetch_or(&group->asked[chunk % ARENA_GROUP / 64], pair_bits(chunk)) &
		 pair_bits(chunk));
}

/* Claims a chunk of a pair whose other chunk this process has claimed. Bytes that are there already
 * are not worth moving. */
static bool pair_claim(struct arena *arena, struct arena_group *group, uint64_t chunk)
{
	if (!arena_claim_as(arena, group, chunk, arena->row))
		return false;
	if (!arena_published(group, chunk) && !arena_published(group, chunk ^ (ARENA_PAIR - 1)))
		return true;
	arena_claim_end(arena, group, chunk, arena->row);
	return false;
}

/* Whether this process makes a pair's page. If true, it has claimed both chunks. */
static bool pair_take(struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = arena_group_need(arena, chunk, arena->row);

	if (!group || chunk + ARENA_PAIR > arena->chunks || !is_first_try(group, chunk) ||
	    !arena_claim_as(arena, group, chunk, arena->row))
		return false;
	if (pair_claim(arena, group, chunk + 1))
		return true;
	arena_claim_end(arena, group, chunk, arena->row);
	return false;
}

/* The kernel makes a huge page only of a range that has at least one page. */
static bool pairs_make(struct arena *arena, uint64_t first, uint64_t end)
{
	uint8_t *start = arena->base + first * ARENA_CHUNK;
	uint64_t length = (end - first) * ARENA_CHUNK;

	for (uint64_t at = 0; at < length; at += ARENA_HUGE)
		if (madvise(start + at, ARENA_BLOCK, MADV_POPULATE_READ))
			return false;
	if (madvise(start, length, MADV_COLLAPSE))
		return false;
	for (uint64_t chunk = first; chunk < end; chunk += ARENA_PAIR) {
		struct arena_group *group = arena_group_of(arena, chunk);

		/* Chunks that no scan comes to read may be evicted, if there is less room one
		 * day. */
		arena_touch(arena, chunk);
		arena_touch(arena, chunk + 1);
		atomic_fetch_or(&group->pins[0][chunk % ARENA_GROUP / 64], pair_bits(chunk));
		atomic_fetch_or(&group->huge[chunk % ARENA_GROUP / 64], pair_bits(chunk));
	}
	return true;
}

/* Nanoseconds that a huge page may take. */
static uint64_t worth_of_page(const struct arena *arena)
{
	unsigned steppers, scanners = arena_scanners(arena, &steppers);

	return SLOW_NS + (scanners + steppers > 1 ? scanners + steppers - 1 : 0) * SAVED_NS;
}

/* Makes the pages of neighbouring pairs, which this process has claimed, in one call, and judges
 * whether that was worth it. Returns the new trust. */
static int range_make(struct arena *arena, uint64_t first, uint64_t end)
{
	int trust = atomic_load(&arena->trust);
	uint64_t worth = (end - first) / ARENA_PAIR * worth_of_page(arena);
	/* Processor time, because waiting for a processor says nothing about memory. */
	uint64_t began = clock_of(CLOCK_THREAD_CPUTIME_ID);
	bool made = pairs_make(arena, first, end);

	arena_step("prepared");
	for (uint64_t chunk = first; !made && chunk < end; chunk++)
		arena_free_unpublished(arena, chunk);
	if (made && clock_of(CLOCK_THREAD_CPUTIME_ID) - began < worth)
		trust = 1;
	else
		trust = trust > 0 ? -1 : trust - 1;
	atomic_store(&arena->trust, trust);
	return trust;
}

void arena_prepare(struct arena *arena, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, run, left;
	int trust = atomic_load(&arena->trust);

	if (!has_room_for_all(arena))
		return;
	if (end > arena->chunks)
		end = arena->chunks;
	first -= first % ARENA_PAIR;
	/* The first call makes one page, to see how long it takes. */
	left = trust > 0 ? end - first : 1;
	for (; first < end && left && trust > -MISSES; first = run + ARENA_PAIR) {
		for (run = first; run < end && left && pair_take(arena, run); left--)
			run += ARENA_PAIR;
		if (run == first)
			continue;
		trust = range_make(arena, first, run);
		for (uint64_t chunk = first; chunk < run; chunk++)
			arena_claim_end(arena, arena_group_of(arena, chunk), chunk, arena->row);
	}
}

void arena_prepare_claimed(struct arena *arena, uint64_t chunk)
{
	uint64_t other = chunk ^ (ARENA_PAIR - 1);
	struct arena_group *group = arena_group_of(arena, chunk);

	if (!arena_may_prepare(arena, chunk) || !is_first_try(group, chunk) ||
	    !pair_claim(arena, group, other))
		return;
	(void)range_make(arena, chunk & ~(uint64_t)(ARENA_PAIR - 1),
			 (chunk | (ARENA_PAIR - 1)) + 1);
	arena_claim_end(arena, group, other, arena->row);
}

bool arena_may_prepare(const struct arena *arena, uint64_t chunk)
{
	struct arena_group *group;

	if (atomic_load_explicit(&arena->trust, memory_order_relaxed) <= -MISSES ||
	    !has_room_for_all(arena) || (chunk | (ARENA_PAIR - 1)) >= arena->chunks)
		return false;
	group = arena_group_of(arena, chunk);
	return !group || !(atomic_load_explicit(&group->asked[chunk % ARENA_GROUP / 64],
						memory_order_relaxed) &
			   pair_bits(chunk));
}

bool arena_is_huge(const struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = chunk < arena->chunks ? arena_group_of(arena, chunk) : NULL;

	return group && atomic_load(&group->huge[chunk % ARENA_GROUP / 64]) >> chunk % 64 & 1;
}

uint8_t *arena_place(const struct arena *arena, uint64_t offset, uint64_t length)
{
	uint64_t chunk = offset / ARENA_CHUNK;

	if ((offset + length - 1) / ARENA_CHUNK != chunk || !arena_is_huge(arena, chunk))
		return NULL;
	return arena->base + offset;
}

void arena_huge_break(struct arena_group *group, uint64_t chunk)
{
	atomic_fetch_and(&group->huge[chunk % ARENA_GROUP / 64], ~pair_bits(chunk));
}
