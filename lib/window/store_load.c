/* SPDX-License-Identifier: OLDAP-2.8 */
/* Plans reads into the arena or the page cache, and shows their bytes when they have come. */
#include "window/store_private.h"

#include "io/io_page_cache.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum {
	PREPARE = 8,            /* chunks at a time */
	PREPARE_AHEAD = 24,     /* chunks: how far ahead */
	AROUND = 128 << 10,     /* bytes: as the kernel reads around */
	AROUND_TIMES = 2,       /* reads in a chunk: two of 0.5 ms cost nearly the chunk's 1.2 ms */
	ALONE_TIMES = 6,        /* the threshold when neighbours are not read along */
	EPOCH_SHARE = 16,       /* one part in so many of the file: then all of it will be read */
	EPOCH_ALONE = 8,        /* the same when neighbours are not read along */
	EPOCH_LEAST = 64 << 20, /* bytes */
	EPOCH_AGAIN = 16,       /* one part in so many is read twice to save a request */
	LOST_MAX = 8,           /* lost loads; then no more loads are passed on */
};

/* Half a huge page gets no page-table entries before the other half is shown: they would prevent
 * the one entry for both. Of the bytes that a guess has added, a program that reads at random uses
 * few pages, each with one fault; entries for a chunk take 16 calls. */
static void map_landed(const struct store *store, const struct store_load *load)
{
	uint64_t other = load->chunk ^ (ARENA_PAIR - 1);

	if (!is_half(store, load->chunk))
		map_read(store, load->wanted, load->wanted_end - load->wanted);
	else if (is_shown(store, other))
		map_read(store, load->offset, STORE_FAULT);
}

/* Whether chunks stay unmapped until the program comes to them. A chunk that look-ahead maps takes
 * the place of another, and several scans may map so few that this is the one that the program
 * reads. Its page faults then read the file in pieces of 128 KiB: 2 to 14 % of all requests of
 * eight scans. */
static bool is_mapped_late(const struct store *store)
{
	unsigned steppers;

	return scan_share(store) && arena_scanners(store->arena, &steppers) > 1;
}

/* Shows blocks that are published already, or leaves them unmapped. Under the store lock; the
 * caller has seen the blocks published. */
static enum store_plan show_published(struct store *store, uint64_t chunk, uint64_t first,
				      uint64_t last, bool unmapped)
{
	bool fresh = !is_shown(store, chunk);
	uint64_t run;

	if (fresh && unmapped && is_mapped_late(store)) {
		arena_touch(store->arena, chunk);
		return PLAN_READY;
	}
	if (fresh && (store->link.socket.fd >= 0 || scan_share(store)))
		shed(store);
	if (fresh && !arena_pin(store->arena, chunk))
		return PLAN_BUSY;
	/* Before the pin another process may have evicted the chunk. */
	if (fresh && arena_missing(store->arena, first, last, &run)) {
		arena_unpin(store->arena, chunk);
		return PLAN_BUSY;
	}
	arena_touch(store->arena, chunk);
	if (chunk_show(store, chunk, first, last)) {
		stats_add(is_own(store, chunk) ? STATS_HITS_ARENA_OWN : STATS_HITS_ARENA_PEER,
			  fresh);
		return PLAN_READY;
	}
	if (fresh)
		arena_unpin(store->arena, chunk);
	return PLAN_REST;
}

/* Reserves memory. Look-ahead of a scan may not take the maps of what its program reads now. */
static bool reserve(struct store *store, uint64_t blocks, bool urgent)
{
	uint64_t before;

	/* A failed try tells all processes that memory is short. */
	for (unsigned tries = 0; tries < 2; tries++) {
		shed(store);
		if (arena_reserve(store->arena, blocks))
			return true;
	}
	if (!urgent && scan_share(store))
		return false;
	before = store->shown.mapped_count;
	shed_all(store);
	if (before)
		atomic_fetch_add_explicit(&store->shown.emptied, 1, memory_order_relaxed);
	stats_add(STATS_EVICTIONS, before - store->shown.mapped_count);
	return arena_reserve(store->arena, blocks);
}

/* Finds the run of missing blocks of a chunk around `wanted`: one request brings what a scan will
 * want in a moment, too. */
static uint64_t missing_around(struct store *store, uint64_t chunk, uint64_t wanted, uint64_t *run)
{
	uint64_t start, end, first, n;

	chunk_span(store, chunk, &start, &end);
	for (first = block_of(start);; first = *run + n) {
		n = arena_missing(store->arena, first, block_of(end), run);
		if (!n || *run + n > wanted)
			return n;
	}
}

