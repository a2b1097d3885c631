/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds out whether bytes are in memory already, and where. */
#include "window/residency_private.h"

#include "io/io_told.h"
#include "util/descriptor.h"
#include "util/stats.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	COLD_MAX = 6,         /* at most 2 to this many looks go without a try */
	TRY_STEP = 128 << 10, /* bytes: as much as the kernel reads ahead, and keeps or gives up */
	LOOK_WHOLE = 8, /* of chunks found in a row one in so many is looked at page by page */
	TAKE_ROW = 4,   /* so many in a row, and others are taken to be there as well */
	TAKE_MOST = 16 * ARENA_CHUNK, /* bytes at a time */
	TAKE_STEP = 4 * ARENA_CHUNK,  /* ... of which a page is tried at each of these */
};

/* Page faults that had to read. */
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

/* Another thread may be putting the file under it at this moment. Returns false if it has. */
static bool use_idle(const struct residency *residency, uint64_t chunk)
{
	unsigned char idle = CHUNK_IDLE;

	return atomic_compare_exchange_strong(&residency->states[chunk], &idle, CHUNK_FULL) ||
	       idle >= CHUNK_FULL;
}

void residency_use(struct residency *residency, const void *page)
{
	uint64_t offset = (uint64_t)((const uint8_t *)page - residency->base);

	if (offset < residency->length)
		atomic_store_explicit(&residency->uses[offset / ARENA_CHUNK],
				      atomic_load_explicit(&residency->maps, memory_order_relaxed),
				      memory_order_relaxed);
}

bool residency_has(const struct residency *residency, uint64_t chunk, uint64_t offset,
		   uint64_t length)
{
	enum chunk_state state = get_state(residency, chunk);
	uint64_t first, end;

	if (state == CHUNK_IDLE && use_idle(residency, chunk))
		return true;
	if (state >= CHUNK_FULL || !atomic_load_explicit(&residency->enabled, memory_order_relaxed))
		return true;
	clip(chunk, offset, length, &first, &end);
	if (first * ARENA_BLOCK < residency->low)
		first = block_of(residency->low);
	if (first >= end)
		return true;
	if (state == CHUNK_PART) {
		/* A newer snapshot may be letting it go at this moment. */
		struct arena *arena = *(struct arena *const volatile *)&residency->arena;

		return arena && arena_present(arena, first, end - first);
	}
	if (state == CHUNK_REST && residency->spill >= 0)
		return false; /* a scratch file, that holds nothing */
	for (; first < end; first++)
		if (!(atomic_load_explicit(&residency->runs[first / 64], memory_order_acquire) >>
			      (first % 64) &
		      1))
			return false;
	return true;
}

int probe_of(struct residency *residency)
{
	int probe = atomic_load(&residency->probe), none = -1;
	char path[32];

	if (probe != -1)
		return probe < 0 ? -1 : probe;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", residency->fd);
	probe = open(path, O_RDONLY | O_CLOEXEC);
	if (probe >= 0)
		probe = descriptor_lift(probe);
	if (probe < 0 || !descriptor_is(probe, residency->device, residency->inode) ||
	    posix_fadvise(probe, 0, 0, POSIX_FADV_RANDOM)) {
		if (probe >= 0)
			close(probe);
		probe = PROBE_NONE;
	}
	if (atomic_compare_exchange_strong(&residency->probe, &none, probe))
		return probe < 0 ? -1 : probe;
	if (probe >= 0)
		close(probe); /* another thread was faster */
	return none < 0 ? -1 : none;
}

/* Tries a page of a file of which the kernel does not tell what it holds: reads it, if it need not
 * wait for that. Each try in vain costs storage a small request, so they become rare. */
static bool is_found_by_trying(struct residency *residency, uint64_t offset)
{
	unsigned skip = atomic_load_explicit(&residency->cold_skip, memory_order_relaxed), cold;
	uint8_t byte;
	struct iovec to = {&byte, 1};
	int probe;

	if (skip) {
		atomic_store_explicit(&residency->cold_skip, skip - 1, memory_order_relaxed);
		return false;
	}
	probe = probe_of(residency);
	if (probe < 0)
		return false;
	if (preadv2(probe, &to, 1, (off_t)offset, RWF_NOWAIT) == 1) {
		atomic_store_explicit(&residency->cold, 0, memory_order_relaxed);
		return true;
	}
	cold = atomic_load_explicit(&residency->cold, memory_order_relaxed);
	cold += cold < COLD_MAX;
	atomic_store_explicit(&residency->cold, cold, memory_order_relaxed);
	atomic_store_explicit(&residency->cold_skip, 1u << cold, memory_order_relaxed);
	return false;
}

