/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings bytes to a reader that waits for them, and bounds its wait for other readers. */
#include "window/store_private.h"

#include "io/io_page_cache.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/list.h"
#include "util/settings.h"
#include "util/stats.h"

#include <errno.h>

enum {
	/* How long to wait for another reader: so many ms without progress, and so many ns in all.
	 * Then the file's own map serves. */
	WAIT_IDLE = 250,
	WAIT_NS = 2000000000,
	ANNOUNCED_NS = 20000000,   /* for bytes that were announced */
	IMPATIENT_NS = 1000000000, /* after a wait in vain, how long no thread waits */
	STOPPED_TIMES = 60,        /* ... times that at most, while the reader makes no progress */
	LOADS_AT_ONCE = 8,         /* chunks that a waiting thread reads as one request */
};

void store_waited(struct store *store, uint64_t began)
{
	atomic_fetch_add_explicit(&store->waits, 1, memory_order_relaxed);
	stats_waited(began);
}

/* The memory for a read of neighbours in the file: their own place in huge pages, if all have one,
 * so that no byte is copied. A program that reads a few bytes of a chunk at random brings all of
 * it later, so these pages are made here; look-ahead makes its own before (store_prepare()). */
static uint8_t *place_take(struct store *store, const struct store_load *loads, unsigned n)
{
	bool all = true;

	for (unsigned i = 0; i < n; i++) {
		if (loads[i].guessed && loads[i].length == ARENA_CHUNK && !store->packed)
			arena_prepare_claimed(loads[i].arena, loads[i].chunk);
		all = all && store_place(&loads[i]);
	}
	return all ? store_place(&loads[0]) : NULL;
}

/* Does the reads that plans have taken on, neighbours in the file as one request, and gives every
 * claim back. *waited: a read asked storage. */
static int load_now(struct store *store, const struct store_load *loads, unsigned n, bool *waited)
{
	int rc = 0;

	for (unsigned i = 0, next; i < n; i = next) {
		size_t length = loads[i].length, done = 0, from = 0;
		int error = ENOMEM;
		uint8_t *buffer, *place;

		for (next = i + 1; next < n && loads[i].offset + length == loads[next].offset;
		     next++)
			length += loads[next].length;
		place = place_take(store, &loads[i], next - i);
		buffer = place ? place : buffer_take(store, length);
		if (buffer && loads[i].shown &&
		    read_beneath(store, buffer, loads[i].offset, length, &done)) {
			error = 0;
		} else if (buffer) {
			error = io_read(store->io, buffer, length, loads[i].offset, &done);
			stats_requests(1, done);
			*waited = true;
			for (unsigned k = i; k < next; k++)
				if (!error && loads[k].guessed)
					arena_pieces_add(loads[k].arena, loads[k].chunk,
							 loads[k].blocks);
		}
		for (; i < next; from += loads[i++].length) {
			size_t left = done > from ? done - from : 0;
			int failed = store_finish(store, &loads[i], buffer ? buffer + from : NULL,
						  error, left);

			rc = rc ? rc : failed;
		}
		if (!place)
			buffer_return(store, buffer, length);
	}
	return rc;
}

/* Wishes for the chunks behind a chunk that the server brings, so that they come with that chunk.
 * Under the store lock. */
static void wish_on(struct store *store, uint64_t offset, uint64_t end, const struct plan_how *how)
{
	for (unsigned n = 1; n < LOADS_AT_ONCE && offset < end; n++) {
		uint64_t chunk = offset / ARENA_CHUNK, stop = chunk_end(store, chunk), run;

		if (stop > end)
			stop = end;
		if (is_served(store, chunk, block_end(stop) - block_of(offset), how, how->widen) &&
		    arena_missing(store->arena, block_of(offset), block_end(stop), &run))
			node_link_wish(&store->link, store->arena, chunk, how->urgent);
		offset = stop;
	}
}

/* Plans as much of [*offset, end) as can be read at once; moves *offset past it. *n: the loads that
 * were taken on. Returns the last plan: PLAN_BUSY when it stopped at another reader's chunk,
 * PLAN_COMING or PLAN_PASS at bytes for store_await(), PLAN_REST at a chunk that cannot be shown in
 * any way. */
