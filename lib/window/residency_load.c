/* What only this file knows: who reads which bytes into the arena or the page cache, and when. */
#include "window/residency_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum {
	/* Milliseconds for somebody who reads and gets nothing done, or does; then the file's own
	 * map serves. */
	WAIT_IDLE = 250,
	WAIT_MAX = 2000,
	WAIT_SLICE = 50,
	ANNOUNCED_NS = 20000000,    /* for bytes that were announced */
	IMPATIENT_NS = 1000000000,  /* how long nobody slow is waited for any more */
	STREAK_MAX = 6,             /* at most 2 to this many values go unasked */
	READAHEAD_STEP = 128 << 10, /* bytes: of one call the kernel may do no more */
	POPULATE_MIN = 64 << 10,    /* bytes: of less, a fault brings as much as a call would */
	AHEAD_SHARE = 4,            /* of what may be pinned, as one part in so many */
	LOADS_AT_ONCE = 8,          /* chunks that one who waits reads as one request */
};

/* How a range is to be planned. */
struct plan_how {
	uint64_t widen; /* a power of two, at most a chunk: what is missing comes with its neighbours up
			   to multiples of it */
	bool urgent;    /* somebody waits for it */
	bool alone;     /* the server has been waited for in vain */
};

static void populate(struct residency *residency, uint64_t offset, uint64_t end)
{
	if (offset < residency->low)
		offset = residency->low;
	if (offset < end && end - offset >= POPULATE_MIN) {
		/* Only a saving of faults: a kernel that does not know it takes them singly. */
		(void)madvise(residency->base + offset, end - offset, MADV_POPULATE_READ);
		stats_add(STATS_POPULATE_CALLS, 1);
	}
}

/* Shows what is published already. Under the lock; the caller has seen the blocks published. */
static enum residency_plan show_published(struct residency *residency, uint64_t chunk,
					  uint64_t first, uint64_t last)
{
	bool fresh = !is_shown(residency, chunk);
	uint64_t run;

	if (fresh && residency->link.fd >= 0)
		shed(residency);
	if (fresh && !arena_pin(residency->arena, chunk))
		return PLAN_BUSY;
	/* Only a pin makes the look last. */
	if (fresh && arena_missing(residency->arena, first, last, &run)) {
		arena_unpin(residency->arena, chunk);
		return PLAN_BUSY;
	}
	arena_touch(residency->arena, chunk);
	if (chunk_show(residency, chunk, first, last)) {
		stats_add(STATS_HITS_ARENA_PEER, fresh);
		return PLAN_READY;
	}
	if (fresh)
		arena_unpin(residency->arena, chunk);
	return PLAN_REST;
}

static bool reserve(struct residency *residency, uint64_t blocks)
{
	shed(residency);
	if (arena_reserve(residency->arena, blocks))
		return true;
	shed_all(residency);
	return arena_reserve(residency->arena, blocks);
}

/* The run of missing blocks of a chunk in which `wanted` lies: what a scan will want in a moment
 * comes with the same request. */
static uint64_t missing_around(struct residency *residency, uint64_t chunk, uint64_t wanted,
			       uint64_t *run)
{
	uint64_t start, end, first, n;

	chunk_span(residency, chunk, &start, &end);
	for (first = block_of(start);; first = *run + n) {
		n = arena_missing(residency->arena, first, block_of(end), run);
		if (!n || *run + n > wanted)
			return n;
	}
}

/* Whether the node's server is to bring a chunk of which so many blocks are wanted. Under the lock. */
static bool is_served(struct residency *residency, uint64_t chunk, uint64_t blocks,
		      const struct plan_how *how)
{
	bool whole;

	if (residency->link.fd < 0 && residency->link_at != UINT64_MAX &&
	    clock_now() >= residency->link_at)
		residency_link(residency);
	if (residency->link.fd < 0 || how->alone ||
	    !arena_is_served(residency->arena, chunk, &whole) ||
	    clock_now() < residency->impatient_until)
		return false;
	return whole || how->widen >= ARENA_CHUNK || blocks >= ARENA_BLOCKS / 2;
}

/* The same in whole pieces of what is packed, which are not unpacked twice for a block in their
 * middle that is there. Returns how many blocks are missing in the `*count` from *run on. */
