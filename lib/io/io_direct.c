/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads around the kernel's page cache (O_DIRECT), so that a request reaches the file system at its
 * full length.
 *
 * The caller's descriptor is a buffered one, and O_DIRECT belongs to the open file, so the file
 * is opened again. Where O_DIRECT can be opened but not read, reads go on through the caller's.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_DIRECT, statx(2) */
#endif

#include "io/io_backend.h"
#include "io/io_ring.h"
#include "util/kernel_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The alignment where the kernel does not tell: a multiple of every usual block size, and a page
 * for the buffer. A file that needs more is refused: callers read blocks of this size wherever
 * these begin. */
#define DIRECT_ALIGNMENT 4096

struct io_direct {
	int fd;                     /* this back end's own, O_DIRECT */
	bool buffered;              /* reads go through the caller's; any reading thread sets it */
	struct io_ring *ring;       /* this or `threads`, from the first submit on */
	struct io_threads *threads;
};

static int open_direct(int fd, int *direct_fd)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*direct_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (*direct_fd < 0)
		return errno;
	if (!file_is_locked_here(*direct_fd))
		*direct_fd = descriptor_lift(*direct_fd);
	return 0;
}

/* Linux 6.1 tells the alignment for most local file systems. Returns 0 if this file takes no direct
 * I/O. */
static size_t direct_alignment(int fd)
{
#ifdef STATX_DIOALIGN
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 &&
	    (st.stx_mask & STATX_DIOALIGN) != 0) {
		if (st.stx_dio_offset_align == 0)
			return 0;
		return st.stx_dio_offset_align > st.stx_dio_mem_align ? st.stx_dio_offset_align
								      : st.stx_dio_mem_align;
	}
#endif
	(void)fd;
	return DIRECT_ALIGNMENT;
}

static int direct_start(struct io *io)
{
	struct io_direct *direct = calloc(1, sizeof(*direct));
	int rc;

	if (!direct)
		return ENOMEM;
	rc = open_direct(io->fd, &direct->fd);
	if (rc)
		goto fail;
	io->alignment = direct_alignment(direct->fd);
	if (io->alignment == 0 || (io->alignment & (io->alignment - 1)) != 0)
		rc = EINVAL;
	else if (io->alignment > DIRECT_ALIGNMENT)
		rc = EOPNOTSUPP;
	if (rc)
		goto fail_open;
	io->state = direct;
	return 0;
fail_open:
	(void)close(direct->fd);
fail:
	free(direct);
	return rc;
}

static bool is_buffered(const struct io_direct *direct)
{
	return __atomic_load_n(&direct->buffered, __ATOMIC_RELAXED);
}

static ssize_t direct_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	struct io_direct *direct = io->state;
	ssize_t n;

	if (!is_buffered(direct)) {
		if (!io_is_ours(io, direct->fd))
			return -1;
		n = pread(direct->fd, buffer, length, (off_t)offset);
		if (n >= 0 || (errno != EINVAL && errno != EOPNOTSUPP))
			return n;
		/* The door has checked the range, so the alignment or O_DIRECT itself is
		 * refused. */
		__atomic_store_n(&direct->buffered, true, __ATOMIC_RELAXED);
	}
	if (!io_is_ours(io, io->fd))
		return -1;
	return pread(io->fd, buffer, length, (off_t)offset);
}

static int submit_to_threads(struct io *io, struct io_request *const *requests, size_t n)
{
	return io_threads_submit(&((struct io_direct *)io->state)->threads, io, requests, n);
}

static int direct_submit(struct io *io, struct io_request *const *requests, size_t n)
{
	struct io_direct *direct = io->state;

	if (!direct->ring && !direct->threads)
		direct->ring = io_ring_new(io);
	if (!direct->ring)
		return submit_to_threads(io, requests, n);
	io_ring_submit(direct->ring, is_buffered(direct) ? io->fd : direct->fd, requests, n);
	return 0;
}

static size_t direct_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	struct io_direct *direct = io->state;

	if (direct->ring)
		return io_ring_wait(direct->ring, requests, min, max);
	return io_threads_wait(direct->threads, requests, min, max);
}

static void direct_forked(struct io *io)
{
	struct io_direct *direct = io->state;

	io_ring_free(direct->ring, true);
	io_threads_forget(&direct->threads);
	direct->ring = NULL;
}

static void direct_rest(struct io *io)
{
	struct io_direct *direct = io->state;

	io_ring_rest(direct->ring);
	io_threads_free(direct->threads);
	direct->threads = NULL;
}

static void direct_close(struct io *io)
{
	struct io_direct *direct = io->state;

	io_ring_free(direct->ring, false);
	io_threads_free(direct->threads);
	descriptor_close(direct->fd, io->device, io->inode);
	free(direct);
}

const struct io_ops io_direct_ops = {
	.name = "direct",
	.open = direct_start,
	.read = direct_read,
	.submit = direct_submit,
	.wait = direct_wait,
	.forked = direct_forked,
	.rest = direct_rest,
	.close = direct_close,
};

/* For kernels whose io_uring is bad, and for comparison. */
const struct io_ops io_direct_threads_ops = {
	.name = "direct-threads",
	.open = direct_start,
	.read = direct_read,
	.submit = submit_to_threads,
	.wait = direct_wait,
	.forked = direct_forked,
	.rest = direct_rest,
	.close = direct_close,
};
