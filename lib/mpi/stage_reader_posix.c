/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a share without MPI: by the io layer that suits the file system, many requests of a
 * megabyte in flight. */
#include "config.h"
#include "mpi/stage_reader.h"

#include "container/container.h"
#include "util/checked.h"
#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>

enum {
	REQUEST = 1 << 20,   /* bytes: what FUSE and most other file systems take as one request,
				and never more than a unit of a spread */
	UNPACKED = 64 << 20, /* bytes for chunks that are larger than a request */
};

static int posix_open(struct stage_reader *reader, const struct stage_source *source,
		      const char *hints)
{
	const struct container_options options = {.cache = UNPACKED};
	struct io *file = source->unpacked ? &reader->below : &reader->io;
	const char *backend, *why;
	int rc = io_open_chosen(file, source->fd, settings_get()->io, &backend, &why);

	(void)hints;
	if (!rc && source->unpacked)
		rc = io_open_container(&reader->io, &reader->below, &options);
	return rc;
}

static uint64_t offset_in_file(const struct stage_reader *reader, uint64_t offset)
{
	return reader->spread ? chunk_spread_offset(reader->spread, reader->node, offset) : offset;
}

static int requests_prepare(struct stage_reader *reader, struct stage_part part, uint8_t *buffer)
{
	size_t alignment = io_alignment(&reader->io), n = (part.length + REQUEST - 1) / REQUEST;

	if (n > reader->room) {
		struct io_request *requests = realloc(reader->requests, n * sizeof(*requests));

		if (!requests)
			return ENOMEM;
		reader->requests = requests;
		reader->room = n;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t at = i * REQUEST, length = part.length - at;

		length = length < REQUEST ? length : REQUEST;
		reader->requests[i] = (struct io_request){
			.offset = offset_in_file(reader, part.offset + at),
			.length = round_up(length, alignment),
			.buffer = buffer + at,
			/* The bytes that must come: at the file's end fewer than asked for. */
			.tag = (void *)(uintptr_t)length,
		};
	}
	reader->started = n;
	return 0;
}

static void posix_start(struct stage_reader *reader, struct stage_part part, void *buffer)
{
	reader->started = 0;
	reader->error = requests_prepare(reader, part, buffer);
	for (size_t i = 0; i < reader->started && !reader->error; i++) {
		struct io_request *request = &reader->requests[i];

		reader->error = io_submit(&reader->io, &request, 1);
		if (reader->error)
			reader->started = i;
	}
	if (!reader->below.ops) {
		reader->bytes += part.length;
		reader->calls += reader->started;
	}
}

static int posix_finish(struct stage_reader *reader)
{
	for (size_t left = reader->started; left > 0; left--) {
		struct io_request *request;

		io_wait(&reader->io, &request, 1, 1);
		if (request->error && !reader->error)
			reader->error = request->error;
		/* The ranks agreed on the size, so the file has become shorter. */
		if (!request->error && request->done < (uintptr_t)request->tag && !reader->error)
			reader->error = ESTALE;
	}
	reader->started = 0;
	if (reader->below.ops) {
		struct io_counts counts = io_counted(&reader->below);

		reader->bytes = counts.bytes;
		reader->calls = counts.reads + counts.requests;
		if (reader->error == EBADMSG)
			reader->error = container_code(EBADMSG);
	}
	return reader->error;
}

static void posix_close(struct stage_reader *reader)
{
	io_close(&reader->io);
	io_close(&reader->below);
	free(reader->requests);
}

const struct stage_reader_ops stage_reader_posix = {
	.ahead = true,
	.open = posix_open,
	.start = posix_start,
	.finish = posix_finish,
	.close = posix_close,
};
