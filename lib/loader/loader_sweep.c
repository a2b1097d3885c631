/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a shuffled epoch out of a file that memory cannot hold. One way through the file brings
 * nearly twice as many records as memory holds.
 *
 * A round of as many records as memory holds would need a whole way through the file. A sweep never
 * stops: it goes around the file, sector by sector. Of each sector it takes all records of the
 * window that it has not taken before. The window is the batches of the W samples that are used
 * next. A batch that has just come into the window is complete one way around later, when it is
 * used. So on average a record of the window has half a way behind it, and memory holds W / 2
 * records for W used in each way (the snowplow of replacement selection: Knuth, TAOCP 3, 5.4.1). On
 * the first way the window grows with the sectors, so that this way ends as every other way does.
 *
 * No taker waits for ever. A batch is complete when all sectors have been read after it was
 * planned. Pieces of these steps do not wait for memory when a taker waits for the batch. Steps go
 * on, with no new batches if need be or if memory is short, until the batch's step has been
 * planned. */
#include "loader/loader_private.h"

#include <errno.h>
#include <stdlib.h>

enum {
	SECTORS_LEAST = 4, /* with fewer sectors a round is as good */
	SAMPLE_SPENT = sizeof(struct work) + sizeof(struct lmdbio_sample) + 2 * sizeof(void *),
	BEGIN = 16, /* once a round has 1 / this of a window's samples or more, sweeps begin */
	ROOM_LEAST = 64,
};

/* Returns how many samples of each batch are this rank's: 1 or more while sweeps go on. */
static uint32_t share_of(const struct lmdbio_loader *loader)
{
	return order_share(&loader->order, loader->options.ranks, loader->options.rank);
}

/* Returns how many samples of a window memory can hold. */
static uint64_t window_size(const struct lmdbio_loader *loader)
{
	uint64_t each = loader->memory.copied_samples
				? loader->memory.copied_bytes / loader->memory.copied_samples
				: record_bytes(loader);
	uint64_t window = loader->memory.most / (each / 2 + SAMPLE_SPENT), share = share_of(loader);
	uint64_t epoch = order_batches(&loader->order) * share;

	if (loader->options.ahead && window / share > loader->options.ahead)
		window = loader->options.ahead * share;
	if (window > loader->memory.outputs)
		window = loader->memory.outputs;
	return window < epoch ? window : epoch;
}

bool sweep_begin(struct lmdbio_loader *loader)
{
	uint64_t window, sectors, share = share_of(loader), gap = loader_gap(loader);

	/* The window counts samples, so it would not bound the batches of a rank that has none. */
	if (!share)
		return false;
	if (!loader->memory.copies || loader->job.sharers || loader->tiers.count ||
	    loader->order.spec.policy != ORDER_SHUFFLE || !loader->plan.round_samples)
		return false;
	window = window_size(loader);
	sectors = window / share;
	if (sectors < SECTORS_LEAST || loader->data.bytes / window > gap)
		return false;
	/* A round as long as the next would read nearly the whole file anyway. */
	if (loader->data.bytes / loader->plan.round_samples > gap &&
	    loader->plan.round_samples < window / BEGIN)
		return false;
	loader->plan.sweep.sectors = sectors < SWEEP_SECTORS ? (unsigned)sectors : SWEEP_SECTORS;
	loader->plan.sweep.window = window;
	loader->plan.sweep.at = 0;
	return true;
}

/* Returns how many batches the next step may plan. */
static uint64_t batches_next(const struct lmdbio_loader *loader)
{
	const struct sweep *sweep = &loader->plan.sweep;
	uint64_t share = share_of(loader), window = sweep->window;
	uint64_t step = window / sweep->sectors / share;

	if (loader->plan.epoch > loader->epoch.number + 1 || loader->plan.out_of_memory)
		return 0;
	if (loader->plan.most && step > loader->plan.most)
		step = loader->plan.most;
	if (memory_most(loader) < loader->memory.most)
		window = (uint64_t)((unsigned __int128)window * memory_most(loader) /
				    loader->memory.most);
	/* Batches that rounds before the sweep have planned count as well. */
	if (loader->ahead.samples && loader->ahead.samples + step * share > window)
		return 0;
	return step;
}

bool sweep_has_room(const struct lmdbio_loader *loader)
{
	if (loader->life != LIFE_RUNNING || loader->closing)
		return false;
	/* While a step is being read, the one after it is asked for. */
	if (loader->reads.first && loader->reads.first->round != loader->plan.round)
		return false;
	return loader->takers.waited_round > loader->plan.round || batches_next(loader);
}

static struct sweep_sector *sector_of(struct lmdbio_loader *loader, const struct work *work)
{
	uint64_t pages = loader->data.txn->snapshot.view.limit;
	uint64_t sector = work->place.page < pages
				  ? (uint64_t)((unsigned __int128)work->place.page *
					       loader->plan.sweep.sectors / pages)
				  : 0;

