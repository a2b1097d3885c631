/* SPDX-License-Identifier: OLDAP-2.8 */
/* Saves chunks that leave the arena where no plain file stands under the window.
 *
 * A scratch file does, sparse and unlinked. As long as no transaction lives a chunk may simply go;
 * it is brought again when it is wanted. Else its bytes are written to the scratch file before that
 * is put under the window, and from then on it is as good as a file in the page cache.
 */
#include "window/store_private.h"

#include "util/descriptor.h"
#include "util/limits.h"
#include "util/stats.h"

#include <errno.h>
#include <unistd.h>

static int spill_write(struct store *store, uint64_t offset, const uint8_t *bytes, uint64_t length)
{
	/* It is the one under the window; a file of the program's is not to be written to. */
	if (!descriptor_is(store->spill, store->device, store->inode))
		return EBADF;
	if (!limits_allow_file(offset + length))
		return EFBIG;
	while (length > 0) {
		ssize_t n = pwrite(store->spill, bytes, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : ENOSPC;
		bytes += n;
		offset += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return 0;
}

int chunk_spill(struct store *store, uint64_t chunk, bool *whole)
{
	const uint8_t *bytes = arena_bytes(store->arena);
	uint64_t stop = chunk_end(store, chunk), first = chunk * ARENA_BLOCKS;
	uint64_t end = block_end(stop), run, n;
	int rc = 0;

	*whole = false;
	if (!store->transactions)
		return 0;
	while (first < end && !rc) {
		n = arena_missing(store->arena, first, end, &run);
		/* What is published lies in front of the next hole. */
		rc = spill_write(store, first * ARENA_BLOCK, bytes + first * ARENA_BLOCK,
				 (n ? run * ARENA_BLOCK : stop) - first * ARENA_BLOCK);
		*whole = !n && first == chunk * ARENA_BLOCKS;
		first = n ? run + n : end;
	}
	return rc;
}

int chunk_bring_spilled(struct store *store, uint64_t chunk)
{
	uint64_t offset = chunk * ARENA_CHUNK, length = chunk_end(store, chunk) - offset;
	uint8_t *buffer = io_buffer_new(ARENA_CHUNK);
	size_t done = 0;
	int rc;

	if (!buffer)
		return ENOMEM;
	rc = io_read(store->io, buffer, length, offset, &done);
	stats_requests(1, done);
	if (!rc && done < length)
		rc = EIO;
	if (!rc)
		rc = spill_write(store, offset, buffer, length);
	io_buffer_free(buffer, ARENA_CHUNK);
	if (rc)
		return rc;
	pthread_mutex_lock(&store->lock);
	if (!is_shown(store, chunk))
		set_state(store, chunk, CHUNK_WARM);
	pthread_mutex_unlock(&store->lock);
	return 0;
}

void store_spill_to(struct store *store, int fd, const struct store_packed *packed)
{
	store->spill = fd;
	store->packed = packed;
}
