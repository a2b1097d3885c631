/* SPDX-License-Identifier: OLDAP-2.8 */
/* Divides the chunks of a process among its threads. */
#include "convert_chunks.h"
#include "convert_job.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { THREADS_MOST = 256, BUFFER_ALIGNMENT = 4096 };

struct crew {
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

static void crew_stop(struct crew *crew, int status)
{
	int none = 0;

	if (status)
		atomic_compare_exchange_strong(&crew->status, &none, status);
}

static void crew_work(struct crew *crew, bool shows)
{
	const struct chunk_work *work = crew->work;
	uint8_t *buffers = aligned_alloc(BUFFER_ALIGNMENT, (size_t)work->buffers * work->chunk);
	uint64_t chunk;

	if (!buffers)
		crew_stop(crew, convert_fail(crew->convert->target, ENOMEM));
	while (!atomic_load(&crew->status) &&
	       (chunk = atomic_fetch_add(&crew->next, 1)) < crew->end) {
		uint64_t offset = chunk * work->chunk, left = work->size - offset;

		crew_stop(crew, work->work(work->to, buffers, offset,
					   left < work->chunk ? (size_t)left : work->chunk));
		crew_stop(crew, convert_interrupted());
		if (shows)
			progress_show(&crew->convert->progress);
	}
	free(buffers);
}

static void *crew_run(void *argument)
{
	crew_work(argument, false);
	return NULL;
}

int chunks_run_share(struct convert *convert, const struct chunk_work *work,
		     struct chunk_share share)
{
	struct crew crew = {
		.convert = convert,
		.work = work,
		.next = share.first,
		.end = share.first + share.count,
	};
	pthread_t helpers[THREADS_MOST];
	unsigned started = 0;

	while (started + 1 < convert->threads && started + 1 < share.count &&
	       started < THREADS_MOST && !pthread_create(&helpers[started], NULL, crew_run, &crew))
		started++;
	crew_work(&crew, true);
	while (started)
		pthread_join(helpers[--started], NULL);
	return atomic_load(&crew.status);
}

int chunks_run(struct convert *convert, const struct chunk_work *work)
{
	uint64_t chunks = (work->size + work->chunk - 1) / work->chunk;

	return chunks_run_share(convert, work, chunks_share(convert, chunks));
}
