/* SPDX-License-Identifier: OLDAP-2.8 */
/* Divides the chunks of a process among its threads. */
#include "convert_chunks.h"
#include "convert_job.h"

#include "util/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BUFFER_ALIGNMENT = 4096 };

struct pool {
	struct convert *convert;
	const struct chunk_work *work;
	uint64_t end;
	_Atomic uint64_t next;
	_Atomic int status; /* the first exit status that is not 0 */
};

struct chunk_share chunks_share(const struct convert *convert, uint64_t chunks)
{
	struct mpi_place place = job_place(convert);
	uint64_t each = chunks / (uint64_t)place.ranks, more = chunks % (uint64_t)place.ranks;
	uint64_t rank = (uint64_t)place.rank;

	return (struct chunk_share){rank * each + (rank < more ? rank : more),
				    each + (rank < more)};
}

static void pool_stop(struct pool *pool, int status)
{
	int none = 0;

	if (status)
		atomic_compare_exchange_strong(&pool->status, &none, status);
}

static void pool_work(void *argument, unsigned number)
{
	struct pool *pool = argument;
	const struct chunk_work *work = pool->work;
	uint8_t *buffers = aligned_alloc(BUFFER_ALIGNMENT, (size_t)work->buffers * work->chunk);
	uint64_t chunk;

	if (!buffers)
		pool_stop(pool, convert_fail(pool->convert->target, ENOMEM));
	while (!atomic_load(&pool->status) &&
	       (chunk = atomic_fetch_add(&pool->next, 1)) < pool->end) {
		uint64_t offset = chunk * work->chunk, left = work->size - offset;

		pool_stop(pool, work->work(work->to, buffers, offset,
					   left < work->chunk ? (size_t)left : work->chunk));
		pool_stop(pool, convert_interrupted());
		if (!number)
			progress_show(&pool->convert->progress);
	}
	free(buffers);
}

int chunks_run_share(struct convert *convert, const struct chunk_work *work,
		     struct chunk_share share)
{
	struct pool pool = {
		.convert = convert,
		.work = work,
		.next = share.first,
		.end = share.first + share.count,
	};

	thread_share(share.count < convert->threads ? (unsigned)share.count : convert->threads,
		     "lmdbio-chunks", pool_work, &pool);
	return atomic_load(&pool.status);
}

int chunks_run(struct convert *convert, const struct chunk_work *work)
{
	uint64_t chunks = (work->size + work->chunk - 1) / work->chunk;

	return chunks_run_share(convert, work, chunks_share(convert, chunks));
}
