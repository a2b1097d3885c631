/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds out whether bytes are in memory already, and where. */
#include "window/store_private.h"

#include "io/io_page_cache.h"
#include "util/checked.h"
#include "util/descriptor.h"
#include "util/kernel_file.h"
#include "util/stats.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	COLD_MAX = 6,         /* at most 2^COLD_MAX looks go without a try */
	TRY_STEP = 128 << 10, /* bytes: as much as the kernel reads ahead, and keeps or drops */
	LOOK_WHOLE = 8, /* of chunks found in a row one in so many is looked at page by page */
	TAKE_ROW = 4,   /* chunks in a row, before the next ones are assumed cached */
	TAKE_MOST = 16 * ARENA_CHUNK, /* bytes assumed at a time */
	TAKE_STEP = 4 * ARENA_CHUNK,  /* ... and one page is tried for each of these */
	TAKE_FOUND =
		16,   /* TAKE_ROW of random reads: a wrongly assumed chunk costs a request a page */
	VAIN_MAX = 6, /* at most 2^VAIN_MAX values go without a look at their chunks */
	LOOK_ALL = 128 << 10, /* bytes: a look at so many pages costs little more than at one */
};

/* Page faults of the process that had to read. */
static long faults_of_process(void)
{
	struct rusage usage = {0};

	(void)getrusage(RUSAGE_SELF, &usage);
	return usage.ru_majflt;
}

/* The blocks of [offset, offset + length) that lie in a chunk. */
static void clip(uint64_t chunk, uint64_t offset, uint64_t length, uint64_t *first, uint64_t *end)
{
	*first = block_of(offset);
	*end = block_end(offset + length);
	if (*first < chunk * ARENA_BLOCKS)
		*first = chunk * ARENA_BLOCKS;
	if (*end > (chunk + 1) * ARENA_BLOCKS)
		*end = (chunk + 1) * ARENA_BLOCKS;
}

/* Marks an idle chunk as used. Returns false if another thread has put the file under it
 * meanwhile. */
static bool use_idle(const struct store *store, uint64_t chunk)
{
	unsigned char idle = CHUNK_IDLE;

	return atomic_compare_exchange_strong(&store->shown.states[chunk], &idle, CHUNK_FULL) ||
	       idle >= CHUNK_FULL;
}

void store_use(struct store *store, const void *page)
{
	uint64_t offset = (uint64_t)((const uint8_t *)page - store->file.base);

	if (offset < store->file.length)
		atomic_store_explicit(
			&store->shown.uses[offset / ARENA_CHUNK],
			atomic_load_explicit(&store->shown.maps, memory_order_relaxed),
			memory_order_relaxed);
}

/* Whether the arena still shows a chunk in which blocks were found to be published. A container
 * saves a chunk before it leaves the arena, but not a block that another process publishes after
 * that (chunk_rest()). The caller has read the blocks' bits before, with acquire order. Where a
 * store becomes visible to all threads at once (x86, Armv8), this side needs no fence. */
static bool is_still_shown(const struct store *store, uint64_t chunk)
{
	enum chunk_state state = get_state(store, chunk);

	return state == CHUNK_PART || state >= CHUNK_IDLE;
}

bool store_has(const struct store *store, uint64_t chunk, uint64_t offset, uint64_t length)
{
	enum chunk_state state = get_state(store, chunk);
	uint64_t first, end;

	if (state == CHUNK_IDLE && use_idle(store, chunk))
		return true;
	if (state >= CHUNK_FULL || !atomic_load_explicit(&store->enabled, memory_order_relaxed))
		return true;
	clip(chunk, offset, length, &first, &end);
	if (first * ARENA_BLOCK < store->file.low)
		first = block_of(store->file.low);
	if (first >= end)
		return true;
	if (likely(state == CHUNK_PART)) {
		/* A newer snapshot may be retiring the arena at this moment. */
		struct arena *arena = __atomic_load_n(&store->arena, __ATOMIC_ACQUIRE);

		return arena && arena_present(arena, first, end - first) &&
		       (!store->packed || is_still_shown(store, chunk));
	}
	for (; first < end; first++)
		if (!(atomic_load_explicit(&store->shown.runs[first / 64], memory_order_acquire) >>
			      (first % 64) &
		      1) &&
		    (state != CHUNK_RUNS ||
		     !store_is_sure(store->granted.sure, first * ARENA_BLOCK)))
			return false;
	return true;
}

