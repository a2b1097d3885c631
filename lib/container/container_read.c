/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns a read of data into few reads of compressed bytes.
 *
 * A read is cut into runs of neighbouring chunks, each read by one request. Chunks wholly inside
 * the read are decoded into the caller's buffer. A chunk wanted in part is decoded into the cache,
 * where the next small read finds it. One call of container_read() delivers one run, and io_read()
 * goes on from there.
 */
#include "container/container_private.h"
#include "io/io_backend.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* ZSTD_d_forceIgnoreChecksum, whose name is for programs that link libzstd statically. */
#define IGNORE_CHECKSUM ZSTD_d_experimentalParam3

enum {
	RUN_CHUNKS = 64,
	RUN_BYTES = 4 << 20,    /* bytes, compressed; a run of one chunk may be longer */
	BUFFER_STEP = 64 << 10, /* bytes: a buffer's size is a multiple of it */
};

/* The part of a chunk that a read wants. */
struct chunk_piece {
	struct container_chunk chunk;
	struct cache_slot *slot; /* where the chunk is decoded; NULL: at `out` itself */
	uint8_t *out;
	uint32_t from, length; /* of the chunk's data, bytes */
};

struct run {
	struct chunk_piece pieces[RUN_CHUNKS];
	size_t n;
};

/* Decoders and buffers of threads. */

struct read_worker *worker_take(struct container *container)
{
	struct read_worker *worker;

	pthread_mutex_lock(&container->lock);
	worker = container->idle;
	if (worker)
		container->idle = worker->next;
	pthread_mutex_unlock(&container->lock);
	if (worker)
		return worker;
	worker = calloc(1, sizeof(*worker));
	if (!worker)
		return NULL;
	worker->zstd = ZSTD_createDCtx();
	if (!worker->zstd) {
		free(worker);
		return NULL;
	}
	/* zstd's own checksum is not needed: the container has one of the frame, checked before
	 * decoding, and one of the data, checked before use. A libzstd without this parameter
	 * checks its own. */
	(void)ZSTD_DCtx_setParameter(worker->zstd, IGNORE_CHECKSUM, 1);
	return worker;
}

void worker_give(struct container *container, struct read_worker *worker)
{
	pthread_mutex_lock(&container->lock);
	worker->next = container->idle;
	container->idle = worker;
	pthread_mutex_unlock(&container->lock);
}

/* The buffer's old bytes are of no use, so they are not copied. */
bool worker_reserve(struct read_worker *worker, size_t size, size_t alignment)
{
	void *buffer;

	if (worker->size >= size)
		return true;
	size = round_up(size, BUFFER_STEP);
	free(worker->buffer);
	worker->buffer = NULL;
	worker->size = 0;
	if (posix_memalign(&buffer, alignment > 64 ? alignment : 64, size))
		return false;
	worker->buffer = buffer;
	worker->size = size;
	return true;
}

/* One run. */

/* Reads the compressed bytes of all pieces in one request. *bytes is where the first piece's
 * stand. */
static int run_fetch(struct container *container, const struct run *run, struct read_worker *worker,
		     const uint8_t **bytes)
{
	const struct container_chunk *last = &run->pieces[run->n - 1].chunk;
	uint64_t offset = run->pieces[0].chunk.offset;
	size_t alignment = io_alignment(container->below), lead = offset & (alignment - 1);
	size_t length = (size_t)(last->offset + last->length - offset), done;
	int rc;

	if (!worker_reserve(worker, round_up(lead + length, alignment), alignment))
		return ENOMEM;
	rc = io_read(container->below, worker->buffer, round_up(lead + length, alignment),
		     offset - lead, &done);
	*bytes = worker->buffer + lead;
	return !rc && done < lead + length ? EBADMSG : rc;
}

static int piece_decode(struct container *container, struct read_worker *worker,
			const struct chunk_piece *piece, const uint8_t *frame)
{
	void *out = piece->slot ? piece->slot->bytes : piece->out;

	stats_add(STATS_CONTAINER_CHUNKS, 1);
	return chunk_decode(worker->zstd, container->dictionary, &piece->chunk, frame, out);
}

static void piece_copy(struct container *container, const struct chunk_piece *piece)
{
	memcpy(piece->out, piece->slot->bytes + piece->from, piece->length);
	cache_release(&container->chunks, piece->slot);
}

/* Delivers the pieces in order, up to the first bad one. *given counts their bytes. Returns an
 * error only if the first piece is bad: io_read() calls again for the missing bytes. */
