/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests how two processes that scan a file share memory that is one chunk too small for it. */
#include "store_fixture.h"

#include "ahead/ahead.h"
#include "cursor/cursor_private.h"
#include "util/stats.h"
#include "window/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { SHARE = 4, CHUNK_NONE = -1 };

static void read_chunk(struct reader *reader, uint64_t chunk)
{
	uint64_t from = chunk ? chunk * ARENA_CHUNK : LOW,
		 length = (chunk + 1) * ARENA_CHUNK - from;

	assert_int_equal(store_bring(&reader->store, from, length), 0);
	assert_true(store_covers(&reader->store, from, length));
	assert_right(reader, from, length);
}

static uint64_t chunks_ahead(struct reader *reader, uint64_t chunk)
{
	return store_ahead(&reader->store, chunk, true) / ARENA_CHUNK;
}

/* Both processes have an arena and scan. */
static int setup(void **state)
{
	struct fixture *f;

	if (store_setup(state))
		return -1;
	f = *state;
	if (!store_limit(&f->first.store, SIZE - ARENA_CHUNK) ||
	    !store_limit(&f->second.store, SIZE - ARENA_CHUNK))
		return -1;
	store_scan(&f->first.store, 1);
	store_scan(&f->second.store, 1);
	read_chunk(&f->first, 0);
	read_chunk(&f->second, 0);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_scan(&f->first.store, -1);
	store_scan(&f->second.store, -1);
	return store_teardown(state);
}

static void scans_when_memory_lacks_a_chunk_then_each_maps_a_part_of_it(void **state)
{
	struct fixture *f = *state;
	uint64_t at_rest = stats_get(STATS_AT_REST);

	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		read_chunk(&f->first, chunk);
		read_chunk(&f->second, chunk);
		assert_in_range(f->first.store.shown.mapped_count, 1, SHARE + 1);
		assert_in_range(f->second.store.shown.mapped_count, 1, SHARE + 1);
	}
	assert_int_equal(stats_get(STATS_AT_REST), at_rest);
}

static void scans_when_the_second_follows_then_each_chunk_is_read_once(void **state)
{
	struct fixture *f = *state;
	uint64_t read = stats_get(STATS_STORAGE_BYTES);

	for (uint64_t chunk = 1; chunk < CHUNKS; chunk++) {
		read_chunk(&f->first, chunk);
		read_chunk(&f->second, chunk - 1);
	}
	read_chunk(&f->second, CHUNKS - 1);
	assert_true(stats_get(STATS_STORAGE_BYTES) - read <= SIZE - ARENA_CHUNK);
}

/* Memory holds half as many chunks for the processes that follow. */
static void look_ahead_when_another_is_behind_then_goes_less_far(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(chunks_ahead(&f->second, 1), 2);
	assert_int_equal(chunks_ahead(&f->first, 2), 2);
	assert_int_equal(chunks_ahead(&f->first, 3), 1);
	assert_int_equal(chunks_ahead(&f->first, 6), 1); /* a scan may always load the next one */
	assert_int_equal(chunks_ahead(&f->second, 5), 2);
	assert_int_equal(chunks_ahead(&f->first, 7), 1);
	store_scan(&f->second.store, -1);
	assert_int_equal(chunks_ahead(&f->first, 7), 2);
	assert_int_equal(chunks_ahead(&f->first, CHUNK_NONE), 2);
	store_scan(&f->second.store, 1);
}

/* A process with several scans publishes no front, and its scans share what one scan may have. */
static void look_ahead_when_a_process_has_several_then_they_share(void **state)
{
	struct fixture *f = *state;

	(void)chunks_ahead(&f->second, 1);
	store_scan(&f->second.store, 1);
	assert_int_equal(chunks_ahead(&f->second, 2), 1);
	assert_int_equal(chunks_ahead(&f->first, 4), 2);
	store_scan(&f->second.store, -1);
}

/* Each direction has half of memory. */
static void look_ahead_when_another_goes_the_other_way_then_goes_half_as_far(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(chunks_ahead(&f->first, 2), 2);
	(void)store_ahead(&f->second.store, 6, false);
	assert_int_equal(chunks_ahead(&f->first, 3), 1);
	store_scan(&f->second.store, -1);
	assert_int_equal(chunks_ahead(&f->first, 4), 2);
	store_scan(&f->second.store, 1);
}

static void look_ahead_when_no_scan_is_under_way_then_no_limit(void **state)
{
	struct fixture *f = *state;

	store_scan(&f->first.store, -1);
	assert_int_equal(store_ahead(&f->first.store, 1, true), UINT64_MAX);
	store_scan(&f->first.store, 1);
}

