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
	SCRATCH = ARENA_CHUNK,
	AHEAD_MAX = 64 << 20, /* bytes */
	AHEAD_SHARE = 4,      /* of the budget, at most one part in so many */
	KEYS_WAITED = 4096,
	DEPTH_SHARED = 4,         /* reads in flight at least of one of many processes */
	DEPTH_FIT = 2,            /* ... and where memory has room for none */
	MAPPED_JUDGED = 32 << 20, /* bytes, each time that so many have been mapped */
	PREPARE_FROM = 8 << 20,   /* bytes: scans that look so far ahead go on for a while */
};

bool prefetch_want(struct prefetch *prefetch, struct wanted_range range)
{
	return ranges_put(&prefetch->ranges, range);
}

bool prefetch_want_tree(struct prefetch *prefetch, uint64_t offset, uint64_t length)
{
	const struct range_queue *trees = &prefetch->trees;

	if (!store_has_copies(prefetch->store))
		return false;
	for (unsigned i = 0; i < trees->count; i++)
		if (trees->ranges[(trees->first + i) % PREFETCH_RANGES].offset == offset)
			return true;
	return ranges_put(&prefetch->trees,
			  (struct wanted_range){.offset = offset, .length = length});
}

static bool flight_aim(struct flight *flight)
{
	flight->request.buffer = store_place(&flight->load);
	if (flight->request.buffer) {
		stats_add(STATS_HUGE_BYTES, flight->load.length);
		return true;
	}
	if (!flight->scratch)
		flight->scratch = io_buffer_new(SCRATCH);
	flight->request.buffer = flight->scratch;
	return flight->scratch != NULL;
}

static void flight_land(struct prefetch *prefetch, struct flight *flight, int error, size_t done)
{
	if (store_finish(prefetch->store, &flight->load, flight->request.buffer, error, done))
		prefetch->failed = true;
	flight->next = prefetch->idle;
	prefetch->idle = flight;
}

/* Makes a read of what has been planned; flights_submit() starts it. */
static void flight_start(struct prefetch *prefetch, struct flight *flight)
{
	struct io_request *request = &flight->request;

	*request = (struct io_request){
		.offset = flight->load.offset,
		.length = flight->load.length,
		.cache_only = store_keeps(prefetch->store),
		.tag = flight,
	};
	if (!flight_aim(flight)) {
		flight_land(prefetch, flight, ENOMEM, 0);
		return;
	}
	prefetch->starting[prefetch->starting_count++] = request;
	prefetch->in_flight++;
	stats_queue(1);
	prefetch->brought += request->length;
	stats_requests(1, request->length);
	stats_add(STATS_PREFETCH_REQUESTS, 1);
	stats_add(STATS_PREFETCH_BYTES, request->length);
}

static void flights_submit(struct prefetch *prefetch)
{
	unsigned n = prefetch->starting_count;

	prefetch->starting_count = 0;
	if (!n || !io_submit(prefetch->io, prefetch->starting, n))
		return;
	prefetch->in_flight -= n;
	stats_queue(-(int64_t)n);
	for (unsigned i = 0; i < n; i++)
		flight_land(prefetch, prefetch->starting[i]->tag, EAGAIN, 0);
}

/* Plans one range as far as it goes; what is left of it goes back into a queue. true: some of it
 * is there already, so that a thread that waits for it can go on. */
static bool range_start(struct prefetch *prefetch, struct wanted_range range, bool again)
{
	bool there = false;

	while (range.length && prefetch->idle) {
		struct flight *flight = prefetch->idle;
		uint64_t length = range.length;

		switch (store_plan(prefetch->store, range.offset, &length, again, &flight->load)) {
		case PLAN_LOAD:
			prefetch->idle = flight->next;
			prefetch->planned = flight->load.offset;
			flight_start(prefetch, flight);
			break;
		case PLAN_BUSY:
			ranges_put(&prefetch->later, (struct wanted_range){range.offset, length,
									   range.map, range.whose});
			break;
		case PLAN_READY:
			there = true;
			prefetch->landed++;
			if (range.map)
				ranges_put(&prefetch->there,
					   (struct wanted_range){range.offset, length, true,
								 range.whose});
			break;
		case PLAN_REST:
			break;
		}
		range.offset += length;
		range.length -= length < range.length ? length : range.length;
	}
	if (range.length)
		ranges_put_back(again ? &prefetch->later : &prefetch->ranges, range);
	return there;
}

