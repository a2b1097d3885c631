/* SPDX-License-Identifier: OLDAP-2.8 */
/* Staging in parts: each node of a job gets its own part of a data set, and nothing else, into a local
 * directory.
 *
 * DIR/NAME/part-NODE-of-NODES (mpi/part_file.h). Nodes exchange nothing: each reads what it has in
 * the spread, its ranks a contiguous share of that each.
 */
#include "config.h"
#include "mpi/stage_directory.h"

#include "mpi/part_file.h"

#include <errno.h>
#include <unistd.h>

static struct part_identity part_of(const struct stage_target *target)
{
	return (struct part_identity){
		.original = target->source->original.identity,
		.size = target->source->size,
		.node = target->job->place.node,
		.nodes = target->job->place.nodes,
	};
}

static int part_name(struct stage_target *target)
{
	struct part_identity identity = part_of(target);
	char file[PART_NAME];

	part_file_name(&identity, file);
	return stage_directory_name(target, file, identity.node);
}

static uint64_t part_bytes(const struct stage_target *target)
{
	return chunk_spread_bytes(&target->spread, target->job->place.node);
}

static uint64_t part_chunks(const struct stage_target *target)
{
	return (part_bytes(target) + ARENA_CHUNK - 1) / ARENA_CHUNK;
}

static int part_allocate(const struct stage_target *target)
{
	uint64_t bytes = part_bytes(target), chunks = part_chunks(target), n;
	uint64_t head = part_file_head(target->source->size);
	int rc = 0;

	for (uint64_t at = 0; at < bytes && !rc; at += n) {
		n = bytes - at < target->spread.unit ? bytes - at : target->spread.unit;
		rc = stage_directory_allocate(
			target, chunk_spread_offset(&target->spread, target->job->place.node, at),
			n);
	}
	return rc ? rc
		  : stage_directory_allocate(target, head,
					     part_file_length(target->source->size, chunks) - head);
}

static int parts_make(struct stage_target *target)
{
	struct part_identity identity = part_of(target);
	struct part_file part;
	int rc = part_name(target);

	if (rc)
		return rc;
	target->there = !part_file_open(&part, target->options->directory, &identity);
	if (target->there) {
		part_file_close(&part);
		return 0;
	}
	rc = stage_directory_create(target);
	return rc ? rc : part_allocate(target);
}

static int parts_join(struct stage_target *target)
{
	int rc = target->there ? 0 : part_name(target);

	return rc || target->there ? rc : stage_directory_open(target);
}

static int parts_put(struct stage_target *target, uint64_t offset, const void *bytes,
		     uint64_t length)
{
	int rc = 0;

	for (uint64_t at = 0; at < length && !rc; at += ARENA_CHUNK)
		rc = part_file_put(
			target->fd, target->source->size, (offset + at) / ARENA_CHUNK,
			chunk_spread_offset(&target->spread, target->job->place.node, offset + at) /
				ARENA_CHUNK,
			(const char *)bytes + at);
	return rc;
}

static int parts_show(struct stage_target *target)
{
	struct part_identity identity = part_of(target);
	int rc = part_file_seal(target->fd, &identity, part_chunks(target));

	if (!rc)
		rc = stage_directory_settle(target);
	return rc ? rc : stage_directory_show(target);
}

const struct stage_target_ops stage_parts = {
	.make = parts_make,
	.join = parts_join,
	.put = parts_put,
	.settle = stage_directory_settle,
	.show = parts_show,
	.undo = stage_directory_undo,
	.close = stage_directory_close,
};
