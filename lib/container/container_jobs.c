/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compresses in several threads what one thread supplies, and writes it in order.
 *
 * Twice as many jobs as threads: each has one under way and one waiting while the writer's thread
 * reads or writes. A job's bytes do not depend on the thread that compresses it, or on the time.
 */
#include "container/container_write_private.h"

#include "util/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_ALIGNMENT = 4096 };

int jobs_open(struct jobs *jobs, const struct container_write_options *options)
{
	memset(jobs, 0, sizeof(*jobs));
	jobs->options = options;
	jobs->capacity = options->chunk_size > JOB_BYTES ? options->chunk_size : JOB_BYTES;
	jobs->n = 2 * (size_t)options->threads + 1;
	jobs->ring = calloc(jobs->n, sizeof(*jobs->ring));
	if (!jobs->ring)
		return ENOMEM;
	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->work, NULL);
	pthread_cond_init(&jobs->one_done, NULL);
	return 0;
}

void jobs_close(struct jobs *jobs)
{
	size_t i;

	if (!jobs->ring)
		return;
	pthread_mutex_lock(&jobs->lock);
	jobs->stop = true;
	pthread_cond_broadcast(&jobs->work);
	pthread_mutex_unlock(&jobs->lock);
	for (i = 0; i < jobs->n_threads; i++)
		pthread_join(jobs->threads[i], NULL);
	free(jobs->threads);
	container_compressor_close(jobs->own);
	for (i = 0; i < jobs->n; i++) {
		free(jobs->ring[i].in);
		free(jobs->ring[i].out);
		free(jobs->ring[i].picked);
	}
	free(jobs->ring);
	pthread_cond_destroy(&jobs->one_done);
	pthread_cond_destroy(&jobs->work);
	pthread_mutex_destroy(&jobs->lock);
}

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
	container_select(options->page_size, job->in, job->filled, job->offset, job->picked);
}

static void *run_jobs(void *arg)
{
	struct jobs *jobs = arg;
	struct container_compressor *compressor = NULL;
	int rc = container_compressor_open(&compressor, jobs->options);

	pthread_mutex_lock(&jobs->lock);
	for (;;) {
		struct job *job;

		while (jobs->next == jobs->put && !jobs->stop)
			pthread_cond_wait(&jobs->work, &jobs->lock);
		if (jobs->stop)
			break;
		job = &jobs->ring[jobs->next++ % jobs->n];
		pthread_mutex_unlock(&jobs->lock);
		job->error = rc;
		if (!rc)
			compress_job(compressor, jobs->options, job);
		pthread_mutex_lock(&jobs->lock);
		job->done = true;
		pthread_cond_signal(&jobs->one_done);
	}
	pthread_mutex_unlock(&jobs->lock);
	container_compressor_close(compressor);
	return NULL;
}

/* Fewer threads than wanted are enough; with none the writer's own compresses. */
static int start_threads(struct jobs *jobs)
{
	jobs->threads =
		calloc(jobs->options->threads ? jobs->options->threads : 1, sizeof(*jobs->threads));
	if (!jobs->threads)
		return ENOMEM;
	while (jobs->n_threads < jobs->options->threads &&
	       !thread_start(&jobs->threads[jobs->n_threads], run_jobs, jobs))
		jobs->n_threads++;
	if (jobs->n_threads)
		return 0;
	return container_compressor_open(&jobs->own, jobs->options);
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

int jobs_queue(struct jobs *jobs)
{
	struct job *job = &jobs->ring[jobs->put % jobs->n];
	int rc = jobs->threads ? 0 : start_threads(jobs);

	if (rc)
		return rc;
	if (jobs->own) {
		compress_job(jobs->own, jobs->options, job);
		job->done = true;
		jobs->next++;
		jobs->put++;
		return job->error;
	}
	pthread_mutex_lock(&jobs->lock);
	jobs->put++;
	pthread_cond_signal(&jobs->work);
	pthread_mutex_unlock(&jobs->lock);
	return 0;
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
