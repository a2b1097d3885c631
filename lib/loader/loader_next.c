/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives batches to takers, and takes them back. */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- samples that lacked memory -------------------------------------------------------------- */

/* A decoder's own ENOMEM does not count: its sample has come. */
static bool is_lacking(const struct lmdbio_sample *sample)
{
	return sample->error == ENOMEM && !sample->key.mv_data && !sample->data.mv_data;
}

/* Reads the samples of a batch that lack memory. Releases the loader lock meanwhile. Returns
 * whether some still lack memory. */
static bool read_lacking(struct lmdbio_loader *loader, struct batch *batch)
{
	struct snapshot snapshot = loader_view(loader);
	uint64_t held = 0;
	bool lacking = false;

	pthread_mutex_unlock(&loader->lock);
	for (size_t i = 0; i < batch->shown.count; i++) {
		struct lmdbio_sample *sample = &batch->samples[i];
		struct work work = {.batch = batch, .slot = (uint32_t)i};

		if (!is_lacking(sample))
			continue;
		sample->error = index_find(loader->data.index, sample->record, &work.place);
		if (!sample->error)
			(void)sample_take(loader, &snapshot, NULL, &work, SOURCE_FILE);
		lacking |= is_lacking(sample);
		if (sample->error)
			continue;
		if (batch->memory[i])
			held += sample_memory_size(batch->memory[i],
						   sample->key.mv_size + sample->data.mv_size);
		sample_decode(loader, batch, i);
	}
	pthread_mutex_lock(&loader->lock);
	batch->held += held;
	loader->memory.held += held;
	return lacking;
}

/* For a batch that is in no list: reads again the samples that lacked memory when they were read
 * ahead. The taker does so itself. Earlier batches may have been given back since then. If that is
 * not enough, drops what is read ahead. Under the loader lock, which it releases. */
static void batch_again(struct lmdbio_loader *loader, struct batch *batch)
{
	if (!read_lacking(loader, batch) || !ahead_drop(loader))
		return;
	(void)read_lacking(loader, batch);
	epoch_run_on(loader);
}

/* --- batches ---------------------------------------------------------------------------------- */

enum { PLAN_TRIES = 2 };

void batch_free(struct batch *batch)
{
	for (size_t i = 0; i < batch->shown.count && batch->memory; i++)
		if (batch->memory[i])
			sample_memory_free(batch->loader, batch->memory[i]);
	free(batch->memory);
	free(batch->samples);
	free(batch->works);
	free(batch->shown.decoded);
	free(batch);
}

void loader_release(struct lmdbio_loader *loader)
{
	bool last = !--loader->references;

	pthread_mutex_unlock(&loader->lock);
	if (last)
		loader_free(loader);
}

/* The claims of the takers that wait: to the first batches, one for each. Claims have no names. So
 * any taker may take the first of these batches that is ready, and a claim that is given up leaves
 * no gap. */
struct claims {
	struct batch **ready; /* NULL: none of the batches is ready */
	bool planned;	      /* all of them are in the list */
	uint64_t round; /* of the last batch; if it is not planned, of the last planned before it */
};

static struct claims claims_find(struct lmdbio_loader *loader)
{
	struct claims claims = {.round = loader->plan.round};
	struct batch **link = &loader->ahead.first;
	unsigned i;

	for (i = 0; *link && i < loader->takers.waiting; i++, link = &(*link)->next) {
		if (!claims.ready && (*link)->state == BATCH_READY)
			claims.ready = link;
		/* A sweep reads the last samples of a batch many rounds after it has planned it. */
		if (i + 1 == loader->takers.waiting || (*link)->round > claims.round)
			claims.round = (*link)->round;
	}
	claims.planned = i == loader->takers.waiting;
	return claims;
}

static void note_stall(struct lmdbio_loader *loader, const struct batch *batch, uint64_t ns)
{
	struct lmdbio_loader_stats *stats = &loader->stats;
	unsigned at;

	ns += loader->takers.gave_up_ns;
	loader->takers.gave_up_ns = 0;
	at = ns < 1000 ? 0 : 64 - (unsigned)__builtin_clzll(ns / 1000);

	stats->stalls[at < LMDBIO_STALLS ? at : LMDBIO_STALLS - 1]++;
	stats->stall_ns += ns;
	stats->batches++;
	stats->samples += batch->shown.count;
	if (batch->shown.number + 1 == order_batches(&loader->order))
		loader->epoch.ended = clock_now();
}

/* Returns the first error of a batch's samples, or 0. *errors: how many samples have one. */
static int batch_error(const struct batch *batch, uint64_t *errors)
{
	int rc = 0;

	*errors = 0;
	for (size_t i = 0; i < batch->shown.count; i++) {
		*errors += batch->samples[i].error != 0;
		if (!rc)
			rc = batch->samples[i].error;
	}
	return rc;
}

/* Takes a ready batch out of the list. Returns 0 or its first error. Under the loader lock, which
 * it releases to read a sample once more. */