static uint64_t missing_pieces(struct residency *residency, uint64_t chunk, uint64_t first,
			       uint64_t last, uint64_t piece, uint64_t *run, uint64_t *count)
{
	uint64_t start, end, found, n, missing = 0, next;

	chunk_span(residency, chunk, &start, &end);
	first = first * ARENA_BLOCK & ~(piece - 1);
	last = round_up(last * ARENA_BLOCK, piece);
	first = block_of(first < start ? start : first);
	last = block_of(last > end ? end : last);
	*run = last;
	*count = 0;
	for (next = first; (n = arena_missing(residency->arena, next, last, &found)) > 0;
	     next = found + n) {
		if (!missing)
			*run = found;
		missing += n;
		*count = found + n - *run;
	}
	return missing;
}

/* One look at the first part of a range, under the lock. */
static enum residency_plan plan_locked(struct residency *residency, uint64_t offset,
				       uint64_t *length, const struct plan_how *how,
				       struct residency_load *load)
{
	uint64_t chunk = offset / ARENA_CHUNK, end = offset + *length, first, last, run, n, count;

	if (end > chunk_end(residency, chunk))
		end = chunk_end(residency, chunk);
	*length = end - offset;
	if (residency_has(residency, chunk, offset, *length))
		return PLAN_READY;
	if (leave_to_cache(residency, chunk, offset, end))
		return PLAN_READY;
	if (residency->kind == RESIDENCY_CACHE) {
		if (residency->taints[chunk])
			return PLAN_BUSY; /* it is being read */
		residency->taints[chunk] = 1;
		residency->loads++;
		/* In whole blocks: a direct read takes nothing else. */
		first = block_of(offset) * ARENA_BLOCK;
		last = block_end(end) * ARENA_BLOCK;
		*load = (struct residency_load){
			.offset = first, .length = last - first, .chunk = chunk};
		return PLAN_LOAD;
	}
	if (!residency_attach(residency))
		return PLAN_REST;
	first = block_of(offset < residency->low ? residency->low : offset);
	last = block_end(end);
	if (!arena_missing(residency->arena, first, last, &run))
		return show_published(residency, chunk, first, last);
	if (is_served(residency, chunk, last - first, how)) {
		shed(residency);
		node_link_wish(&residency->link, residency->arena, chunk, how->urgent);
		return PLAN_BUSY;
	}
	if (!arena_claim(residency->arena, chunk))
		return PLAN_BUSY;
	n = count = arena_missing(residency->arena, first, last, &run);
	if (n && residency->packed && how->widen > ARENA_BLOCK)
		n = missing_pieces(residency, chunk, run, last, how->widen, &run, &count);
	else if (n && how->widen > ARENA_BLOCK)
		n = count = missing_around(residency, chunk, run, &run);
	if (!n || !reserve(residency, n)) {
		arena_release(residency->arena, chunk);
		return n ? PLAN_REST : show_published(residency, chunk, first, last);
	}
	residency->loads++;
	*length = (run + count) * ARENA_BLOCK - offset;
	*load = (struct residency_load){
		.offset = run * ARENA_BLOCK,
		.length = count * ARENA_BLOCK,
		.chunk = chunk,
		.blocks = n,
		.arena = residency->arena,
	};
	return PLAN_LOAD;
}

/* How far a read ahead is widened: a container is not decompressed in smaller pieces. */
static uint64_t widen_ahead(const struct residency *residency)
{
	if (!residency->packed)
		return ARENA_BLOCK;
	if (atomic_load(&residency->scans) || residency->packed->piece > ARENA_CHUNK)
		return ARENA_CHUNK;
	return residency->packed->piece;
}

enum residency_plan residency_plan(struct residency *residency, uint64_t offset, uint64_t *length,
				   struct residency_load *load)
{
	struct plan_how how = {.widen = widen_ahead(residency)};
	enum residency_plan plan;

	pthread_mutex_lock(&residency->lock);
	plan = plan_locked(residency, offset, length, &how, load);
	pthread_mutex_unlock(&residency->lock);
	return plan;
}

/* One who waits for announced bytes. */
struct residency_waiter {
	uint64_t offset, end;
	struct residency_waiter *next;
};