static enum store_plan plan_many(struct store *store, uint64_t *offset, uint64_t end,
				 const struct plan_how *how, struct store_load *loads, unsigned *n)
{
	enum store_plan plan = PLAN_READY;

	*n = 0;
	pthread_mutex_lock(&store->lock);
	while (*offset < end && *n < LOADS_AT_ONCE) {
		uint64_t length = end - *offset;

		plan = plan_locked(store, *offset, &length, how, &loads[*n]);
		if (plan == PLAN_BUSY) {
			wish_on(store, *offset + length, end, how);
			break;
		}
		if (plan == PLAN_COMING || plan == PLAN_PASS)
			break;
		if (plan == PLAN_REST) {
			if (!chunk_leave(store, *offset / ARENA_CHUNK))
				break;
		}
		*n += plan == PLAN_LOAD;
		plan = PLAN_READY;
		*offset += length;
	}
	pthread_mutex_unlock(&store->lock);
	return plan;
}

/* Leaves the chunks of a range to the file's own map: all, or those that are not shown. Returns 0,
 * or ENOMEM when the kernel has no map left. */
static int chunks_leave(struct store *store, uint64_t offset, uint64_t end, bool all)
{
	bool left = true;

	pthread_mutex_lock(&store->lock);
	for (uint64_t chunk = offset / ARENA_CHUNK; chunk * ARENA_CHUNK < end; chunk++)
		if (all || !store_has(store, chunk, offset, end - offset))
			left &= chunk_leave(store, chunk);
	pthread_mutex_unlock(&store->lock);
	return left ? 0 : ENOMEM;
}

/* A read of a page waits for the page, and reports a failure or the end of a file that was
 * truncated. Of many pages it reads the last one alone, which comes with the others or after them:
 * that copies less. The caller then looks at the file's own map, so the chunks must show that
 * map. */
int store_await(struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, first = offset & ~(uint64_t)(ARENA_BLOCK - 1);
	int rc = chunks_leave(store, first, end, true);
	bool all = length < STORE_FAULT, there;

	if (rc)
		return rc;
	if (!descriptor_is(store->file.fd, store->file.device, store->file.inode))
		all = false;
	else if (io_pass(store->file.fd, all ? first : end - 1, all ? end - first : 1))
		return EIO;
	if (!all && !is_cached(store, first, end))
		rc = fault_in(store, first, end, false, &there);
	if (rc)
		return rc;
	pthread_mutex_lock(&store->lock);
	end = end_in_file(store, end);
	for (uint64_t next; first < end; first = next) {
		uint64_t chunk = first / ARENA_CHUNK;

		next = chunk_end(store, chunk) < end ? chunk_end(store, chunk) : end;
		if (get_state(store, chunk) == CHUNK_RUNS)
			mark_sure(store, first, next);
		else if (!is_shown(store, chunk))
			mark_run(store, block_of(first), block_end(next));
	}
	pthread_mutex_unlock(&store->lock);
	return 0;
}

/* Leaves a range to the file's own map from here on. */
static int chunks_rest(struct store *store, uint64_t offset, uint64_t end)
{
	stats_add(STATS_FALLBACKS, 1);
	return chunks_leave(store, offset, end, true);
}

/* Under the store lock. */
static bool is_scanned(struct store *store)
{
	unsigned steppers;

	return atomic_load_explicit(&store->scans, memory_order_relaxed) ||
	       (atomic_load(&store->enabled) && store_attach(store) &&
		arena_scanners(store->arena, &steppers));
}

bool arena_is_scanned(struct store *store)
{
	bool scanned;

	pthread_mutex_lock(&store->lock);
	scanned = is_scanned(store);
	pthread_mutex_unlock(&store->lock);
	return scanned;
}

/* The patience of a thread that waits for a chunk that another reader reads. */
struct patience {
	uint64_t since; /* ns: when the wait began; 0: it has not */
	unsigned idle;  /* ms of it without progress of the other reader */
	uint64_t progress;
};

bool is_impatient(const struct store *store)
{
	uint64_t now = clock_now();

	return now < store->patience.impatient_until ||
	       (now < store->patience.stopped_until &&
		!(store->arena && arena_progressed(store->arena, store->patience.stopped_at)));
}

/* After a long wait, no thread waits for a while: a stopped reader may have claimed more chunks.
 * For a reader that makes no progress at all, that time doubles with each wait, so that the reader
 * costs next to nothing. For a slow reader the time stays the shortest. Under the store lock. */
