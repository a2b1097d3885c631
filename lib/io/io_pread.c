/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads through the kernel's page cache. */
#include "io/io_backend.h"

#include "io/io_page_cache.h"

#include <unistd.h>

static ssize_t pread_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	if (!io_is_ours(io, io->fd))
		return -1;
	return pread(io->fd, buffer, length, (off_t)offset);
}

static bool pread_keep(struct io *io, uint64_t offset, size_t length)
{
	return io_is_ours(io, io->fd) && io_huge_keep(io->fd, offset, length);
}

/* io->state is the pool, from the first submit on. */
static int pread_submit(struct io *io, struct io_request *const *requests, size_t n)
{
	struct io_threads *pool = io->state;
	int rc = io_threads_submit(&pool, io, requests, n);

	io->state = pool;
	return rc;
}

static size_t pread_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	return io_threads_wait(io->state, requests, min, max);
}

static void pread_forked(struct io *io)
{
	struct io_threads *pool = io->state;

	io_threads_forget(&pool);
	io->state = NULL;
}

static void pread_rest(struct io *io)
{
	io_threads_free(io->state);
	io->state = NULL;
}

const struct io_ops io_pread_ops = {
	.name = "pread",
	.read = pread_read,
	.keep = pread_keep,
	.submit = pread_submit,
	.wait = pread_wait,
	.forked = pread_forked,
	.rest = pread_rest,
	.close = pread_rest,
};