static void look_ahead_when_all_memory_is_mapped_then_rests_and_maps_stay(void **state)
{
	struct fixture *f = *state;
	uint64_t last = (CHUNKS - 1) * (uint64_t)ARENA_CHUNK, length = ARENA_CHUNK, mapped;
	struct store_load load;

	for (uint64_t chunk = 0; chunk < SHARE; chunk++)
		read_chunk(&f->first, chunk);
	for (uint64_t chunk = SHARE; chunk < CHUNKS - 1; chunk++)
		read_chunk(&f->second, chunk);
	mapped = f->first.store.shown.mapped_count;
	assert_int_equal(store_plan(&f->first.store, last, &length, 0, &load), PLAN_REST);
	assert_int_equal(f->first.store.shown.mapped_count, mapped);
	read_chunk(&f->first, CHUNKS - 1);
}

/* Plans a chunk for look-ahead, and reads it if it is not in memory. */
static void look_ahead_at(struct reader *reader, uint64_t chunk, unsigned flags,
			  enum store_plan expected)
{
	uint64_t offset = chunk * ARENA_CHUNK, length = ARENA_CHUNK;
	struct store_load load;
	size_t done = 0;
	void *buffer;

	assert_int_equal(store_plan(&reader->store, offset, &length, flags, &load), expected);
	if (expected != PLAN_LOAD)
		return;
	buffer = malloc(length);
	assert_non_null(buffer);
	assert_int_equal(io_read(&reader->io, buffer, length, offset, &done), 0);
	assert_int_equal(store_finish(&reader->store, &load, buffer, 0, done), 0);
	free(buffer);
}

/* A look-ahead that mapped values would take the map of what the program reads. A page of the tree
 * may be for the look-ahead itself. */
static void look_ahead_when_there_are_several_scans_then_values_stay_unmapped(void **state)
{
	enum { VALUE = 2, TREE = 3 };
	struct fixture *f = *state;
	uint64_t read;

	look_ahead_at(&f->first, VALUE, PLAN_UNMAPPED, PLAN_LOAD);
	look_ahead_at(&f->second, VALUE, PLAN_UNMAPPED, PLAN_READY);
	look_ahead_at(&f->first, TREE, 0, PLAN_LOAD);
	look_ahead_at(&f->second, TREE, 0, PLAN_READY);
	for (unsigned i = 0; i < 2; i++) {
		struct reader *reader = i ? &f->second : &f->first;

		assert_false(is_shown(&reader->store, VALUE));
		assert_true(is_shown(&reader->store, TREE));
	}
	read = stats_get(STATS_STORAGE_BYTES);
	read_chunk(&f->first, VALUE);
	read_chunk(&f->second, VALUE);
	assert_int_equal(stats_get(STATS_STORAGE_BYTES), read);
}

static void look_ahead_when_there_is_one_scan_then_values_are_mapped(void **state)
{
	struct fixture *f = *state;

	store_scan(&f->second.store, -1);
	look_ahead_at(&f->first, 2, PLAN_UNMAPPED, PLAN_LOAD);
	assert_true(is_shown(&f->first.store, 2));
	store_scan(&f->second.store, 1);
}

/* The kernel has read a part of the chunk ahead. A scan that went on there would make it read on,
 * in small requests. `come`: the pages have come, as mincore(2) tells; else they may be on the way,
 * as cachestat(2) tells. */
static void scan_where_a_part_is_cached_brings_all(struct fixture *f, uint64_t chunk, bool come)
{
	uint64_t offset = chunk * ARENA_CHUNK;

	assert_int_equal(fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (off_t)(offset + ARENA_CHUNK / 2), ARENA_BLOCK),
			 0);
	if (!come)
		assert_ptr_not_equal(mmap(f->first.base + offset, ARENA_CHUNK, PROT_READ,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				     MAP_FAILED);
	assert_int_equal(store_bring(&f->first.store, offset, ARENA_BLOCK), 0);
	assert_true(is_shown(&f->first.store, chunk));
	assert_right(&f->first, offset, ARENA_BLOCK);
}

static void scan_when_the_kernel_has_read_a_part_then_all_is_brought(void **state)
{
	struct fixture *f = *state;

	f->first.store.believe_cache = true;
	f->first.store.look.told = TOLD_TRULY;
	scan_where_a_part_is_cached_brings_all(f, 3, true);
	scan_where_a_part_is_cached_brings_all(f, 5, false);
}

/* --- copies of pages for look-ahead --- */

static void copy_when_there_are_several_scans_then_nothing_is_mapped(void **state)
{
	enum { CHUNK = 2 };
	struct fixture *f = *state;
	uint64_t offset = CHUNK * ARENA_CHUNK + 5 * ARENA_BLOCK;
	uint8_t page[ARENA_BLOCK];

	assert_false(store_copy(&f->first.store, offset, sizeof(page), page));
	look_ahead_at(&f->second, CHUNK, PLAN_UNMAPPED, PLAN_LOAD);
	assert_true(store_copy(&f->first.store, offset, sizeof(page), page));
	assert_false(is_shown(&f->first.store, CHUNK));
	for (size_t i = 0; i < sizeof(page); i++)
		assert_int_equal(page[i], byte_at(offset + i));
	/* The copy has left no pin: the other process can evict the chunk. */
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		if (chunk != CHUNK)
			read_chunk(&f->second, chunk);
	assert_false(store_copy(&f->first.store, offset, sizeof(page), page));
}

