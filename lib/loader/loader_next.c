/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how batches go to those who use them and come back, and how an epoch
 * begins.
 */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* Stops all reading ahead and forgets it. What is under way is waited for, which takes no longer
 * than a read. Under the lock, which it takes down meanwhile. */
static void drop_all(struct lmdbio_loader *loader)
{
	struct batch *batch;

	loader->begun = false;
	loader->generation++;
	loader->dropping++;
	pieces_drop(loader);
	pthread_cond_broadcast(&loader->ready);
	while (loader->reading || loader->planning || loader->decoding)
		pthread_cond_wait(&loader->still, &loader->lock);
	sweep_drop(loader);
	while ((batch = loader->first)) {
		loader->first = batch->next;
		loader->held -= batch->held;
		batch_free(batch);
	}
	loader->last = &loader->first;
	loader->ahead = loader->batches_ahead = 0;
	loader->round_samples = 0;
	loader->out_of_memory = false;
	loader->dropping--;
}

/* Whether what is read ahead begins with this batch. */
static bool is_ahead(const struct lmdbio_loader *loader, uint64_t epoch, uint64_t number)
{
	if (!loader->begun)
		return false;
	if (loader->first)
		return loader->first->shown.epoch == epoch && loader->first->shown.number == number;
	return loader->plan_epoch == epoch && loader->plan_next == number;
}

static void begin(struct lmdbio_loader *loader, uint64_t epoch, uint64_t number)
{
	uint64_t all = order_batches(&loader->order);

	if (!is_ahead(loader, epoch, number)) {
		drop_all(loader);
		loader->plan_epoch = number < all ? epoch : epoch + 1;
		loader->plan_next = number < all ? number : 0;
	}
	loader->epoch = epoch;
	loader->next = number;
	loader->begun = true;
	loader->waited_round = 0;
	loader->stats.stall_ns = 0;
	loader->epoch_began = clock_now();
	loader->epoch_ended = 0;
	loader->storage_before = stats_get(STATS_STORAGE_BYTES);
	pthread_cond_broadcast(&loader->room);
	pthread_cond_broadcast(&loader->batch);
	pthread_cond_broadcast(&loader->work);
}

int loader_epoch(struct lmdbio_loader *loader, uint64_t epoch)
{
	int rc = 0;

	if (epoch >> 48)
		return EINVAL;
	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	if (loader->closing)
		rc = ECANCELED;
	else
		begin(loader, epoch, 0);
	loader_release(loader);
	return rc;
}

int loader_save(struct lmdbio_loader *loader, uint8_t state[ORDER_STATE])
{
	int rc = 0;

	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	if (loader->begun)
		order_save(&loader->order, loader->epoch, loader->next, state);
	else
		rc = EINVAL;
	loader_release(loader);
	return rc;
}

int loader_restore(struct lmdbio_loader *loader, const uint8_t state[ORDER_STATE])
{
	uint64_t epoch, number;
	struct order order;
	int rc;

	rc = order_restore(&order, &epoch, &number, state);
	if (rc)
		return rc;
	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	if (order.spec.records != index_records(loader->index)) {
		rc = EINVAL;
	} else if (loader->closing) {
		rc = ECANCELED;
	} else {
		drop_all(loader);
		loader->order = order;
		begin(loader, epoch, number);
	}
	loader_release(loader);
	return rc;
}

static struct batch **batch_find(struct lmdbio_loader *loader, uint64_t epoch, uint64_t number)
{
	struct batch **link = &loader->first;

	while (*link && ((*link)->shown.epoch != epoch || (*link)->shown.number != number))
		link = &(*link)->next;
	return link;
}

static void note_stall(struct lmdbio_loader *loader, const struct batch *batch, uint64_t ns)
{
	struct lmdbio_loader_stats *stats = &loader->stats;
	unsigned at = ns < 1000 ? 0 : 64 - (unsigned)__builtin_clzll(ns / 1000);

	stats->stalls[at < LMDBIO_STALLS ? at : LMDBIO_STALLS - 1]++;
	stats->stall_ns += ns;
	stats->batches++;
	stats->samples += batch->shown.count;
	if (batch->shown.number + 1 == order_batches(&loader->order))
		loader->epoch_ended = clock_now();
}

/* Takes a batch that is ready out of the list. Returns 0 or its first error. */
static int take(struct lmdbio_loader *loader, struct batch **link)
{
	struct batch *batch = *link;
	int rc = 0;

	*link = batch->next;
	if (loader->last == &batch->next)
		loader->last = link;
	batch->next = NULL;
	loader->ahead -= batch->shown.count;
	loader->batches_ahead--;
	for (size_t i = 0; i < batch->shown.count; i++) {
		loader->stats.errors += batch->samples[i].error != 0;
		if (!rc)
			rc = batch->samples[i].error;
	}
	pthread_cond_broadcast(&loader->room);
	return loader->options.skip_errors ? 0 : rc;
}

/* Under the lock. */
static int wait_for(struct lmdbio_loader *loader, uint64_t number, struct batch ***link)
{
	unsigned generation = loader->generation;
	uint64_t epoch = loader->epoch, round;

	for (;;) {
		if (loader->closing || loader->generation != generation)
			return ECANCELED;
		*link = batch_find(loader, epoch, number);
		if (**link && (**link)->state == BATCH_READY)
			return 0;
		if (!loader->first && loader->out_of_memory)
			return ENOMEM;
		/* What stands between this batch and its reader must not be memory. */
		round = **link ? (**link)->round : loader->round;
		if (round > loader->waited_round)
			loader->waited_round = round;
		pthread_cond_broadcast(&loader->work);
		pthread_cond_broadcast(&loader->turn);
		pthread_cond_wait(&loader->ready, &loader->lock);
	}
}

static void give_back(struct lmdbio_loader *loader, struct batch *batch)
{
	loader->held -= batch->held;
	loader->out_of_memory = false;
	pthread_cond_broadcast(&loader->work);
	pthread_cond_broadcast(&loader->room);
	batch_free(batch);
}

int loader_next(struct lmdbio_loader *loader, struct lmdbio_batch **shown)
{
	struct batch **link, *batch;
	uint64_t number, began;
	int rc;

	*shown = NULL;
	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	rc = loader->closing                                 ? ECANCELED
	     : !loader->begun                                ? loader->dropping ? ECANCELED : EINVAL
	     : loader->next >= order_batches(&loader->order) ? MDB_NOTFOUND
							     : 0;
	if (rc) {
		loader_release(loader);
		return rc;
	}
	number = loader->next++;
	loader->waiting++;
	began = clock_now();
	rc = wait_for(loader, number, &link);
	loader->waiting--;
	if (!rc) {
		batch = *link;
		note_stall(loader, batch, clock_now() - began);
		rc = take(loader, link);
		if (rc) {
			give_back(loader, batch);
		} else {
			batch->out = true;
			*shown = &batch->shown;
			/* The call's reference goes on as the batch's. */
			pthread_mutex_unlock(&loader->lock);
			return 0;
		}
	}
	loader_release(loader);
	return rc;
}

void loader_done(struct lmdbio_batch *shown)
{
	struct batch *batch = (struct batch *)shown;
	struct lmdbio_loader *loader;

	if (!batch)
		return;
	loader = batch->loader;
	if (!loader_is_here(loader)) {
		/* The lock may have been held by a thread that this process does not have. */
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
		loader->quiet++;
	} else if (loader->quiet && !--loader->quiet) {
		pthread_cond_broadcast(&loader->work);
		pthread_cond_broadcast(&loader->turn);
	}
	loader_release(loader);
}
