/* SPDX-License-Identifier: OLDAP-2.8 */
/* Does what several threads may do with one batch loader, and with loaders of their own; asks for statistics. */
#include "pairs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct lmdbio_loader_options options = {.size = sizeof(options),
						     .batch = PAIR_BATCH,
						     .order = LMDBIO_ORDER_SHUFFLE,
						     .memory = 300 << 10,
						     .seed = 7};

/* Whether a call of the shared loader has done what it is for. It may find that another thread has begun an epoch or
 * closed the loader. */
static bool is_done(struct actor *actor, const char *what, int rc)
{
	if (rc == ECANCELED && actor->other->cancels)
		return false;
	return actor_has(actor, what, rc, 0);
}

static void judge(struct actor *actor, const struct lmdbio_batch *batch)
{
	actor_has(actor, "samples", (long)batch->count, PAIR_BATCH);
	for (size_t i = 0; i < batch->count; i++) {
		const struct lmdbio_sample *sample = &batch->samples[i];

		if (sample->error || !pair_is_record(&sample->key, &sample->data, sample->record))
			actor_wrong(actor, "sample of record", (long)sample->record);
	}
}

static void takes(struct actor *actor)
{
	struct lmdbio_batch *batch;

	if (!is_done(actor, "lmdbio_loader_next",
		     lmdbio_loader_next(actor->shared->loader, &batch)))
		return;
	judge(actor, batch);
	/* The other thread gives it back, or the loader's end does. */
	lmdbio_batch_done(atomic_exchange(&actor->shared->batch, batch));
}

/* A wait may end without the batch, which the next call then takes. */
static void takes_in_time(struct actor *actor)
{
	uint64_t ns = actor_random(actor, 100000);
	struct lmdbio_batch *batch;
	int rc = lmdbio_loader_next_within(actor->shared->loader, ns, &batch);

	if (rc == ETIMEDOUT || !is_done(actor, "lmdbio_loader_next_within", rc))
		return;
	judge(actor, batch);
	lmdbio_batch_done(batch);
}

static void begins_an_epoch(struct actor *actor)
{
	is_done(actor, "lmdbio_loader_epoch",
		lmdbio_loader_epoch(actor->shared->loader, actor_random(actor, 9)));
}

static void saves(struct actor *actor)
{
	uint8_t state[LMDBIO_LOADER_STATE];

	is_done(actor, "lmdbio_loader_save", lmdbio_loader_save(actor->shared->loader, state));
}

static void restores(struct actor *actor)
{
	uint8_t state[LMDBIO_LOADER_STATE];

	if (is_done(actor, "lmdbio_loader_save", lmdbio_loader_save(actor->shared->loader, state)))
		is_done(actor, "lmdbio_loader_restore",
			lmdbio_loader_restore(actor->shared->loader, state));
}

static void counts(struct actor *actor)
{
	struct lmdbio_loader *loader = actor->shared->loader;
	uint64_t records = lmdbio_loader_records(loader), batches = lmdbio_loader_batches(loader);

	/* 0 is said of one that has been closed. */
	if (actor->other->cancels && (!records || !batches))
		return;
	actor_has(actor, "lmdbio_loader_records", (long)records, PAIR_RECORDS);
	actor_has(actor, "lmdbio_loader_batches", (long)batches, PAIR_RECORDS / PAIR_BATCH);
}

static void keeps_quiet(struct actor *actor)
{
	struct lmdbio_batch *batch;

	lmdbio_loader_quiet(actor->shared->loader, 1);
	if (is_done(actor, "lmdbio_loader_next",
		    lmdbio_loader_next(actor->shared->loader, &batch))) {
		judge(actor, batch);
		lmdbio_batch_done(batch);
	}
	lmdbio_loader_quiet(actor->shared->loader, 0);
}

static void asks(struct actor *actor)
{
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};

	if (is_done(actor, "lmdbio_loader_stats",
		    lmdbio_loader_stats(actor->shared->loader, &stats)))
		actor_has(actor, "errors", (long)stats.errors, 0);
}

static void asks_for_a_verdict(struct actor *actor)
{
	char line[300] = "";
	size_t length = lmdbio_loader_verdict(actor->shared->loader, line, sizeof(line));

	if (!actor->other->cancels && (!length || strlen(line) != length))
		actor_wrong(actor, "lmdbio_loader_verdict", (long)length);
}

static void asks_for_quality(struct actor *actor)
{
	struct lmdbio_quality quality = {.size = sizeof(quality)};

	if (is_done(actor, "lmdbio_loader_quality",
		    lmdbio_loader_quality(actor->shared->loader, 1, 0, 8, &quality)))
		actor_has(actor, "labels", (long)quality.distinct, PAIR_RECORDS);
}

