/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compresses in several threads the data that one thread supplies, and returns the frames in order.
 *
 * There are twice as many jobs as threads. So each thread has one in work and one waiting while the
 * writer's thread reads or writes. A job's bytes do not depend on the thread that compresses it, or
 * on the time.
 */
#include "container_write_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_ALIGNMENT = 4096 };

static void compress_job(struct container_compressor *compressor,
			 const struct container_write_options *options, struct job *job)
{
	size_t chunk_size = options->chunk_size, at = 0;

	job->n = 0;
	job->length = 0;
	job->error = 0;
	while (at < job->filled && !job->error) {
		size_t size = job->filled - at < chunk_size ? job->filled - at : chunk_size;
		struct container_frame *frame = &job->frames[job->n];

		job->error = container_compress(compressor, job->in + at, size,
						job->out + job->length, frame);
		if (job->error)
			return;
		job->length += frame->length;
		job->n++;
		at += size;
	}
	container_select(options->format, options->page_size, job->in, job->filled, job->offset,
			 job->picked);
}

/* A step of the crew. A compressor is as large as its input, so there are only as many as work at
 * once. */
static uint64_t jobs_step(void *owner)
{
	struct jobs *jobs = owner;
	struct container_compressor *compressor = NULL;
	struct job *job;
	int rc = 0;

	if (jobs->next == jobs->put)
		return CLOCK_NEVER;
	job = &jobs->ring[jobs->next++ % jobs->n];
	if (jobs->spares)
		compressor = jobs->spare[--jobs->spares];
	pthread_mutex_unlock(&jobs->lock);
	if (!compressor)
		rc = container_compressor_open(&compressor, jobs->options);
	job->error = rc;
	if (!rc)
		compress_job(compressor, jobs->options, job);
	pthread_mutex_lock(&jobs->lock);
	if (!rc)
		jobs->spare[jobs->spares++] = compressor;
	job->done = true;
	pthread_cond_signal(&jobs->one_done);
	return 0;
}

static const struct crew_work jobs_work = {.name = "lmdbio-jobs", .step = jobs_step};

int jobs_open(struct jobs *jobs, const struct container_write_options *options)
{
	memset(jobs, 0, sizeof(*jobs));
	jobs->options = options;
	jobs->capacity = options->chunk_size > JOB_BYTES ? options->chunk_size : JOB_BYTES;
	jobs->n = 2 * (size_t)options->threads + 1;
	jobs->ring = calloc(jobs->n, sizeof(*jobs->ring));
	jobs->spare = calloc(jobs->n, sizeof(*jobs->spare));
	if (!jobs->ring || !jobs->spare) {
		free(jobs->ring);
		free(jobs->spare);
		jobs->ring = NULL;
		return ENOMEM;
	}
	pthread_mutex_init(&jobs->lock, NULL);
	crew_init(&jobs->crew, &jobs_work, jobs, &jobs->lock);
	pthread_cond_init(&jobs->one_done, NULL);
	return 0;
}

void jobs_close(struct jobs *jobs)
{
	size_t i;

	if (!jobs->ring)
		return;
	crew_stop(&jobs->crew);
	while (jobs->spares)
		container_compressor_close(jobs->spare[--jobs->spares]);
	free(jobs->spare);
	for (i = 0; i < jobs->n; i++) {
		free(jobs->ring[i].in);
		free(jobs->ring[i].out);
		free(jobs->ring[i].picked);
	}
	free(jobs->ring);
	pthread_cond_destroy(&jobs->one_done);
	pthread_mutex_destroy(&jobs->lock);
}

static int give_memory(const struct jobs *jobs, struct job *job)
{
	size_t chunk = jobs->options->chunk_size;
	void *in;

	if (job->out)
		return 0;
	if (!job->in) {
		if (posix_memalign(&in, BUFFER_ALIGNMENT, jobs->capacity))
			return ENOMEM;
		job->in = in;
	}
	if (!job->picked)
		job->picked = malloc(jobs->capacity / jobs->options->page_size / 8 + 1);
	if (!job->picked)
		return ENOMEM;
	job->out = malloc(jobs->capacity / chunk * container_frame_bound(chunk));
	return job->out ? 0 : ENOMEM;
}

int jobs_fill(struct jobs *jobs, struct job **job)
{
	*job = NULL;
	if (jobs->put - jobs->head == jobs->n)
		return 0;
	*job = &jobs->ring[jobs->put % jobs->n];
	return give_memory(jobs, *job);
}

void jobs_queue(struct jobs *jobs)
{
	bool alone = crew_start(&jobs->crew, jobs->options->threads) || !jobs->crew.count;

	pthread_mutex_lock(&jobs->lock);
	jobs->put++;
	crew_wake(&jobs->crew);
	while (alone && !jobs_step(jobs))
		;
	pthread_mutex_unlock(&jobs->lock);
}

size_t jobs_done(struct jobs *jobs, struct job **done, size_t n, bool wait)
{
	uint64_t at = jobs->head;
	size_t found = 0;

	pthread_mutex_lock(&jobs->lock);
	while (wait && at < jobs->put && !jobs->ring[at % jobs->n].done)
		pthread_cond_wait(&jobs->one_done, &jobs->lock);
	while (found < n && at < jobs->put && jobs->ring[at % jobs->n].done)
		done[found++] = &jobs->ring[at++ % jobs->n];
	pthread_mutex_unlock(&jobs->lock);
	return found;
}

void jobs_drop(struct jobs *jobs, size_t n)
{
	while (n-- > 0) {
		struct job *job = &jobs->ring[jobs->head++ % jobs->n];

		job->done = false;
		job->filled = 0;
	}
}
