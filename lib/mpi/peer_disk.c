/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads this rank's disk for others, in threads of its own: the service makes all calls of MPI
 * and must not wait for a disk, and the loader here, with all its threads, may have been closed
 * long before the last question comes. */
#include "config.h"
#include "mpi/peer_private.h"

#include "util/thread.h"

#include <errno.h>
#include <sys/prctl.h>

static void read_each(struct peer_job *job, struct peer_read *read)
{
	for (int i = 0; i < read->n; i++) {
		struct tier_fetch *fetch = &read->each[i];

		fetch->error = store_take(&job->store, fetch->record, &fetch->found);
		if (fetch->error == ENOENT)
			fetch->error = store_read(&job->store, fetch->record, &fetch->found);
	}
}

static void *disk_run(void *argument)
{
	struct peer_job *job = argument;

	prctl(PR_SET_NAME, "lmdbio-disk", 0, 0, 0);
	pthread_mutex_lock(&job->lock);
	while (!job->stop_disks) {
		struct peer_read *read = job->reads;

		if (!read) {
			pthread_cond_wait(&job->read, &job->lock);
			continue;
		}
		job->reads = read->next;
		if (!job->reads)
			job->reads_last = &job->reads;
		pthread_mutex_unlock(&job->lock);
		read_each(job, read);
		pthread_mutex_lock(&job->lock);
		read->done = true;
		service_wake(job);
	}
	pthread_mutex_unlock(&job->lock);
	return NULL;
}

void disks_put(struct peer_job *job, struct peer_read *read)
{
	read->next = NULL;
	read->under_way = true;
	*job->reads_last = read;
	job->reads_last = &read->next;
	pthread_cond_signal(&job->read);
}

int disks_start(struct peer_job *job)
{
	int rc = 0;

	if (!job->store.disk)
		return 0;
	while (!rc && job->disks < PEER_DISKS)
		if (!(rc = thread_start(&job->disk[job->disks], disk_run, job)))
			job->disks++;
	/* Fewer do as well. */
	return job->disks ? 0 : rc;
}

void disks_stop(struct peer_job *job)
{
	pthread_mutex_lock(&job->lock);
	job->stop_disks = true;
	pthread_cond_broadcast(&job->read);
	pthread_mutex_unlock(&job->lock);
	for (unsigned i = 0; i < job->disks; i++)
		pthread_join(job->disk[i], NULL);
	job->disks = 0;
}
