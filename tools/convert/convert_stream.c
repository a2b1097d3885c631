/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps reads in flight ahead of the taken bytes.
 *
 * If reads are cheap and the kernel reads ahead, reads go straight into the taker's buffer. If each
 * is a request over a network, or a chunk to decompress, a ring of buffers is kept full.
 */
#include "convert_source.h"

#include "util/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	PIECE = 1 << 20, /* bytes of one request; a container's chunk if that is more */
	PIECES = 8,
	RING = 32 << 20, /* bytes; long pieces are fewer than PIECES, but two */
	BUFFER_ALIGNMENT = 4096,
};

struct stream_piece {
	struct io_request request;
	bool ready;
};

struct source_stream {
	struct source *source;
	uint64_t next;  /* the next byte to hand out */
	uint64_t asked; /* end of the requests so far */
	uint64_t end;
	uint8_t *buffers;            /* NULL: no ring */
	uint64_t piece;              /* bytes */
	unsigned count;              /* of pieces in use */
	struct stream_piece pieces[PIECES]; /* offset o has piece (o / piece) % count */
};

int source_stream_open(struct source_stream **result, struct source *source, uint64_t offset,
		       uint64_t end)
{
	struct source_stream *stream = calloc(1, sizeof(*stream));

	*result = NULL;
	if (!stream)
		return ENOMEM;
	stream->source = source;
	stream->next = offset;
	stream->end = end;
	if (source->ordered) {
		stream->piece = PIECE;
		if (source->form == FORM_CONTAINER &&
		    container_info(&source->io)->chunk_size > PIECE)
			stream->piece = container_info(&source->io)->chunk_size;
		stream->count = PIECES;
		while (stream->count > 2 && stream->count * stream->piece > RING)
			stream->count--;
		stream->asked = offset / stream->piece * stream->piece;
		stream->buffers = aligned_alloc(BUFFER_ALIGNMENT, stream->count * stream->piece);
		if (!stream->buffers) {
			free(stream);
			return ENOMEM;
		}
	}
	*result = stream;
	return 0;
}

static int stream_ask(struct source_stream *stream)
{
	uint64_t first = stream->next / stream->piece * stream->piece;
	size_t alignment = source_alignment(stream->source);

	while (stream->asked < stream->end &&
	       stream->asked < first + stream->count * stream->piece) {
		size_t slot = stream->asked / stream->piece % stream->count;
		struct stream_piece *piece = &stream->pieces[slot];
		struct io_request *request = &piece->request;
		uint64_t left = stream->end - stream->asked;
		int rc;

		*request = (struct io_request){
			.offset = stream->asked,
			.length = left < stream->piece ? round_up(left, alignment) : stream->piece,
			.buffer = stream->buffers + slot * stream->piece,
			.tag = piece,
		};
		piece->ready = false;
		rc = io_submit(&stream->source->io, &request, 1);
		if (rc)
			return rc;
		stream->asked += stream->piece;
	}
	return 0;
}

static void stream_reap(struct source_stream *stream, size_t least)
{
	struct io_request *requests[PIECES];
	size_t n = io_wait(&stream->source->io, requests, least, PIECES);

	while (n)
		((struct stream_piece *)requests[--n]->tag)->ready = true;
}

int source_stream_take(struct source_stream *stream, void *buffer, size_t length)
{
	uint8_t *to = buffer;
	uint64_t begin = stream->next;

	if (!stream->buffers) {
		stream->next += length;
		return source_read(stream->source, buffer, length, begin);
	}
	while (length) {
		struct stream_piece *piece =
			&stream->pieces[stream->next / stream->piece % stream->count];
		size_t from = stream->next % stream->piece, n = stream->piece - from;
		int rc = stream_ask(stream);

		if (rc)
			return rc;
		while (!piece->ready)
			stream_reap(stream, 1);
		if (piece->request.error)
			return piece->request.error;
		if (n > length)
			n = length;
		if (from + n > piece->request.done)
			return EIO;
		memcpy(to, (uint8_t *)piece->request.buffer + from, n);
		to += n;
		stream->next += n;
		length -= n;
	}
	source_patch(stream->source, buffer, (size_t)(to - (uint8_t *)buffer), begin);
	return 0;
}

void source_stream_close(struct source_stream *stream)
{
	if (!stream)
		return;
	while (stream->buffers && stream->source->io.in_flight)
		stream_reap(stream, 1);
	free(stream->buffers);
	free(stream);
}
