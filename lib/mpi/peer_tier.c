/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows the loader what its job keeps, as rows of its table of tiers: records in memory here, and on
 * other ranks. */
#include "config.h"
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"
#include "util/clock.h"
#include "util/hash.h"

#include <errno.h>

/* --- here ------------------------------------------------------------------------------------- */

static bool own_has(void *state, uint64_t record)
{
	return peer_store_holds(&((struct peer_job *)state)->store, record);
}

static int own_fetch(void *state, uint64_t record, struct tier_record *to)
{
	return peer_store_take(&((struct peer_job *)state)->store, record, to);
}

static uint64_t own_offer(void *state, uint64_t record, const MDB_val *key, const MDB_val *data)
{
	return peer_store_keep(&((struct peer_job *)state)->store, record, key, data);
}

/* Takes a record from memory or disk here. Returns false if it is not here. */
static bool take_here(struct peer_job *job, struct tier_fetch *fetch)
{
	fetch->source = SOURCE_MEMORY;
	fetch->error = peer_store_take(&job->store, fetch->record, &fetch->found);
	if (fetch->error == ENOENT) {
		fetch->source = SOURCE_DISK;
		fetch->error = peer_store_read(&job->store, fetch->record, &fetch->found);
	}
	return !fetch->error;
}

/* --- on other ranks --------------------------------------------------------------------------- */

static bool is_asked(const struct peer_job *job, uint32_t rank)
{
	uint64_t rests_until;

	if (rank == PEER_NOBODY || rank == (uint32_t)job->rank || job->peers[rank].silent)
		return false;
	rests_until = job->peers[rank].rests_until;
	return !rests_until || clock_now() >= rests_until;
}

/* Whether a peer has a copy of a unit, as it last said. */
static bool has_copy(const struct peer *peer, uint64_t unit)
{
	const uint64_t *bits = peer->ready;

	return bits && ready_test(bits, unit);
}

static uint64_t tie_of(const struct peer_job *job, uint64_t unit, uint32_t rank)
{
	uint64_t key[] = {unit, (uint64_t)job->rank, rank};

	return hash_bytes(key, sizeof(key));
}

uint32_t peer_choose(const struct peer_job *job, uint64_t unit)
{
	uint32_t best = PEER_NOBODY;
	uint64_t least = 0;

	for (unsigned i = 0; i <= PEER_COPIES; i++) {
		uint32_t rank =
			i ? job->plan.copies[unit * PEER_COPIES + i - 1] : job->plan.homes[unit];
		const struct peer *peer;
		uint64_t ends;

		if (!is_asked(job, rank) || (i && !has_copy(&job->peers[rank], unit)))
			continue;
		peer = &job->peers[rank];
		ends = (peer->queued + peer->load + UINT64_C(1)) * peer->pace;
		if (best == PEER_NOBODY || ends < least ||
		    (ends == least && tie_of(job, unit, rank) < tie_of(job, unit, best))) {
			best = rank;
			least = ends;
		}
	}
	return best;
}

static bool others_has(void *state, uint64_t record)
{
	struct peer_job *job = state;
	uint64_t unit = peer_store_unit(&job->store, record);

	if (job->plan.homes[unit] == (uint32_t)job->rank)
		return job->store.at[unit].state != UNIT_READY;
	return !job->over && peer_choose(job, unit) != PEER_NOBODY;
}

/* Returns the question that a record goes with, made if there is none yet; NULL without memory. */
static struct peer_ask *ask_for(struct peer_job *job, struct peer_ask **asks, uint32_t rank,
				struct peer_wait *wait)
{
	struct peer_ask *ask = *asks;

	while (ask && (ask->to != rank || ask->talk.n == PEER_ASKS))
		ask = ask->next;
	if (ask)
		return ask;
	ask = ask_new(job, rank, wait);
	if (ask) {
		ask->next = *asks;
		*asks = ask;
		wait->left++;
	}
	return ask;
}

/* Takes a record that is here, or asks the ranks that keep it. Returns true if this rank must read
 * it. */
static bool fetch_begin(struct peer_job *job, struct tier_fetch *fetch, struct peer_ask **asks,
			struct peer_wait *wait)
{
	uint64_t unit = peer_store_unit(&job->store, fetch->record);
	struct peer_ask *ask;
	uint32_t rank;

