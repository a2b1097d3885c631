/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts reads of wanted ranges, and lands them. */
#include "ahead/ahead.h"

#include "util/stats.h"

#include <errno.h>

enum { SCRATCH = ARENA_CHUNK, SLAB = SLAB_FLIGHTS * SCRATCH };

bool ahead_want_tree(struct ahead *ahead, uint64_t offset, uint64_t length)
{
	const struct range_queue *trees = &ahead->trees;

	if (!store_has_copies(ahead->store))
		return false;
	for (unsigned i = 0; i < trees->count; i++)
		if (trees->ranges[(trees->first + i) % AHEAD_RANGES].offset == offset)
			return true;
	return ranges_put(&ahead->trees, (struct wanted_range){.offset = offset, .length = length});
}

/* The memory that a flight reads into; NULL: there is none. Without huge pages, 16 reads of 1 MiB
 * in flight cost 4,096 page faults of 2 us each. Small reads touch too little to be worth a huge
 * page. */
static uint8_t *scratch_take(struct ahead *ahead, const struct flight *flight)
{
	size_t at = (size_t)(flight - ahead->flights);
	struct ahead_slab *slab = &ahead->slabs[at / SLAB_FLIGHTS];

	if (!slab->bytes)
		slab->bytes = io_buffer_new(SLAB);
	if (slab->bytes && !slab->huge && flight->request.length >= SCRATCH / 2) {
		io_buffer_huge(slab->bytes, SLAB);
		slab->huge = true;
	}
	return slab->bytes ? slab->bytes + at % SLAB_FLIGHTS * SCRATCH : NULL;
}

static bool flight_aim(struct ahead *ahead, struct flight *flight)
{
	flight->request.buffer = flight->count == 1 ? store_place(&flight->loads[0]) : NULL;
	if (flight->request.buffer) {
		stats_add(STATS_HUGE_BYTES, flight->request.length);
		return true;
	}
	flight->request.buffer = scratch_take(ahead, flight);
	return flight->request.buffer != NULL;
}

/* Ends the loads of a flight. Returns false if one has failed. */
static bool flight_finish(struct ahead *ahead, const struct flight *flight, int error, size_t done)
{
	bool good = true;

	for (unsigned i = 0; i < flight->count; i++) {
		const struct store_load *load = &flight->loads[i];
		size_t from = load->offset - flight->request.offset;
		const uint8_t *bytes = flight->request.buffer;

		good &= !store_finish(ahead->store, load, bytes ? bytes + from : NULL, error,
				      done > from ? done - from : 0);
	}
	return good;
}

/* Takes back a flight whose read was not started. */
static void flight_land(struct ahead *ahead, struct flight *flight, int error)
{
	ahead->failed |= !flight_finish(ahead, flight, error, 0);
	flight->next = ahead->idle;
	ahead->idle = flight;
}

/* Begins a read for other processes. They wait for its pages, so the flight lands at once: no
 * thread of this process waits, and no byte is copied. */
static void flight_pass(struct ahead *ahead, struct flight *flight)
{
	const struct io_request *request = &flight->request;
	int error = store_begin_passed(ahead->store, request->offset, request->length);

	ahead->brought += request->length;
	if (error != EALREADY) {
		stats_requests(1, request->length);
		stats_add(STATS_PREFETCH_REQUESTS, 1);
		stats_add(STATS_PREFETCH_BYTES, request->length);
		ahead->passed.count++;
		ahead->passed.last = request->offset;
	}
	/* A file system that keeps no pages is no reason to give up the other reads. */
	(void)flight_finish(ahead, flight, error, request->length);
	flight->next = ahead->idle;
	ahead->idle = flight;
}

void ahead_pass_wait(struct ahead *ahead)
{
	struct passed *passed = &ahead->passed;
	uint64_t before = passed->before;

	passed->before = passed->last;
	passed->count = 0;
	if (!before)
		return;
	pthread_mutex_unlock(ahead->lock);
	store_wait_passed(ahead->store, before);
	pthread_mutex_lock(ahead->lock);
}

