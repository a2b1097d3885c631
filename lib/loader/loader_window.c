/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes batches ahead of need, and asks the file for their records.
 *
 * A round is as many batches as memory holds. Its records are read in the order of the file, so
 * that neighbours come in one read, while consumers use the round before and make room: two halves
 * of a buffer in turn whose border moves. The first round is two batches, and each next round is
 * some times as long, so that the first batch comes at once. Where records are so far apart that no
 * reads would be merged, rounds stay short. Where all reads would be merged, sweeps take the place
 * of rounds (loader_sweep.c). */
#include "loader/loader_private.h"

#include "util/stats.h"

#include "window/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES_AHEAD = 1 << 16, /* in memory that is not copied, and of the smallest records */
	SAMPLES_MOST = 1 << 20,
	ROUND_LEAST = 2,        /* batches */
	APART_ROUND = 32 << 20, /* bytes of a round in which no reads can be merged */
	ROUND_READY = 1024,     /* samples of a round of which nothing has to be read */
	GROWTH = 2,             /* of rounds */
	GROWTH_STARVED = 8,     /* while a consumer waits that would use more */
};

/* Returns how many samples the next round may have. Under the loader lock. */
static uint64_t round_size(struct lmdbio_loader *loader, uint64_t share)
{
	uint64_t size = record_bytes(loader), most = SAMPLES_AHEAD, merged;

	if (loader->memory.copies) {
		most = memory_most(loader) / size;
		merged = loader->data.bytes / (most ? most : 1);
		if (merged > 2 * loader_gap(loader) && most > APART_ROUND / size)
			most = APART_ROUND / size;
	}
	if (most > SAMPLES_MOST)
		most = SAMPLES_MOST;
	if (most > loader->memory.outputs / 2)
		most = loader->memory.outputs / 2;
	if (loader->plan.round_samples < ROUND_LEAST * share)
		loader->plan.round_samples = ROUND_LEAST * share;
	if (loader->plan.round_samples > most)
		loader->plan.round_samples = most;
	return loader->plan.round_samples > share ? loader->plan.round_samples : share;
}

/* Whether there is room for another round. Under the loader lock. */
static bool has_room(const struct lmdbio_loader *loader)
{
	if (loader->plan.sweep.sectors)
		return sweep_has_room(loader);
	if (loader->life != LIFE_RUNNING || loader->closing || loader->plan.out_of_memory ||
	    loader->plan.epoch > loader->epoch.number + 1 || loader->reads.first)
		return false;
	if (loader->options.ahead && loader->ahead.batches >= loader->options.ahead)
		return false;
	/* With more ranks than samples in a batch, some ranks have none. */
	if (loader->ahead.batches >= SAMPLES_AHEAD)
		return false;
	return !loader->ahead.samples ||
	       (loader->ahead.samples <= loader->memory.outputs / 2 &&
		loader->ahead.samples <=
			(loader->memory.copies ? loader->plan.round_samples : SAMPLES_AHEAD));
}

static struct batch *batch_new(struct lmdbio_loader *loader, uint64_t epoch, uint64_t number,
			       size_t count)
{
	struct batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->loader = loader;
	batch->samples = calloc(count + 1, sizeof(*batch->samples));
	batch->works = calloc(count + 1, sizeof(*batch->works));
	batch->memory = calloc(count + 1, sizeof(*batch->memory));
	if (loader->options.decode)
		batch->shown.decoded = calloc(count + 1, loader->options.decode_size + 1);
	if (!batch->samples || !batch->works || !batch->memory ||
	    (loader->options.decode && !batch->shown.decoded)) {
		batch_free(batch);
		return NULL;
	}
	batch->shown.epoch = epoch;
	batch->shown.number = number;
	batch->shown.count = count;
	batch->shown.samples = batch->samples;
	return batch;
}