static bool is_waited_for(const struct residency *residency, uint64_t offset, uint64_t end)
{
	for (const struct residency_waiter *w = residency->waiters; w; w = w->next)
		if (w->offset < end && offset < w->end)
			return true;
	return false;
}

int residency_finish(struct residency *residency, const struct residency_load *load,
		     const void *buffer, int error, size_t done)
{
	uint64_t end = load->offset + load->length;

	/* Short is right at the end of the file alone. */
	if (!error && done < load->length && load->offset + done < residency->size)
		error = EIO;
	if (!error && load->arena)
		error = arena_fill(load->arena, load->offset, buffer,
				   done < load->length ? done : load->length);
	pthread_mutex_lock(&residency->lock);
	if (!load->arena) {
		residency->taints[load->chunk] = 0;
		if (!error)
			mark_run(residency, block_of(load->offset), block_end(end));
	} else if (error) {
		arena_unreserve(load->arena, load->blocks);
		arena_release(load->arena, load->chunk);
	} else {
		bool fresh = !is_shown(residency, load->chunk);

		arena_publish(load->arena, block_of(load->offset), load->length / ARENA_BLOCK);
		if (load->arena != residency->arena || !atomic_load(&residency->enabled)) {
			arena_release(load->arena, load->chunk); /* nobody wants to see it now */
		} else {
			/* Nobody evicts what is claimed, so this pin holds. */
			fresh = fresh && arena_pin(load->arena, load->chunk);
			arena_release(load->arena, load->chunk);
			if ((fresh || is_shown(residency, load->chunk)) &&
			    !chunk_show(residency, load->chunk, block_of(load->offset),
					block_end(end)) &&
			    fresh)
				arena_unpin(load->arena, load->chunk);
			else
				populate(residency, load->offset, end);
			stats_add(STATS_HITS_ARENA_OWN, 1);
		}
	}
	residency->loads--;
	residency_bury(residency);
	if (is_waited_for(residency, load->offset, end))
		pthread_cond_broadcast(&residency->landed);
	pthread_mutex_unlock(&residency->lock);
	return error;
}

uint64_t residency_ahead(struct residency *residency)
{
	uint64_t ahead = UINT64_MAX;

	pthread_mutex_lock(&residency->lock);
	if (residency->arena && residency->link.fd >= 0)
		ahead = arena_share(residency->arena) / AHEAD_SHARE;
	pthread_mutex_unlock(&residency->lock);
	return ahead;
}

bool residency_idle(struct residency *residency, uint64_t offset, uint64_t length)
{
	if (residency_covers(residency, offset, length))
		return true;
	return residency->believe_cache && is_cached_at(residency, offset) &&
	       is_cached_at(residency, offset + length - 1);
}

bool residency_wait(struct residency *residency, uint64_t offset, uint64_t *progress)
{
	uint64_t chunk = offset / ARENA_CHUNK;
	struct arena *arena;
	bool free_now;

	pthread_mutex_lock(&residency->lock);
	arena = residency->arena;
	residency->loads++; /* so that it is not closed under the wait */
	pthread_mutex_unlock(&residency->lock);
	free_now = !arena || arena_wait(arena, chunk, WAIT_SLICE);
	/* One that nobody has claimed may be the server's to bring. */
	if (free_now && arena && clock_now() >= residency->impatient_until)
		free_now = arena_wish_wait(arena, chunk, WAIT_SLICE);
	if (!free_now && progress)
		*progress = arena_progress(arena, chunk);
	pthread_mutex_lock(&residency->lock);
	residency->loads--;
	residency_bury(residency);
	pthread_mutex_unlock(&residency->lock);
	return free_now;
}

/* One is kept, because most reads are of a chunk or less and come one after another. */
static void *buffer_take(struct residency *residency, size_t length)
{
	void *buffer = length > ARENA_CHUNK ? NULL : atomic_exchange(&residency->spare, NULL);

	return buffer ? buffer : io_buffer_new(length > ARENA_CHUNK ? length : ARENA_CHUNK);
}

static void buffer_return(struct residency *residency, void *buffer, size_t length)
{
	void *none = NULL;

	if (length > ARENA_CHUNK)
		io_buffer_free(buffer, length);
	else if (!buffer || !atomic_compare_exchange_strong(&residency->spare, &none, buffer))
		io_buffer_free(buffer, ARENA_CHUNK);
}

