/* SPDX-License-Identifier: OLDAP-2.8 */
/* Begins an epoch in a loader, saves and restores its order, and drops what was read ahead of it.
 *
 *   LIFE_NONE      no epoch has begun
 *   LIFE_RUNNING   the planner publishes batches, readers and decoders fill them, takers take them
 *   LIFE_CHANGING  one thread, the changer, takes everything down and sets another place
 *
 *   NONE or RUNNING --epoch(), restore()--> CHANGING --> RUNNING; close() sets `closing` in any
 *
 * Only the changer frees batches that no taker has taken, apart from loader_end(), which has joined
 * all threads before. The changer works in four steps, under the loader lock, which it gives up
 * only where it waits:
 *
 * 1. It waits until no other thread is the changer. So a second epoch begins after the first has
 *    begun, never in the middle of it, and the last one holds.
 * 2. It voids all claims, whose takers return ECANCELED, and all plans (`generation`), and drops
 *    the pieces that no reader has begun. From here on the planner publishes nothing, puts no piece
 *    and begins no plan; decoders begin no batch. So readers, too, run out of work.
 * 3. It waits until the planner, all readers and all decoders are still, which takes no longer than
 *    a read. No thread holds a pointer to a batch now.
 * 4. It frees the batches, sets the place, and wakes the planner and the next changer.
 *
 * A taker whose batch lacks memory is a changer, too. It drops what is read ahead, reads its
 * samples into the memory that this gives, and lets the epoch run on from the next batch
 * (`shrinking`). Other takers wait for that.
 *
 * Locks are taken in this order: the list of loaders (loader_open.c), the loader lock, the lock of
 * the sample memory. */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>

enum { SHORT_PART = 2 }; /* 1 / this of the bytes held when memory ran out may be held then */

void batches_drop(struct lmdbio_loader *loader)
{
	struct batch *batch;

	sweep_drop(loader);
	while ((batch = loader->ahead.first)) {
		loader->ahead.first = batch->next;
		loader->memory.held -= batch->held;
		loader->memory.decoded -= decoded_bytes(loader, batch->shown.count);
		batch_free(batch);
	}
	loader->ahead.last = &loader->ahead.first;
	loader->ahead.samples = loader->ahead.batches = 0;
}

/* Does steps 2 to 4 without the place: the caller is the changer until epoch_run_on(). Returns 0,
 * or ECANCELED: the loader is being closed, and there is no changer. */
static int drop_all(struct lmdbio_loader *loader)
{
	loader->life = LIFE_CHANGING;
	loader->generation++;
	loader->takers.waiting = 0;
	pieces_drop(loader);
	pthread_cond_broadcast(&loader->ready);
	while (loader->reads.busy || loader->plan.busy || loader->decoding)
		pthread_cond_wait(&loader->still, &loader->lock);
	if (loader->closing) {
		loader->life = LIFE_NONE;
		pthread_cond_broadcast(&loader->still);
		return ECANCELED;
	}
	batches_drop(loader);
	loader->plan.round_samples = 0;
	return 0;
}

/* Has the planner begin at this batch when the epoch runs. */
static void plan_from(struct lmdbio_loader *loader, uint64_t epoch, uint64_t number)
{
	uint64_t all = order_batches(&loader->order);

	loader->plan.epoch = number < all ? epoch : epoch + 1;
	loader->plan.next = number < all ? number : 0;
}

void epoch_run_on(struct lmdbio_loader *loader)
{
	loader->life = LIFE_RUNNING;
	loader->takers.shrinking = false;
	loader->takers.waited_round = 0;
	loader->plan.out_of_memory = false;
	pthread_cond_broadcast(&loader->still);
	crew_wake_all(&loader->planner);
	crew_wake_all(&loader->decoders);
	crew_wake_all(&loader->readers);
}

/* Whether what is read ahead begins with this batch. Batches that takers wait for are not ahead. */
static bool is_ahead(const struct lmdbio_loader *loader, uint64_t epoch, uint64_t number)
{
	if (loader->life != LIFE_RUNNING || loader->takers.waiting)
		return false;
	if (loader->ahead.first)
		return loader->ahead.first->shown.epoch == epoch &&
		       loader->ahead.first->shown.number == number;
	return loader->plan.epoch == epoch && loader->plan.next == number;
}

/* Sets the place. All that is read ahead begins there, or nothing is read ahead. */
static void run_from(struct lmdbio_loader *loader, uint64_t epoch, uint64_t number)
{
	loader->epoch.number = epoch;
	loader->epoch.next = number;
	loader->plan.most = loader->memory.lacking = 0;
	loader->stats.stall_ns = 0;
	loader->takers.waiting_most = 0;
	loader->takers.gave_up_ns = 0;
	loader->epoch.began = clock_now();
	loader->epoch.ended = 0;
	loader->epoch.storage_before = stats_storage_bytes();
	epoch_run_on(loader);
}

/* Waits for the end of another thread's change. Returns 0 or ECANCELED. */
static int change_await(struct lmdbio_loader *loader)
{
	while (loader->life == LIFE_CHANGING && !loader->closing)
		pthread_cond_wait(&loader->still, &loader->lock);
	return loader->closing ? ECANCELED : 0;
}

/* Begins at a batch of an epoch. `order`: replaces the order before, or NULL. Under the loader
 * lock, which it releases meanwhile. Returns 0 or ECANCELED. */
static int change(struct lmdbio_loader *loader, const struct order *order, uint64_t epoch,
		  uint64_t number)
{
	int rc = change_await(loader);

	if (rc)
		return rc;
	if (order || !is_ahead(loader, epoch, number)) {
		rc = drop_all(loader);
		if (rc)
			return rc;
		if (order)
			loader->order = *order;
		plan_from(loader, epoch, number);
	}
	run_from(loader, epoch, number);
	return 0;
}

bool ahead_drop(struct lmdbio_loader *loader)
{
	uint64_t held = loader->memory.held;

	/* Batches that other takers have a claim to stay. */
	if (loader->life != LIFE_RUNNING || loader->closing || loader->takers.waiting ||
	    !loader->ahead.first)
		return false;
	loader->takers.shrinking = true;
	if (drop_all(loader))
		return false;
	loader->memory.lacking = held / SHORT_PART + 1;
	loader->plan.most = 1;
	plan_from(loader, loader->epoch.number, loader->epoch.next);
	sample_memory_give_up(loader);
	return true;
}

int loader_epoch(struct lmdbio_loader *loader, uint64_t epoch)
{
	int rc;

	if (epoch >> 48)
		return EINVAL;
	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	rc = change(loader, NULL, epoch, 0);
	loader_release(loader);
	return rc;
}

int loader_save(struct lmdbio_loader *loader, uint8_t state[ORDER_STATE])
{
	int rc;

	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	rc = change_await(loader);
	if (!rc && loader->life != LIFE_RUNNING)
		rc = EINVAL;
	if (!rc)
		order_save(&loader->order, loader->epoch.number, loader->epoch.next, state);
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
	rc = order.spec.records == index_records(loader->data.index)
		     ? change(loader, &order, epoch, number)
		     : EINVAL;
	loader_release(loader);
	return rc;
}
