/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes time pass faster for the code under test, so that a wait of a second for a silent rank
 * takes less. The program is linked with --wrap for each of these calls. */
#include "config.h"

#include "util/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* A program may define another factor. */
#ifndef CLOCK_FASTER
#define CLOCK_FASTER 20
#endif
enum { FASTER = CLOCK_FASTER };

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_nanosleep(const struct timespec *pause, struct timespec *left);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *left);
int __real_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *bound, const sigset_t *signals);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *bound, const sigset_t *signals);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *at);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *at);

static uint64_t ns_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * CLOCK_SECOND + (uint64_t)time->tv_nsec;
}

/* The moment from which the clock runs faster. */
static uint64_t began(void)
{
	static _Atomic uint64_t at;
	struct timespec now;
	uint64_t none = 0;

	if (!atomic_load(&at)) {
		__real_clock_gettime(CLOCK_MONOTONIC, &now);
		atomic_compare_exchange_strong(&at, &none, ns_of(&now));
	}
	return atomic_load(&at);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	uint64_t first = began();
	int rc = __real_clock_gettime(clock, now);

	if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
		*now = clock_spec(ns_of(now) < first ? first : first + (ns_of(now) - first) * FASTER);
	return rc;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
	struct timespec less = clock_spec(ns_of(pause) / FASTER);

	return __real_nanosleep(&less, left);
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *bound, const sigset_t *signals)
{
	struct timespec less = clock_spec(bound ? ns_of(bound) / FASTER : 0);

	return __real_ppoll(fds, n, bound ? &less : NULL, signals);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock, const struct timespec *at)
{
	uint64_t first = began();
	struct timespec real = clock_spec(first + (ns_of(at) - first) / FASTER);

	return __real_pthread_cond_timedwait(condition, lock, &real);
}