/* Makes a read of a flight's loads; flights_submit() starts it. */
static void flight_start(struct ahead *ahead, struct flight *flight)
{
	struct io_request *request = &flight->request;

	*request = (struct io_request){
		.offset = flight->loads[0].offset,
		.cache_only = store_keeps(ahead->store),
		.tag = flight,
	};
	for (unsigned i = 0; i < flight->count; i++)
		request->length += flight->loads[i].length;
	ahead->planned = flight->loads[flight->count - 1].offset;
	if (flight->loads[0].passed_on) {
		flight_pass(ahead, flight);
		return;
	}
	if (!flight_aim(ahead, flight)) {
		flight_land(ahead, flight, ENOMEM);
		return;
	}
	ahead->starting[ahead->starting_count++] = request;
	ahead->in_flight++;
	stats_queue(1);
	ahead->brought += request->length;
	stats_requests(1, request->length);
	stats_add(STATS_PREFETCH_REQUESTS, 1);
	stats_add(STATS_PREFETCH_BYTES, request->length);
}

static void flights_submit(struct ahead *ahead)
{
	unsigned n = ahead->starting_count;

	ahead->starting_count = 0;
	if (!n || !io_submit(ahead->io, ahead->starting, n))
		return;
	ahead->in_flight -= n;
	stats_queue(-(int64_t)n);
	for (unsigned i = 0; i < n; i++)
		flight_land(ahead, ahead->starting[i]->tag, EAGAIN);
}

/* Whether a load follows directly on those of a flight, so that one request reads both. */
static bool flight_takes(const struct flight *flight, const struct store_load *load)
{
	const struct store_load *last = &flight->loads[flight->count - 1];

	return flight->count < FLIGHT_LOADS && last->offset + last->length == load->offset &&
	       load->offset + load->length - flight->loads[0].offset <= SCRATCH &&
	       !store_place(&flight->loads[0]) && !store_place(load);
}

/* Adds a load to the flight that was begun last, or begins one. Returns that flight. */
static struct flight *flight_add(struct ahead *ahead, struct flight *flight,
				 const struct store_load *load)
{
	if (!flight || !flight_takes(flight, load)) {
		if (flight)
			flight_start(ahead, flight);
		flight = ahead->idle;
		ahead->idle = flight->next;
		flight->count = 0;
	}
	flight->loads[flight->count++] = *load;
	return flight;
}

/* Plans a part of a range, as store_plan(). Sets *there to true if the part is in memory, and to
 * false if all chunks were unmapped to make room for it. Otherwise two walks that each ask for a page
 * would go on for ever where memory has room for one page. */
static enum store_plan part_plan(struct ahead *ahead, uint64_t offset, uint64_t *length,
				 unsigned flags, struct store_load *load, bool *there)
{
	uint32_t before = store_emptied(ahead->store);
	enum store_plan plan = store_plan(ahead->store, offset, length, flags, load);

	if (store_emptied(ahead->store) != before)
		*there = false;
	else if (plan == PLAN_READY)
		*there = true;
	return plan;
}

/* Plans one range as far as it goes, until `depth` reads are in flight, and puts the rest back into
 * a queue. *there: as part_plan(). */
static void range_start(struct ahead *ahead, struct wanted_range range, bool again, unsigned depth,
			bool *there)
{
	unsigned flags = (again ? PLAN_AGAIN : 0) | (range.unmapped ? PLAN_UNMAPPED : 0) |
			 (range.for_others ? PLAN_ANNOUNCED : 0);
	struct flight *flight = NULL;

	while (range.length && ahead->idle && ahead->in_flight < depth &&
	       !ahead_passed_enough(ahead)) {
		struct wanted_range part = range;
		uint64_t length = range.length;
		struct store_load load;

		switch (part_plan(ahead, range.offset, &length, flags, &load, there)) {
		case PLAN_LOAD:
			part.length = load.length;
			part.offset = load.offset;
			if (load.passed_on && !range.for_others)
				ranges_put(&ahead->trees, part);
			flight = flight_add(ahead, flight, &load);
			break;
		case PLAN_BUSY:
			part.length = length;
			ranges_put(&ahead->later, part);
			break;
		case PLAN_READY:
			ahead->landed++;
			if (range.map) {
				part.length = length;
				ranges_put(&ahead->there, part);
			}
			break;
		case PLAN_COMING:
		case PLAN_PASS:
		case PLAN_REST:
			break;
		}
		range.offset += length;
		range.length -= length < range.length ? length : range.length;
	}
	if (flight)
		flight_start(ahead, flight);
	if (range.length)
		ranges_put_back(again ? &ahead->later : &ahead->ranges, range);
}