/* Reads what plans have taken on; neighbours in the file are one request. Every claim is given
 * back. */
static int load_now(struct residency *residency, const struct residency_load *loads, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0, next; i < n; i = next) {
		size_t length = loads[i].length, done = 0, from = 0;
		int error = ENOMEM;
		uint8_t *buffer;

		for (next = i + 1; next < n && loads[i].offset + length == loads[next].offset;
		     next++)
			length += loads[next].length;
		buffer = buffer_take(residency, length);
		if (buffer) {
			error = io_read(residency->io, buffer, length, loads[i].offset, &done);
			stats_add(STATS_STORAGE_REQUESTS, 1);
			stats_add(STATS_STORAGE_BYTES, done);
		}
		for (; i < next; from += loads[i++].length) {
			size_t left = done > from ? done - from : 0;
			int failed = residency_finish(residency, &loads[i],
						      buffer ? buffer + from : NULL, error, left);

			rc = rc ? rc : failed;
		}
		buffer_return(residency, buffer, length);
	}
	return rc;
}

/* What comes behind a chunk that the server brings is wished for with it. Under the lock. */
static void wish_on(struct residency *residency, uint64_t offset, uint64_t end,
		    const struct plan_how *how)
{
	for (unsigned n = 1; n < LOADS_AT_ONCE && offset < end; n++) {
		uint64_t chunk = offset / ARENA_CHUNK, stop = chunk_end(residency, chunk), run;

		if (stop > end)
			stop = end;
		if (is_served(residency, chunk, block_end(stop) - block_of(offset), how) &&
		    arena_missing(residency->arena, block_of(offset), block_end(stop), &run))
			node_link_wish(&residency->link, residency->arena, chunk, how->urgent);
		offset = stop;
	}
}

/* Plans as much of [*offset, end) as can be read at once; moves *offset past it. *n is how many
 * loads were taken on. Returns the last plan: PLAN_BUSY when it stopped at somebody else's chunk,
 * PLAN_REST when it stopped at one that cannot be shown in any way. */
static enum residency_plan plan_many(struct residency *residency, uint64_t *offset, uint64_t end,
				     const struct plan_how *how, struct residency_load *loads, unsigned *n)
{
	enum residency_plan plan = PLAN_READY;

	*n = 0;
	pthread_mutex_lock(&residency->lock);
	while (*offset < end && *n < LOADS_AT_ONCE) {
		uint64_t length = end - *offset;

		plan = plan_locked(residency, *offset, &length, how, &loads[*n]);
		if (plan == PLAN_BUSY) {
			wish_on(residency, *offset + length, end, how);
			break;
		}
		if (plan == PLAN_REST) {
			stats_add(STATS_AT_REST, 1);
			if (!chunk_rest(residency, *offset / ARENA_CHUNK))
				break;
		}
		*n += plan == PLAN_LOAD;
		plan = PLAN_READY;
		*offset += length;
	}
	pthread_mutex_unlock(&residency->lock);
	return plan;
}

/* All of it as one request to the page cache; who touches it waits there. */
static int bring_cached(struct residency *residency, uint64_t offset, uint64_t end)
{
	unsigned streak, skip;

	/* The more often values were found there, the more of them pass unasked. */
	if (residency->believe_cache) {
		skip = atomic_load_explicit(&residency->skip, memory_order_relaxed);
		if (skip) {
			atomic_store_explicit(&residency->skip, skip - 1, memory_order_relaxed);
			return 0;
		}
		streak = atomic_load_explicit(&residency->streak, memory_order_relaxed);
		if (is_cached_at(residency, offset + (end - offset) / 2)) {
			streak += streak < STREAK_MAX;
			atomic_store_explicit(&residency->streak, streak, memory_order_relaxed);
			atomic_store_explicit(&residency->skip, 1u << streak, memory_order_relaxed);
			return 0;
		}
		atomic_store_explicit(&residency->streak, 0, memory_order_relaxed);
	}
	for (uint64_t step = offset; step < end; step += READAHEAD_STEP)
		if (readahead(residency->fd, (off_t)step,
			      end - step < READAHEAD_STEP ? end - step : READAHEAD_STEP))
			return 0; /* no such service there: the map's own faults do it */
	stats_add(STATS_STORAGE_REQUESTS, 1);
	stats_add(STATS_STORAGE_BYTES, end - offset);
	mark_run(residency, block_of(offset), block_end(end));
	return 0;
}

