/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves a window from the node's shared memory, over a plain file.
 *
 * The file's own map shows what the arena cannot. Bytes that are used once may be read past the
 * arena. In an arena smaller than the data set they would evict chunks that are then read again,
 * and nothing would be gained.
 */
#include "window/store_private.h"

#include "io/io_page_cache.h"
#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>
#include <fcntl.h>

/* Waits for bytes that stay with the file's own map. *waited: they were not in memory yet. */
static int touch_rest(struct store *store, uint64_t offset, uint64_t end, bool *waited)
{
	uint64_t first = offset, last = end;
	bool there;

	stats_add(STATS_AT_REST, 1);
	stats_lasts();
	offset &= ~(uint64_t)(ARENA_BLOCK - 1);
	if (!is_cached(store, offset, end)) {
		*waited = true;
		if (arena_is_scanned(store) || clock_now() < store->patience.impatient_until) {
			first -= first % ARENA_CHUNK;
			last = chunk_end(store, (last - 1) / ARENA_CHUNK);
		}
		/* The kernel's requests are small, but it sends these off together. */
		stats_requests((last - first + IO_BEGIN_LEAST - 1) / IO_BEGIN_LEAST, last - first);
		(void)io_begin(store->file.fd, first, last - first);
	}
	return fault_in(store, offset, end, false, &there);
}

static bool guesses_around(struct store *store)
{
	return atomic_load(&store->guess) == GUESS_AROUND;
}

const struct store_ops store_shared_ops = {
	.name = ARENA_NAME,
	.bring = arena_bring,
	.plan = arena_plan,
	.land = arena_land,
	.room = arena_room,
	.scanned = arena_scanned,
	.reads_around = guesses_around,
	.stand_in = touch_rest,
};

bool store_reads(const struct store *store)
{
	return store->ops == &store_shared_ops && store->link.socket.fd < 0;
}

/* Whether the bytes are in memory that all processes see. Under the store lock. */
static bool is_found(struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t run;

	return !arena_missing(store->arena, block_of(offset), block_end(end), &run) ||
	       (store->believe_cache && is_cached(store, offset, end));
}

/* Whether to read the bytes past the arena. Under the store lock. */
static bool may_pass(struct store *store, uint64_t offset, uint64_t end)
{
	if (!store_reads(store) || !atomic_load(&store->enabled) || offset < store->file.low ||
	    end > round_up(store->file.size, ARENA_BLOCK))
		return false;
	if (!store_attach(store) || is_linked(store))
		return false;
	return !arena_has_room(store->arena, block_end(end) - block_of(offset)) &&
	       !is_found(store, offset, end);
}

int store_read(struct store *store, void *buffer, uint64_t offset, size_t length, bool *served)
{
	uint64_t size = store->file.size, began;
	size_t done;
	int rc;

	pthread_mutex_lock(&store->lock);
	*served = may_pass(store, offset, offset + length);
	pthread_mutex_unlock(&store->lock);
	if (!*served)
		return 0;
	began = clock_now();
	rc = io_read(store->io, buffer, length, offset, &done);
	stats_requests(1, done);
	stats_waited(began);
	if (rc == EBADF) {
		*served = false; /* the descriptor is closed; the file's own map still serves */
		return 0;
	}
	/* A short read is right only at the end of the file, which may have grown since. */
	return !rc && done < length && offset + done < size ? EIO : rc;
}