int probe_of(struct store *store)
{
	int probe = atomic_load(&store->look.probe), none = -1;
	char path[32];

	if (probe != -1)
		return probe < 0 ? -1 : probe;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", store->file.fd);
	probe = open(path, O_RDONLY | O_CLOEXEC);
	if (probe >= 0 && !file_is_locked_here(probe))
		probe = descriptor_lift(probe);
	if (probe < 0 || !descriptor_is(probe, store->file.device, store->file.inode) ||
	    posix_fadvise(probe, 0, 0, POSIX_FADV_RANDOM)) {
		if (probe >= 0)
			close(probe);
		probe = PROBE_NONE;
	}
	if (atomic_compare_exchange_strong(&store->look.probe, &none, probe))
		return probe < 0 ? -1 : probe;
	if (probe >= 0)
		close(probe); /* another thread was faster */
	return none < 0 ? -1 : none;
}

/* Tries a page of a file for which the kernel does not tell what it holds: reads the page, if that
 * needs no wait. Each try in vain costs storage a small request, so they become rare. */
static bool is_found_by_trying(struct store *store, uint64_t offset)
{
	unsigned skip = atomic_load_explicit(&store->look.cold_skip, memory_order_relaxed), cold;
	uint8_t byte;
	struct iovec to = {&byte, 1};
	int probe;

	if (skip) {
		atomic_store_explicit(&store->look.cold_skip, skip - 1, memory_order_relaxed);
		return false;
	}
	probe = probe_of(store);
	if (probe < 0)
		return false;
	if (preadv2(probe, &to, 1, (off_t)offset, RWF_NOWAIT) == 1) {
		atomic_store_explicit(&store->look.cold, 0, memory_order_relaxed);
		return true;
	}
	cold = atomic_load_explicit(&store->look.cold, memory_order_relaxed);
	cold += cold < COLD_MAX;
	atomic_store_explicit(&store->look.cold, cold, memory_order_relaxed);
	atomic_store_explicit(&store->look.cold_skip, 1u << cold, memory_order_relaxed);
	return false;
}

/* The file may go on beyond this snapshot's end, so only a yes counts. */
static bool is_told_by_window(const struct store *store)
{
	uint64_t behind = round_up(store_size(store), HUGE_PAGE);

	return store_shows_file(store) && behind + 4096 <= store->file.length &&
	       io_is_told_behind(store->file.base + behind);
}

bool is_told(struct store *store)
{
	enum store_told told = atomic_load_explicit(&store->look.told, memory_order_relaxed);

	if (told == TOLD_UNKNOWN) {
		told = is_told_by_window(store) || io_is_told(store->file.fd) ? TOLD_TRULY
									      : TOLD_NOTHING;
		atomic_store_explicit(&store->look.told, told, memory_order_relaxed);
	}
	return told == TOLD_TRULY;
}

static bool is_tried(struct store *store, uint64_t offset, uint64_t end)
{
	for (; offset < end; offset += TRY_STEP)
		if (!is_cached_at(store, offset))
			return false;
	return true;
}

bool is_cached(struct store *store, uint64_t offset, uint64_t end)
{
	unsigned char pages[ARENA_BLOCKS];

	/* mincore() looks at each page, so one page is tried before many. */
	if (offset < end && (end - offset > LOOK_ALL || !is_told(store)) &&
	    !is_cached_at(store, end - 1))
		return false;
	if (!is_told(store))
		return is_tried(store, offset, end);
	for (uint64_t next; offset < end; offset = next) {
		next = end - offset < ARENA_CHUNK ? end : offset + ARENA_CHUNK;
		if (mincore(store->file.base + offset, next - offset, pages))
			return false;
		for (size_t i = 0; i < block_end(next - offset); i++)
			if (!(pages[i] & 1))
				return false;
	}
	return true;
}