/* The file's own map serves from here on. Returns 0, or ENOMEM when the kernel has no map left. */
static int chunks_rest(struct residency *residency, uint64_t offset, uint64_t end)
{
	bool rested = true;

	pthread_mutex_lock(&residency->lock);
	for (uint64_t chunk = offset / ARENA_CHUNK; chunk * ARENA_CHUNK < end; chunk++)
		rested &= chunk_rest(residency, chunk);
	pthread_mutex_unlock(&residency->lock);
	stats_add(STATS_FALLBACKS, 1);
	return rested ? 0 : ENOMEM;
}

/* Whether somebody on the node goes over all of the file. */
static bool is_scanned(struct residency *residency)
{
	bool scanned;

	if (atomic_load_explicit(&residency->scans, memory_order_relaxed))
		return true;
	pthread_mutex_lock(&residency->lock);
	scanned = atomic_load(&residency->enabled) && residency_attach(residency) &&
		  arena_scanned(residency->arena);
	pthread_mutex_unlock(&residency->lock);
	return scanned;
}

/* What stays with the file's own map is faulted in here, where a read that fails is an errno; a
 * program that touched it would get a signal. */
static int touch_rest(struct residency *residency, uint64_t offset, uint64_t end)
{
	uint64_t first = offset, last = end;

	offset &= ~(uint64_t)(ARENA_BLOCK - 1);
	if (!is_cached(residency, offset, end)) {
		if (is_scanned(residency) || clock_now() < residency->impatient_until) {
			first -= first % ARENA_CHUNK;
			last = chunk_end(residency, (last - 1) / ARENA_CHUNK);
		}
		/* The kernel's requests are small, but these it sends off together. */
		for (; first < last; first += READAHEAD_STEP)
			(void)!readahead(residency->fd, (off_t)first, READAHEAD_STEP);
	}
	if (!madvise(residency->base + offset, end - offset, MADV_POPULATE_READ))
		return 0;
	return errno == EFAULT || errno == EIO || errno == EHWPOISON ? EIO : 0;
}

/* Where no plain file can serve instead: past the arena. */
static int bring_spilled(struct residency *residency, uint64_t offset, uint64_t end)
{
	int rc = 0;

	for (uint64_t next; offset < end && !rc; offset = next) {
		next = chunk_end(residency, offset / ARENA_CHUNK);
		if (next > end)
			next = end;
		if (!residency_covers(residency, offset, next - offset))
			rc = chunk_bring_spilled(residency, offset / ARENA_CHUNK);
	}
	return rc;
}

/* One who waits for a chunk that somebody else reads, in milliseconds. */
struct patience {
	unsigned waited, idle; /* idle: without the other one's getting anything done */
	uint64_t progress;
};

/* Whether to ask again for it, after a while; false: go without it. Waiting long once is enough:
 * who is stopped has more than one chunk in hand. */
static bool wait_on(struct residency *residency, uint64_t offset, struct patience *patience)
{
	uint64_t now = clock_now(), progress;

	if (patience->idle >= WAIT_IDLE || patience->waited >= WAIT_MAX)
		residency->impatient_until = now + IMPATIENT_NS;
	if (now < residency->impatient_until)
		return false;
	if (residency_wait(residency, offset, &progress))
		return true;
	patience->idle = progress == patience->progress ? patience->idle + WAIT_SLICE : 0;
	patience->progress = progress;
	patience->waited += WAIT_SLICE;
	return true;
}

/* What has been announced comes in the order of the file and many at once. */
static void wait_announced(struct residency *residency, uint64_t offset, uint64_t length)
{
	uint64_t end = clock_now() + ANNOUNCED_NS;
	struct timespec until = {.tv_sec = (time_t)(end / 1000000000),
				 .tv_nsec = (long)(end % 1000000000)};
	struct residency_waiter self = {.offset = offset, .end = offset + length}, **link;

	pthread_mutex_lock(&residency->lock);
	self.next = residency->waiters;
	residency->waiters = &self;
	while (atomic_load(&residency->announced) && !residency_covers(residency, offset, length) &&
	       !pthread_cond_timedwait(&residency->landed, &residency->lock, &until))
		;
	for (link = &residency->waiters; *link != &self; link = &(*link)->next)
		;
	*link = self.next;
	pthread_mutex_unlock(&residency->lock);
}

