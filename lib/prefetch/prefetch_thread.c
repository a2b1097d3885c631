/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the thread that keeps reads in flight.
 *
 * It alone submits and reaps, so that what it has read is shown to others as soon as it has come,
 * however long the program computes between two calls.
 */
#include "prefetch/prefetch_private.h"

#include "util/memory.h"
#include "util/settings.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>

enum {
	AHEAD_MAX = 64 << 20, /* bytes */
	AHEAD_SHARE = 4,      /* of the budget, at most one part in so many */
	KEYS_WAITED = 4096,
	DEPTH_SHARED = 4,         /* reads in flight at least of one of many processes */
	DEPTH_FIT = 2,            /* ... and where memory has room for none */
	MAPPED_JUDGED = 32 << 20, /* bytes, each time that so many have been mapped */
	PREPARE_FROM = 4 << 20,   /* bytes: scans that look so far ahead go on for a while */
	REST_AFTER = CLOCK_SECOND,
};

bool prefetch_want(struct prefetch *prefetch, struct wanted_range range)
{
	return ranges_put(&prefetch->engine.ranges, range);
}

/* As many reads as memory for looking ahead holds, were they all of a chunk; small ones, of
 * announced keys, may be more. Processes that scan together share what one would have twice:
 * more in flight only makes a process that needs one of them wait for all. */
static unsigned prefetch_depth(const struct prefetch *prefetch)
{
	unsigned depth = prefetch->options.depth, share;

	if (prefetch->small)
		return AHEAD_FLIGHTS;
	share = 2 * depth / store_scanners(prefetch->store);
	if (depth > share)
		depth = share > DEPTH_SHARED ? share : DEPTH_SHARED;
	return depth_fit(prefetch->options.ahead, ARENA_CHUNK, DEPTH_FIT, depth);
}

/* Of many keys the reader's may be the last to come, and waiting for it the worse choice. */
void prefetch_announce(struct prefetch *prefetch)
{
	const struct ahead *engine = &prefetch->engine;
	bool busy = engine->ranges.count || engine->later.count || engine->in_flight;

	prefetch->small = prefetch->announcements || (prefetch->small && busy);
	if (!prefetch->small)
		prefetch->keys = 0;
	store_announce(prefetch->store, prefetch->small && prefetch->keys <= KEYS_WAITED);
}

/* While reads are on their way: memory for those that a scan will want next. */
static void memory_prepare(struct prefetch *prefetch)
{
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++) {
		const struct stream *stream = prefetch->streams[i];

		if (!stream || !stream->wants.dense || (stream->scout_done && stream->walker_done))
			continue;
		if (atomic_load_explicit(&stream->told.limit, memory_order_relaxed) >=
		    PREPARE_FROM) {
			bool forward = stream->forward;

			pthread_mutex_unlock(&prefetch->lock);
			store_prepare(prefetch->store, prefetch->engine.planned, forward);
			pthread_mutex_lock(&prefetch->lock);
		}
		return;
	}
}

/* true: it should be called again before anything is waited for. */
static bool start_all(struct prefetch *prefetch)
{
	struct ahead *engine = &prefetch->engine;
	bool there;

	/* The stream that asked for it would ask again, for ever. */
	if (engine->failed)
		engine->ranges.count = engine->trees.count = 0;
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++) {
		struct stream *stream = prefetch->streams[i];

		if (!stream)
			continue;
		if (engine->failed)
			stream->walker_done = stream->scout_done = true;
		/* It may stand in a snapshot that no process holds now. */
		if (stream->lookup)
			continue;
		stream_advance(prefetch, stream);
		if (stream_is_over(stream)) {
			prefetch->streams[i] = NULL;
			stream_free(prefetch, stream);
		}
	}
	engine->failed = false;
	announcements_advance(prefetch);
	/* Before ahead_start() plans chunks: otherwise they are read into scratch memory and copied. */
	if (engine->in_flight)
		memory_prepare(prefetch);
	passed_on_turn(prefetch);
	there = ahead_start(engine, prefetch_depth(prefetch));
	prefetch_announce(prefetch);
	return there;
}

/* Large folios, or a program that has gone there before: then the look-aheads that map had
 * better not go on. Only the program's thread may drop them. */
static void mapped_judge(struct prefetch *prefetch)
{
	bool vain = !faults_were_worth_it(prefetch->faults, prefetch->mapped);

	prefetch->mapped = prefetch->faults = 0;
	for (unsigned i = 0; vain && i < PREFETCH_STREAMS; i++)
		if (prefetch->streams[i] && prefetch->streams[i]->mapped)
			atomic_store(&prefetch->streams[i]->told.vain, true);
}

/* A part at a time: what follows may be of no use any more, and a thread may wait for what has
 * come meanwhile. */
static void there_map(struct prefetch *prefetch)
{
	struct wanted_range range = ranges_take(&prefetch->engine.there);
	uint64_t faults = faults_taken();

	pthread_mutex_unlock(&prefetch->lock);
	store_map(prefetch->store, range.offset, range.length);
	pthread_mutex_lock(&prefetch->lock);
	prefetch->mapped += range.length;
	prefetch->faults += faults_taken() - faults;
	if (prefetch->mapped >= MAPPED_JUDGED)
		mapped_judge(prefetch);
	if (prefetch->engine.in_flight)
		ahead_land(&prefetch->engine, 0);
}

/* A program may have a thousand data sets open, and each would keep its threads and memory: after announced keys 32
 * threads, after a scan through shared memory 14 MB. Holds the lock, so that a fork finds them there or gone. Returns
 * when to come again. */
