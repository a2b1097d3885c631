/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts, names, wakes and ends the threads of lmdbio's own.
 *
 * They take none of the program's signals. A forked child has none of them.
 */
#ifndef LMDBIO_UTIL_THREAD_H
#define LMDBIO_UTIL_THREAD_H

#include "util/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pthread_create() with all signals blocked in the new thread. Returns 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Names the calling thread, in at most 15 characters. */
void thread_name(const char *name);

/* Calls work(argument, i) for each i below n, each once, and returns when all calls have: by the
 * caller, which begins with 0, and threads that it starts for this, as far as there are any. What
 * those wait for is not the program's waiting. */
void thread_share(unsigned n, const char *name, void (*work)(void *argument, unsigned i),
		  void *argument);

/* A declaration: from here to the end of its block the program's thread is not cancelled. No call of LMDB that reads
 * is a cancellation point (pthreads(7)); one of ours that waits for files or other threads would be one, and the thread
 * would end with locks held. */
#define UNCANCELLED                                                                                \
	int uncancelled_before __attribute__((cleanup(thread_cancels), unused)) =                  \
		thread_uncancelled()

static inline int thread_uncancelled(void)
{
	int before;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void thread_cancels(const int *before)
{
	(void)pthread_setcancelstate(*before, NULL);
}

/* What the threads of a crew do. */
struct crew_work {
	const char *name; /* of each thread, in at most 15 characters */
	/* Does a piece of work, under the crew's lock, and returns 0; it may release the lock
	 * meanwhile. If there is none, it returns when to look again unless the crew is woken: a
	 * time of clock_now(), or CLOCK_NEVER. Is not called any more when the crew is stopped. */
	uint64_t (*step)(void *owner);
	bool serves;  /* what the threads wait for is not the program's waiting */
	size_t stack; /* bytes; 0: the default */
};

/* Threads that serve one object, under its lock, until they are stopped. */
struct crew {
	const struct crew_work *work;
	void *owner;
	pthread_mutex_t *lock;
	pthread_cond_t wake;
	bool stopping;     /* under the lock */
	unsigned idle;     /* threads that wait in vain; under the lock */
	unsigned count;    /* threads that were started */
	pthread_t *threads;
};

/* Starts no thread. */
void crew_init(struct crew *crew, const struct crew_work *work, void *owner, pthread_mutex_t *lock);

/* Starts threads until there are `wanted`; fewer do as well. One thread at a time may call it, with
 * or without the lock. Returns 0, or why there is none: an errno. */
int crew_start(struct crew *crew, unsigned wanted);

/* Under the lock: wakes one thread that waits, or all of them. */
void crew_wake(struct crew *crew);
void crew_wake_all(struct crew *crew);

/* Within a step: waits until the crew is woken. */
void crew_wait(struct crew *crew, uint64_t until);

/* Without the lock: lets all threads finish their steps, and joins them. Work that no thread has
 * begun stays undone. Waking the crew is allowed afterwards, starting it is not. */
void crew_stop(struct crew *crew);

/* In a forked child, instead: the threads are the parent's. */
void crew_forget(struct crew *crew);

#endif
