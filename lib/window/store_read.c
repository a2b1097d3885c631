/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads bytes that are used once past the arena.
 *
 * Bytes that are read once would take the place of others in an arena smaller than the data set,
 * which would be read again, and nothing would be gained: reading past it keeps what is there, and
 * costs neither its pages nor their maps.
 */
#include "window/store_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>

bool store_reads(const struct store *store)
{
	return store->kind == STORE_ARENA && !store->packed && store->link.fd < 0;
}

/* Whether the bytes are in memory that everybody sees. Under the store lock. */
static bool is_found(struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t run;

	return !arena_missing(store->arena, block_of(offset), block_end(end), &run) ||
	       (store->believe_cache && is_cached(store, offset, end));
}

/* Under the store lock. */
static bool may_pass(struct store *store, uint64_t offset, uint64_t end)
{
	if (!store_reads(store) || !atomic_load(&store->enabled) || offset < store->low ||
	    end > round_up(store->size, ARENA_BLOCK))
		return false;
	if (!store_attach(store) || is_linked(store))
		return false;
	return !arena_has_room(store->arena, block_end(end) - block_of(offset)) &&
	       !is_found(store, offset, end);
}

int store_read(struct store *store, void *buffer, uint64_t offset, size_t length, bool *served)
{
	uint64_t began;
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
		*served = false; /* the file's own map is there still */
		return 0;
	}
	/* Short is right at the end of the file alone. */
	return !rc && done < length && offset + done < store->size ? EIO : rc;
}