static uint64_t prefetch_rest(struct prefetch *prefetch)
{
	uint64_t now = clock_now();

	if (!prefetch->rest_at) {
		prefetch->rest_at = now + REST_AFTER;
	} else if (now >= prefetch->rest_at) {
		io_rest(prefetch->engine.io);
		ahead_rest(&prefetch->engine);
		prefetch->rest_at = CLOCK_NEVER;
	}
	return prefetch->rest_at;
}

/* A step of the crew, which is one thread. */
static uint64_t prefetch_thread_step(void *owner)
{
	struct prefetch *prefetch = owner;
	struct ahead *engine = &prefetch->engine;

	if (start_all(prefetch))
		;
	else if (engine->trees.count)
		ahead_bring_trees(engine, &prefetch->crew.stopping);
	else if (ahead_passed_enough(engine))
		ahead_pass_wait(engine);
	else if (engine->there.count)
		there_map(prefetch);
	else if (engine->in_flight)
		ahead_land(engine, 1);
	else if (engine->later.count)
		ahead_wait(engine);
	else if (!engine->ranges.count && !announcements_settle(prefetch))
		return prefetch_rest(prefetch);
	prefetch->rest_at = 0;
	return 0;
}

static const struct crew_work prefetch_thread_work = {
	.name = "lmdbio",
	.step = prefetch_thread_step,
	.serves = true,
};

/* The budget costs some reading of files to know: not before it is needed. */
static void options_complete(struct prefetch *prefetch)
{
	uint64_t budget;

	if (prefetch->options.ahead)
		return;
	budget = memory_budget(settings_get());
	prefetch->options.ahead =
		budget / AHEAD_SHARE < AHEAD_MAX ? budget / AHEAD_SHARE : AHEAD_MAX;
}

int prefetch_wake(struct prefetch *prefetch)
{
	int rc = 0;

	if (!prefetch->crew.count) {
		options_complete(prefetch);
		rc = crew_start(&prefetch->crew, 1);
	}
	crew_wake(&prefetch->crew);
	return rc;
}

int prefetch_open(struct prefetch **ret, struct store *store, struct io *io,
		  const struct prefetch_options *options)
{
	struct prefetch *prefetch = calloc(1, sizeof(*prefetch));

	if (!prefetch)
		return ENOMEM;
	prefetch->watch = (struct cursor_watch){.moved = stream_moved,
						.left = stream_left,
						.looked_up = stream_looked_up,
						.lost = stream_lost,
						.missed = siblings_missed};
	prefetch->store = store;
	prefetch->options = *options;
	if (prefetch->options.depth > AHEAD_FLIGHTS)
		prefetch->options.depth = AHEAD_FLIGHTS;
	pthread_mutex_init(&prefetch->lock, NULL);
	crew_init(&prefetch->crew, &prefetch_thread_work, prefetch, &prefetch->lock);
	ahead_open(&prefetch->engine, store, io, &prefetch->lock);
	*ret = prefetch;
	return 0;
}

/* The program's cursors and transactions outlive what looks ahead of them. */
static void stream_disown(struct stream *stream)
{
	if (stream->cursor)
		stream->cursor->ahead = NULL;
	if (stream->lookup)
		stream->lookup->ahead = NULL;
}

void prefetch_close(struct prefetch *prefetch)
{
	if (!prefetch)
		return;
	crew_stop(&prefetch->crew);
	ahead_close(&prefetch->engine);
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++)
		if (prefetch->streams[i]) {
			stream_disown(prefetch->streams[i]);
			stream_free(prefetch, prefetch->streams[i]);
		}
	announcements_free(prefetch, NULL);
	pthread_mutex_destroy(&prefetch->lock);
	free(prefetch);
}

void prefetch_hold(struct prefetch *prefetch, bool hold)
{
	if (hold)
		pthread_mutex_lock(&prefetch->lock);
	else
		pthread_mutex_unlock(&prefetch->lock);
}

void prefetch_forked(struct prefetch *prefetch)
{
	crew_forget(&prefetch->crew);
	ahead_forked(&prefetch->engine);
	passed_on_forked(prefetch);
	prefetch->keys = prefetch->rest_at = 0;
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++) {
		if (prefetch->streams[i])
			stream_disown(prefetch->streams[i]);
		free(prefetch->streams[i]);
		prefetch->streams[i] = NULL;
	}
	announcements_free(prefetch, NULL);
}

struct cursor_watch *prefetch_watch(struct prefetch *prefetch)
{
	return &prefetch->watch;
}

void prefetch_end(struct prefetch *prefetch, const struct snapshot *snapshot)
{
	bool left = false;

	passed_on_read(prefetch, snapshot);
	/* What a transaction has begun it knows of when it ends; most have begun nothing. */
	if (!atomic_load_explicit(&prefetch->owned, memory_order_relaxed))
		return;
	pthread_mutex_lock(&prefetch->lock);
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++) {
		struct stream *stream = prefetch->streams[i];

		if (!stream || stream->lookup)
			continue;
		left |= stream->owner != snapshot;
		if (stream->owner != snapshot)
			continue;
		if (stream->cursor)
			stream->cursor->ahead = NULL;
		prefetch->streams[i] = NULL;
		stream_free(prefetch, stream);
	}
	announcements_free(prefetch, snapshot);
	atomic_store(&prefetch->owned, left || prefetch->announcements);
	prefetch_announce(prefetch);
	pthread_mutex_unlock(&prefetch->lock);
}