static int run_deliver(struct container *container, struct run *run, size_t *given)
{
	struct read_worker *worker = worker_take(container);
	const uint8_t *bytes = NULL;
	int rc = worker ? run_fetch(container, run, worker, &bytes) : ENOMEM;
	size_t i;

	*given = 0;
	for (i = 0; i < run->n; i++) {
		const struct chunk_piece *piece = &run->pieces[i];

		if (!rc)
			rc = piece_decode(container, worker, piece, bytes);
		if (piece->slot)
			cache_fill(&container->chunks, piece->slot, !rc);
		if (rc)
			continue;
		if (piece->slot)
			piece_copy(container, piece);
		*given += piece->length;
		bytes += piece->chunk.length;
	}
	if (worker)
		worker_give(container, worker);
	return *given ? 0 : rc;
}

/* The chunks of a run. */

/* Adds chunk `number`, if it must be read. Returns false if the run ends before the chunk, because
 * it is cached or another thread is decoding it. Waits only for a run's first chunk: a thread that
 * holds a slot must not wait. */
static bool run_add(struct container *container, struct run *run, const struct chunk_piece *piece,
		    uint64_t number)
{
	struct chunk_piece *added = &run->pieces[run->n];
	bool whole = piece->length == piece->chunk.size;
	enum cache_want want = whole ? CACHE_LOOK : run->n ? CACHE_TRY : CACHE_WAIT;
	struct cache_slot *slot = cache_take(&container->chunks, number, want);

	if (slot && slot->state == SLOT_READY && run->n) {
		cache_release(&container->chunks, slot);
		return false;
	}
	if (!slot && !whole)
		return false;
	*added = *piece;
	added->slot = slot;
	run->n++;
	return true;
}

/* Plans the run that begins at `offset`: as many chunks as lie behind each other in storage, are
 * wanted, and fit. Returns ENOMEM if no chunk could be added. */
static int run_plan(struct container *container, struct run *run, uint8_t *out, size_t length,
		    uint64_t offset)
{
	struct container_chunk chunks[RUN_CHUNKS];
	uint32_t chunk_size = container->info.chunk_size, from = (uint32_t)(offset % chunk_size);
	uint64_t first = offset / chunk_size, bytes = 0;
	size_t i, n = (from + (uint64_t)length + chunk_size - 1) / chunk_size;
	int rc = index_chunks(container, first, n < RUN_CHUNKS ? n : RUN_CHUNKS, chunks, &n);

	run->n = 0;
	for (i = 0; !rc && i < n; i++) {
		struct chunk_piece piece = {.chunk = chunks[i], .out = out, .from = from};

		piece.length = chunks[i].size - from;
		if (piece.length > length)
			piece.length = (uint32_t)length;
		bytes += chunks[i].length;
		if (run->n && bytes > RUN_BYTES)
			break;
		if (!run_add(container, run, &piece, first + i))
			break;
		if (run->pieces[run->n - 1].slot &&
		    run->pieces[run->n - 1].slot->state == SLOT_READY)
			break;
		out += piece.length;
		length -= piece.length;
		from = 0;
	}
	return rc || run->n ? rc : ENOMEM;
}

static ssize_t container_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	struct container *container = io->state;
	uint64_t size = container->info.size;
	struct run run;
	size_t given;
	int rc;

	container_enter(container);
	if (offset >= size || length == 0)
		return 0;
	if (length > size - offset)
		length = (size_t)(size - offset);
	rc = run_plan(container, &run, buffer, length, offset);
	if (!rc && run.pieces[0].slot && run.pieces[0].slot->state == SLOT_READY) {
		given = run.pieces[0].length;
		piece_copy(container, &run.pieces[0]);
	} else if (!rc) {
		rc = run_deliver(container, &run, &given);
	}
	if (!rc)
		return (ssize_t)given;
	errno = rc;
	return -1;
}

/* The rest of an io. */

/* Gives each request a thread of the pool, so that several chunks are decoded at a time. */
static int container_submit(struct io *io, struct io_request *const *requests, size_t n)
{
	struct container *container = io->state;

	container_enter(container);
	return io_threads_submit(&container->threads, io, requests, n);
}

static size_t container_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	return io_threads_wait(((struct container *)io->state)->threads, requests, min, max);
}

static int container_size(struct io *io, uint64_t *size)
{
	*size = ((struct container *)io->state)->info.size;
	return 0;
}

static void container_forked(struct io *io)
{
	struct container *container = io->state;

	container_enter(container);
	io_threads_forget(&container->threads);
}

static void container_rest(struct io *io)
{
	struct container *container = io->state;

	io_threads_free(container->threads);
	container->threads = NULL;
}

const struct io_ops io_container_ops = {
	.name = "container",
	.read = container_read,
	.size = container_size,
	.submit = container_submit,
	.wait = container_wait,
	.forked = container_forked,
	.rest = container_rest,
	.close = container_close,
};