	return &loader->plan.sweep.sector[sector];
}

/* Makes room for a plan's works in their sectors. The planner's alone. Returns 0 or ENOMEM. */
static int sectors_reserve(struct lmdbio_loader *loader, const struct batch_plan *plan)
{
	size_t wanted[SWEEP_SECTORS] = {0};

	for (size_t i = 0; i < plan->n; i++)
		wanted[sector_of(loader, plan->works[i]) - loader->plan.sweep.sector]++;
	for (unsigned i = 0; i < loader->plan.sweep.sectors; i++) {
		struct sweep_sector *sector = &loader->plan.sweep.sector[i];
		size_t room = sector->n + wanted[i];
		struct work **works;

		if (room <= sector->room)
			continue;
		room += room / 2 + ROOM_LEAST;
		works = realloc(sector->works, room * sizeof(*works));
		if (!works)
			return ENOMEM;
		sector->works = works;
		sector->room = room;
	}
	return 0;
}

static void sectors_fill(struct lmdbio_loader *loader, const struct batch_plan *plan)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct sweep_sector *sector = sector_of(loader, plan->works[i]);

		sector->works[sector->n++] = plan->works[i];
	}
}

/* The first half of a step: moves the window on, unless there is no memory for new batches. Batches
 * that are planned need the step all the same. Under the loader lock, which it releases while it
 * computes. Returns false if the step must not be made after all. */
static bool window_move(struct lmdbio_loader *loader)
{
	uint64_t batches = batches_next(loader), epoch = loader->plan.epoch,
		 number = loader->plan.next;
	struct batch_plan plan = {.last = &plan.first, .round = ++loader->plan.round};
	unsigned generation = loader->generation;
	int rc = 0;

	if (!batches)
		return true;
	pthread_mutex_unlock(&loader->lock);
	plan.works = calloc(batches * share_of(loader) + 1, sizeof(*plan.works));
	if (plan.works)
		rc = plan_batches(loader, &plan, batches, &epoch, &number);
	if (!plan.works || (!rc && sectors_reserve(loader, &plan)))
		rc = ENOMEM;
	pthread_mutex_lock(&loader->lock);
	if (rc || generation != loader->generation || loader->closing) {
		plan_drop(&plan);
	} else {
		for (struct batch *batch = plan.first; batch; batch = batch->next)
			batch->round += loader->plan.sweep.sectors - 1;
		sectors_fill(loader, &plan);
		plan_publish(loader, &plan, NULL);
		loader->plan.epoch = epoch;
		loader->plan.next = number;
	}
	free(plan.works);
	if (generation != loader->generation || loader->closing)
		return false;
	plan_went(loader, batches, rc);
	return true;
}

/* Ends samples that will not come, for lack of memory or because their place cannot be told. */
static void works_fail(struct lmdbio_loader *loader, struct work **works, size_t n, int error)
{
	for (size_t i = 0; i < n; i++) {
		struct batch *batch = works[i]->batch;

		tier_done(works[i]->tier, 1, 0);
		if (error)
			batch->samples[works[i]->slot].error = error;
		batch_came(loader, batch, 1);
	}
}

void sweep_step(struct lmdbio_loader *loader)
{
	struct sweep *sweep = &loader->plan.sweep;
	struct sweep_sector sector;
	struct batch_plan plan = {0};
	struct piece *pieces = NULL;
	unsigned generation;
	size_t n, cut;

	if (!window_move(loader))
		return;
	generation = loader->generation;
	sector = sweep->sector[sweep->at];
	sweep->sector[sweep->at] = (struct sweep_sector){0};
	sweep->at = (sweep->at + 1) % sweep->sectors;
	plan = (struct batch_plan){
		.works = sector.works, .n = sector.n, .round = loader->plan.round};
	pthread_mutex_unlock(&loader->lock);
	n = plan.n;
	plan.n = works_locate(loader, &plan);
	pieces = works_cut(loader, &plan, &cut);
	pthread_mutex_lock(&loader->lock);
	if (generation != loader->generation || loader->closing) {
		pieces_free(pieces);
		plan.n = n;
		plan_drop(&plan);
	} else {
		pieces_put(loader, pieces);
		/* An empty sector has no array of works. */
		if (cut < n) {
			works_fail(loader, plan.works + cut, plan.n - cut, ENOMEM);
			works_fail(loader, plan.works + plan.n, n - plan.n, 0);
		}
	}
	free(sector.works);
}

void sweep_drop(struct lmdbio_loader *loader)
{
	for (unsigned i = 0; i < SWEEP_SECTORS; i++) {
		struct sweep_sector *sector = &loader->plan.sweep.sector[i];

		for (size_t j = 0; j < sector->n; j++)
			tier_done(sector->works[j]->tier, 1, 0);
		free(sector->works);
	}
	loader->plan.sweep = (struct sweep){0};
}
