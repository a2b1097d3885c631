/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads this rank's disk for others, in threads of its own: the service makes all calls of MPI
 * and must not wait for a disk, and the loader here, with all its threads, may have been closed
 * long before the last question comes. */
#include "config.h"
#include "mpi/peer_private.h"

#include <errno.h>

static void read_each(struct peer_job *job, struct peer_read *read)
{
	for (int i = 0; i < read->n; i++) {
		struct tier_fetch *fetch = &read->each[i];

		fetch->error = peer_store_take(&job->store, fetch->record, &fetch->found);
		if (fetch->error == ENOENT)
			fetch->error = peer_store_read(&job->store, fetch->record, &fetch->found);
	}
}

/* A step of the crew. */
static uint64_t disk_step(void *owner)
{
	struct peer_job *job = owner;
	struct peer_read *read = job->reads;

	if (!read)
		return CLOCK_NEVER;
	job->reads = read->next;
	if (!job->reads)
		job->reads_last = &job->reads;
	pthread_mutex_unlock(&job->lock);
	read_each(job, read);
	pthread_mutex_lock(&job->lock);
	read->done = true;
	service_wake(job);
	return 0;
}

const struct crew_work disk_work = {.name = "lmdbio-disk", .step = disk_step};

void disks_put(struct peer_job *job, struct peer_read *read)
{
	read->next = NULL;
	read->under_way = true;
	*job->reads_last = read;
	job->reads_last = &read->next;
	crew_wake(&job->disks);
}

int disks_start(struct peer_job *job)
{
	return job->store.disk ? crew_start(&job->disks, PEER_DISKS) : 0;
}
