/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns bounds in nanoseconds into the arguments of the kernel's waits. */
#include "util/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void clock_condition(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

bool clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until)
{
	struct timespec at = clock_spec(until);

	if (until == CLOCK_NEVER)
		return !pthread_cond_wait(condition, lock);
	return !pthread_cond_timedwait(condition, lock, &at);
}

int clock_poll(struct pollfd *fds, nfds_t n, uint64_t ns)
{
	struct timespec bound = clock_spec(ns);

	return ppoll(fds, n, ns == CLOCK_NEVER ? NULL : &bound, NULL);
}

bool clock_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
	struct timespec bound = clock_spec(ns);

	return !syscall(SYS_futex, word, FUTEX_WAIT, value, &bound, NULL, 0);
}

void clock_futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
