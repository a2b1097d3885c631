/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads through io_uring, and goes on without it when the kernel stops serving it.
 *
 * A request is in one of four places: `pending` (the ring is full), `prepared` (written into the
 * submission queue, not taken by the kernel), the kernel, `done`. When the kernel refuses a call
 * for good, it still finishes what it took; threads read the first two lists.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "io/io_ring.h"

#ifdef HAVE_LIBURING

#include "io/io_backend.h"
#include "util/clock.h"

#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

/* Requests that the kernel has at a time; the completion queue has room for twice as many. */
#define RING_DEPTH 64
/* A submission entry's length has 32 bits; the rest of a longer request is read as after a short
 * read. */
#define RING_LENGTH_MAX ((size_t)1 << 30)

struct request_list {
	struct io_request *first, **end;
};

struct io_ring {
	struct io *io;
	int fd;
	bool working; /* uring is set up; else all requests go to `threads` */
	struct io_uring uring;
	uint64_t device, inode;     /* of the ring's own descriptor */
	struct io_threads *threads; /* NULL: no read has needed one yet */
	struct request_list pending, prepared, done;
	size_t n_staged, in_kernel;
};

static void push(struct request_list *list, struct io_request *r)
{
	r->next = NULL;
	*list->end = r;
	list->end = &r->next;
}

static struct io_request *pop(struct request_list *list)
{
	struct io_request *r = list->first;

	list->first = r->next;
	if (!list->first)
		list->end = &list->first;
	return r;
}

static void read_now(struct io_ring *ring, struct io_request *r)
{
	r->error = io_read_rest(ring->io, r->buffer, r->length, r->offset, &r->done);
	push(&ring->done, r);
}

/* Whether io_uring may have failed for a reason of its own, which a plain read may not share. Such
 * reasons are an ended thread's requests, no memory for its bookkeeping, a policy, an operation or
 * file system that it does not serve. */
static bool is_ring_trouble(int error)
{
	return error == EINTR || error == EAGAIN || error == ECANCELED || error == ENOMEM ||
	       error == EINVAL || error == EOPNOTSUPP || error == EPERM || error == EACCES;
}

/* A short read is mostly the end of the file, which the plain read finds out. */
static void complete(struct io_ring *ring, struct io_request *r, int result)
{
	if (result < 0 && !is_ring_trouble(-result)) {
		r->error = -result;
		push(&ring->done, r);
		return;
	}
	r->done = result > 0 ? (size_t)result : 0;
	if (r->done < r->length)
		read_now(ring, r);
	else
		push(&ring->done, r);
}

/* Looks at shared memory alone, without a system call that could be refused. */
static void reap(struct io_ring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned head, n = 0;

	io_uring_for_each_cqe(&ring->uring, head, cqe) {
		complete(ring, io_uring_cqe_get_data(cqe), cqe->res);
		n++;
	}
	io_uring_cq_advance(&ring->uring, n);
	ring->in_kernel -= n;
}

static void submit_to_threads(struct io_ring *ring, struct io_request *r)
{
	if (io_threads_submit(&ring->threads, ring->io, &r, 1))
		read_now(ring, r);
}

/* Another file may have the number of the ring's descriptor; that file stays open. */
static void exit_ring(struct io_ring *ring)
{
	if (!descriptor_is(ring->uring.ring_fd, ring->device, ring->inode))
		ring->uring.ring_fd = -1;
	io_uring_queue_exit(&ring->uring);
}

/* Waits by poll(2), which sees completions without io_uring_enter(2). */
static void give_up_ring(struct io_ring *ring)
{
	struct pollfd completed = { .fd = ring->uring.ring_fd, .events = POLLIN };

	while (reap(ring), ring->in_kernel > 0) {
		if (clock_poll(&completed, 1, CLOCK_SECOND / 10) < 0 && errno != EINTR)
			(void)sched_yield();
	}
	exit_ring(ring);
	ring->working = false;
	while (ring->prepared.first)
		submit_to_threads(ring, pop(&ring->prepared));
	ring->n_staged = 0;
	while (ring->pending.first)
		submit_to_threads(ring, pop(&ring->pending));
}

static void refuse_pending(struct io_ring *ring)
{
	while (ring->pending.first) {
		ring->pending.first->error = EBADF;
		push(&ring->done, pop(&ring->pending));
	}
}

static void prepare(struct io_ring *ring)
{
	if (ring->pending.first && !io_is_ours(ring->io, ring->fd))
		refuse_pending(ring);
	while (ring->pending.first && ring->in_kernel + ring->n_staged < RING_DEPTH) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
		struct io_request *r;
		size_t length;

		if (!sqe)
			return;
		r = pop(&ring->pending);
		length = r->length < RING_LENGTH_MAX ? r->length : RING_LENGTH_MAX;
		io_uring_prep_read(sqe, ring->fd, r->buffer, (unsigned)length, r->offset);
		io_uring_sqe_set_data(sqe, r);
		push(&ring->prepared, r);
		ring->n_staged++;
	}
}