bool is_cached_at(struct store *store, uint64_t offset)
{
	unsigned char page;

	offset &= ~(uint64_t)4095;
	if (!is_told(store))
		return is_found_by_trying(store, offset);
	return !mincore(store->file.base + offset, 4096, &page) && page & 1;
}

/* Whether samples may stand for the pages between them. Where the program touches these pages
 * without a further question, samples must not once a read has failed. */
static bool may_sample(const struct store *store)
{
	return store_shows_file(store) || !store_is_careful(store);
}

/* Whether all of a chunk is in the page cache. A look at each page costs half as much as the faults
 * for them. So after chunks that were found there in a row, most are sampled: densely enough to
 * find what is left of a failed request of the kernel. */
static bool is_warm(struct store *store, uint64_t first, uint64_t last)
{
	struct store_warm *warm = &store->look.warm;
	bool there = warm->row % LOOK_WHOLE && may_sample(store) ? is_tried(store, first, last)
								 : is_cached(store, first, last);

	if (there && !warm->row)
		warm->faults = faults_of_process();
	warm->row = there ? warm->row + 1 : 0;
	return there;
}

/* Whether the program reads the chunks of the file in order, forward or backward. */
static bool is_near(struct store_warm *warm, uint64_t chunk)
{
	uint64_t last = warm->last;

	warm->last = chunk + 1;
	if (last != chunk + 1) /* else the program asks for the same chunk again */
		warm->near = !last || chunk == last || chunk + 2 == last;
	return warm->near;
}

/* Whether all of a chunk is in the page cache, for a program that reads at random. A look at 256
 * pages takes 15 us. As long as parts of the file are missing, looks are in vain and become rare.
 * After TAKE_FOUND looks in a row that found all, chunks are assumed cached, as in a scan. */
static bool is_warm_at_random(struct store *store, uint64_t first, uint64_t last)
{
	struct store_warm *warm = &store->look.warm;

	if (warm->skip) {
		warm->skip--;
		return false;
	}
	if (is_cached(store, first, last)) {
		if (!warm->row && !warm->found)
			warm->faults = faults_of_process();
		warm->found += warm->found < TAKE_FOUND;
		warm->vain = 0;
		return true;
	}
	warm->found = 0;
	warm->vain += warm->vain < VAIN_MAX;
	warm->skip = 1U << warm->vain;
	return false;
}

/* The range to assume cached: the chunk at an offset, or twice the last range where it borders on
 * that. */
static void take_range(const struct store_warm *warm, uint64_t at, uint64_t *first, uint64_t *end)
{
	uint64_t length = 2 * (warm->end - warm->first);

	if (length > TAKE_MOST)
		length = TAKE_MOST;
	*first = at;
	*end = at + ARENA_CHUNK;
	if (length && at == warm->end)
		*end = at + length;
	else if (length && *end == warm->first)
		*first = *end > length ? *end - length : 0;
}

/* Whether a chunk is assumed to be in the page cache, because those before it were. A try is a
 * system call of 1 us; nine for each chunk were 12 % of a scan of single pages. So only a few pages
 * are tried. When the process takes a major fault, or a read fails, the store looks at each chunk
 * again. */
static bool is_taken(struct store *store, uint64_t chunk, bool near)
{
	struct store_warm *warm = &store->look.warm;
	uint64_t at = chunk * ARENA_CHUNK, first, end;
	long faults;

	if (store_is_careful(store) || (near ? warm->row < TAKE_ROW : warm->found < TAKE_FOUND))
		return false;
	if (at < warm->first || at >= warm->end) {
		take_range(warm, at, &first, &end);
		if (end > store->file.size)
			end = store->file.size;
		faults = faults_of_process();
		for (at = first; at < end && faults == warm->faults; at += TAKE_STEP)
			if (!is_cached_at(store, at))
				break;
		if (at < end || !is_cached_at(store, end - 1)) {
			*warm = (struct store_warm){.last = chunk + 1, .near = true};
			return false;
		}
		warm->first = first;
		warm->end = end;
	}
	warm->row += near;
	return true;
}