bool ahead_start(struct ahead *ahead, unsigned depth)
{
	unsigned again = ahead->later.count;
	bool there = false;

	while (again-- && ahead->idle && !ahead_passed_enough(ahead))
		range_start(ahead, ranges_take(&ahead->later), true, AHEAD_FLIGHTS, &there);
	while (ahead->ranges.count && ahead->idle && ahead->in_flight < depth &&
	       !ahead_passed_enough(ahead))
		range_start(ahead, ranges_take(&ahead->ranges), false, depth, &there);
	flights_submit(ahead);
	return there;
}

void ahead_land(struct ahead *ahead, unsigned min)
{
	struct io_request *done[AHEAD_FLIGHTS];
	bool failed = false;
	size_t n;

	pthread_mutex_unlock(ahead->lock);
	n = io_wait(ahead->io, done, min, AHEAD_FLIGHTS);
	for (size_t i = 0; i < n; i++) {
		struct flight *flight = done[i]->tag;

		failed |= !flight_finish(ahead, flight, done[i]->error, done[i]->done);
	}
	pthread_mutex_lock(ahead->lock);
	for (size_t i = 0; i < n; i++) {
		struct flight *flight = done[i]->tag;

		flight->next = ahead->idle;
		ahead->idle = flight;
	}
	ahead->in_flight -= (unsigned)n;
	stats_queue(-(int64_t)n);
	ahead->failed |= failed;
	ahead->landed += n;
}

/* Waits for a chunk that another process has claimed; the caller plans it again after each such
 * wait. Without memory for claims, nothing is to be waited for. */
void ahead_wait(struct ahead *ahead)
{
	struct wanted_range range = ahead->later.ranges[ahead->later.first];
	uint64_t progress;

	pthread_mutex_unlock(ahead->lock);
	if (store_wait(ahead->store, range.offset, &progress))
		progress = 0;
	pthread_mutex_lock(ahead->lock);
	if (progress != STORE_NO_CLAIM)
		return;
	ahead->later.count = 0;
	ahead->failed = true;
}

/* Reads of tree pages are few and small. Only the reads that follow from these pages wait for them:
 * without tree pages it is unknown what to read. */
void ahead_bring_trees(struct ahead *ahead, const bool *stopping)
{
	while (ahead->trees.count && !*stopping) {
		struct wanted_range range = ranges_take(&ahead->trees);
		bool copies = store_has_copies(ahead->store), there;

		pthread_mutex_unlock(ahead->lock);
		there = copies ? store_bring_copies(ahead->store, range.offset, range.length)
			       : !store_await(ahead->store, range.offset, range.length);
		pthread_mutex_lock(ahead->lock);
		if (!there && copies)
			(void)ranges_put(&ahead->ranges, range);
		ahead->failed |= !there && !copies;
	}
	ahead->landed++;
}

void ahead_forget(struct ahead *ahead, const void *whose)
{
	ranges_forget(&ahead->ranges, whose);
	ranges_forget(&ahead->later, whose);
	ranges_forget(&ahead->trees, whose);
	ranges_forget(&ahead->there, whose);
}

static void flights_reset(struct ahead *ahead)
{
	ahead->idle = NULL;
	for (unsigned i = 0; i < AHEAD_FLIGHTS; i++) {
		ahead->flights[i].next = ahead->idle;
		ahead->idle = &ahead->flights[i];
	}
}

void ahead_open(struct ahead *ahead, struct store *store, struct io *io, pthread_mutex_t *lock)
{
	ahead->store = store;
	ahead->io = io;
	ahead->lock = lock;
	flights_reset(ahead);
}

void ahead_rest(struct ahead *ahead)
{
	for (unsigned i = 0; i < AHEAD_FLIGHTS / SLAB_FLIGHTS; i++) {
		io_buffer_free(ahead->slabs[i].bytes, SLAB);
		ahead->slabs[i] = (struct ahead_slab){0};
	}
}

void ahead_close(struct ahead *ahead)
{
	pthread_mutex_lock(ahead->lock);
	while (ahead->in_flight)
		ahead_land(ahead, 1);
	ahead_rest(ahead);
	pthread_mutex_unlock(ahead->lock);
}

void ahead_forked(struct ahead *ahead)
{
	ahead->in_flight = ahead->starting_count = 0;
	ahead->passed = (struct passed){0};
	ahead->ranges.count = ahead->later.count = ahead->trees.count = ahead->there.count = 0;
	ahead->failed = false;
	for (unsigned i = 0; i < AHEAD_FLIGHTS / SLAB_FLIGHTS; i++)
		ahead->slabs[i] = (struct ahead_slab){0};
	flights_reset(ahead);
}
