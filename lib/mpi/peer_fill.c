/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the units whose home is here from storage, each once. What the numbering has read of a unit
 * is not read again.
 *
 * Units that a reader waits for, here or on another rank, come first. All other units follow, in
 * the order in which the plan's epochs want them. The read of such a unit keeps to the loader's
 * quiet times and bandwidth, so it may begin long after a thread has claimed the unit. When a
 * reader asks for the unit, its read is hurried. When a reader asks for another unit, the unit is
 * put back, and its thread takes that one. */
#include "config.h"
#include "mpi/peer_private.h"

#include "util/list.h"

#include <errno.h>
#include <stdlib.h>

struct peer_urgent {
	struct peer_urgent *next;
	uint64_t unit;
};

static void take(void *context, uint64_t record, int error, const MDB_val *key, const MDB_val *data)
{
	struct peer_job *job = context;

	if (!error)
		(void)peer_store_keep(&job->store, record, key, data);
}

/* Returns how many records of a unit, from *first on, are not here yet, including records in
 * between that are here. 0: all are here. */
static uint64_t unit_missing(const struct peer_store *store, uint64_t unit, uint64_t *first)
{
	uint64_t end = (unit + 1) * store->unit_records;

	*first = unit * store->unit_records;
	end = end < store->records ? end : store->records;
	while (*first < end && peer_store_has(store, *first))
		++*first;
	while (*first < end && peer_store_has(store, end - 1))
		end--;
	return end - *first;
}

/* Reads a load, without the job lock. Returns as loader_run(). */
static int read_units(struct peer_job *job, const struct peer_load *load)
{
	struct peer_store *store = &job->store;
	uint64_t first = 0, end = 0, at, n;
	int rc = 0;

	/* Units without room in the store are only read between other units. */
	for (uint64_t unit = load->unit; unit < load->end; unit++) {
		n = unit_missing(store, unit, &at);
		if (!n || !peer_store_takes(store, unit))
			continue;
		first = end ? first : at;
		end = at + n;
	}
	if (end)
		rc = loader_run(job->loader, first, end - first, &load->haste, take, job);
	if (!rc)
		(void)loader_unshelve(job->loader, load->unit * store->unit_records,
				      load->end * store->unit_records);
	return rc;
}

/* Returns where the units end that are read with this one. These are to be read here as well, and
 * make about one request. Under the job lock. */
static uint64_t load_end(const struct peer_job *job, uint64_t unit)
{
	const struct peer_store *store = &job->store;
	uint64_t most = unit + job->fills.at_once, end = unit + 1;

	while (end < most && end < store->units && store->at[end].role == ROLE_HOME &&
	       store->at[end].state == UNIT_EMPTY)
		end++;
	return end;
}

static void units_set(struct peer_job *job, const struct peer_load *load, enum peer_state state)
{
	for (uint64_t unit = load->unit; unit < load->end; unit++)
		job->store.at[unit].state = state;
}

/* Claims a unit and reads it. Neighbours come with it, unless a reader waits that will want other
 * units first. Under the job lock, which it releases meanwhile. */
static void load(struct peer_job *job, uint64_t unit, enum run_haste haste)
{
	struct peer_load load = {.next = job->fills.loads, .unit = unit, .haste = haste};
	int rc;

	load.end = haste == RUN_LATER || job->fills.in_order ? load_end(job, unit) : unit + 1;
	load.place = job->fills.next - 1; /* means something if no reader waits for the unit */
	units_set(job, &load, UNIT_LOADING);
	job->fills.loads = &load;
	do {
		pthread_mutex_unlock(&job->lock);
		rc = read_units(job, &load);
		pthread_mutex_lock(&job->lock);
		/* A reader may have asked for a unit after its read was given up. */
	} while (rc == EAGAIN && load.haste == RUN_NOW);
	list_remove(job->fills.loads, &load, next);
	job->fills.cancelled |= rc == ECANCELED;
	/* A unit that could not be read is not read again here: its readers ask storage
	 * themselves. */
	units_set(job, &load, rc == ECANCELED || rc == EAGAIN ? UNIT_EMPTY : UNIT_READY);
	/* Other threads may have passed by its neighbours meanwhile. */
	if (rc == EAGAIN && load.place < job->fills.next)
		job->fills.next = load.place;
	pthread_cond_broadcast(&job->fills.filled);
	service_wake(job);
}