static void closes(struct actor *actor)
{
	lmdbio_loader_close(actor->shared->loader);
}

static void reads_and_closes(struct actor *actor, struct lmdbio_loader *loader)
{
	struct lmdbio_batch *batch = NULL;

	actor_has(actor, "lmdbio_loader_epoch", lmdbio_loader_epoch(loader, 3), 0);
	if (actor_has(actor, "lmdbio_loader_next", lmdbio_loader_next(loader, &batch), 0))
		judge(actor, batch);
	lmdbio_loader_close(loader);
	lmdbio_batch_done(batch);
}

static void opens_its_own(struct actor *actor)
{
	struct lmdbio_loader *loader;

	if (actor_has(actor, "lmdbio_loader_open",
		      lmdbio_loader_open(&loader, actor->shared->path,
					 actor->shared->own & ~(unsigned)MDB_RDONLY, "records",
					 &options),
		      0))
		reads_and_closes(actor, loader);
}

/* Of a database that the program has not opened, too. */
static void attaches_its_own(struct actor *actor)
{
	const char *name = actor_random(actor, 2) ? "records" : "other";
	struct lmdbio_loader *loader;

	if (!actor_has(actor, "lmdbio_loader_attach",
		       lmdbio_loader_attach(&loader, actor->shared->env, name, &options), 0))
		return;
	if (!strcmp(name, "records"))
		reads_and_closes(actor, loader);
	else
		lmdbio_loader_close(loader);
}

static void opens_the_shared_one(struct actor *actor)
{
	struct shared *shared = actor->shared;

	lmdbio_loader_close(shared->loader);
	lmdbio_batch_done(atomic_exchange(&shared->batch, NULL));
	if (actor_has(actor, "lmdbio_loader_open",
		      lmdbio_loader_open(&shared->loader, shared->path,
					 shared->own & ~(unsigned)MDB_RDONLY, "records", &options),
		      0))
		actor_has(actor, "lmdbio_loader_epoch", lmdbio_loader_epoch(shared->loader, 1), 0);
}

/* A loader that is open, in an epoch of which there is enough left. */
static void prepares(struct actor *actor)
{
	struct lmdbio_loader *loader = actor->shared->loader;

	if (!loader || lmdbio_loader_epoch(loader, 1) == ECANCELED)
		opens_the_shared_one(actor);
}

static void asks_for_statistics(struct actor *actor)
{
	struct lmdbio_stats stats = {.size = sizeof(stats)};

	actor_has(actor, "lmdbio_stats", lmdbio_stats(&stats), 0);
	actor_has(actor, "lmdbio_serves", lmdbio_serves(actor->shared->env), LMDBIO_READS);
	actor_has(actor, "lmdbio_version", strlen(lmdbio_version()) > 0, 1);
}

const struct action pair_loader_actions[] = {
	{.functions = "lmdbio_version lmdbio_serves lmdbio_stats", .run = asks_for_statistics},
	{.functions = "lmdbio_loader_open", .run = opens_its_own, .slow = true},
	{.functions = "lmdbio_loader_attach", .run = attaches_its_own, .slow = true},
	{.functions = "lmdbio_loader_next lmdbio_batch_done", .prepare = prepares, .run = takes},
	{.functions = "lmdbio_loader_next_within", .prepare = prepares, .run = takes_in_time},
	{.functions = "lmdbio_loader_epoch",
	 .prepare = prepares,
	 .run = begins_an_epoch,
	 .cancels = true},
	{.functions = "lmdbio_loader_save", .prepare = prepares, .run = saves},
	{.functions = "lmdbio_loader_restore",
	 .prepare = prepares,
	 .run = restores,
	 .cancels = true},
	{.functions = "lmdbio_loader_records lmdbio_loader_batches",
	 .prepare = prepares,
	 .run = counts},
	{.functions = "lmdbio_loader_quiet", .prepare = prepares, .run = keeps_quiet},
	{.functions = "lmdbio_loader_stats", .prepare = prepares, .run = asks},
	{.functions = "lmdbio_loader_verdict", .prepare = prepares, .run = asks_for_a_verdict},
	{.functions = "lmdbio_loader_quality",
	 .prepare = prepares,
	 .run = asks_for_quality,
	 .slow = true},
	{.functions = "lmdbio_loader_close",
	 .prepare = prepares,
	 .run = closes,
	 .cancels = true,
	 .slow = true},
	{0},
};
