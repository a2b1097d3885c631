/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the bytes of a container that a part of its data is in. */
#include "config.h"
#include "mpi/stage_frames.h"

#include "container/container.h"
#include "io/io_backend.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

/* Several threads read at once, while what is here stays as it is. */
static ssize_t frames_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	const struct stage_frames *frames = io->state;
	size_t done = 0;
	int rc;

	if (offset >= frames->at && length <= frames->length &&
	    offset - frames->at <= frames->length - length) {
		memcpy(buffer, frames->bytes + (offset - frames->at), length);
		return (ssize_t)length;
	}
	rc = io_read(io->below, buffer, length, offset, &done);
	if (!rc)
		return (ssize_t)done;
	errno = rc;
	return -1;
}

/* A container asks for nothing but reads. */
static const struct io_ops frames_ops = {.name = "frames", .read = frames_read};

int stage_frames_open(struct stage_frames *frames, struct io *file)
{
	int rc = io_open_stacked(&frames->io, &frames_ops, file);

	frames->io.state = frames;
	return rc;
}

static int room_make(struct stage_frames *frames, uint64_t length)
{
	uint8_t *bytes;

	frames->length = 0;
	if (length <= frames->room)
		return 0;
	bytes = realloc(frames->bytes, length);
	if (!bytes)
		return ENOMEM;
	frames->bytes = bytes;
	frames->room = length;
	return 0;
}

int stage_frames_find(struct stage_frames *frames, struct io *data, struct stage_part part,
		      struct stage_part *wanted)
{
	const struct container_info *info = container_info(data);
	struct container_chunk first, last;
	uint64_t end;
	int rc = frames->last ? 0 : container_chunk(data, info->chunks - 1, &last);

	if (!rc && !frames->last)
		frames->last = last.offset;
	*wanted = (struct stage_part){.offset = frames->last};
	if (rc || !part.length)
		return rc;
	rc = container_chunk(data, part.offset / info->chunk_size, &first);
	if (!rc)
		rc = container_chunk(data, (part.offset + part.length - 1) / info->chunk_size,
				     &last);
	if (rc)
		return rc;
	end = last.offset + last.length;
	if (end <= first.offset || end > info->data_end)
		return MDB_CORRUPTED;
	/* Where a chunk is more than a part, the next part is in the same frame. */
	if (first.offset >= frames->at && end <= frames->at + frames->length)
		return 0;
	rc = room_make(frames, end - first.offset);
	if (!rc)
		*wanted = (struct stage_part){.offset = first.offset, .length = end - first.offset};
	return rc;
}

void stage_frames_hold(struct stage_frames *frames, struct stage_part wanted)
{
	frames->at = wanted.offset;
	frames->length = wanted.length;
	frames->came += wanted.length;
	frames->calls++;
}

void stage_frames_close(struct stage_frames *frames)
{
	io_close(&frames->io);
	free(frames->bytes);
	frames->bytes = NULL;
}
