/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stages to memory: fills the arenas of a job's nodes, and keeps them filled.
 *
 * Each rank attaches to its node's arena, which programs find by the data set's identity, and fills
 * it chunk by chunk under the chunk's claim, as readers do. Each rank then pins every chunk and
 * stays attached: that is the hold, which lasts until the last rank of the node gives it up. */
#include "config.h"
#include "mpi/stage_target.h"

#include "format/layout.h"
#include "util/checked.h"
#include "util/memory.h"
#include "util/settings.h"

#include <errno.h>

enum { PATIENCE_MS = 1000, PATIENCE_TIMES = 60 };

/* Returns the first block behind the meta pages, which programs always take from the file
 * (lib/window). */
static uint64_t first_block(const struct stage_target *target)
{
	uint64_t low = (uint64_t)FORMAT_METAS * target->source->page_size;

	return round_up(low, ARENA_BLOCK) / ARENA_BLOCK;
}

static uint64_t block_count(const struct stage_target *target)
{
	return round_up(target->source->size, ARENA_BLOCK) / ARENA_BLOCK;
}

static bool is_whole(const struct stage_target *target)
{
	uint64_t run;

	return !arena_missing(target->arena, first_block(target), block_count(target), &run);
}

static int attach(struct stage_target *target)
{
	struct identity identity = target->source->original.identity;
	uint64_t budget = memory_budget(settings_get()), memory = target->options->memory;
	/* Memory that the options ask for comes on top of the budget, which other data sets may
	 * use. */
	struct arena_options options = {
		.budget = memory ? memory : budget,
		.node_budget = memory + budget,
		.node = target->node[0] ? target->node : NULL,
		.share = true,
	};
	const char *why;
	int rc;

	/* The identity by which readers of this node know the bytes: see lib/env/snapshot.c and
	 * packed.c. */
	identity.device = target->source->device;
	identity.size = target->source->size;
	identity.snapshot = target->source->snapshot;
	rc = arena_open(&target->arena, &identity, &options, &why);
	if (rc)
		return rc;
	if (why) /* the arena is this process's alone */
		return ENOMEM;
	/* Without the tables, a claim or a pin would fail as if another process had the chunk. */
	if (!arena_tables_make(target->arena))
		return ENOMEM;
	/* Data that is there needs no room, even if other users' data sets have come since. */
	return arena_budget(target->arena) < block_count(target) * ARENA_BLOCK && !is_whole(target)
		       ? ENOMEM
		       : 0;
}

static bool pin_all(struct stage_target *target)
{
	for (uint64_t chunk = 0; chunk < arena_chunks(target->arena); chunk++)
		if (!arena_pin(target->arena, chunk))
			return false;
	return true;
}

static int memory_make(struct stage_target *target)
{
	int rc = attach(target);

	if (!rc)
		target->there = pin_all(target) && is_whole(target);
	return rc;
}

static int fill_claimed(struct stage_target *target, uint64_t first, uint64_t end, uint64_t offset,
			const uint8_t *bytes, uint64_t length)
{
	uint64_t run, n;
	int rc;

	while ((n = arena_missing(target->arena, first, end, &run)) > 0) {
		uint64_t at = run * ARENA_BLOCK - offset, most = n * ARENA_BLOCK;

		if (!arena_reserve(target->arena, n))
			return ENOMEM;
		rc = arena_fill(target->arena, run * ARENA_BLOCK, bytes + at,
				most < length - at ? most : length - at);
		if (rc) {
			arena_unreserve(target->arena, n);
			return rc;
		}
		arena_publish(target->arena, run, n);
	}
	return 0;
}

static int fill_chunk(struct stage_target *target, uint64_t chunk, uint64_t offset,
		      const uint8_t *bytes, uint64_t length)
{
	uint64_t first = offset / ARENA_BLOCK,
		 end = round_up(offset + length, ARENA_BLOCK) / ARENA_BLOCK;
	int rc;

	if (first < first_block(target))
		first = first_block(target);
	if (first >= end)
		return 0;
	for (unsigned times = 0; !arena_claim(target->arena, chunk); times++) {
		/* A program reads the chunk for itself. The blocks that it leaves out are filled
		 * then. */
		if (!arena_wait(target->arena, chunk, PATIENCE_MS) && times >= PATIENCE_TIMES)
			return EBUSY;
	}
	rc = fill_claimed(target, first, end, offset, bytes, length);
	if (!rc && !arena_pin(target->arena, chunk)) /* a claimed chunk is not evicted */
		rc = EBUSY;
	if (rc)
		arena_abandon(target->arena, chunk, 0);
	else
		arena_release(target->arena, chunk);
	return rc;
}

static int memory_put(struct stage_target *target, uint64_t offset, const void *bytes,
		      uint64_t length)
{
	uint64_t first = offset / ARENA_CHUNK,
		 end = round_up(offset + length, ARENA_CHUNK) / ARENA_CHUNK;
	const uint8_t *from = bytes;
	int rc = 0;

	/* The first of two neighbours that share one huge page makes the page. */
	arena_prepare(target->arena, first, end - first);
	while (length > 0 && !rc) {
		uint64_t chunk = offset / ARENA_CHUNK, part = (chunk + 1) * ARENA_CHUNK - offset;

		part = part < length ? part : length;
		rc = fill_chunk(target, chunk, offset, from, part);
		offset += part;
		from += part;
		length -= part;
	}
	return rc;
}

static int memory_join(struct stage_target *target)
{
	int rc = attach(target);

	return rc || !target->there || pin_all(target) ? rc : EBUSY;
}

/* The rank that filled a chunk still has it pinned, so nothing can have been evicted. */
static int memory_settle(struct stage_target *target)
{
	if (!pin_all(target))
		return EBUSY;
	return is_whole(target) ? 0 : EIO;
}

static void memory_close(struct stage_target *target)
{
	arena_close(target->arena);
	target->arena = NULL;
}

/* No show(): programs find the arena from the beginning. No undo(): the kernel frees an arena that
 * no process has attached. */
const struct stage_target_ops stage_memory = {
	.spread = true,
	.make = memory_make,
	.join = memory_join,
	.put = memory_put,
	.settle = memory_settle,
	.close = memory_close,
};