static void lose_patience(struct store *store, const struct patience *patience)
{
	uint64_t now = clock_now(), longer = 2 * store->patience.stopped_ns;

	store->patience.impatient_until = now + IMPATIENT_NS;
	if (patience->idle < settings_patience(WAIT_IDLE) ||
	    patience->progress != store->patience.stopped_at || !longer)
		longer = IMPATIENT_NS;
	if (longer > STOPPED_TIMES * (uint64_t)IMPATIENT_NS)
		longer = STOPPED_TIMES * (uint64_t)IMPATIENT_NS;
	store->patience.stopped_at = patience->progress;
	store->patience.stopped_ns = longer;
	store->patience.stopped_until = now + longer;
}

/* Waits a while for the chunk at `offset`. Returns true to ask for it again, false to go on without
 * it. */
static bool wait_on(struct store *store, uint64_t offset, struct patience *patience)
{
	uint64_t progress, now = clock_now();
	bool impatient;

	if (!patience->since)
		patience->since = now;
	pthread_mutex_lock(&store->lock);
	impatient = is_impatient(store);
	if (!impatient && (patience->idle >= settings_patience(WAIT_IDLE) ||
			   now - patience->since >= settings_patience(WAIT_NS))) {
		lose_patience(store, patience);
		impatient = true;
	}
	pthread_mutex_unlock(&store->lock);
	if (impatient)
		return false;
	if (store_wait(store, offset, &progress))
		return true;
	if (progress == STORE_NO_CLAIM)
		return false;
	patience->idle = progress == patience->progress ? patience->idle + WAIT_SLICE : 0;
	patience->progress = progress;
	return true;
}

/* Waits for announced bytes, which come in the order of the file and many at once. Returns whether
 * they were not there yet. */
static bool wait_announced(struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t until = clock_now() + ANNOUNCED_NS;
	struct store_waiter self = {.offset = offset, .end = offset + length};
	bool waited = false;

	pthread_mutex_lock(&store->lock);
	self.next = store->landing.waiters;
	store->landing.waiters = &self;
	while (atomic_load(&store->landing.announced) && !self.passed_on &&
	       !store_covers(store, offset, length) && (waited = true) &&
	       clock_wait(&store->landing.landed, &store->lock, until))
		;
	list_remove(store->landing.waiters, &self, next);
	pthread_mutex_unlock(&store->lock);
	return waited;
}

/* Whether the page cache has all of a range that no arena is made for yet. Under the store lock. */
static bool is_left_to_cache(struct store *store, uint64_t offset, uint64_t end)
{
	bool left = !store->arena && store->believe_cache;

	end = end_in_file(store, end);
	for (uint64_t next; left && offset < end; offset = next) {
		uint64_t chunk = offset / ARENA_CHUNK;

		next = chunk_end(store, chunk) < end ? chunk_end(store, chunk) : end;
		left = store_has(store, chunk, offset, next - offset) ||
		       leave_to_cache(store, chunk, offset, next);
	}
	return left;
}

