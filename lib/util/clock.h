/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells time: nanoseconds of a clock that is never set. */
#ifndef LMDBIO_UTIL_CLOCK_H
#define LMDBIO_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Nanoseconds since some moment before the program began. Any thread. */
static inline uint64_t clock_now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

/* The same to a few milliseconds, nearly free. */
static inline uint64_t clock_coarse(void)
{
	return clock_of(CLOCK_MONOTONIC_COARSE);
}

#endif