/* The window shows other memory there, so this asks cachestat(2). A page that the kernel is still
 * reading counts as cached, and a pread waits for it. A kernel without that call needs a second map
 * of the file: 400 random reads of 3 KB then took 48 ms of processor time instead of 42. */
bool is_cached_beneath(struct store *store, uint64_t offset, uint64_t length)
{
	unsigned char pages[ARENA_BLOCKS];
	uint64_t count;
	void *map;
	bool there;

	if (!store->believe_cache || length > ARENA_CHUNK || !is_told(store) ||
	    !descriptor_is(store->file.fd, store->file.device, store->file.inode))
		return false;
	if (!io_pages_cached(store->file.fd, offset, length, &count))
		return count >= block_end(length);
	map = mmap(NULL, length, PROT_READ, MAP_SHARED, store->file.fd, (off_t)offset);
	if (map == MAP_FAILED)
		return false;
	there = !mincore(map, length, pages);
	for (size_t i = 0; there && i < block_end(length); i++)
		there = pages[i] & 1;
	munmap(map, length);
	return there;
}

bool read_beneath(struct store *store, void *buffer, uint64_t offset, size_t length, size_t *done)
{
	uint64_t size = atomic_load(&store->file.size);
	ssize_t n = 1;

	if (offset >= size || !is_cached_beneath(store, offset, length))
		return false;
	for (*done = 0; *done < length && n; *done += (size_t)n) {
		if (!descriptor_is(store->file.fd, store->file.device, store->file.inode))
			return false;
		n = pread(store->file.fd, (uint8_t *)buffer + *done, length - *done,
			  (off_t)(offset + *done));
		if (n < 0)
			return false;
	}
	stats_add(STATS_HITS_CACHE, 1);
	return true;
}

/* The part of a chunk that the page cache must have to serve some of it. A scan that maps few
 * chunks wants all of the chunk. Otherwise each of its reads of the file would make the kernel read
 * further ahead, and the scan would follow that in requests of 128 KiB. */
static void widen_to_scan(struct store *store, uint64_t chunk, uint64_t *first, uint64_t *end)
{
	if (!scan_share(store))
		return;
	*first = chunk * ARENA_CHUNK;
	*end = chunk_end(store, chunk);
}

/* In a chunk that shows the arena, copying a few blocks (load_now()) costs less than showing the
 * file. */
bool is_coming(struct store *store, uint64_t offset, uint64_t length, const struct plan_how *how)
{
	uint64_t first = offset & ~(uint64_t)(ARENA_BLOCK - 1), end = offset + length;

	if (is_shown(store, offset / ARENA_CHUNK) && (!how->large || how->widen == ARENA_CHUNK))
		return false;
	widen_to_scan(store, offset / ARENA_CHUNK, &first, &end);
	return is_cached_beneath(store, first, end - first);
}

bool leave_to_cache(struct store *store, uint64_t chunk, uint64_t offset, uint64_t end)
{
	uint64_t start = offset & ~(uint64_t)(ARENA_BLOCK - 1);
	uint64_t first = chunk * ARENA_CHUNK, last = chunk_end(store, chunk);
	bool whole, near, taken;

	if (!store->believe_cache || is_shown(store, chunk))
		return false;
	widen_to_scan(store, chunk, &start, &end);
	whole = start == first && end == last;
	near = is_near(&store->look.warm, chunk) || whole;
	taken = is_taken(store, chunk, near);
	if (!taken && !(whole ? is_warm(store, first, last) : is_cached(store, start, end))) {
		store->look.warm.found = near ? store->look.warm.found : 0;
		return false;
	}
	stats_add(STATS_HITS_CACHE, 1);
	stats_lasts();
	if (!store_shows_file(store))
		store->shown.taints[chunk] = store->shown.epoch;
	mark_run(store, block_of(start), block_end(end));
	if (taken || whole ||
	    (near ? is_warm(store, first, last) : is_warm_at_random(store, first, last)))
		set_state(store, chunk, CHUNK_WARM);
	return true;
}
