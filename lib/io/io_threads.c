/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shares blocking reads out to helper threads.
 *
 * Threads start as requests find all others busy, up to a limit, and stay until the pool goes.
 * One queue in, one list out, one lock: a request is a large read, so the lock is never busy.
 */
#include "io/io_threads.h"
#include "io/io_backend.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

/* Deep enough to hide the latency of a parallel file system under 1 MiB reads. */
#define THREADS_MAX 16
/* Reading needs little; the rest is room for the program's thread-local variables, which glibc
 * takes from the stack. */
#define THREADS_STACK ((size_t)256 << 10)

struct io_threads {
	struct io *io;
	pthread_mutex_t lock; /* of all below it, except the last two */
	pthread_cond_t work;  /* the queue is not empty, or stop */
	pthread_cond_t ready; /* finished >= wanted */
	struct io_request *queue, **queue_end;
	size_t queued;
	struct io_request *done;
	size_t finished; /* length of `done` */
	size_t wanted;   /* what the waiter sleeps for; 0: it does not sleep */
	size_t idle;     /* threads that wait for work */
	bool stop;
	size_t n_threads; /* the submitting thread's alone */
	pthread_t threads[THREADS_MAX];
};

static void read_request(struct io_threads *pool, struct io_request *r)
{
	if (r->cache_only && io_keep(pool->io, r->offset, r->length)) {
		r->done = r->length;
		r->error = 0;
		return;
	}
	r->error = io_read_rest(pool->io, r->buffer, r->length, r->offset, &r->done);
}

/* With the pool's lock held. */
static void finish_request(struct io_threads *pool, struct io_request *r)
{
	r->next = pool->done;
	pool->done = r;
	pool->finished++;
	if (pool->wanted && pool->finished >= pool->wanted) {
		pool->wanted = 0;
		pthread_cond_signal(&pool->ready);
	}
}

static void *run_thread(void *arg)
{
	struct io_threads *pool = arg;
	struct io_request *r;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (!pool->queue && !pool->stop) {
			pool->idle++;
			pthread_cond_wait(&pool->work, &pool->lock);
			pool->idle--;
		}
		if (!pool->queue)
			break;
		r = pool->queue;
		pool->queue = r->next;
		if (!pool->queue)
			pool->queue_end = &pool->queue;
		pool->queued--;
		pthread_mutex_unlock(&pool->lock);
		read_request(pool, r);
		pthread_mutex_lock(&pool->lock);
		finish_request(pool, r);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* The program's signal handlers are not to run on threads that it does not know. */
static bool start_thread(struct io_threads *pool)
{
	pthread_t *thread = &pool->threads[pool->n_threads];
	sigset_t all, before;
	pthread_attr_t attr;
	int rc = -1;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_attr_init(&attr) == 0) {
		if (pthread_attr_setstacksize(&attr, THREADS_STACK) == 0)
			rc = pthread_create(thread, &attr, run_thread, pool);
		pthread_attr_destroy(&attr);
	}
	if (rc) /* very large thread-local variables need the default size */
		rc = pthread_create(thread, NULL, run_thread, pool);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return false;
	pool->n_threads++;
	return true;
}

struct io_threads *io_threads_new(struct io *io)
{
	struct io_threads *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->io = io;
	pool->queue_end = &pool->queue;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->ready, NULL);
	return pool;
}

void io_threads_submit(struct io_threads *pool, struct io_request *const *requests, size_t n)
{
	size_t i, wake, missing;

	pthread_mutex_lock(&pool->lock);
	for (i = 0; i < n; i++) {
		requests[i]->next = NULL;
		*pool->queue_end = requests[i];
		pool->queue_end = &requests[i]->next;
	}
	pool->queued += n;
	wake = pool->idle < n ? pool->idle : n;
	missing = pool->queued > pool->idle ? pool->queued - pool->idle : 0;
	for (i = 0; i < wake; i++)
		pthread_cond_signal(&pool->work);
	pthread_mutex_unlock(&pool->lock);

	while (missing-- > 0 && pool->n_threads < THREADS_MAX) {
		if (!start_thread(pool))
			break;
	}
	if (pool->n_threads > 0)
		return;
	/* No other thread uses the pool. */
	while (pool->queue) {
		struct io_request *r = pool->queue;

		pool->queue = r->next;
		read_request(pool, r);
		finish_request(pool, r);
	}
	pool->queue_end = &pool->queue;
	pool->queued = 0;
}

size_t io_threads_wait(struct io_threads *pool, struct io_request **requests, size_t min,
	size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&pool->lock);
	while (pool->finished < min) {
		pool->wanted = min;
		pthread_cond_wait(&pool->ready, &pool->lock);
	}
	pool->wanted = 0;
	while (n < max && pool->done) {
		requests[n] = pool->done;
		pool->done = requests[n++]->next;
		pool->finished--;
	}
	pthread_mutex_unlock(&pool->lock);
	return n;
}

void io_threads_free(struct io_threads *pool)
{
	size_t i;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (i = 0; i < pool->n_threads; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->ready);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void io_threads_forget(struct io_threads *pool)
{
	free(pool);
}
