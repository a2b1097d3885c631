/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses which bytes of a data.mdb to write, and which to leave. */
#include "convert_unpack.h"
#include "convert_chunks.h"

#include "util/hash.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, BLOCK = 4096 };

struct unpack {
	struct convert *convert;
	struct target *target;
	struct source *source;
	uint32_t chunk;
	_Atomic uint64_t resumed;
	_Atomic bool failed;
	pthread_mutex_t writing;
};

uint32_t unpack_chunk(const struct source *source)
{
	return source->form == FORM_CONTAINER ? container_info(&source->io)->chunk_size : CHUNK;
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
	return !*bytes && !memcmp(bytes, bytes + 1, length - 1);
}

/* Writes only bytes that are not zero: a new file reads as zeroes, and needs no blocks there. */
static int sparse_write(int fd, const uint8_t *bytes, size_t length, uint64_t offset)
{
	size_t at = 0;
	int rc = 0;

	while (at < length && !rc) {
		size_t end = at, block = 0;

		while (end < length) {
			block = length - end < BLOCK ? length - end : BLOCK;
			if (is_zero(bytes + end, block))
				break;
			end += block;
		}
		if (end > at)
			rc = whole_write(fd, bytes + at, end - at, offset + at);
		at = end < length ? end + block : end;
	}
	return rc;
}

bool unpack_has(const struct target *target, uint8_t *buffer, uint64_t offset, size_t length)
{
	size_t done = 0;

	if (!target->resumed)
		return false;
	while (done < length) {
		ssize_t n = pread(target->fd, buffer + done, length - done, (off_t)(offset + done));

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Returns whether a resumed target already has this chunk of a container. */
static bool chunk_is_there(struct unpack *unpack, uint8_t *buffer, uint64_t offset, size_t length)
{
	struct container_chunk chunk;

	return unpack->source->form == FORM_CONTAINER &&
	       unpack_has(unpack->target, buffer, offset, length) &&
	       !container_chunk(&unpack->source->io, offset / unpack->chunk, &chunk) &&
	       chunk.size == length && chunk.hash == hash_bytes(buffer, length);
}

/* The same for a source without checksums; its bytes are in the first of two buffers. */
static bool chunk_is_like(struct unpack *unpack, uint8_t *buffers, uint64_t offset, size_t length)
{
	uint8_t *there = buffers + unpack->chunk;

	return unpack->source->form != FORM_CONTAINER &&
	       unpack_has(unpack->target, there, offset, length) && !memcmp(buffers, there, length);
}

static int chunk_unpack(void *to, uint8_t *buffer, uint64_t offset, size_t length)
{
	struct unpack *unpack = to;
	int fd = unpack->target->fd, rc;

	if (chunk_is_there(unpack, buffer, offset, length)) {
		atomic_fetch_add(&unpack->resumed, length);
		progress_count(&unpack->convert->progress, length, length);
		return 0;
	}
	rc = source_read(unpack->source, buffer, unpack->chunk, offset);
	if (rc)
		return source_fail(unpack->source, offset, rc);
	if (chunk_is_like(unpack, buffer, offset, length)) {
		atomic_fetch_add(&unpack->resumed, length);
		progress_count(&unpack->convert->progress, length, length);
		return 0;
	}
	/* A file takes one write at a time, and threads that wait for it in the kernel spin. */
	pthread_mutex_lock(&unpack->writing);
	rc = unpack->target->resumed ? whole_write(fd, buffer, length, offset)
				     : sparse_write(fd, buffer, length, offset);
	pthread_mutex_unlock(&unpack->writing);
	/* On a full disk all threads fail; the user gets one message. */
	if (rc && atomic_exchange(&unpack->failed, true))
		return TOOL_FAILED;
	if (rc)
		return convert_fail(unpack->target->path, rc);
	/* Starts writing to storage now, so that the final fsync is short. */
	(void)sync_file_range(fd, (off_t)offset, (off_t)length, SYNC_FILE_RANGE_WRITE);
	progress_count(&unpack->convert->progress, length, length);
	return 0;
}

int unpack_run(struct convert *convert, struct target *target, struct source *source,
	       uint64_t *resumed)
{
	struct unpack unpack = {
		.convert = convert,
		.target = target,
		.source = source,
		.chunk = unpack_chunk(source),
		.writing = PTHREAD_MUTEX_INITIALIZER,
	};
	struct chunk_work work = {
		.size = source->size,
		.chunk = unpack.chunk,
		.buffers = target->resumed && source->form != FORM_CONTAINER ? 2 : 1,
		.work = chunk_unpack,
		.to = &unpack,
	};
	int rc = 0;

	if (ftruncate(target->fd, (off_t)source->size))
		return convert_fail(target->path, errno);
	rc = chunks_run(convert, &work);
	*resumed = atomic_load(&unpack.resumed);
	return rc;
}
