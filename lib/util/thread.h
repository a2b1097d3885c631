/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts, names, wakes and ends lmdbio's own threads.
 *
 * These threads take none of the program's signals. A forked child has none of them.
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

/* Calls work(argument, i) once for each i below n, and returns when all calls have. The caller,
 * which begins with 0, and threads that it starts for this, as far as it can, make the calls. Waits
 * of these threads do not count as the program's. */
void thread_share(unsigned n, const char *name, void (*work)(void *argument, unsigned i),
		  void *argument);

/* A declaration: from here to the end of its block the program's thread is not cancelled. No call
 * of LMDB that reads is a cancellation point (pthreads(7)). A call of lmdbio that waits for files
 * or other threads would be one, and the thread would end with locks held. */
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

/* The work of a crew's threads. */
struct crew_work {
	const char *name; /* of each thread, in at most 15 characters */
	/* Does a piece of work under the crew's lock, which it may release meanwhile, and returns
	 * 0. Without work, returns when to look again unless the crew is woken: a time of
	 * clock_now(), or CLOCK_NEVER. Is not called any more when the crew is stopped. */
	uint64_t (*step)(void *owner);
	bool serves;  /* waits of the threads do not count as the program's */
	size_t stack; /* bytes; 0: the default */
};

/* Threads that serve one object, under its lock, until they are stopped. */
struct crew {
	const struct crew_work *work;
	void *owner;
	pthread_mutex_t *lock;
	pthread_cond_t wake;
	bool stopping;     /* under `lock` */
	unsigned idle;     /* threads that wait for work; under `lock` */
	unsigned count;    /* threads that were started */
	pthread_t *threads;
};

/* Starts no thread. */
void crew_init(struct crew *crew, const struct crew_work *work, void *owner, pthread_mutex_t *lock);

/* Starts threads until there are `wanted`; fewer do as well. One thread at a time may call it, with
 * or without the crew's lock. Returns 0, or an errno if there is no thread. */
int crew_start(struct crew *crew, unsigned wanted);

/* Under the crew's lock: wakes one thread that waits, or all of them. */
void crew_wake(struct crew *crew);
void crew_wake_all(struct crew *crew);

/* Within a step: waits until the crew is woken. */
void crew_wait(struct crew *crew, uint64_t until);

/* Without the crew's lock: lets all threads finish their steps, and joins them. Work that no thread
 * has begun stays undone. Waking the crew is allowed afterwards, starting it is not. */
void crew_stop(struct crew *crew);

/* In a forked child, instead: forgets the threads, which are the parent's. */
void crew_forget(struct crew *crew);

#endif