static bool is_told(struct residency *residency)
{
	enum residency_told told = atomic_load_explicit(&residency->told, memory_order_relaxed);

	if (told == TOLD_UNKNOWN) {
		told = io_is_told(residency->fd) ? TOLD_TRULY : TOLD_NOTHING;
		atomic_store_explicit(&residency->told, told, memory_order_relaxed);
	}
	return told == TOLD_TRULY;
}

static bool is_tried(struct residency *residency, uint64_t offset, uint64_t end)
{
	for (; offset < end; offset += TRY_STEP)
		if (!is_cached_at(residency, offset))
			return false;
	return true;
}

bool is_cached(struct residency *residency, uint64_t offset, uint64_t end)
{
	unsigned char pages[ARENA_BLOCKS];

	/* The kernel looks at each page: not before one of them gives hope. */
	if (offset < end && !is_cached_at(residency, end - 1))
		return false;
	if (!is_told(residency))
		return is_tried(residency, offset, end);
	if (end - offset <= ARENA_BLOCK)
		return true;
	for (uint64_t next; offset < end; offset = next) {
		next = end - offset < ARENA_CHUNK ? end : offset + ARENA_CHUNK;
		if (mincore(residency->base + offset, next - offset, pages))
			return false;
		for (size_t i = 0; i < block_end(next - offset); i++)
			if (!(pages[i] & 1))
				return false;
	}
	return true;
}

bool is_cached_at(struct residency *residency, uint64_t offset)
{
	unsigned char page;

	offset &= ~(uint64_t)4095;
	if (!is_told(residency))
		return is_found_by_trying(residency, offset);
	return !mincore(residency->base + offset, 4096, &page) && page & 1;
}

/* Whether all of a chunk is in the page cache. To look at each page costs as much as half the
 * faults for them, so where chunks were found there in a row, most are tried: often enough to find
 * what is left of a request of the kernel's that failed. */
static bool is_warm(struct residency *residency, uint64_t first, uint64_t last)
{
	struct residency_warm *warm = &residency->warm;
	bool there = warm->row % LOOK_WHOLE ? is_tried(residency, first, last)
					    : is_cached(residency, first, last);

	if (there && !warm->row)
		warm->faults = faults_of_process();
	warm->row = there ? warm->row + 1 : 0;
	return there;
}

/* The chunk at an offset; where it borders on what was taken last, more of them that way. */
static void take_range(const struct residency_warm *warm, uint64_t at, uint64_t *first,
		       uint64_t *end)
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

/* Whether a chunk is taken to be in the page cache, because those before it were. A try is a system
 * call of 1 us, and nine of them for each chunk were 12 % of a scan of single pages. So a page is
 * tried here and there, and as soon as the process takes a fault that has to read, or a read fails,
 * chunks are looked at singly again. */
static bool is_taken(struct residency *residency, uint64_t chunk)
{
	struct residency_warm *warm = &residency->warm;
	uint64_t at = chunk * ARENA_CHUNK, first, end;
	long faults;

	if (warm->row < TAKE_ROW || residency_is_careful(residency))
		return false;
	if (at < warm->first || at >= warm->end) {
		take_range(warm, at, &first, &end);
		if (end > residency->size)
			end = residency->size;
		faults = faults_of_process();
		for (at = first; at < end && faults == warm->faults; at += TAKE_STEP)
			if (!is_cached_at(residency, at))
				break;
		if (at < end || !is_cached_at(residency, end - 1)) {
			*warm = (struct residency_warm){0};
			return false;
		}
		warm->first = first;
		warm->end = end;
	}
	warm->row++;
	return true;
}

bool leave_to_cache(struct residency *residency, uint64_t chunk, uint64_t offset, uint64_t end)
{
	uint64_t start = offset & ~(uint64_t)(ARENA_BLOCK - 1);
	uint64_t first = chunk * ARENA_CHUNK, last = chunk_end(residency, chunk);
	bool whole = start == first && end == last, taken;

	if (!residency->believe_cache || is_shown(residency, chunk))
		return false;
	taken = is_taken(residency, chunk);
	if (!taken && !(whole ? is_warm(residency, first, last) : is_cached(residency, start, end)))
		return false;
	stats_add(STATS_HITS_CACHE, 1);
	if (residency->kind == RESIDENCY_ARENA)
		residency->taints[chunk] = residency->epoch;
	mark_run(residency, block_of(start), block_end(end));
	if (taken || whole || is_warm(residency, first, last))
		set_state(residency, chunk, CHUNK_WARM);
	return true;
}
