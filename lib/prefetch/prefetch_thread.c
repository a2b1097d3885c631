/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the thread that keeps reads in flight.
 *
 * Only this thread submits and reaps reads, so that their bytes are shown to other processes as
 * soon as they have come, however long the program computes between two calls.
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
	DEPTH_SHARED = 4,         /* reads in flight, at least, for one of many processes */
	DEPTH_FIT = 2,            /* ... and where memory has room for fewer */
	MAPPED_JUDGED = 32 << 20, /* bytes that are mapped before it is judged again */
	PREPARE_FROM = 4 << 20,   /* bytes: scans that look so far ahead go on for a while */
	REST_AFTER = CLOCK_SECOND,
};

bool prefetch_want(struct prefetch *prefetch, struct wanted_range range)
{
	return ranges_put(&prefetch->engine.ranges, range);
}

/* As many reads as there is memory for chunks ahead; the small reads of announced keys may be more.
 * Processes that scan together share twice the reads of one: more in flight only make a process
 * that needs one of them wait for all. */
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

/* Readers wait for announced keys only if these are few: of many, a reader's key may come last. */
void prefetch_announce(struct prefetch *prefetch)
{
	const struct ahead *engine = &prefetch->engine;
	bool busy = engine->ranges.count || engine->later.count || engine->in_flight;

	prefetch->small = prefetch->announcements || (prefetch->small && busy);
	if (!prefetch->small) {
		prefetch->keys = 0;
		prefetch->some_dropped = false;
	}
	store_announce(prefetch->store,
		       prefetch->small && !prefetch->some_dropped && prefetch->keys <= KEYS_WAITED);
}

/* While reads are in flight, makes memory for chunks that a scan will want next. */
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

/* Starts all reads that can begin. Returns true to be called again before the thread waits. */
static bool start_all(struct prefetch *prefetch)
{
	struct ahead *engine = &prefetch->engine;
	bool there;

	/* A stream that asked for the failed range would ask again, for ever. */
	if (engine->failed)
		engine->ranges.count = engine->trees.count = 0;
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++) {
		struct stream *stream = prefetch->streams[i];

		if (!stream)
			continue;
		if (engine->failed)
			stream->walker_done = stream->scout_done = true;
		/* Such a stream may stand in a snapshot that no process holds now. */
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
	/* Before ahead_start() plans chunks: otherwise they are read into scratch memory and
	 * copied. */
	if (engine->in_flight)
		memory_prepare(prefetch);
	passed_on_turn(prefetch);
	there = ahead_start(engine, prefetch_depth(prefetch));
	prefetch_announce(prefetch);
	return there;
}

/* Ends mapping ahead where it is not worth it: over large folios, or where the program has been
 * before. Only the program's thread may drop these look-aheads. */
static void mapped_judge(struct prefetch *prefetch)
{
	bool vain = !faults_were_worth_it(prefetch->faults, prefetch->mapped);

	prefetch->mapped = prefetch->faults = 0;
	for (unsigned i = 0; vain && i < PREFETCH_STREAMS; i++)
		if (prefetch->streams[i] && prefetch->streams[i]->mapped)
			atomic_store(&prefetch->streams[i]->told.vain, true);
}

/* Maps one range at a time: the next may be of no use any more, and a thread may wait for reads
 * that have come meanwhile. */
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

/* Gives up idle threads and memory. A program may have a thousand data sets open, each of which
 * would keep its own: after announced keys 32 threads, after a scan through shared memory 14 MB.
 * Holds the prefetch lock, so that a fork finds them there or gone. Returns when to call it
 * again. */
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

/* To know the budget takes reading some files, so it is computed when it is first needed. */
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

/* The program's cursors and transactions outlive the streams that look ahead of them. */
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
	prefetch->small = prefetch->some_dropped = false;
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
	struct ahead *engine = &prefetch->engine;
	bool left = false;

	passed_on_read(prefetch, snapshot);
	/* A transaction sees here what it has begun itself; most have begun nothing. */
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
		ahead_forget(engine, stream);
		stream_free(prefetch, stream);
	}
	ahead_forget(engine, snapshot);
	announcements_free(prefetch, snapshot);
	atomic_store(&prefetch->owned, left || prefetch->announcements || engine->ranges.count ||
					       engine->later.count);
	prefetch_announce(prefetch);
	pthread_mutex_unlock(&prefetch->lock);
}