static void copy_when_there_is_one_scan_then_there_is_none(void **state)
{
	struct fixture *f = *state;
	uint8_t page[ARENA_BLOCK];

	read_chunk(&f->first, 2);
	store_scan(&f->second.store, -1);
	assert_false(store_copy(&f->first.store, 2 * ARENA_CHUNK, sizeof(page), page));
	store_scan(&f->second.store, 1);
}

/* One cursor goes over leaves, another over the branches above them. */
static void copies_when_cursors_point_to_them_then_stay(void **state)
{
	enum { PAGES = 3 * ARENA_BLOCKS, FIRST = ARENA_BLOCKS, LEAVES = 64 };
	struct fixture *f = *state;
	struct cursor cursors[2] = {{.depth = 2}, {.depth = 1}};
	struct level *levels[] = {&cursors[0].levels[0], &cursors[0].levels[1],
				  &cursors[1].levels[0]};
	uint64_t stands[3] = {0};
	struct page_copies copies = {.cursors = {&cursors[0], &cursors[1]},
				     .bytes = malloc(PAGE_COPIES * ARENA_BLOCK)};
	struct snapshot snapshot = {.view = {.store = &f->first.store, .page_shift = 12},
				    .page_size = ARENA_BLOCK,
				    .copies = &copies};
	const uint8_t *again;

	for (uint64_t chunk = 1; chunk < 4; chunk++)
		look_ahead_at(&f->second, chunk, PLAN_UNMAPPED, PLAN_LOAD);
	for (uint64_t i = 0; i < PAGES; i++) {
		unsigned moved = i % LEAVES ? 1 + i % 2 : 0;

		stands[moved] = FIRST + i;
		assert_int_equal(page_copy(&snapshot, FIRST + i, &levels[moved]->page), 0);
		for (unsigned n = 0; n < 3; n++)
			if (stands[n])
				assert_int_equal(levels[n]->page[0],
						 byte_at(stands[n] * ARENA_BLOCK));
	}
	assert_int_equal(page_copy(&snapshot, stands[0], &again), 0);
	assert_ptr_equal(again, levels[0]->page);
	assert_int_equal(page_copy(&snapshot, FIRST + PAGES, &again), EAGAIN);
	free(copies.bytes);
}

#define SCANS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* The first range is in memory, but is unmapped to make room for the second. Look-ahead that took
 * the first for usable would ask for both again, for ever. */
static void look_ahead_when_memory_is_for_one_range_then_it_waits(void **state)
{
	static struct ahead ahead;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct fixture *f = *state;
	struct wanted_range range = {.offset = LOW, .length = 2 * LOW};

	assert_true(store_limit(&f->first.store, ARENA_CHUNK));
	assert_true(store_limit(&f->second.store, ARENA_CHUNK));
	read_chunk(&f->second, 0);
	ahead_open(&ahead, &f->first.store, &f->first.io, &lock);
	pthread_mutex_lock(&lock);
	for (unsigned ranges = 1; ranges <= 2; ranges++) {
		for (uint64_t i = 0; i < ranges; i++) {
			range.offset = LOW + i * ARENA_CHUNK;
			assert_true(ranges_put(&ahead.ranges, range));
		}
		assert_int_equal(ahead_start(&ahead, 1), ranges == 1);
	}
	pthread_mutex_unlock(&lock);
	ahead_close(&ahead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCANS(scans_when_memory_lacks_a_chunk_then_each_maps_a_part_of_it),
		SCANS(scans_when_the_second_follows_then_each_chunk_is_read_once),
		SCANS(look_ahead_when_another_is_behind_then_goes_less_far),
		SCANS(look_ahead_when_a_process_has_several_then_they_share),
		SCANS(look_ahead_when_another_goes_the_other_way_then_goes_half_as_far),
		SCANS(look_ahead_when_no_scan_is_under_way_then_no_limit),
		SCANS(look_ahead_when_all_memory_is_mapped_then_rests_and_maps_stay),
		SCANS(look_ahead_when_there_are_several_scans_then_values_stay_unmapped),
		SCANS(look_ahead_when_there_is_one_scan_then_values_are_mapped),
		SCANS(scan_when_the_kernel_has_read_a_part_then_all_is_brought),
		SCANS(copy_when_there_are_several_scans_then_nothing_is_mapped),
		SCANS(copy_when_there_is_one_scan_then_there_is_none),
		SCANS(copies_when_cursors_point_to_them_then_stay),
		cmocka_unit_test_setup_teardown(
			look_ahead_when_memory_is_for_one_range_then_it_waits, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
