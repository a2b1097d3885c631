/* SPDX-License-Identifier: OLDAP-2.8 */
/* Follows the faults of processes that map a file, page by page. */
#include "sim_pages.h"

#include "util/checked.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum {
	REQUEST_MOST = 32, /* pages: FUSE and block devices take 128 KiB as they come */
	MISSES_MOST = 100, /* MMAP_LOTSAMISS: this many more misses than hits end read-ahead */
	MARK_AHEAD = 1,    /* in marked[]: the first touch of this page starts more reads */
	MARK_TAKEN = 2,    /* a reader has touched the page */
};

int pages_open(struct pages *pages, const struct pages_kernel *kernel, uint64_t n, uint32_t readers)
{
	*pages = (struct pages){.kernel = *kernel, .n = n, .readers_n = readers};
	pages->ready = malloc(n * sizeof(*pages->ready));
	pages->marked = calloc(n, 1);
	pages->readers = calloc(readers, sizeof(*pages->readers));
	if (!pages->ready || !pages->marked || !pages->readers)
		return ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		pages->ready[i] = INFINITY;
	for (uint32_t i = 0; i < readers; i++) {
		pages->readers[i].mapped = calloc(n, 1);
		if (!pages->readers[i].mapped)
			return ENOMEM;
	}
	return 0;
}

void pages_close(struct pages *pages)
{
	for (uint32_t i = 0; pages->readers && i < pages->readers_n; i++)
		free(pages->readers[i].mapped);
	free(pages->ready);
	free(pages->marked);
	free(pages->readers);
}

static bool is_asked_for(const struct pages *pages, uint64_t page)
{
	return pages->ready[page] < INFINITY;
}

/* Returns a number from 0 to 1 that is the same in each run. */
static double chance_of(uint64_t event)
{
	return (double)(mix64(event) >> 11) * 0x1p-53;
}

/* Makes one request: storage serves them one after the other, and their latencies overlap. */
static void request(struct pages *pages, uint64_t first, uint64_t n, double now)
{
	double bytes = (double)n * PAGES_SIZE;
	double begin = now > pages->storage_free ? now : pages->storage_free;
	double chance = chance_of(pages->requests);
	double latency = pages->kernel.latency * (1 + pages->kernel.spread * (2 * chance - 1));

	pages->storage_free = begin + bytes / pages->kernel.rate;
	pages->requests++;
	pages->bytes += bytes;
	for (uint64_t i = first; i < first + n; i++)
		pages->ready[i] = pages->storage_free + latency;
}

/* Requests the missing pages, each request as long as it may be. */
static void fetch(struct pages *pages, uint64_t first, uint64_t n, double now)
{
	uint64_t most = pages->kernel.blocks ? pages->kernel.window : REQUEST_MOST;
	uint64_t end = first + n < pages->n ? first + n : pages->n, page = first;

	while (page < end) {
		uint64_t run = 0;

		while (page + run < end && run < most && !is_asked_for(pages, page + run))
			run++;
		if (run)
			request(pages, page, run, now);
		page += run ? run : 1;
	}
}

static void mark(struct pages *pages, uint64_t page)
{
	if (page < pages->n)
		pages->marked[page] |= MARK_AHEAD;
}

/* do_sync_mmap_readahead(): reads around a missing page, unless reads have missed too often. */
static void read_around(struct pages *pages, struct pages_reader *reader, uint64_t page)
{
	uint32_t window = pages->kernel.window;

	if (reader->ra_miss < 10 * MISSES_MOST)
		reader->ra_miss++;
	if (reader->ra_miss > MISSES_MOST) {
		fetch(pages, page, 1, reader->now);
		return;
	}
	reader->ra_start = page > window / 2 ? page - window / 2 : 0;
	reader->ra_size = window;
	reader->ra_async = window / 4;
	fetch(pages, reader->ra_start, window, reader->now);
	mark(pages, reader->ra_start + reader->ra_size - reader->ra_async);
}

static uint32_t next_size(uint32_t size, uint32_t most)
{
	size = size < most / 16 ? 4 * size : 2 * size;
	return size < most ? size : most;
}

/* page_cache_async_ra(): reads behind a marked page. */
static void read_ahead(struct pages *pages, struct pages_reader *reader, uint64_t page)
{
	uint32_t window = pages->kernel.window;
	uint64_t start = page + 1;

	pages->marked[page] &= (uint8_t)~MARK_AHEAD;
	if (page == reader->ra_start + reader->ra_size - reader->ra_async) {
		reader->ra_start += reader->ra_size;
		reader->ra_size = next_size(reader->ra_size, window);
	} else {
		while (start < pages->n && start - page <= window && is_asked_for(pages, start))
			start++;
		if (start - page > window)
			return;
		reader->ra_start = start;
		reader->ra_size = next_size((uint32_t)(start - page) + 1, window);
	}
	reader->ra_async = reader->ra_size;
	fetch(pages, reader->ra_start, reader->ra_size, reader->now);
	mark(pages, reader->ra_start);
}