bool is_linked(struct store *store)
{
	if (store->link.socket.fd < 0 && store->link_at != UINT64_MAX && clock_now() >= store->link_at)
		store_link(store);
	return store->link.socket.fd >= 0;
}

bool is_served(struct store *store, uint64_t chunk, uint64_t blocks, const struct plan_how *how,
	       uint64_t widen)
{
	bool whole;

	if (!is_linked(store) || how->alone || !arena_is_served(store->arena, chunk, &whole) ||
	    is_impatient(store))
		return false;
	return whole || widen >= ARENA_CHUNK || blocks >= ARENA_BLOCKS / 2;
}

/* The same in whole pieces, for containers and where requests are expensive: a present block in the
 * middle does not split them. Returns how many of the *count blocks from *run on are missing. */
static uint64_t missing_pieces(struct store *store, uint64_t chunk, uint64_t first, uint64_t last,
			       uint64_t piece, uint64_t *run, uint64_t *count)
{
	uint64_t start, end, found, n, missing = 0, next;

	chunk_span(store, chunk, &start, &end);
	first = first * ARENA_BLOCK & ~(piece - 1);
	last = round_up(last * ARENA_BLOCK, piece);
	first = block_of(first < start ? start : first);
	last = block_of(last > end ? end : last);
	*run = last;
	*count = 0;
	for (next = first; (n = arena_missing(store->arena, next, last, &found)) > 0;
	     next = found + n) {
		if (!missing)
			*run = found;
		missing += n;
		*count = found + n - *run;
	}
	return missing;
}

void store_guess(struct store *store, enum store_guess guess)
{
	atomic_store(&store->guess, guess);
}

/* How far a request is widened. A program that reads at random reads all of the file in the end, or
 * a little; the store cannot know which. So all of a chunk comes when the reads in it have cost as
 * much as the chunk (the ski-rental rule: Karlin et al., Algorithmica 3, 1988; never more than
 * twice the least). Before that each read brings the neighbours too, as with the kernel's own
 * read-around: they cost hardly more. Where no neighbours were read, the chunk costs at most 0.4
 * times as much as the reads before it. Large values get no neighbours, which would cost as much as
 * the values. Reading 400 of 5,000 values of 100 KB brought 2.4 times their bytes when the third
 * read brought the whole chunk. */
static uint64_t widen_guess(struct store *store, uint64_t chunk, const struct plan_how *how)
{
	bool around = how->guess == GUESS_AROUND && !how->large;

	if (arena_pieces(store->arena, chunk) >= (around ? AROUND_TIMES : ALONE_TIMES))
		return ARENA_CHUNK;
	return around ? AROUND : ARENA_BLOCK;
}

/* Whether programs have read so much of the file at random, nothing twice, that they will read all
 * of it: an epoch. The best guess is that as much is still to come as was read (Gott, Nature 363,
 * 1993). Then the missing bytes around a value cost less than the requests that they save. */
static bool is_epoch(struct store *store, enum store_guess guess)
{
	uint64_t read = arena_pieces_blocks(store->arena) * ARENA_BLOCK;

	return read > EPOCH_LEAST &&
	       read > store->file.data / (guess == GUESS_AROUND ? EPOCH_SHARE : EPOCH_ALONE);
}

/* A read of blocks of a claimed chunk. */
static struct store_load load_of(struct store *store, uint64_t chunk, uint64_t first,
				 uint64_t count)
{
	return (struct store_load){
		.offset = first * ARENA_BLOCK,
		.length = count * ARENA_BLOCK,
		.chunk = chunk,
		.wanted = first * ARENA_BLOCK,
		.wanted_end = (first + count) * ARENA_BLOCK,
		.arena = store->arena,
		.shown = is_shown(store, chunk),
	};
}

/* Whether the arena has room for the whole file. Without it, most chunks would be evicted before
 * their next use. */
static bool has_room(struct store *store)
{
	return arena_room(store) >= store->file.data;
}

bool passes_pages(struct store *store)
{
	enum store_guess guess = atomic_load(&store->guess);

	/* Where neighbours are wanted, the kernel has to read them along. */
	return (guess == GUESS_CHUNKS || (guess == GUESS_AROUND && !store->file.random)) &&
	       has_room(store) && store->believe_cache && store_reads(store) && is_told(store);
}