void fill_hurry(struct peer_job *job, uint64_t unit)
{
	for (struct peer_load *load = job->fills.loads; load; load = load->next) {
		if (unit < load->unit || unit >= load->end || load->haste == RUN_NOW)
			continue;
		load->haste = RUN_NOW;
		if (job->loader)
			loader_hurry(job->loader);
	}
}

/* Puts back the units that no reader waits for. Otherwise all fillers may wait for a quiet time to
 * end. */
static void put_back_later(struct peer_job *job)
{
	bool any = false;

	for (struct peer_load *load = job->fills.loads; load; load = load->next) {
		if (load->haste != RUN_LATER)
			continue;
		load->haste = RUN_NOT;
		any = true;
	}
	if (any)
		loader_hurry(job->loader);
}

/* Frees the shelf's pages as their records are taken, but not pages that say where the other values
 * of a unit of this rank's stand. */
void fill_from_shelf(struct peer_job *job)
{
	struct peer_store *store = &job->store;
	uint64_t from = 0, first;

	for (uint64_t unit = 0; unit < store->units; unit++) {
		uint64_t next = (unit + 1) * store->unit_records;

		next = next < store->records ? next : store->records;
		if (store->at[unit].role == ROLE_HOME) {
			first = unit * store->unit_records;
			loader_shelved(job->loader, first, next - first, take, job);
			if (unit_missing(store, unit, &first)) {
				from = next;
				continue;
			}
			store->at[unit].state = UNIT_READY;
		}
		from = loader_unshelve(job->loader, from, next);
	}
}

/* Finds the next unit to be read. Returns false if there is none now. Under the job lock. */
static bool next_unit(struct peer_job *job, uint64_t *unit, enum run_haste *haste)
{
	struct peer_urgent *first;

	*haste = RUN_NOW;
	while ((first = job->fills.urgent)) {
		*unit = first->unit;
		job->fills.urgent = first->next;
		if (!job->fills.urgent)
			job->fills.urgent_last = &job->fills.urgent;
		free(first);
		if (job->store.at[*unit].state == UNIT_EMPTY)
			return true;
	}
	*haste = RUN_LATER;
	while (job->fills.begun && job->fills.next < job->fills.count) {
		*unit = job->fills.own[job->fills.next++];
		if (job->store.at[*unit].state == UNIT_EMPTY)
			return true;
	}
	return false;
}

/* A step of the crew. */
static uint64_t filler_step(void *owner)
{
	struct peer_job *job = owner;
	enum run_haste haste;
	uint64_t unit;

	if (peer_plan_is_old(job))
		peer_plan_again(job);
	else if (next_unit(job, &unit, &haste))
		load(job, unit, haste);
	else
		return CLOCK_NEVER;
	return 0;
}

const struct crew_work filler_work = {.name = "lmdbio-fill", .step = filler_step};

int fillers_start(struct peer_job *job)
{
	return crew_start(&job->fills.crew, PEER_FILLERS);
}

void fill_begin(struct peer_job *job)
{
	if (!job->fills.begun)
		crew_wake_all(&job->fills.crew);
	job->fills.begun = true;
}

void fillers_stop(struct peer_job *job)
{
	struct peer_urgent *urgent;

	crew_stop(&job->fills.crew);
	pthread_mutex_lock(&job->lock);
	while ((urgent = job->fills.urgent)) {
		job->fills.urgent = urgent->next;
		free(urgent);
	}
	job->fills.urgent_last = &job->fills.urgent;
	pthread_mutex_unlock(&job->lock);
}

bool fills_read(const struct peer_job *job)
{
	return !job->fills.crew.stopping && !job->fills.cancelled && !job->closed;
}

bool fill_urgently(struct peer_job *job, uint64_t unit)
{
	struct peer_urgent *urgent;

	if (!fills_read(job))
		return false;
	urgent = malloc(sizeof(*urgent));
	if (!urgent)
		return false;
	*urgent = (struct peer_urgent){.unit = unit};
	*job->fills.urgent_last = urgent;
	job->fills.urgent_last = &urgent->next;
	crew_wake(&job->fills.crew);
	put_back_later(job);
	return true;
}

void fill_now(struct peer_job *job, uint64_t unit)
{
	struct peer_unit *at = &job->store.at[unit];

	pthread_mutex_lock(&job->lock);
	if (at->state == UNIT_EMPTY)
		load(job, unit, RUN_NOW);
	fill_hurry(job, unit);
	while (at->state == UNIT_LOADING)
		pthread_cond_wait(&job->fills.filled, &job->lock);
	pthread_mutex_unlock(&job->lock);
}