/* Reads the block of a page, and the next block if the reader came from the one before. */
static void fetch_blocks(struct pages *pages, struct pages_reader *reader, uint64_t page)
{
	uint32_t window = pages->kernel.window;
	uint64_t block = page / window, before = reader->block;

	reader->block = block + 1;
	fetch(pages, block * window, window, reader->now);
	if (before == block)
		fetch(pages, (block + 1) * window, window, reader->now);
}

/* filemap_map_pages(): maps neighbours in memory, but not a marked one. */
static void map_around(struct pages *pages, struct pages_reader *reader, uint64_t page)
{
	uint64_t first = page - page % pages->kernel.around, end = first + pages->kernel.around;

	reader->mapped[page] = 1;
	for (uint64_t i = first; i < end && i < pages->n; i++) {
		if (reader->mapped[i] || pages->marked[i] & MARK_AHEAD ||
		    pages->ready[i] > reader->now)
			continue;
		reader->mapped[i] = 1;
		if (reader->ra_miss)
			reader->ra_miss--;
	}
}

/* Each arriving page wakes all sleeping readers of the node, one after the other; the others find
 * that the page was not theirs (TOPC 6(2) 2019, section 3.3.1). */
static void wake(struct pages *pages, struct pages_reader *reader)
{
	double begin = reader->now > pages->lock_free ? reader->now : pages->lock_free;
	double end = begin + pages->kernel.fault;
	uint32_t sleepers = 0;

	for (uint32_t i = 0; i < pages->readers_n; i++)
		sleepers += &pages->readers[i] != reader && pages->readers[i].now <= end;
	if (sleepers)
		sleepers++;
	pages->lock_free = end + sleepers * pages->kernel.wakeup;
	reader->now = pages->lock_free;
}

void pages_touch(struct pages *pages, struct pages_reader *reader, uint64_t page)
{
	if (page >= pages->n || reader->mapped[page])
		return;
	reader->faults++;
	if (pages->kernel.blocks) {
		fetch_blocks(pages, reader, page);
	} else if (!is_asked_for(pages, page)) {
		read_around(pages, reader, page);
	} else {
		if (reader->ra_miss)
			reader->ra_miss--;
		if (pages->marked[page] & MARK_AHEAD)
			read_ahead(pages, reader, page);
	}
	if (pages->ready[page] > reader->now) {
		uint64_t event = reader->faults * pages->readers_n;

		event += (uint64_t)(reader - pages->readers);
		reader->waits++;
		reader->now = pages->ready[page] + pages->kernel.late * chance_of(event);
	}
	if (pages->kernel.wakeup > 0 && !(pages->marked[page] & MARK_TAKEN))
		wake(pages, reader);
	else
		reader->now += pages->kernel.fault;
	pages->marked[page] |= MARK_TAKEN;
	map_around(pages, reader, page);
}

static uint32_t first_size(uint64_t wanted, uint32_t most)
{
	uint32_t size = 1;

	while (size < wanted && size < most)
		size *= 2;
	size *= size <= most / 32 ? 4 : size <= most / 4 ? 2 : 1;
	return size < most ? size : most;
}

static uint64_t asked_for_before(const struct pages *pages, uint64_t page, uint64_t most)
{
	uint64_t n = 0;

	while (n < most && n < page && is_asked_for(pages, page - 1 - n))
		n++;
	return n;
}

/* page_cache_sync_ra(): reads the pages that a read() misses, and more if reads look sequential. */
static void read_missing(struct pages *pages, struct pages_reader *reader, uint64_t page,
			 uint64_t wanted)
{
	uint32_t window = pages->kernel.window;
	uint64_t before;

	if (!page || wanted > window || page == reader->after || page + 1 == reader->after) {
		reader->ra_size = first_size(wanted, window);
		reader->ra_async = reader->ra_size > wanted ? reader->ra_size - (uint32_t)wanted
							    : reader->ra_size / 2;
	} else {
		before = asked_for_before(pages, page, window);
		if (before <= wanted) {
			fetch(pages, page, wanted, reader->now);
			return;
		}
		before = before == page ? 2 * before : before;
		reader->ra_size = before + wanted < window ? (uint32_t)(before + wanted) : window;
		reader->ra_async = 1;
	}
	reader->ra_start = page;
	fetch(pages, page, reader->ra_size, reader->now);
	mark(pages, page + reader->ra_size - reader->ra_async);
}

void pages_read(struct pages *pages, struct pages_reader *reader, uint64_t first, uint64_t n)
{
	for (uint64_t page = first; page < first + n && page < pages->n; page++) {
		if (!is_asked_for(pages, page))
			read_missing(pages, reader, page, first + n - page);
		else if (pages->marked[page] & MARK_AHEAD)
			read_ahead(pages, reader, page);
		if (pages->ready[page] > reader->now)
			reader->now = pages->ready[page];
		reader->after = page + 1;
	}
}
