/* SPDX-License-Identifier: OLDAP-2.8 */
/* Has io_uring do the reads of a back end. (config.h comes first.) */
#ifndef LMDBIO_IO_RING_H
#define LMDBIO_IO_RING_H

#include "io/io.h"

struct io_ring;

#ifdef HAVE_LIBURING

/* Makes a ring for io. Returns NULL if this kernel, or a policy, allows none. Only one thread at a
 * time may call the functions below. */
struct io_ring *io_ring_new(struct io *io);

/* Takes all n requests, to be read from fd. When the kernel stops serving rings, threads take
 * over and read through io's back end. */
void io_ring_submit(struct io_ring *ring, int fd, struct io_request *const *requests, size_t n);

/* As io_wait(); min must not be more than the requests in flight. */
size_t io_ring_wait(struct io_ring *ring, struct io_request **requests, size_t min, size_t max);

/* Ends the threads; every request must have come back. NULL is fine. */
void io_ring_rest(struct io_ring *ring);

/* Every request must have come back, except in a forked child: there they and the threads are the
 * parent's. */
void io_ring_free(struct io_ring *ring, bool forked);

#else

/* Built without liburing: there is never a ring, so these functions do nothing. */
static inline struct io_ring *io_ring_new(struct io *io)
{
	(void)io;
	return NULL;
}

static inline void io_ring_submit(struct io_ring *ring, int fd,
	struct io_request *const *requests, size_t n)
{
	(void)ring;
	(void)fd;
	(void)requests;
	(void)n;
}

static inline size_t io_ring_wait(struct io_ring *ring, struct io_request **requests, size_t min,
	size_t max)
{
	(void)ring;
	(void)requests;
	(void)min;
	(void)max;
	return 0;
}

static inline void io_ring_rest(struct io_ring *ring)
{
	(void)ring;
}

static inline void io_ring_free(struct io_ring *ring, bool forked)
{
	(void)ring;
	(void)forked;
}

#endif
#endif