static int bring(struct residency *residency, uint64_t offset, uint64_t end)
{
	struct residency_load loads[LOADS_AT_ONCE];
	struct patience patience = {0};
	struct plan_how how = {.widen = is_scanned(residency) ? ARENA_CHUNK : widen_ahead(residency),
			       .urgent = true};
	int rc = 0;

	while (offset < end && !rc) {
		uint64_t start = offset;
		unsigned n;
		enum residency_plan plan = plan_many(residency, &offset, end, &how, loads, &n);

		if (n) {
			rc = load_now(residency, loads, n);
			/* No memory for the arena: the file's own map serves. */
			if (rc == ENOMEM)
				rc = chunks_rest(residency, start, offset);
			if (rc && how.widen > ARENA_BLOCK) {
				/* Perhaps it was not our bytes that failed. */
				how.widen = ARENA_BLOCK;
				offset = start;
				rc = 0;
			}
			patience = (struct patience){0};
		} else if (plan == PLAN_REST) {
			rc = ENOMEM;
		} else if (plan == PLAN_BUSY && !wait_on(residency, offset, &patience)) {
			if (!how.alone && residency->link.fd >= 0) {
				how.alone = true; /* perhaps nobody has claimed it */
				continue;
			}
			/* Its reader lives but does not come on: go without it. */
			rc = chunks_rest(residency, offset, offset + 1);
			offset = (offset / ARENA_CHUNK + 1) * ARENA_CHUNK;
			patience = (struct patience){0};
		}
	}
	return rc;
}

int residency_bring(struct residency *residency, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, began;
	int rc;

	if (end > residency->size)
		end = residency->size;
	if (residency->kind == RESIDENCY_CACHE)
		return bring_cached(residency, offset, end);
	began = clock_now();
	if (atomic_load_explicit(&residency->announced, memory_order_relaxed))
		wait_announced(residency, offset, end - offset);
	rc = bring(residency, offset, end);
	if (!rc && atomic_load(&residency->enabled) && end > offset &&
	    !residency_covers(residency, offset, end - offset))
		rc = residency->spill < 0 ? touch_rest(residency, offset, end)
					  : bring_spilled(residency, offset, end);
	stats_add(STATS_WAITS, 1);
	stats_add(STATS_WAIT_NS, clock_now() - began);
	return rc;
}

/* Pages of a tree by themselves, as long as nobody goes over all of the file. false: they are to be
 * brought in the ordinary way, whatever the reason. */
static bool bring_copies(struct residency *residency, uint64_t offset, uint64_t end)
{
	uint64_t first = offset & ~(uint64_t)(ARENA_BLOCK - 1);
	uint64_t length = round_up(end, ARENA_BLOCK) - first, part = end - offset;
	const struct plan_how how = {.widen = ARENA_BLOCK, .alone = true};
	struct residency_load load;
	enum residency_plan plan = PLAN_BUSY;
	uint8_t *buffer;

	if (length > ARENA_CHUNK || !atomic_load(&residency->enabled) || is_scanned(residency))
		return false;
	buffer = buffer_take(residency, length);
	if (buffer && !residency->packed->read_tree(residency->io, buffer, length, first)) {
		pthread_mutex_lock(&residency->lock);
		plan = plan_locked(residency, offset, &part, &how, &load);
		pthread_mutex_unlock(&residency->lock);
		if (plan == PLAN_LOAD)
			(void)residency_finish(residency, &load, buffer + (load.offset - first), 0,
					       load.length);
	}
	buffer_return(residency, buffer, length);
	return plan != PLAN_BUSY && plan != PLAN_REST;
}

int residency_bring_tree(struct residency *residency, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;

	if (residency->packed && end <= residency->size && bring_copies(residency, offset, end) &&
	    residency_covers(residency, offset, length))
		return 0;
	return residency_bring(residency, offset, length);
}