/* As many reads as memory for looking ahead holds, were they all of a chunk; small ones, of
 * announced keys, may be more. Processes that scan together share what one would have twice:
 * more in flight only makes a process that needs one of them wait for all. */
static unsigned prefetch_depth(const struct prefetch *prefetch)
{
	unsigned depth = prefetch->options.depth, share;

	if (prefetch->small)
		return PREFETCH_DEPTH_MAX;
	share = 2 * depth / store_scanners(prefetch->store);
	if (depth > share)
		depth = share > DEPTH_SHARED ? share : DEPTH_SHARED;
	return depth_fit(prefetch->options.ahead, ARENA_CHUNK, DEPTH_FIT, depth);
}

/* Of many keys the reader's may be the last to come, and waiting for it the worse choice. */
void prefetch_announce(struct prefetch *prefetch)
{
	bool busy = prefetch->ranges.count || prefetch->later.count || prefetch->in_flight;

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
			store_prepare(prefetch->store, prefetch->planned, forward);
			pthread_mutex_lock(&prefetch->lock);
		}
		return;
	}
}

/* true: it should be called again before anything is waited for. */
static bool start_all(struct prefetch *prefetch)
{
	unsigned again = prefetch->later.count, depth;
	bool there = false;

	/* The stream that asked for it would ask again, for ever. */
	if (prefetch->failed)
		prefetch->ranges.count = prefetch->trees.count = 0;
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++) {
		struct stream *stream = prefetch->streams[i];

		if (!stream)
			continue;
		if (prefetch->failed)
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
	prefetch->failed = false;
	announcements_advance(prefetch);
	while (again-- && prefetch->idle)
		there |= range_start(prefetch, ranges_take(&prefetch->later), true);
	depth = prefetch_depth(prefetch);
	while (prefetch->ranges.count && prefetch->idle && prefetch->in_flight < depth)
		there |= range_start(prefetch, ranges_take(&prefetch->ranges), false);
	flights_submit(prefetch);
	prefetch_announce(prefetch);
	if (!there && prefetch->in_flight)
		memory_prepare(prefetch);
	return there;
}

/* Waits for `min` reads without the prefetch lock, and shows what has come. */
static void land_some(struct prefetch *prefetch, unsigned min)
{
	struct io_request *done[PREFETCH_DEPTH_MAX];
	bool failed = false;
	size_t n;

	pthread_mutex_unlock(&prefetch->lock);
	n = io_wait(prefetch->io, done, min, PREFETCH_DEPTH_MAX);
	for (size_t i = 0; i < n; i++) {
		struct flight *flight = done[i]->tag;

		failed |= store_finish(prefetch->store, &flight->load, done[i]->buffer,
				       done[i]->error, done[i]->done) != 0;
	}
	pthread_mutex_lock(&prefetch->lock);
	for (size_t i = 0; i < n; i++) {
		struct flight *flight = done[i]->tag;

		flight->next = prefetch->idle;
		prefetch->idle = flight;
	}
	prefetch->in_flight -= (unsigned)n;
	stats_queue(-(int64_t)n);
	prefetch->failed |= failed;
	prefetch->landed += n;
}

/* What another process has in hand is looked at again this often. */
static void wait_for_later(struct prefetch *prefetch)
{
	struct wanted_range range = prefetch->later.ranges[prefetch->later.first];

	pthread_mutex_unlock(&prefetch->lock);
	store_wait(prefetch->store, range.offset, NULL);
	pthread_mutex_lock(&prefetch->lock);
}

/* Few and small reads, which nothing but the following ones waits for: without them it is not
 * known what to read. */
