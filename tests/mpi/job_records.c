/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads records by all ranks of a simulated job, and checks them. */
#include "config.h"
#include "job_records.h"

#include <dirent.h>
#include <lmdbio_mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

size_t job_value_make(void *bytes, uint64_t i)
{
	uint32_t *words = bytes;

	for (size_t at = 0; at < JOB_VALUE / sizeof(*words); at++)
		words[at] = (uint32_t)((i * JOB_VALUE + at) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
	return JOB_VALUE;
}

static bool is_right(const struct lmdbio_sample *sample)
{
	uint32_t value[JOB_VALUE / sizeof(uint32_t)];
	char key[9];

	snprintf(key, sizeof(key), "%08u", (unsigned)sample->record);
	return sample->key.mv_size == 8 && !memcmp(sample->key.mv_data, key, 8) &&
	       sample->data.mv_size == job_value_make(value, sample->record) &&
	       !memcmp(sample->data.mv_data, value, sizeof(value));
}

int job_read_epoch(struct lmdbio_loader *loader, uint64_t epoch, struct outcome *outcome,
		   int *failed)
{
	struct lmdbio_batch *batch;
	int rc = loader_epoch(loader, epoch);

	while (!rc && !(rc = loader_next(loader, &batch))) {
		for (size_t i = 0; i < batch->count; i++) {
			*failed = *failed ? *failed : batch->samples[i].error;
			outcome->wrong |= !batch->samples[i].error && !is_right(&batch->samples[i]);
		}
		outcome->records += (unsigned)batch->count;
		loader_done(batch);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

void job_read_index(MPI_Comm comm, const char *directory, struct outcome *outcome)
{
	struct lmdbio_record_place place = {.size = sizeof(place)};
	struct lmdbio_mpi_index *index = NULL;
	uint64_t records;

	outcome->opened = lmdbio_mpi_index_open(comm, directory, NULL, &index);
	if (outcome->opened)
		return;
	records = lmdbio_mpi_index_records(index);
	outcome->records = (unsigned)records * 2 / JOB_RANKS;
	outcome->read = lmdbio_mpi_index_find(index, records - 1, &place);
	outcome->wrong = !outcome->read && !place.page;
	lmdbio_mpi_index_close(index);
}

static void *nothing_run(void *argument)
{
	return argument;
}

/* ThreadSanitizer starts a thread of its own beside a process's first one. */
static void first_thread_run(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, nothing_run, NULL))
		pthread_join(thread, NULL);
}

unsigned job_threads(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	unsigned n = 0;
	DIR *tasks;

	pthread_once(&once, first_thread_run);
	tasks = opendir("/proc/self/task");
	while (tasks && readdir(tasks))
		n++;
	closedir(tasks);
	return n;
}
