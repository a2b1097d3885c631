/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads bytes that are used once past the arena.
 *
 * Bytes that are read once would take the place of others in an arena smaller than the data set,
 * which would be read again, and nothing would be gained: reading past it keeps what is there, and
 * costs neither its pages nor their maps.
 */
#include "window/residency_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>

bool residency_reads(const struct residency *residency)
{
	return residency->kind == RESIDENCY_ARENA && !residency->packed;
}

/* Whether the bytes are in memory that everybody sees. Under the residency lock. */
static bool is_found(struct residency *residency, uint64_t offset, uint64_t end)
{
	uint64_t run;

	return !arena_missing(residency->arena, block_of(offset), block_end(end), &run) ||
	       (residency->believe_cache && is_cached(residency, offset, end));
}

/* Under the residency lock. */
static bool may_pass(struct residency *residency, uint64_t offset, uint64_t end)
{
	if (!residency_reads(residency) || !atomic_load(&residency->enabled) ||
	    offset < residency->low || end > round_up(residency->size, ARENA_BLOCK))
		return false;
	if (!residency_attach(residency) || is_linked(residency))
		return false;
	return !arena_has_room(residency->arena, block_end(end) - block_of(offset)) &&
	       !is_found(residency, offset, end);
}

int residency_read(struct residency *residency, void *buffer, uint64_t offset, size_t length,
		   bool *served)
{
	uint64_t began;
	size_t done;
	int rc;

	pthread_mutex_lock(&residency->lock);
	*served = may_pass(residency, offset, offset + length);
	pthread_mutex_unlock(&residency->lock);
	if (!*served)
		return 0;
	began = clock_now();
	rc = io_read(residency->io, buffer, length, offset, &done);
	stats_requests(1, done);
	stats_waited(began);
	if (rc == EBADF) {
		*served = false; /* the file's own map is there still */
		return 0;
	}
	/* Short is right at the end of the file alone. */
	return !rc && done < length && offset + done < residency->size ? EIO : rc;
}