/* Takes a record that need not be read. Returns whether it has come. */
static bool take_here(struct lmdbio_loader *loader, struct batch_plan *plan, struct work *work)
{
	uint64_t record = work->batch->samples[work->slot].record;
	struct tier_record found;

	/* A record that has just gone from memory is looked for once more: a peer may have it. */
	for (unsigned i = 0; i < 2; i++) {
		work->tier = tiers_choose(&loader->tiers, record);
		if (work->tier->source != SOURCE_MEMORY)
			return false;
		if (!work->tier->ops->fetch(work->tier->state, record, &found)) {
			tier_done(work->tier, 1, 1);
			sample_fill(work, &found);
			plan->memory_bytes += found.data.mv_size;
			return true;
		}
		tier_done(work->tier, 1, 0);
	}
	work->tier = tiers_file(&loader->tiers);
	atomic_fetch_add(&work->tier->queue, 1);
	return false;
}

static int plan_batch(struct lmdbio_loader *loader, struct batch_plan *plan,
		      const struct order_epoch *at, uint64_t number)
{
	const struct lmdbio_loader_options *options = &loader->options;
	uint32_t share = order_share(&at->order, options->ranks, options->rank);
	struct batch *batch = batch_new(loader, at->epoch, number, share);

	if (!batch)
		return ENOMEM;
	batch->round = plan->round;
	*plan->last = batch;
	plan->last = &batch->next;
	plan->batches++;
	plan->samples += share;
	for (uint32_t i = 0; i < share; i++) {
		struct lmdbio_sample *sample = &batch->samples[i];
		struct work *work = &batch->works[i];

		sample->record = order_record(
			at, order_slot(&at->order, options->ranks, options->rank, number, i));
		if (sample->record == ORDER_NONE)
			continue;
		*work = (struct work){.batch = batch, .slot = i};
		sample->error = index_find(loader->data.index, sample->record, &work->place);
		if (!sample->error && !take_here(loader, plan, work)) {
			plan->works[plan->n++] = work;
			batch->missing++;
		}
	}
	return 0;
}

/* In a database that stays in memory: shows records that are there already as they are. */
static void take_covered(struct lmdbio_loader *loader, struct batch_plan *plan,
			 struct snapshot *snapshot)
{
	struct store *store = snapshot->view.runs;
	size_t left = 0;

	for (size_t i = 0; i < plan->n; i++) {
		struct work *work = plan->works[i];
		struct lmdbio_sample *sample = &work->batch->samples[work->slot];
		bool covered = work->tier->source == SOURCE_FILE && !sample->error &&
			       (!store || store_covers(store, work->offset, work->length));

		if (!covered) {
			plan->works[left++] = work;
			continue;
		}
		plan->memory_bytes += sample_take(loader, snapshot, NULL, work, SOURCE_MEMORY);
		tier_done(work->tier, 1, 0);
		work->batch->missing--;
	}
	plan->n = left;
}

void plan_publish(struct lmdbio_loader *loader, struct batch_plan *plan, struct piece *pieces)
{
	*loader->ahead.last = plan->first;
	loader->ahead.last = plan->last;
	loader->ahead.samples += plan->samples;
	loader->ahead.batches += plan->batches;
	loader->memory.decoded += decoded_bytes(loader, plan->samples);
	loader->stats.memory_bytes += plan->memory_bytes;
	stats_add(STATS_LOADER_MEMORY_BYTES, plan->memory_bytes);
	pieces_put(loader, pieces);
	for (struct batch *batch = plan->first; batch; batch = batch->next)
		if (!batch->missing)
			batch_came(loader, batch, 0);
}

void plan_drop(struct batch_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		tier_done(plan->works[i]->tier, 1, 0);
	for (struct batch *batch = plan->first, *next; batch; batch = next) {
		next = batch->next;
		batch_free(batch);
	}
}

int plan_batches(struct lmdbio_loader *loader, struct batch_plan *plan, uint64_t batches,
		 uint64_t *epoch, uint64_t *number)
{
	uint64_t all = order_batches(&loader->order), last = *epoch + (*number != 0);
	struct order_epoch at;
	int rc = 0;

	order_begin(&at, &loader->order, *epoch);
	tiers_epoch(&loader->tiers, *epoch);
	while (batches-- && !rc) {
		rc = plan_batch(loader, plan, &at, *number);
		if (++*number < all)
			continue;
		*number = 0;
		if (++*epoch > last)
			break;
		order_begin(&at, &loader->order, *epoch);
		tiers_epoch(&loader->tiers, *epoch);
	}
	return rc;
}

/* Does everything about a round that needs no lock. Returns its pieces, and where the next round
 * begins; *rc is 0 or ENOMEM. */