	if (take_here(job, fetch))
		return false;
	fetch->source = SOURCE_PEER;
	if (job->plan.homes[unit] == (uint32_t)job->rank)
		return true;
	fetch->error = ENOENT;
	rank = job->over ? PEER_NOBODY : peer_choose(job, unit);
	ask = rank == PEER_NOBODY ? NULL : ask_for(job, asks, rank, wait);
	if (ask)
		ask_add(ask, fetch);
	return false;
}

static void asks_begin(struct peer_job *job, struct peer_ask *asks)
{
	pthread_mutex_lock(&job->lock);
	fill_begin(job);
	asks_put(job, asks);
	pthread_mutex_unlock(&job->lock);
}

static void asks_wait(struct peer_job *job, struct peer_wait *wait)
{
	pthread_mutex_lock(&job->lock);
	while (wait->left)
		pthread_cond_wait(&wait->done, &job->lock);
	pthread_mutex_unlock(&job->lock);
}

/* A copy may have gone since its rank told of it. Then the home has the record. */
static void fetch_from_homes(struct peer_job *job, struct tier_fetch *each, size_t n,
			     struct peer_wait *wait)
{
	struct peer_ask *asks = NULL;

	for (size_t i = 0; i < n && !job->over; i++) {
		uint64_t unit = peer_store_unit(&job->store, each[i].record);
		struct peer_ask *ask;

		if (each[i].error != ENOENT || job->plan.copies[unit * PEER_COPIES] == PEER_NOBODY ||
		    !is_asked(job, job->plan.homes[unit]))
			continue;
		ask = ask_for(job, &asks, job->plan.homes[unit], wait);
		if (ask)
			ask_add(ask, &each[i]);
	}
	asks_begin(job, asks);
	asks_wait(job, wait);
}

static void others_fetch_all(void *state, struct tier_fetch *each, size_t n)
{
	struct peer_job *job = state;
	struct peer_wait wait = {.left = 0};
	struct peer_ask *asks = NULL;
	bool here[PEER_ASKS];

	pthread_cond_init(&wait.done, NULL);
	for (size_t i = 0; i < n; i++)
		here[i] = fetch_begin(job, &each[i], &asks, &wait);
	asks_begin(job, asks);
	for (size_t i = 0; i < n; i++) {
		if (!here[i])
			continue;
		fill_now(job, peer_store_unit(&job->store, each[i].record));
		(void)take_here(job, &each[i]);
		each[i].source = SOURCE_FILE;
	}
	asks_wait(job, &wait);
	fetch_from_homes(job, each, n, &wait);
	pthread_cond_destroy(&wait.done);
}

static int others_fetch(void *state, uint64_t record, struct tier_record *to)
{
	struct tier_fetch fetch = {.record = record};

	others_fetch_all(state, &fetch, 1);
	*to = fetch.found;
	return fetch.error;
}

static void others_epoch(void *state, uint64_t epoch)
{
	struct peer_job *job = state;

	job->plan.epoch = epoch;
	pthread_mutex_lock(&job->lock);
	if (peer_plan_is_old(job))
		crew_wake(&job->fills.crew);
	pthread_mutex_unlock(&job->lock);
}

/* Leaves the job to its service. */
static void others_close(void *state)
{
	struct peer_job *job = state;
	bool last;

	fillers_stop(job);
	pthread_mutex_lock(&job->lock);
	job->loader = NULL;
	job->closed = true;
	/* MPI may still write to a job that has broken off. */
	last = job->gone && job->comm == MPI_COMM_NULL;
	service_wake(job);
	pthread_mutex_unlock(&job->lock);
	if (last)
		job_free(job);
}

static enum tier_state others_health(void *state)
{
	const struct peer_job *job = state;

	return job->failed || job->late ? TIER_FAILED : TIER_GOOD;
}

const struct tier_ops peer_tier_own = {
	.name = "kept here",
	.has = own_has,
	.fetch = own_fetch,
	.offer = own_offer,
};

const struct tier_ops peer_tier_others = {
	.name = "peers",
	.has = others_has,
	.fetch = others_fetch,
	.fetch_all = others_fetch_all,
	.epoch = others_epoch,
	.health = others_health,
	.close = others_close,
};
