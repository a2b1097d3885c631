/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves a window from a container: shared memory over a scratch file.
 *
 * The scratch file is sparse and unlinked. While no transaction lives, a chunk may simply go; the
 * store brings it again when it is wanted. Otherwise the store writes its bytes to the scratch file
 * before it puts that file under the window. From then on the chunk is as good as one in the page
 * cache.
 */
#include "util/whole.h"
#include "window/store_private.h"

#include "util/descriptor.h"
#include "util/stats.h"

#include <errno.h>
#include <unistd.h>

static int spill_write(struct store *store, uint64_t offset, const uint8_t *bytes, uint64_t length)
{
	/* The program may have given the descriptor's number to a file of its own. Only the file
	 * under the window may be written to. */
	if (!descriptor_is(store->packed->scratch, store->file.device, store->file.inode))
		return errno;
	if (!limits_allow_file(offset + length))
		return EFBIG;
	return whole_write(store->packed->scratch, bytes, length, offset);
}

static int chunk_spill(struct store *store, uint64_t chunk, bool *whole)
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
		/* The published blocks lie in front of the next hole. */
		rc = spill_write(store, first * ARENA_BLOCK, bytes + first * ARENA_BLOCK,
				 (n ? run * ARENA_BLOCK : stop) - first * ARENA_BLOCK);
		*whole = !n && first == chunk * ARENA_BLOCKS;
		first = n ? run + n : end;
	}
	return rc;
}

/* Brings a chunk to the scratch file, past the arena. */
static int bring_spilled(struct store *store, uint64_t chunk)
{
	uint64_t offset = chunk * ARENA_CHUNK, length = chunk_end(store, chunk) - offset;
	uint8_t *buffer = buffer_take(store, length);
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
	buffer_return(store, buffer, length);
	if (rc)
		return rc;
	pthread_mutex_lock(&store->lock);
	if (!is_shown(store, chunk)) {
		if (store->keeps_parents && !chunk_lay(store, chunk))
			rc = ENOMEM;
		else
			set_state(store, chunk, CHUNK_WARM);
	}
	pthread_mutex_unlock(&store->lock);
	return rc;
}

static int bring_all_spilled(struct store *store, uint64_t offset, uint64_t end, bool *waited)
{
	int rc = 0;

	*waited = true;
	for (uint64_t next; offset < end && !rc; offset = next) {
		next = chunk_end(store, offset / ARENA_CHUNK);
		if (next > end)
			next = end;
		if (!store_covers(store, offset, next - offset))
			rc = bring_spilled(store, offset / ARENA_CHUNK);
	}
	return rc;
}

static bool bring_copies(struct store *store, uint64_t offset, uint64_t bytes)
{
	uint64_t end = offset + bytes;
	uint64_t first = offset & ~(uint64_t)(ARENA_BLOCK - 1);
	uint64_t length = round_up(end, ARENA_BLOCK) - first, part = end - offset;
	const struct plan_how how = {.widen = ARENA_BLOCK, .alone = true};
	struct store_load load;
	enum store_plan plan = PLAN_BUSY;
	uint8_t *buffer;

	if (end > store->file.size || length > ARENA_CHUNK || !atomic_load(&store->enabled) ||
	    arena_is_scanned(store))
		return false;
	buffer = buffer_take(store, length);
	if (buffer && !store->packed->read_tree(store->io, buffer, length, first)) {
		pthread_mutex_lock(&store->lock);
		plan = plan_locked(store, offset, &part, &how, &load);
		pthread_mutex_unlock(&store->lock);
		if (plan == PLAN_LOAD)
			(void)store_finish(store, &load, buffer + (load.offset - first), 0,
					   load.length);
	}
	buffer_return(store, buffer, length);
	return plan != PLAN_BUSY && plan != PLAN_REST;
}

/* A container is decompressed in whole pieces. */
static bool pieces_come_whole(struct store *store)
{
	(void)store;
	return true;
}

const struct store_ops store_container_ops = {
	.name = ARENA_NAME,
	.bring = arena_bring,
	.plan = arena_plan,
	.land = arena_land,
	.room = arena_room,
	.scanned = arena_scanned,
	.reads_around = pieces_come_whole,
	.stand_in = bring_all_spilled,
	.save = chunk_spill,
	.bring_copies = bring_copies,
};

void store_spill_to(struct store *store, const struct store_packed *packed)
{
	store->packed = packed;
	store->piece = packed->piece < ARENA_CHUNK ? packed->piece : ARENA_CHUNK;
}