static void trees_bring(struct prefetch *prefetch)
{
	while (prefetch->trees.count && !prefetch->crew.stopping) {
		struct wanted_range range = ranges_take(&prefetch->trees);
		bool there;

		pthread_mutex_unlock(&prefetch->lock);
		there = store_bring_copies(prefetch->store, range.offset, range.length);
		pthread_mutex_lock(&prefetch->lock);
		if (!there)
			(void)prefetch_want(prefetch, range);
	}
	prefetch->landed++;
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
	struct wanted_range range = ranges_take(&prefetch->there);
	uint64_t faults = faults_taken();

	pthread_mutex_unlock(&prefetch->lock);
	store_map(prefetch->store, range.offset, range.length);
	pthread_mutex_lock(&prefetch->lock);
	prefetch->mapped += range.length;
	prefetch->faults += faults_taken() - faults;
	if (prefetch->mapped >= MAPPED_JUDGED)
		mapped_judge(prefetch);
	if (prefetch->in_flight)
		land_some(prefetch, 0);
}

/* A step of the crew, which is one thread. */
static uint64_t prefetch_thread_step(void *owner)
{
	struct prefetch *prefetch = owner;

	if (start_all(prefetch))
		return 0;
	if (prefetch->trees.count)
		trees_bring(prefetch);
	else if (prefetch->there.count)
		there_map(prefetch);
	else if (prefetch->in_flight)
		land_some(prefetch, 1);
	else if (prefetch->later.count)
		wait_for_later(prefetch);
	else if (!prefetch->ranges.count)
		return CLOCK_NEVER;
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

static void flights_reset(struct prefetch *prefetch)
{
	prefetch->idle = NULL;
	for (unsigned i = 0; i < PREFETCH_DEPTH_MAX; i++) {
		prefetch->flights[i].next = prefetch->idle;
		prefetch->idle = &prefetch->flights[i];
	}
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
	prefetch->io = io;
	prefetch->options = *options;
	if (prefetch->options.depth > PREFETCH_DEPTH_MAX)
		prefetch->options.depth = PREFETCH_DEPTH_MAX;
	pthread_mutex_init(&prefetch->lock, NULL);
	crew_init(&prefetch->crew, &prefetch_thread_work, prefetch, &prefetch->lock);
	flights_reset(prefetch);
	*ret = prefetch;
	return 0;
}

void prefetch_close(struct prefetch *prefetch)
{
	if (!prefetch)
		return;
	crew_stop(&prefetch->crew);
	pthread_mutex_lock(&prefetch->lock);
	while (prefetch->in_flight)
		land_some(prefetch, 1);
	pthread_mutex_unlock(&prefetch->lock);
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++)
		if (prefetch->streams[i])
			stream_free(prefetch, prefetch->streams[i]);
	announcements_free(prefetch, NULL);
	for (unsigned i = 0; i < PREFETCH_DEPTH_MAX; i++)
		io_buffer_free(prefetch->flights[i].scratch, SCRATCH);
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
	prefetch->in_flight = prefetch->starting_count = 0;
	prefetch->ranges.count = 0;
	prefetch->later.count = prefetch->trees.count = prefetch->there.count = 0;
	prefetch->keys = 0;
	prefetch->failed = false;
	/* The program's cursors still point to their streams, which start over with them. */
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++) {
		if (prefetch->streams[i] && prefetch->streams[i]->cursor)
			prefetch->streams[i]->cursor->ahead = NULL;
		if (prefetch->streams[i] && prefetch->streams[i]->lookup)
			prefetch->streams[i]->lookup->ahead = NULL;
		free(prefetch->streams[i]);
		prefetch->streams[i] = NULL;
	}
	announcements_free(prefetch, NULL);
	for (unsigned i = 0; i < PREFETCH_DEPTH_MAX; i++)
		prefetch->flights[i].scratch = NULL;
	flights_reset(prefetch);
}

struct cursor_watch *prefetch_watch(struct prefetch *prefetch)
{
	return &prefetch->watch;
}

void prefetch_end(struct prefetch *prefetch, const struct snapshot *snapshot)
{
	bool left = false;

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
