/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells which units are there.
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

/* Any thread or process. ready_set() and ready_clear() return what the bit was. Clear a bit before
 * its unit's bytes go. */
static inline bool ready_set(uint64_t *words, uint64_t unit)
{
	uint64_t bit = UINT64_C(1) << unit % 64;

	return __atomic_fetch_or(&words[unit / 64], bit, __ATOMIC_RELEASE) & bit;
}

static inline bool ready_clear(uint64_t *words, uint64_t unit)
{
	uint64_t bit = UINT64_C(1) << unit % 64;

	return __atomic_fetch_and(&words[unit / 64], ~bit, __ATOMIC_ACQ_REL) & bit;
}

static inline bool ready_test(const uint64_t *words, uint64_t unit)
{
	return __atomic_load_n(&words[unit / 64], __ATOMIC_ACQUIRE) >> unit % 64 & 1;
}

/* Returns how many of `units` units are there. */
static inline uint64_t ready_count(const uint64_t *words, uint64_t units)
{
	uint64_t count = 0;

	for (size_t i = 0; i < ready_words(units); i++)
		count += (uint64_t)__builtin_popcountll(
			__atomic_load_n(&words[i], __ATOMIC_RELAXED));
	return count;
}

#endif