enum store_plan arena_plan(struct store *store, uint64_t offset, uint64_t *length,
			   const struct plan_how *how, struct store_load *load)
{
	uint64_t chunk = offset / ARENA_CHUNK, end = offset + *length, first, last, run, n, count;
	uint64_t widen = how->widen;
	bool epoch = false;

	if (!store_attach(store))
		return PLAN_REST;
	first = block_of(offset < store->file.low ? store->file.low : offset);
	last = block_end(end);
	if (!arena_missing(store->arena, first, last, &run))
		return show_published(store, chunk, first, last, how->unmapped);
	if (how->guess && widen == ARENA_BLOCK && has_room(store)) {
		epoch = is_epoch(store, how->guess);
		widen = epoch ? ARENA_CHUNK : widen_guess(store, chunk, how);
	}
	if (how->guess && how->widen == ARENA_BLOCK && widen < ARENA_CHUNK && !how->large &&
	    !is_shown(store, chunk) && passes_pages(store)) {
		/* Processes that wait for the same bytes at once are one read. */
		if (!is_cached_beneath(store, first * ARENA_BLOCK, (last - first) * ARENA_BLOCK))
			arena_pieces_add(store->arena, chunk,
					 widen > ARENA_BLOCK ? widen / ARENA_BLOCK : last - first);
		return PLAN_PASS;
	}
	if (is_served(store, chunk, last - first, how, widen)) {
		shed(store);
		node_link_wish(&store->link, store->arena, chunk, how->urgent);
		return PLAN_BUSY;
	}
	if (!arena_claim(store->arena, chunk))
		return PLAN_BUSY;
	/* Bytes that the page cache has of a shown chunk need no neighbours. */
	if (widen > how->widen && is_shown(store, chunk) &&
	    is_cached_beneath(store, first * ARENA_BLOCK, (last - first) * ARENA_BLOCK))
		widen = how->widen;
	n = count = arena_missing(store->arena, first, last, &run);
	if (n && (store->piece > ARENA_BLOCK || widen > how->widen) && widen > ARENA_BLOCK)
		n = missing_pieces(store, chunk, run, last, widen, &run, &count);
	else if (n && widen > ARENA_BLOCK)
		n = count = missing_around(store, chunk, run, &run);
	if (n && how->passed_on) {
		*length = (run + count) * ARENA_BLOCK - offset;
		*load = load_of(store, chunk, run, count);
		load->passed_on = true;
		return PLAN_LOAD;
	}
	/* Do not read much again that is in the arena. */
	if (epoch && count > n + n / EPOCH_AGAIN)
		n = count = missing_around(store, chunk, first, &run);
	else if (how->guess == GUESS_CHUNKS && count > n + n / 3)
		n = count = arena_missing(store->arena, first, last, &run);
	if (!n || !reserve(store, n, how->urgent)) {
		arena_release(store->arena, chunk);
		return n ? PLAN_REST : show_published(store, chunk, first, last, how->unmapped);
	}
	*length = (run + count) * ARENA_BLOCK - offset;
	*load = load_of(store, chunk, run, count);
	load->blocks = n;
	load->guessed = how->guess;
	load->unmapped = how->unmapped;
	load->announced = how->announced;
	if (how->guess) {
		load->wanted = offset;
		load->wanted_end = end < load->wanted_end ? end : load->wanted_end;
	}
	return PLAN_LOAD;
}

enum store_plan plan_locked(struct store *store, uint64_t offset, uint64_t *length,
			    const struct plan_how *how, struct store_load *load)
{
	uint64_t chunk = offset / ARENA_CHUNK, end = offset + *length;
	enum store_plan plan;

	if (offset >= store->file.size) /* as store_bring() */
		return PLAN_REST;
	if (end > chunk_end(store, chunk))
		end = chunk_end(store, chunk);
	*length = end - offset;
	if (store_has(store, chunk, offset, *length))
		return PLAN_READY;
	if (!how->again && !how->passed_on && leave_to_cache(store, chunk, offset, end))
		return PLAN_READY;
	if (how->urgent && is_coming(store, offset, *length, how))
		return PLAN_COMING;
	plan = store->ops->plan(store, offset, length, how, load);
	if (plan == PLAN_LOAD) {
		load->file_size = store->file.size;
		store->landing.loads++;
	}
	return plan;
}

uint64_t widen_ahead(const struct store *store)
{
	return store->piece > ARENA_BLOCK && atomic_load(&store->scans) ? ARENA_CHUNK
									: store->piece;
}

