/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks every read, and completes short ones. */
#include "io/io.h"
#include "io/io_backend.h"
#include "util/at_fork.h"
#include "util/huge.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

static const struct io_ops *const file_backends[] = {
	&io_pread_ops,
	&io_direct_ops,
	&io_direct_threads_ops,
};

static int open_backend(struct io *io, const struct io_ops *ops)
{
	int rc = 0;

	io->generation = fork_generation;
	io->ops = ops;
	io->alignment = 1;
	if (ops->open)
		rc = ops->open(io);
	if (rc)
		io->ops = NULL;
	return rc;
}

static const struct io_ops *find_backend(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(file_backends) / sizeof(file_backends[0]); i++) {
		if (strcmp(file_backends[i]->name, name) == 0)
			return file_backends[i];
	}
	return NULL;
}

const char *io_backend_name(const char *name)
{
	const struct io_ops *ops = find_backend(name);

	return ops ? ops->name : NULL;
}

int io_open_file(struct io *io, const char *backend, int fd)
{
	const struct io_ops *ops = find_backend(backend);
	struct stat st;

	memset(io, 0, sizeof(*io));
	io->fd = fd;
	if (!ops)
		return EINVAL;
	if (fstat(fd, &st))
		return errno;
	io->device = st.st_dev;
	io->inode = st.st_ino;
	return open_backend(io, ops);
}

int io_open_memory(struct io *io, const void *bytes, uint64_t size)
{
	memset(io, 0, sizeof(*io));
	io->fd = -1;
	io->bytes = bytes;
	io->bytes_size = size;
	return open_backend(io, &io_memory_ops);
}

int io_open_stacked(struct io *io, const struct io_ops *ops, struct io *below)
{
	memset(io, 0, sizeof(*io));
	io->fd = below->fd;
	io->device = below->device;
	io->inode = below->inode;
	io->below = below;
	return open_backend(io, ops);
}

size_t io_alignment(const struct io *io)
{
	return io->alignment;
}

static void count(uint64_t *counter, uint64_t n)
{
	(void)__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

struct io_counts io_counted(const struct io *io)
{
	return (struct io_counts){
		.reads = __atomic_load_n(&io->counts.reads, __ATOMIC_RELAXED),
		.requests = __atomic_load_n(&io->counts.requests, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&io->counts.bytes, __ATOMIC_RELAXED),
		.errors = __atomic_load_n(&io->counts.errors, __ATOMIC_RELAXED),
	};
}

/* Whether off_t and ssize_t can express a range, and the back end can deliver it. */
static bool is_readable(const struct io *io, const void *buffer, size_t length, uint64_t offset)
{
	uint64_t bits = offset | length | (uintptr_t)buffer;

	if (length > (size_t)PTRDIFF_MAX || offset > (uint64_t)INT64_MAX - length)
		return false;
	return (bits & (io->alignment - 1)) == 0;
}

/* Called after a short read only: it saves a request that would bring nothing. */
static bool is_end(struct io *io, uint64_t offset)
{
	uint64_t size;

	return io_size(io, &size) == 0 && offset >= size;
}

/* A direct read can go on only from an aligned place, so it repeats the bytes of a broken block. A
 * repetition that brings nothing new is the end of the file, too. */
int io_read_rest(struct io *io, void *buffer, size_t length, uint64_t offset, size_t *done)
{
	while (*done < length) {
		size_t from = *done & ~(io->alignment - 1);
		ssize_t n;

		if (*done > 0 && is_end(io, offset + *done))
			break;
		n = io->ops->read(io, (char *)buffer + from, length - from, offset + from);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (from + (size_t)n <= *done)
			break;
		*done = from + (size_t)n;
	}
	return 0;
}

int io_read(struct io *io, void *buffer, size_t length, uint64_t offset, size_t *done)
{
	int rc;

	*done = 0;
	if (!is_readable(io, buffer, length, offset))
		return EINVAL;
	rc = io_read_rest(io, buffer, length, offset, done);
	count(&io->counts.reads, 1);
	count(&io->counts.bytes, *done);
	if (rc)
		count(&io->counts.errors, 1);
	return rc;
}

/* A forked child has none of its parent's threads and requests. */
static void notice_fork(struct io *io)
{
	if (io->generation == fork_generation)
		return;
	io->generation = fork_generation;
	io->in_flight = 0;
	if (io->ops->forked)
		io->ops->forked(io);
}

int io_submit(struct io *io, struct io_request *const *requests, size_t n)
{
	size_t i;
	int rc;

	notice_fork(io);
	for (i = 0; i < n; i++) {
		struct io_request *r = requests[i];

		if (r->length == 0 || !is_readable(io, r->buffer, r->length, r->offset))
			return EINVAL;
		r->done = 0;
		r->error = 0;
		r->next = NULL;
	}
	rc = n ? io->ops->submit(io, requests, n) : 0;
	if (rc)
		return rc;
	io->in_flight += n;
	count(&io->counts.requests, n);
	return 0;
}

size_t io_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	size_t i, n;

	notice_fork(io);
	if (max > io->in_flight)
		max = io->in_flight;
	if (min > max)
		min = max;
	n = max ? io->ops->wait(io, requests, min, max) : 0;
	io->in_flight -= n;
	for (i = 0; i < n; i++) {
		requests[i]->next = NULL;
		count(&io->counts.bytes, requests[i]->done);
		if (requests[i]->error)
			count(&io->counts.errors, 1);
	}
	return n;
}

void io_rest(struct io *io)
{
	notice_fork(io);
	if (!io->in_flight && io->ops->rest)
		io->ops->rest(io);
}

bool io_keep(struct io *io, uint64_t offset, size_t length)
{
	return io->ops->keep && io->ops->keep(io, offset, length);
}

int io_size(struct io *io, uint64_t *size)
{
	struct stat st;

	if (io->ops->size)
		return io->ops->size(io, size);
	if (io->below)
		return io_size(io->below, size);
	if (io->fd < 0) {
		*size = io->bytes_size;
		return 0;
	}
	if (fstat(io->fd, &st) != 0)
		return errno;
	if (st.st_dev != io->device || st.st_ino != io->inode)
		return EBADF;
	*size = (uint64_t)st.st_size;
	return 0;
}

void io_close(struct io *io)
{
	struct io_request *finished[16];

	if (!io->ops)
		return;
	notice_fork(io);
	while (io->in_flight > 0)
		(void)io_wait(io, finished, 1, sizeof(finished) / sizeof(finished[0]));
	if (io->ops->close)
		io->ops->close(io);
	memset(io, 0, sizeof(*io));
	io->fd = -1;
}

/* A read in flight while the program forks must not land in a page that the fork has copied. So
 * children do not inherit the memory; where a sandbox refuses that, it is shared and never
 * copied. */
void *io_buffer_new(size_t length)
{
	const int protection = PROT_READ | PROT_WRITE;
	/* Aligned for huge pages, if its length is a multiple of theirs. */
	void *buffer = length % HUGE_PAGE ? NULL : huge_map(length, protection, 0);

	if (!buffer)
		buffer = mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		return NULL;
	if (madvise(buffer, length, MADV_DONTFORK)) {
		munmap(buffer, length);
		buffer = mmap(NULL, length, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	}
	if (buffer == MAP_FAILED)
		return NULL;
	(void)madvise(buffer, length, MADV_DONTDUMP);
	return buffer;
}

void io_buffer_huge(void *buffer, size_t length)
{
	(void)madvise(buffer, length, MADV_HUGEPAGE);
}

void io_buffer_free(void *buffer, size_t length)
{
	if (buffer)
		munmap(buffer, length);
}