/* *waited: the thread has waited for storage or for another reader. */
static int bring(struct store *store, uint64_t offset, uint64_t end, bool *waited)
{
	struct store_load loads[LOADS_AT_ONCE];
	struct patience patience = {0};
	struct plan_how how = {.urgent = true,
			       .guess = atomic_load(&store->guess),
			       .large = end - offset >= STORE_FAULT};
	bool left;
	int rc = 0;

	pthread_mutex_lock(&store->lock);
	left = is_left_to_cache(store, offset, end);
	if (!left)
		how.widen = is_scanned(store) ? ARENA_CHUNK : widen_ahead(store);
	pthread_mutex_unlock(&store->lock);
	if (left)
		return 0;
	while (offset < end && !rc) {
		uint64_t start = offset;
		unsigned n;
		enum store_plan plan = plan_many(store, &offset, end, &how, loads, &n);

		*waited |= plan == PLAN_BUSY || plan == PLAN_COMING || plan == PLAN_PASS;
		if (offset > start) /* bytes come, whichever process reads them */
			patience = (struct patience){0};
		if (n) {
			rc = load_now(store, loads, n, waited);
			/* No memory for the arena, or the program has closed the descriptor: the
			 * file's own map serves. */
			if (rc == ENOMEM || rc == EBADF)
				rc = chunks_rest(store, start, offset);
			if (rc && (how.widen > ARENA_BLOCK || how.guess)) {
				/* Perhaps only the neighbours' bytes cannot be read. */
				how.widen = ARENA_BLOCK;
				how.guess = GUESS_NOTHING;
				offset = start;
				rc = 0;
			}
		} else if (plan == PLAN_COMING || plan == PLAN_PASS) {
			start = chunk_end(store, offset / ARENA_CHUNK);
			start = start < end ? start : end;
			stats_requests(plan == PLAN_PASS, start - offset);
			rc = store_await(store, offset, start - offset);
			offset = start;
		} else if (plan == PLAN_REST) {
			rc = ENOMEM;
		} else if (plan == PLAN_BUSY && !wait_on(store, offset, &patience)) {
			if (!how.alone && store->link.socket.fd >= 0) {
				how.alone = true; /* perhaps no process has claimed it */
				continue;
			}
			/* The chunk's reader lives but makes no progress: go on without it. */
			rc = chunks_rest(store, offset, offset + 1);
			offset = (offset / ARENA_CHUNK + 1) * ARENA_CHUNK;
			patience = (struct patience){0};
		}
	}
	return rc;
}

/* Whether to bring a range once more that is not all shown. Other processes may have published some
 * of the blocks just read; a chunk that shows only some blocks shows those when they are asked for
 * again. In a scan that maps few chunks, look-ahead may have unmapped the first of the range's
 * chunks meanwhile. */
static bool may_be_shown_again(struct store *store, uint64_t offset, uint64_t end)
{
	if (store_maps_few(store))
		return true;
	for (uint64_t chunk = offset / ARENA_CHUNK; chunk * ARENA_CHUNK < end; chunk++)
		if (get_state(store, chunk) == CHUNK_RUNS)
			return true;
	return false;
}

/* Marks chunks as used, so that look-ahead does not unmap what the program is about to read. Only
 * for a scan that maps few chunks. In a job, whose servers bring chunks, the marks cost a second
 * epoch a read of storage. */
static void use_all(struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t chunks = (end - 1) / ARENA_CHUNK - offset / ARENA_CHUNK + 1;

	if (chunks > atomic_load_explicit(&store->widest, memory_order_relaxed))
		atomic_store_explicit(&store->widest, chunks, memory_order_relaxed);
	for (uint64_t chunk = offset / ARENA_CHUNK; chunk * ARENA_CHUNK < end; chunk++)
		store_use(store, store->file.base + chunk * ARENA_CHUNK);
}

int arena_bring(struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t began = clock_now();
	bool waited = false, covered;
	int rc;

	if (atomic_load_explicit(&store->landing.announced, memory_order_relaxed))
		waited = wait_announced(store, offset, end - offset);
	if (offset < end && store_maps_few(store))
		use_all(store, offset, end);
	rc = bring(store, offset, end, &waited);
	covered = rc || end <= offset || store_covers(store, offset, end - offset);
	if (!covered && may_be_shown_again(store, offset, end)) {
		rc = bring(store, offset, end, &waited);
		covered = rc || store_covers(store, offset, end - offset);
	}
	if (!covered && atomic_load(&store->enabled)) {
		/* The caller is about to hand out pointers into chunks that could not be shown. */
		rc = chunks_leave(store, offset, end, false);
		if (!rc)
			rc = store->ops->stand_in(store, offset, end, &waited);
	}
	if (waited)
		store_waited(store, began);
	sure_failed(store, rc);
	return rc;
}

int store_bring(struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, size = store->file.size;

	/* The file may have grown: its own map serves what is beyond the end that the store was
	 * told. */
	return offset < size ? store->ops->bring(store, offset, end < size ? end : size) : 0;
}

bool store_has_copies(const struct store *store)
{
	return store->ops->bring_copies;
}

bool store_bring_copies(struct store *store, uint64_t offset, uint64_t length)
{
	return store->ops->bring_copies && store->ops->bring_copies(store, offset, length);
}

int store_bring_tree(struct store *store, uint64_t offset, uint64_t length)
{
	if (store_bring_copies(store, offset, length) && store_covers(store, offset, length))
		return 0;
	return store_bring(store, offset, length);
}