/* Gives the kernel the prepared requests, and waits for `wait` completions. Returns false when the
 * ring is of no use any more. */
static bool enter(struct io_ring *ring, size_t wait)
{
	int n = io_uring_submit_and_wait(&ring->uring, (unsigned)wait);

	if (n == -EINTR)
		return true;
	if (n == -EAGAIN || n == -EBUSY) /* passes as requests complete, if there are any */
		return ring->in_kernel > 0;
	if (n < 0 || (n == 0 && wait == 0))
		return false;
	ring->in_kernel += (size_t)n;
	ring->n_staged -= (size_t)n;
	while (n-- > 0)
		(void)pop(&ring->prepared);
	return true;
}

/* The kernel may take a part of the prepared requests; the rest goes with the next call. */
static void pump(struct io_ring *ring)
{
	prepare(ring);
	if (ring->n_staged > 0 && !enter(ring, 0))
		give_up_ring(ring);
}

/* Threads of the kernel read a file system that cannot read without blocking. By default they are
 * four times as many as processors: on a small machine, fewer than reads in flight. A kernel that
 * does not know the request (before 5.15) has no such limit to raise. */
static void allow_workers(struct io_ring *ring)
{
	unsigned workers[2] = {RING_DEPTH, 0};

	(void)io_uring_register_iowq_max_workers(&ring->uring, workers);
}

/* Moves the ring's descriptor out of the way of a program that closes what it did not open. */
static bool lift_ring(struct io_ring *ring)
{
	struct stat st;

#ifdef HAVE_STRUCT_IO_URING_ENTER_RING_FD
	ring->uring.ring_fd = descriptor_lift(ring->uring.ring_fd);
	ring->uring.enter_ring_fd = ring->uring.ring_fd;
#endif
	if (fstat(ring->uring.ring_fd, &st))
		return false;
	ring->device = st.st_dev;
	ring->inode = st.st_ino;
	return true;
}

struct io_ring *io_ring_new(struct io *io)
{
	struct io_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return NULL;
	ring->io = io;
	ring->pending.end = &ring->pending.first;
	ring->prepared.end = &ring->prepared.first;
	ring->done.end = &ring->done.first;
	if (io_uring_queue_init(RING_DEPTH, &ring->uring, 0) != 0)
		goto fail;
	ring->working = true;
	if (!lift_ring(ring))
		goto fail;
	/* This feature came with the plain read operation, in Linux 5.6. */
	if (!(ring->uring.features & IORING_FEAT_RW_CUR_POS))
		goto fail;
	allow_workers(ring);
	return ring;
fail:
	io_ring_free(ring, false);
	return NULL;
}

void io_ring_submit(struct io_ring *ring, int fd, struct io_request *const *requests, size_t n)
{
	size_t i;

	ring->fd = fd;
	for (i = 0; i < n; i++) {
		if (ring->working)
			push(&ring->pending, requests[i]);
		else
			submit_to_threads(ring, requests[i]);
	}
	if (ring->working)
		pump(ring);
}

static size_t hand_back(struct io_ring *ring, struct io_request **requests, size_t max)
{
	size_t n = 0;

	while (n < max && ring->done.first)
		requests[n++] = pop(&ring->done);
	return n;
}

size_t io_ring_wait(struct io_ring *ring, struct io_request **requests, size_t min, size_t max)
{
	size_t n = 0, wait;

	while (ring->working) {
		reap(ring);
		pump(ring);
		n += hand_back(ring, requests + n, max - n);
		if (n >= min)
			return n;
		/* With a full ring, each completion makes room for a pending request. */
		wait = ring->pending.first ? 1 : min - n;
		if (ring->working && !enter(ring, wait < ring->in_kernel ? wait : ring->in_kernel))
			give_up_ring(ring);
	}
	n += hand_back(ring, requests + n, max - n);
	if (n < max && ring->threads)
		n += io_threads_wait(ring->threads, requests + n, n < min ? min - n : 0, max - n);
	return n;
}

void io_ring_rest(struct io_ring *ring)
{
	if (!ring)
		return;
	io_threads_free(ring->threads);
	ring->threads = NULL;
}

/* In a forked child, leaving the ring unmaps and closes the child's copies and does nothing to the
 * parent's. */
void io_ring_free(struct io_ring *ring, bool forked)
{
	if (!ring)
		return;
	if (ring->working)
		exit_ring(ring);
	if (forked)
		io_threads_forget(&ring->threads);
	else
		io_threads_free(ring->threads);
	free(ring);
}

#endif