static struct piece *plan_pieces(struct lmdbio_loader *loader, struct batch_plan *plan,
				 uint64_t batches, uint64_t *epoch, uint64_t *number, int *rc)
{
	struct snapshot snapshot = loader_view(loader);
	struct piece *pieces;
	size_t cut, found;

	*rc = plan_batches(loader, plan, batches, epoch, number);
	if (*rc)
		return NULL;
	found = works_locate(loader, plan);
	/* Samples whose place cannot be told end here. */
	for (; plan->n > found; plan->n--) {
		tier_done(plan->works[plan->n - 1]->tier, 1, 0);
		plan->works[plan->n - 1]->batch->missing--;
	}
	if (!loader->memory.copies)
		take_covered(loader, plan, &snapshot);
	pieces = works_cut(loader, plan, &cut);
	if (cut < plan->n)
		*rc = ENOMEM;
	return loader->memory.copies && plan->round % 2 ? pieces_turned(pieces) : pieces;
}

/* Returns how many batches the next round may have. Under the loader lock. */
static uint64_t batches_next(struct lmdbio_loader *loader, uint32_t share)
{
	uint64_t batches = round_size(loader, share) / share;
	const struct lmdbio_loader_options *options = &loader->options;

	if (batches > SAMPLES_AHEAD)
		batches = SAMPLES_AHEAD;
	if (loader->plan.most && batches > loader->plan.most)
		batches = loader->plan.most;
	loader->plan.round_samples =
		batches * share *
		(loader->memory.copies && loader->takers.waiting ? GROWTH_STARVED : GROWTH);
	if (options->ahead && batches > options->ahead - loader->ahead.batches)
		batches = options->ahead - loader->ahead.batches;
	return batches;
}

void plan_went(struct lmdbio_loader *loader, uint64_t batches, int rc)
{
	if (!rc) {
		loader->plan.most *= 2;
		if (loader->plan.most > SAMPLES_AHEAD)
			loader->plan.most = 0;
	} else if (batches > 1) {
		loader->plan.most = batches / 2;
	} else {
		loader->plan.out_of_memory = true;
	}
}

/* Plans the next round. Under the loader lock, which it releases while it computes. */
static void plan_round(struct lmdbio_loader *loader)
{
	uint32_t share = order_share(&loader->order, loader->options.ranks, loader->options.rank);
	uint64_t epoch = loader->plan.epoch, number = loader->plan.next, batches;
	unsigned generation = loader->generation;
	struct batch_plan plan = {.last = &plan.first, .round = ++loader->plan.round};
	struct piece *pieces = NULL;
	int rc = 0;

	batches = batches_next(loader, share ? share : 1);
	pthread_mutex_unlock(&loader->lock);
	plan.works = calloc(batches * share + 1, sizeof(*plan.works));
	if (plan.works)
		pieces = plan_pieces(loader, &plan, batches, &epoch, &number, &rc);
	else
		rc = ENOMEM;
	pthread_mutex_lock(&loader->lock);
	if (rc || generation != loader->generation || loader->closing) {
		pieces_free(pieces);
		plan_drop(&plan);
		loader->plan.round_samples = 0;
	} else {
		plan_publish(loader, &plan, pieces);
		/* The next round will be like this one, and had better come soon. */
		if (!pieces && loader->plan.round_samples > ROUND_READY)
			loader->plan.round_samples = ROUND_READY;
		loader->plan.epoch = epoch;
		loader->plan.next = number;
	}
	if (generation == loader->generation)
		plan_went(loader, batches, rc);
	free(plan.works);
}

/* A step of the crew, which is one thread. */
static uint64_t planner_step(void *owner)
{
	struct lmdbio_loader *loader = owner;

	if (!has_room(loader) || !order_batches(&loader->order))
		return CLOCK_NEVER;
	loader->plan.busy = true;
	if (loader->plan.sweep.sectors || sweep_begin(loader))
		sweep_step(loader);
	else
		plan_round(loader);
	loader->plan.busy = false;
	pthread_cond_broadcast(&loader->still);
	pthread_cond_broadcast(&loader->ready);
	return 0;
}

const struct crew_work planner_work = {
	.name = "lmdbio-planner",
	.step = planner_step,
	.serves = true,
};
