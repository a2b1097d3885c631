/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens tiers, and chooses the fastest tier for a record. */
#include "loader/loader_tier.h"

#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Storage is shared, so the loader turns from a tier to the file only if that takes less than half
 * the time. */
enum { AVERAGE = 8, EXPLORE = 64, FILE_BETTER = 2, PEER_PATIENCE = 16 };

static int null_open(void **state, const struct tier_setup *setup)
{
	*state = NULL;
	(void)setup;
	return 0;
}

static bool null_has(void *state, uint64_t record)
{
	(void)state, (void)record;
	return false;
}

static int null_fetch(void *state, uint64_t record, struct tier_record *to)
{
	(void)state, (void)record, (void)to;
	return ENOENT;
}

static void null_close(void *state)
{
	(void)state;
}

const struct tier_ops tier_null = {
	.name = "null",
	.open = null_open,
	.has = null_has,
	.fetch = null_fetch,
	.close = null_close,
};

int tier_add(struct tiers *tiers, const struct tier_ops *ops, void *state, enum tier_source source)
{
	struct tier *tier = &tiers->tier[tiers->count];

	if (tiers->count == TIERS)
		return ENOSPC;
	/* The file moves up behind the new tier. */
	memset(tier + 1, 0, sizeof(*tier));
	tier[1].source = SOURCE_FILE;
	tier->ops = ops;
	tier->state = state;
	tier->source = source;
	tiers->count++;
	return 0;
}

void tiers_init(struct tiers *tiers)
{
	memset(tiers, 0, sizeof(*tiers));
	tiers->tier[0].source = SOURCE_FILE;
}

int tier_open(struct tiers *tiers, const struct tier_ops *ops, enum tier_source source,
	      const struct tier_setup *setup)
{
	void *state = NULL;
	int rc = ops->open(&state, setup);

	return rc || !state ? rc : tier_add(tiers, ops, state, source);
}

void tiers_close(struct tiers *tiers)
{
	for (unsigned i = 0; i < tiers->count; i++)
		if (tiers->tier[i].ops->close && !tiers->tier[i].lent)
			tiers->tier[i].ops->close(tiers->tier[i].state);
	tiers->count = 0;
}

static uint64_t finishes(const struct tier *tier)
{
	return atomic_load_explicit(&tier->pace, memory_order_relaxed) *
	       (1 + atomic_load_explicit(&tier->queue, memory_order_relaxed));
}

static bool finishes_first(const struct tier *tier, const struct tier *best, bool planned)
{
	if (best->source != SOURCE_FILE)
		return finishes(tier) <= finishes(best);
	if (tier->source == SOURCE_PEER || planned)
		return atomic_load_explicit(&tier->pace, memory_order_relaxed) <=
		       atomic_load_explicit(&best->pace, memory_order_relaxed) *
			       settings_patience(PEER_PATIENCE);
	return finishes(tier) <= finishes(best) * FILE_BETTER;
}

struct tier *tiers_choose(struct tiers *tiers, uint64_t record)
{
	struct tier *best = tiers_file(tiers);

	for (unsigned i = 0; i < tiers->count; i++) {
		struct tier *tier = &tiers->tier[i];

		if (!tier->ops->has(tier->state, record))
			continue;
		/* A tier of unknown speed is tried. A tier that was slow once is tried again now
		 * and then. */
		if (!atomic_load_explicit(&tier->pace, memory_order_relaxed) ||
		    finishes_first(tier, best, tiers->planned != 0) ||
		    !atomic_load_explicit(&best->pace, memory_order_relaxed) ||
		    atomic_fetch_add_explicit(&tier->turns, 1, memory_order_relaxed) % EXPLORE == 0)
			best = tier;
		if (best->source == SOURCE_MEMORY)
			break;
	}
	atomic_fetch_add_explicit(&best->queue, 1, memory_order_relaxed);
	return best;
}

void tier_done(struct tier *tier, uint64_t n, uint64_t ns)
{
	uint64_t before = atomic_load_explicit(&tier->pace, memory_order_relaxed), now;

	atomic_fetch_sub_explicit(&tier->queue, n, memory_order_relaxed);
	if (!n || !ns)
		return;
	now = ns / n + 1;
	now = before ? (before * (AVERAGE - 1) + now) / AVERAGE : now;
	atomic_store_explicit(&tier->pace, now ? now : 1, memory_order_relaxed);
}

void tiers_offer(struct tiers *tiers, enum tier_source source, uint64_t record, const MDB_val *key,
		 const MDB_val *data)
{
	for (unsigned i = 0; i < tiers->count; i++)
		if (tiers->tier[i].source != source && tiers->tier[i].ops->offer &&
		    !tiers->tier[i].lent)
			(void)tiers->tier[i].ops->offer(tiers->tier[i].state, record, key, data);
}

uint64_t tiers_written(struct tiers *tiers)
{
	uint64_t written = 0;

	for (unsigned i = 0; i < tiers->count; i++)
		if (tiers->tier[i].ops->space)
			written += tiers->tier[i].ops->space(tiers->tier[i].state).written;
	return written;
}

void tiers_epoch(struct tiers *tiers, uint64_t epoch)
{
	for (unsigned i = 0; i < tiers->count; i++)
		if (tiers->tier[i].ops->epoch)
			tiers->tier[i].ops->epoch(tiers->tier[i].state, epoch);
}

enum tier_state tiers_health(struct tiers *tiers, enum tier_source source, bool *there)
{
	enum tier_state worst = TIER_GOOD, state;

	*there = false;
	for (unsigned i = 0; i < tiers->count; i++) {
		if (tiers->tier[i].source != source)
			continue;
		*there = true;
		if (!tiers->tier[i].ops->health)
			continue;
		state = tiers->tier[i].ops->health(tiers->tier[i].state);
		worst = state > worst ? state : worst;
	}
	return worst;
}

bool tier_place(struct tier_record *to, void *memory, const MDB_val *key, const MDB_val *data)
{
	uint8_t *bytes = memory;

	if (!memory)
		return false;
	/* The value comes first, because a program may want it aligned. */
	memcpy(bytes, data->mv_data, data->mv_size);
	memcpy(bytes + data->mv_size, key->mv_data, key->mv_size);
	to->memory = memory;
	to->data = (MDB_val){data->mv_size, bytes};
	to->key = (MDB_val){key->mv_size, bytes + data->mv_size};
	return true;
}

bool tier_copy(struct tier_record *to, const MDB_val *key, const MDB_val *data)
{
	return tier_place(to, malloc(data->mv_size + key->mv_size + 1), key, data);
}
