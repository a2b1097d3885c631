/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: when a unit whose home is here is read from storage, and that it is
 * read once, whoever wants it. What the numbering has read of it is not read again.
 *
 * Units that somebody waits for come first, then all others by when the plan's epochs want them.
 */
#include "config.h"
#include "mpi/peer_private.h"

#include "util/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>

struct peer_urgent {
	struct peer_urgent *next;
	uint64_t unit;
};

static void take(void *context, uint64_t record, int error, const MDB_val *key, const MDB_val *data)
{
	struct peer_job *job = context;

	if (!error)
		(void)store_keep(&job->store, record, key, data);
}

/* Records of a unit that are not here yet: *first and how many, those that are here in between
 * among them. 0: all are here. */
static uint64_t unit_missing(const struct peer_store *store, uint64_t unit, uint64_t *first)
{
	uint64_t end = (unit + 1) * store->unit_records;

	*first = unit * store->unit_records;
	end = end < store->records ? end : store->records;
	while (*first < end && store_has(store, *first))
		++*first;
	while (*first < end && store_has(store, end - 1))
		end--;
	return end - *first;
}

/* Reads a unit that the calling thread has claimed. Under the lock, which it takes down meanwhile.
 */
static void load(struct peer_job *job, uint64_t unit, bool urgent)
{
	struct peer_store *store = &job->store;
	uint64_t first, n;
	int rc;

	pthread_mutex_unlock(&job->lock);
	n = unit_missing(store, unit, &first);
	/* What nobody could keep is not read for nothing. */
	rc = n && store_takes(store, unit)
		     ? job->door->run(job->loader, first, n, urgent, take, job)
		     : 0;
	if (!rc)
		(void)job->door->unshelve(job->loader, unit * store->unit_records,
					  (unit + 1) * store->unit_records);
	pthread_mutex_lock(&job->lock);
	/* What could not be read is not read again here: those who want it read it for themselves.
	 */
	store->at[unit].state = rc == ECANCELED ? UNIT_EMPTY : UNIT_READY;
	pthread_cond_broadcast(&job->filled);
	pthread_cond_signal(&job->wake);
}

/* The shelf's pages go as their records are taken, but for those that say where the other values of
 * a unit of this rank's stand. */
void fill_from_shelf(struct peer_job *job)
{
	struct peer_store *store = &job->store;
	uint64_t from = 0, first;

	for (uint64_t unit = 0; unit < store->units; unit++) {
		uint64_t next = (unit + 1) * store->unit_records;

		next = next < store->records ? next : store->records;
		if (store->at[unit].role == ROLE_HOME) {
			first = unit * store->unit_records;
			job->door->shelved(job->loader, first, next - first, take, job);
			if (unit_missing(store, unit, &first)) {
				from = next;
				continue;
			}
			store->at[unit].state = UNIT_READY;
		}
		from = job->door->unshelve(job->loader, from, next);
	}
}

/* The next unit to be read. false: there is none now. Under the lock. */
static bool next_unit(struct peer_job *job, uint64_t *unit, bool *urgent)
{
	struct peer_urgent *first;

	*urgent = true;
	while ((first = job->urgent)) {
		*unit = first->unit;
		job->urgent = first->next;
		if (!job->urgent)
			job->urgent_last = &job->urgent;
		free(first);
		if (job->store.at[*unit].state == UNIT_EMPTY)
			return true;
	}
	*urgent = false;
	while (job->begun && job->own_next < job->own_count) {
		*unit = job->own[job->own_next++];
		if (job->store.at[*unit].state == UNIT_EMPTY)
			return true;
	}
	return false;
}

static void *filler_run(void *argument)
{
	struct peer_job *job = argument;
	uint64_t unit;
	bool urgent;

	prctl(PR_SET_NAME, "lmdbio-fill", 0, 0, 0);
	pthread_mutex_lock(&job->lock);
	while (!job->stop_fillers) {
		if (peer_plan_is_old(job)) {
			peer_plan_again(job);
			continue;
		}
		if (!next_unit(job, &unit, &urgent)) {
			pthread_cond_wait(&job->fill, &job->lock);
			continue;
		}
		job->store.at[unit].state = UNIT_LOADING;
		load(job, unit, urgent);
	}
	pthread_mutex_unlock(&job->lock);
	return NULL;
}

int fillers_start(struct peer_job *job)
{
	int rc = 0;

	while (!rc && job->fillers < PEER_FILLERS)
		if (!(rc = thread_start(&job->filler[job->fillers], filler_run, job)))
			job->fillers++;
	/* Fewer do as well. */
	return job->fillers ? 0 : rc;
}

void fillers_stop(struct peer_job *job)
{
	struct peer_urgent *urgent;

	pthread_mutex_lock(&job->lock);
	job->stop_fillers = true;
	while ((urgent = job->urgent)) {
		job->urgent = urgent->next;
		free(urgent);
	}
	job->urgent_last = &job->urgent;
	pthread_cond_broadcast(&job->fill);
	pthread_mutex_unlock(&job->lock);
	for (unsigned i = 0; i < job->fillers; i++)
		pthread_join(job->filler[i], NULL);
	job->fillers = 0;
}

bool fill_urgently(struct peer_job *job, uint64_t unit)
{
	struct peer_urgent *urgent;

	if (job->stop_fillers || job->closed)
		return false;
	urgent = malloc(sizeof(*urgent));
	if (!urgent)
		return false;
	*urgent = (struct peer_urgent){.unit = unit};
	*job->urgent_last = urgent;
	job->urgent_last = &urgent->next;
	pthread_cond_signal(&job->fill);
	return true;
}

void fill_now(struct peer_job *job, uint64_t unit)
{
	struct peer_unit *at = &job->store.at[unit];

	pthread_mutex_lock(&job->lock);
	if (at->state == UNIT_EMPTY) {
		at->state = UNIT_LOADING;
		load(job, unit, true);
	}
	while (at->state == UNIT_LOADING)
		pthread_cond_wait(&job->filled, &job->lock);
	pthread_mutex_unlock(&job->lock);
}
