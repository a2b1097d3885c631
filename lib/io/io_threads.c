/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shares blocking reads out to helper threads.
 *
 * A request that finds all threads busy starts another, up to a limit. Threads stay until the io is
 * closed or rests. There is one queue in, one list out and one lock: a request is a large read, so
 * the pool's lock is never busy.
 */
#include "io/io_backend.h"

#include "util/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* 16 threads hide the latency of a parallel file system under 1 MiB reads. Of announced values of
 * 100 KB at 2 ms, 16 threads read 6,440 a second, and 32 threads 7,630. */
#define THREADS_MAX 32
/* Reading needs little; the rest is room for the program's thread-local variables, which glibc
 * takes from the stack. */
#define THREADS_STACK ((size_t)256 << 10)

struct io_threads {
	struct io *io;
	struct crew crew;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t ready; /* finished >= wanted */
	struct io_request *queue, **queue_end;
	size_t queued;
	struct io_request *done;
	size_t finished; /* length of `done` */
	size_t wanted;   /* requests that the waiter sleeps for; 0: it does not sleep */
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

/* A step of the crew. */
static uint64_t read_next(void *owner)
{
	struct io_threads *pool = owner;
	struct io_request *r = pool->queue;

	if (!r)
		return CLOCK_NEVER;
	pool->queue = r->next;
	if (!pool->queue)
		pool->queue_end = &pool->queue;
	pool->queued--;
	pthread_mutex_unlock(&pool->lock);
	read_request(pool, r);
	pthread_mutex_lock(&pool->lock);
	finish_request(pool, r);
	return 0;
}

static const struct crew_work reading = {
	.name = "lmdbio-io",
	.step = read_next,
	.stack = THREADS_STACK,
};

static struct io_threads *pool_make(struct io *io)
{
	struct io_threads *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->io = io;
	pool->queue_end = &pool->queue;
	pthread_mutex_init(&pool->lock, NULL);
	crew_init(&pool->crew, &reading, pool, &pool->lock);
	pthread_cond_init(&pool->ready, NULL);
	return pool;
}

int io_threads_submit(struct io_threads **made, struct io *io, struct io_request *const *requests, size_t n)
{
	struct io_threads *pool = *made ? *made : (*made = pool_make(io));
	size_t wanted, idle;

	if (!pool)
		return ENOMEM;
	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < n; i++) {
		requests[i]->next = NULL;
		*pool->queue_end = requests[i];
		pool->queue_end = &requests[i]->next;
	}
	pool->queued += n;
	idle = pool->crew.idle;
	for (size_t i = 0; i < n && i < idle; i++)
		crew_wake(&pool->crew);
	wanted = pool->crew.count + (pool->queued > idle ? pool->queued - idle : 0);
	pthread_mutex_unlock(&pool->lock);

	if (!crew_start(&pool->crew, wanted < THREADS_MAX ? (unsigned)wanted : THREADS_MAX))
		return 0;
	pthread_mutex_lock(&pool->lock);
	while (!read_next(pool))
		;
	pthread_mutex_unlock(&pool->lock);
	return 0;
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
	if (!pool)
		return;
	crew_stop(&pool->crew);
	pthread_cond_destroy(&pool->ready);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

void io_threads_forget(struct io_threads **pool)
{
	if (*pool)
		crew_forget(&(*pool)->crew);
	free(*pool);
	*pool = NULL;
}
