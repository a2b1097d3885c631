/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells time, and waits with a bound, in nanoseconds of one clock that is never set. */
#ifndef LMDBIO_UTIL_CLOCK_H
#define LMDBIO_UTIL_CLOCK_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define CLOCK_SECOND UINT64_C(1000000000)
#define CLOCK_NEVER UINT64_MAX /* a wait without a bound */

static inline uint64_t clock_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * CLOCK_SECOND + (uint64_t)now.tv_nsec;
}

/* Nanoseconds since some moment before the program began. Any thread. */
static inline uint64_t clock_now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

/* Returns clock_now() to a few milliseconds, nearly free. */
static inline uint64_t clock_coarse(void)
{
	return clock_of(CLOCK_MONOTONIC_COARSE);
}

static inline struct timespec clock_spec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / CLOCK_SECOND),
				 .tv_nsec = (long)(ns % CLOCK_SECOND)};
}

/* Sleeps for `ns`, or until a signal's handler has run. */
static inline void clock_sleep(uint64_t ns)
{
	struct timespec pause = clock_spec(ns);

	nanosleep(&pause, NULL);
}

/* Makes a condition variable for clock_wait(). */
void clock_condition(pthread_cond_t *condition);

/* Waits under `lock` until the condition is signalled, at most until clock_now() is `until`, or
 * CLOCK_NEVER. Returns false if the time has come. */
bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until);

/* Calls poll(2) with a bound of `ns`, or CLOCK_NEVER. */
int clock_poll(struct pollfd *fds, nfds_t n, uint64_t ns);

/* Waits until another process wakes the waiters of `word`, at most `ns`. Returns false if no
 * process did, or the word is not `value`. */
bool clock_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns);
void clock_futex_wake(_Atomic uint32_t *word);

#endif