enum store_plan store_plan(struct store *store, uint64_t offset, uint64_t *length, unsigned flags,
			   struct store_load *load)
{
	struct plan_how how = {.widen = widen_ahead(store),
			       .again = flags & PLAN_AGAIN,
			       .unmapped = flags & PLAN_UNMAPPED,
			       .announced = flags & PLAN_ANNOUNCED};
	enum store_plan plan;

	pthread_mutex_lock(&store->lock);
	how.passed_on = store->passes_on;
	plan = plan_locked(store, offset, length, &how, load);
	pthread_mutex_unlock(&store->lock);
	return plan;
}

bool store_copy(struct store *store, uint64_t offset, size_t length, void *to)
{
	uint64_t chunk = offset / ARENA_CHUNK;
	bool there = false;

	pthread_mutex_lock(&store->lock);
	if (is_mapped_late(store) && (is_shown(store, chunk) || arena_pin(store->arena, chunk))) {
		there = arena_present(store->arena, block_of(offset), block_end(length));
		if (there)
			memcpy(to, arena_bytes(store->arena) + offset, length);
		if (!is_shown(store, chunk))
			arena_unpin(store->arena, chunk);
	}
	pthread_mutex_unlock(&store->lock);
	return there;
}

void *store_place(const struct store_load *load)
{
	/* Readers may be looking at published blocks. A decoder leaves other bytes there for a
	 * moment, and for good if it fails or its process ends. */
	return load->arena && !load->passed_on && load->blocks * ARENA_BLOCK == load->length
		       ? arena_place(load->arena, load->offset, load->length)
		       : NULL;
}

/* Finds the first chunks, a little way in front of `chunk`, that no process has tried to prepare.
 * Returns false if there are none. */
static bool find_unprepared(const struct store *store, uint64_t chunk, bool forward,
			    uint64_t *first)
{
	for (uint64_t n = 1; n <= PREPARE_AHEAD && (forward || n <= chunk); n++) {
		*first = forward ? chunk + n : chunk - n;
		if (arena_may_prepare(store->arena, *first)) {
			if (!forward)
				*first = *first < PREPARE ? 0 : *first - PREPARE + 1;
			return true;
		}
	}
	return false;
}

void store_prepare(struct store *store, uint64_t offset, bool forward)
{
	struct arena *arena = NULL;
	uint64_t first;

	pthread_mutex_lock(&store->lock);
	if (store->arena && atomic_load(&store->scans) && store->link.socket.fd < 0 &&
	    find_unprepared(store, offset / ARENA_CHUNK, forward, &first)) {
		arena = store->arena;
		store->landing.loads++; /* so that the arena is not closed meanwhile */
	}
	pthread_mutex_unlock(&store->lock);
	if (!arena)
		return;
	arena_prepare(arena, first, PREPARE);
	pthread_mutex_lock(&store->lock);
	store->landing.loads--;
	store_bury(store);
	pthread_mutex_unlock(&store->lock);
}

/* Wakes threads that wait for some of a load's bytes. Under the store lock. */
static void tell_waiters(struct store *store, const struct store_load *load)
{
	uint64_t end = load->offset + load->length;
	bool any = false;

	for (struct store_waiter *w = store->landing.waiters; w; w = w->next)
		if (w->offset < end && load->offset < w->end) {
			w->passed_on |= load->passed_on;
			any = true;
		}
	if (any)
		pthread_cond_broadcast(&store->landing.landed);
}

void store_pass_on(struct store *store, bool on)
{
	pthread_mutex_lock(&store->lock);
	store->passes_on = on;
	pthread_mutex_unlock(&store->lock);
}

bool store_may_pass_on(struct store *store)
{
	uint64_t pages;
	bool may;

	pthread_mutex_lock(&store->lock);
	may = store_reads(store) && store->believe_cache && store->lost < LOST_MAX &&
	      is_told(store) && !io_pages_cached(store->file.fd, 0, ARENA_BLOCK, &pages) &&
	      !(store->arena && is_linked(store));
	pthread_mutex_unlock(&store->lock);
	return may;
}

