/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells which units are there, and chooses one of several sources.
 *
 * Readiness is exact: one bit a unit, in words of 64. A node sets the bits as units arrive, and
 * peers may read the words where they lie (in shared memory or in an MPI window). A bit is set
 * after the unit's bytes, so a reader that sees the bit may read them. */
#ifndef LMDBIO_LOADER_READY_H
#define LMDBIO_LOADER_READY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the 64-bit words for `units` units. They begin as zeroes. */
static inline size_t ready_words(uint64_t units)
{
	return (size_t)(units / 64 + (units % 64 != 0));
}

/* The word with a unit's bit, for a peer that fetches the word; and the bit in that word. */
static inline size_t ready_word(uint64_t unit)
{
	return (size_t)(unit / 64);
}

static inline bool ready_in(uint64_t word, uint64_t unit)
{
	return word >> unit % 64 & 1;
}

/* Any thread or process. ready_set() and ready_clear() return what the bit was. Clear a bit before
 * its unit's bytes go. */
static inline bool ready_set(uint64_t *words, uint64_t unit)
{
	uint64_t bit = UINT64_C(1) << unit % 64;

	return __atomic_fetch_or(&words[ready_word(unit)], bit, __ATOMIC_RELEASE) & bit;
}

static inline bool ready_clear(uint64_t *words, uint64_t unit)
{
	uint64_t bit = UINT64_C(1) << unit % 64;

	return __atomic_fetch_and(&words[ready_word(unit)], ~bit, __ATOMIC_ACQ_REL) & bit;
}

static inline bool ready_test(const uint64_t *words, uint64_t unit)
{
	return ready_in(__atomic_load_n(&words[ready_word(unit)], __ATOMIC_ACQUIRE), unit);
}

/* Returns how many of `units` units are there. */
uint64_t ready_count(const uint64_t *words, uint64_t units);

/* --- which source ---------------------------------------------------------------------------- */

/* One place that a unit can come from. */
struct ready_source {
	double seconds_a_request, seconds_a_byte; /* measured */
	uint64_t queued_requests, queued_bytes;   /* that wait there already */
	bool ready;                               /* the unit is there */
};

/* Returns when the source would have delivered `bytes` more, in seconds from now. */
double ready_finish(const struct ready_source *source, uint64_t bytes);

/* Returns the source that finishes first, or n when no source is ready. `key` decides between
 * equals, so that readers that see the same do not all take the same source: give each reader and
 * unit its own key. */
unsigned ready_choose(const struct ready_source *sources, unsigned n, uint64_t bytes, uint64_t key);

#endif