static int take(struct lmdbio_loader *loader, struct batch **link)
{
	struct batch *batch = *link;
	uint64_t errors;
	int rc;

	*link = batch->next;
	if (loader->ahead.last == &batch->next)
		loader->ahead.last = link;
	batch->next = NULL;
	loader->ahead.samples -= batch->shown.count;
	loader->ahead.batches--;
	crew_wake_all(&loader->planner);
	if (batch_error(batch, &errors))
		batch_again(loader, batch);
	rc = batch_error(batch, &errors);
	loader->stats.errors += errors;
	return loader->options.skip_errors ? 0 : rc;
}

/* Waits for a batch of the running epoch. Returns 0; ECANCELED; or ENOMEM, ETIMEDOUT: the claim is
 * given up, and another call gets the batch. *waited: no batch was ready. Under the loader lock. */
static int wait_for(struct lmdbio_loader *loader, uint64_t until, struct batch ***link,
		    bool *waited)
{
	unsigned generation = loader->generation, tries = 0;
	struct claims claims;
	int rc = 0;

	*waited = false;
	for (;;) {
		if (loader->closing || loader->generation != generation)
			return ECANCELED;
		claims = claims_find(loader);
		*link = claims.ready;
		if (*link)
			break;
		if (!claims.planned && loader->plan.out_of_memory) {
			/* Memory may be there again: each call has the planner try twice. */
			if (++tries > PLAN_TRIES) {
				rc = ENOMEM;
				break;
			}
			loader->plan.out_of_memory = false;
			crew_wake_all(&loader->planner);
		}
		/* The taker must get this batch, however short memory is. */
		if (claims.round > loader->takers.waited_round) {
			loader->takers.waited_round = claims.round;
			crew_wake_all(&loader->planner);
		}
		crew_wake_all(&loader->readers);
		pthread_cond_broadcast(&loader->turn);
		*waited = true;
		if (clock_now() >= until) {
			rc = ETIMEDOUT;
			break;
		}
		(void)clock_wait(&loader->ready, &loader->lock, until);
	}
	loader->takers.waiting--;
	if (rc)
		loader->epoch.next--;
	return rc;
}

static void give_back(struct lmdbio_loader *loader, struct batch *batch)
{
	loader->memory.held -= batch->held;
	loader->memory.decoded -= decoded_bytes(loader, batch->shown.count);
	loader->plan.out_of_memory = false;
	crew_wake_all(&loader->readers);
	crew_wake_all(&loader->planner);
	batch_free(batch);
}

int loader_next_within(struct lmdbio_loader *loader, uint64_t ns, struct lmdbio_batch **shown)
{
	uint64_t began = clock_now(), until = ns < CLOCK_NEVER - began ? began + ns : CLOCK_NEVER;
	struct batch **link, *batch;
	bool waited;
	int rc;

	*shown = NULL;
	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	while (loader->takers.shrinking && !loader->closing)
		if (!clock_wait(&loader->still, &loader->lock, until))
			break;
	rc = loader->closing                                       ? ECANCELED
	     : loader->takers.shrinking                            ? ETIMEDOUT
	     : loader->life == LIFE_CHANGING                       ? ECANCELED
	     : loader->life != LIFE_RUNNING                        ? EINVAL
	     : loader->epoch.next >= order_batches(&loader->order) ? MDB_NOTFOUND
								   : 0;
	if (rc) {
		loader_release(loader);
		return rc;
	}
	loader->epoch.next++;
	loader->takers.waiting++;
	if (loader->takers.waiting > loader->takers.waiting_most)
		loader->takers.waiting_most = loader->takers.waiting;
	began = clock_now();
	rc = wait_for(loader, until, &link, &waited);
	if (waited)
		stats_waited(began);
	if (rc == ETIMEDOUT)
		loader->takers.gave_up_ns += clock_now() - began;
	if (!rc) {
		batch = *link;
		note_stall(loader, batch, clock_now() - began);
		rc = take(loader, link);
		if (rc) {
			give_back(loader, batch);
		} else {
			*shown = &batch->shown;
			/* The batch keeps the call's reference. */
			pthread_mutex_unlock(&loader->lock);
			return 0;
		}
	}
	loader_release(loader);
	return rc;
}

int loader_next(struct lmdbio_loader *loader, struct lmdbio_batch **batch)
{
	return loader_next_within(loader, CLOCK_NEVER, batch);
}

void loader_done(struct lmdbio_batch *shown)
{
	struct batch *batch = (struct batch *)shown;
	struct lmdbio_loader *loader;

	if (!batch)
		return;
	loader = batch->loader;
	if (!loader_is_here(loader)) {
		/* A thread that this process does not have may have held the loader lock. */
		batch_free(batch);
		return;
	}
	pthread_mutex_lock(&loader->lock);
	give_back(loader, batch);
	loader_release(loader);
}

void loader_quiet(struct lmdbio_loader *loader, bool begin_it)
{
	if (!(loader = loader_enter(loader)))
		return;
	pthread_mutex_lock(&loader->lock);
	if (begin_it) {
		loader->reads.quiet++;
	} else if (loader->reads.quiet && !--loader->reads.quiet) {
		crew_wake_all(&loader->readers);
		pthread_cond_broadcast(&loader->turn);
	}
	loader_release(loader);
}