int store_begin_passed(struct store *store, uint64_t offset, uint64_t length)
{
	int fd = store->file.fd, rc;
	uint64_t pages;

	if (!descriptor_is(fd, store->file.device, store->file.inode))
		return EBADF;
	if (!io_pages_cached(fd, offset, length, &pages) && pages >= block_end(length))
		return EALREADY;
	rc = io_begin(fd, offset, length);
	if (rc)
		return rc;
	/* A file system may keep what it reads in a cache of its own, as GPFS does. Other processes
	 * would then read all of it again. */
	if (!store->kept && !io_pages_cached(fd, offset, length, &pages))
		store->kept = pages > 0;
	return store->kept ? 0 : ENODATA;
}

void store_wait_passed(const struct store *store, uint64_t offset)
{
	if (descriptor_is(store->file.fd, store->file.device, store->file.inode))
		(void)io_pass(store->file.fd, offset, 1);
}

static void land_passed_on(struct store *store, const struct store_load *load, int error)
{
	arena_beat(load->arena); /* processes that wait for the chunk see progress */
	arena_release(load->arena, load->chunk);
	store->lost += error == ENODATA && store->lost < LOST_MAX;
}

void arena_land(struct store *store, const struct store_load *load, int error)
{
	uint64_t first = block_of(load->offset), end = first + load->length / ARENA_BLOCK;
	bool fresh = !is_shown(store, load->chunk);

	if (load->passed_on) {
		land_passed_on(store, load, error);
		return;
	}
	if (error) {
		arena_abandon(load->arena, load->chunk, load->blocks);
		return;
	}
	arena_publish(load->arena, first, end - first);
	if (load->announced)
		arena_expect(load->arena, load->chunk, load->length);
	if (load->arena == store->arena)
		set_own(store, load->chunk);
	if (load->arena != store->arena || !atomic_load(&store->enabled) ||
	    (fresh && load->unmapped && is_mapped_late(store))) {
		arena_release(load->arena, load->chunk); /* the window does not show it now */
		return;
	}
	/* A claimed chunk is not evicted, so this pin holds. */
	fresh = fresh && arena_pin(load->arena, load->chunk);
	arena_release(load->arena, load->chunk);
	/* Page-table entries of a chunk that shows the file would make the kernel read the file. */
	if ((fresh || is_shown(store, load->chunk)) && chunk_show(store, load->chunk, first, end)) {
		if (!fresh) /* what has landed in it is wanted, though the chunk is old */
			store_use(store, store->file.base + load->offset);
		map_landed(store, load);
	} else if (fresh)
		arena_unpin(load->arena, load->chunk);
	stats_add(STATS_HITS_ARENA_OWN, 1);
}

int store_finish(struct store *store, const struct store_load *load, const void *buffer, int error,
		 size_t done)
{
	/* A short read is right only at the end of the file, which may have grown since. */
	if (!error && done < load->length && load->offset + done < load->file_size)
		error = EIO;
	if (!error && load->arena && !load->passed_on &&
	    buffer != arena_bytes(load->arena) + load->offset)
		error = arena_fill(load->arena, load->offset, buffer,
				   done < load->length ? done : load->length);
	pthread_mutex_lock(&store->lock);
	store->ops->land(store, load, error);
	store->landing.loads--;
	store_bury(store);
	tell_waiters(store, load);
	pthread_mutex_unlock(&store->lock);
	return error;
}

bool store_idle(struct store *store, uint64_t offset, uint64_t length)
{
	if (store_covers(store, offset, length))
		return true;
	return store->believe_cache && is_cached_at(store, offset) &&
	       is_cached_at(store, offset + length - 1);
}

bool store_wait(struct store *store, uint64_t offset, uint64_t *progress)
{
	uint64_t chunk = offset / ARENA_CHUNK, began = clock_now();
	struct arena *arena;
	bool free_now, impatient;

	pthread_mutex_lock(&store->lock);
	arena = store->arena;
	impatient = is_impatient(store);
	store->landing.loads++; /* so that the arena is not closed under the wait */
	pthread_mutex_unlock(&store->lock);
	free_now = !arena || arena_wait(arena, chunk, WAIT_SLICE);
	/* A server may be bringing a chunk that has no claim. */
	if (free_now && arena && !impatient)
		free_now = arena_wish_wait(arena, chunk, WAIT_SLICE);
	/* The arena waits for all of the slice if a process has the claim. */
	if (!free_now)
		*progress = clock_now() - began < WAIT_SLICE * UINT64_C(1000000)
				    ? STORE_NO_CLAIM
				    : arena_progress(arena, chunk);
	pthread_mutex_lock(&store->lock);
	store->landing.loads--;
	store_bury(store);
	pthread_mutex_unlock(&store->lock);
	return free_now;
}
