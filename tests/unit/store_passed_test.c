/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests what one process makes the kernel read into the page cache for others, and how a reader
 * waits for that. */
#include "store_fixture.h"
#include "window/store_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

static const struct reader *known; /* the reader about whose file the kernel tells */
static uint64_t hole;              /* the offset of a missing block; 0: none */
static size_t passed;              /* bytes that were read through the page cache */
static bool coming, broken;        /* the hole is being read; that read fails */
/* Another program cuts the file of this store to `cut`, which another thread sees meanwhile. */
static struct store *shortened;
static struct identity cut;

int __wrap_mincore(void *address, size_t length, unsigned char *pages);
int __wrap_io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages);
int __wrap_io_pass(int fd, uint64_t offset, size_t length);
int __wrap_fault_in(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there);

int __wrap_mincore(void *address, size_t length, unsigned char *pages)
{
	uint64_t at = (uint64_t)((uint8_t *)address - known->base);

	memset(pages, 1, (length + 4095) / 4096);
	if (hole >= at && hole < at + length)
		pages[(hole - at) / 4096] = 0;
	return 0;
}

/* The same, but pages that are being read count as present. */
int __wrap_io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages)
{
	*pages = (length + 4095) / 4096;
	if (!coming && hole >= offset && hole < offset + length)
		--*pages;
	return fd < 0;
}

int __wrap_io_pass(int fd, uint64_t offset, size_t length)
{
	(void)fd, (void)offset;
	passed += length;
	if (shortened)
		assert_int_equal(store_snapshot(shortened, &cut, cut.size, LOW, false), 0);
	if (broken)
		return EIO;
	if (coming)
		hole = 0;
	return 0;
}

static bool closed, touched;

/* Pages that have come are in memory, so no fault has to read. */
int __wrap_fault_in(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there)
{
	(void)store, (void)offset, (void)end, (void)lone;
	assert_true(closed);
	touched = *there = true;
	return 0;
}

static int setup(void **state)
{
	if (store_setup_told(state))
		return -1;
	known = &((struct fixture *)*state)->first;
	hole = 0;
	coming = broken = closed = touched = false;
	passed = 0;
	return 0;
}

/* A value that one process passes on is not put into the arena; meanwhile other processes wait for
 * its claims. */
static void value_when_it_is_passed_on_then_others_find_it_in_the_page_cache(void **state)
{
	struct fixture *f = *state;
	struct store *others = &f->second.store;
	uint64_t value = 2 * ARENA_CHUNK + ARENA_CHUNK / 2, length = 4 * ARENA_BLOCK, run;
	struct store_load load, none;

	others->believe_cache = true;
	others->look.told = TOLD_TRULY;
	hole = value;
	assert_true(store_may_pass_on(&f->first.store));
	store_pass_on(&f->first.store, true);
	assert_int_equal(store_plan(&f->first.store, value, &length, false, &load), PLAN_LOAD);
	assert_true(load.passed_on);
	assert_null(store_place(&load));
	known = &f->second;
	assert_int_equal(store_plan(others, value, &length, false, &none), PLAN_BUSY);
	assert_int_equal(store_begin_passed(&f->first.store, load.offset, load.length), 0);
	assert_int_equal(store_finish(&f->first.store, &load, NULL, 0, load.length), 0);
	hole = 0;
	assert_int_equal(store_plan(others, value, &length, false, &none), PLAN_READY);
	assert_int_equal(
		arena_missing(others->arena, value / ARENA_BLOCK, value / ARENA_BLOCK + 4, &run),
		4);
	/* This process has not asked yet whether the value has come. */
	assert_false(store_covers(&f->first.store, value, length));
	assert_int_equal(store_await(&f->first.store, value, length), 0);
	assert_true(store_covers(&f->first.store, value, length));
	assert_right(&f->second, value, length);
}

/* Another process makes the kernel read the value: no second request, and no copy. */
static void value_when_the_kernel_is_reading_it_then_the_reader_waits_for_that(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t value = 2 * ARENA_CHUNK + ARENA_CHUNK / 2, length = 16 * ARENA_BLOCK, run;

	hole = value;
	coming = true;
	assert_int_equal(store_bring(store, value, length), 0);
	assert_int_equal(hole, 0);
	assert_int_equal(io_counted(&f->first.io).bytes, 0);
	assert_true(store_covers(store, value, length));
	assert_right(&f->first, value, length);
	assert_int_equal(
		arena_missing(store->arena, value / ARENA_BLOCK, value / ARENA_BLOCK + 16, &run),
		16);
}

/* The same while the chunk shows shared memory: the file is mapped again in the chunk's place,
 * once. */
static void value_when_its_chunk_is_shown_then_the_page_cache_serves_it_all_the_same(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t chunk = 2 * ARENA_CHUNK, value = chunk + ARENA_CHUNK / 2,
		 length = 16 * ARENA_BLOCK;

	hole = chunk;
	assert_int_equal(store_bring(store, chunk, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_BLOCK);
	assert_int_equal(store_bring(store, value, length), 0);
	assert_true(store_covers(store, value, length));
	assert_false(is_shown(store, 2));
	/* From now on the arena covers a part of the chunk. */
	assert_int_equal(store_bring(store, chunk, ARENA_BLOCK), 0);
	assert_int_equal(get_state(store, 2), CHUNK_RUNS);
	assert_int_equal(store_bring(store, value + length, length), 0);
	assert_int_equal(get_state(store, 2), CHUNK_RUNS);
	assert_true(store_covers(store, value + length, length));
	assert_true(store_covers(store, chunk, ARENA_BLOCK));
	assert_false(store_covers(store, chunk + ARENA_BLOCK, ARENA_BLOCK));
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_BLOCK);
	assert_right(&f->first, chunk, ARENA_BLOCK);
	assert_right(&f->first, value, 2 * length);
}

/* If a read that another process began fails, this process gets its errno. */
static void value_when_the_kernels_read_fails_then_that_is_told(void **state)
{
	struct fixture *f = *state;

	hole = 2 * ARENA_CHUNK;
	coming = broken = true;
	assert_int_equal(store_bring(&f->first.store, hole, ARENA_BLOCK), EIO);
	broken = false;
	assert_int_equal(store_bring(&f->first.store, hole, ARENA_BLOCK), 0);
	assert_right(&f->first, 2 * ARENA_CHUNK, ARENA_BLOCK);
}

/* Later transactions get pointers to values that were passed on without a further question. */
static void value_that_was_passed_on_when_its_chunk_is_shown_then_pointers_stay_right(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t value = 2 * ARENA_CHUNK + ARENA_CHUNK / 2, other = value + 64 * ARENA_BLOCK,
		 length = ARENA_BLOCK;
	struct store_load load;

	hole = value;
	store_enter(store);
	store_pass_on(store, true);
	assert_int_equal(store_plan(store, value, &length, false, &load), PLAN_LOAD);
	hole = other;
	assert_int_equal(store_finish(store, &load, NULL, 0, load.length), 0);
	store_pass_on(store, false);
	assert_int_equal(store_await(store, value, ARENA_BLOCK), 0);
	store_leave(store);
	store_enter(store);
	assert_true(store_covers(store, value, ARENA_BLOCK));
	assert_int_equal(store_bring(store, other, ARENA_BLOCK), 0);
	assert_right(&f->first, value, ARENA_BLOCK);
	store_leave(store);
}

/* The same while the chunk shows parts of shared memory: parts without memory must not cover the
 * value. */
static void value_when_its_chunk_shows_parts_then_later_pointers_to_it_stay_right(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t chunk = 2 * ARENA_CHUNK, value = chunk + ARENA_CHUNK / 2,
		 length = 16 * ARENA_BLOCK;

	store_enter(store);
	hole = chunk + ARENA_BLOCK;
	assert_int_equal(store_bring(store, chunk, ARENA_BLOCK), 0); /* the page cache has it */
	assert_int_equal(store_bring(store, hole, ARENA_BLOCK), 0);
	assert_int_equal(get_state(store, 2), CHUNK_RUNS);
	assert_int_equal(store_bring(store, value, length), 0);
	assert_int_equal(get_state(store, 2), CHUNK_RUNS);
	store_leave(store);
	store_enter(store);
	assert_true(store_covers(store, value, length));
	hole = chunk + 3 * ARENA_BLOCK;
	assert_int_equal(store_bring(store, hole, ARENA_BLOCK), 0);
	assert_right(&f->first, hole, ARENA_BLOCK);
	assert_right(&f->first, value, length);
	store_leave(store);
}

/* A thread of the announcing process must not wait for the value to be shown: it never is. */
static void value_when_it_is_passed_on_then_threads_look_for_it_again(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t value = 2 * ARENA_CHUNK + ARENA_CHUNK / 2, length = ARENA_BLOCK;
	struct store_waiter waiter = {.offset = value, .end = value + length};
	struct store_load load;

	hole = 2 * ARENA_CHUNK;
	assert_int_equal(store_bring(store, hole, ARENA_BLOCK), 0); /* the store shows the chunk */
	store_pass_on(store, true);
	assert_int_equal(store_plan(store, value, &length, false, &load), PLAN_LOAD);
	store->landing.waiters = &waiter;
	assert_int_equal(store_finish(store, &load, NULL, 0, load.length), 0);
	store->landing.waiters = NULL;
	assert_false(store_covers(store, value, length));
	assert_true(waiter.passed_on);
}

/* A file system may keep its data elsewhere than in the page cache: other processes would read all
 * of it again. */
static void values_when_the_page_cache_keeps_none_then_no_more_are_passed_on(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	assert_true(store_may_pass_on(store));
	store_pass_on(store, true);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t length = ARENA_BLOCK;
		struct store_load load;

		assert_true(store_may_pass_on(store));
		hole = 3 * ARENA_CHUNK + i * ARENA_BLOCK;
		assert_int_equal(store_plan(store, hole, &length, false, &load), PLAN_LOAD);
		assert_int_equal(store_finish(store, &load, NULL, ENODATA, load.length), ENODATA);
		assert_false(store_covers(store, hole, ARENA_BLOCK));
	}
	assert_false(store_may_pass_on(store));
}

static void values_when_the_kernel_does_not_tell_what_is_cached_then_none_is_passed_on(void **state)
{
	struct fixture *f = *state;

	f->first.store.look.told = TOLD_NOTHING;
	assert_false(store_may_pass_on(&f->first.store));
}

/* MDB_NORDAHEAD: single pages are not copied, until all of their chunk comes. */
static void pages_when_they_come_alone_then_through_the_page_cache(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t chunk = 2 * ARENA_CHUNK, i;

	store_guess(store, GUESS_CHUNKS);
	for (i = 0; !io_counted(&f->first.io).bytes; i++) {
		assert_true(i < 20);
		hole = chunk + i * 8 * ARENA_BLOCK;
		passed = 0;
		assert_int_equal(store_bring(store, hole, 2 * ARENA_BLOCK), 0);
		assert_true(store_covers(store, hole, 2 * ARENA_BLOCK));
		assert_true(passed == 2 * ARENA_BLOCK || io_counted(&f->first.io).bytes);
	}
	assert_int_equal(i, 7);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_CHUNK);
	assert_int_equal(get_state(store, 2), CHUNK_FULL);
	assert_right(&f->first, chunk, ARENA_CHUNK);
}

/* Without MDB_NORDAHEAD: the kernel reads the neighbours along, until all of their chunk comes. */
static void pages_when_neighbours_are_wanted_then_through_the_page_cache_twice(void **state)
{
	enum { CHUNK = 4 };
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t chunk = CHUNK * ARENA_CHUNK;

	store_guess(store, GUESS_AROUND);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(io_counted(&f->first.io).bytes, 0);
		assert_int_equal(passed, i * ARENA_BLOCK);
		hole = chunk + i * 60 * ARENA_BLOCK;
		assert_int_equal(store_bring(store, hole, ARENA_BLOCK), 0);
		assert_true(store_covers(store, hole, ARENA_BLOCK));
	}
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_CHUNK);
	assert_int_equal(get_state(store, CHUNK), CHUNK_FULL);
	assert_right(&f->first, chunk, ARENA_CHUNK);
}

/* By a descriptor for random reads the kernel reads no neighbours along. */
static void pages_when_the_kernel_reads_no_neighbours_then_directly(void **state)
{
	struct fixture *f = *state;

	store_read_singly(&f->first.store);
	store_guess(&f->first.store, GUESS_AROUND);
	hole = 2 * ARENA_CHUNK;
	assert_int_equal(store_bring(&f->first.store, hole, ARENA_BLOCK), 0);
	assert_int_equal(passed, 0);
	assert_int_equal(io_counted(&f->first.io).bytes, 128 << 10);
}

static void assert_read_directly(struct fixture *f, uint64_t offset)
{
	uint64_t before = io_counted(&f->first.io).bytes;

	assert_false(store_begins(&f->first.store));
	hole = offset;
	assert_int_equal(store_bring(&f->first.store, hole, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, before + ARENA_BLOCK);
}

static void pages_when_others_do_not_look_at_the_page_cache_then_directly(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	store_guess(store, GUESS_CHUNKS);
	hole = ARENA_CHUNK;
	assert_int_equal(store_bring(store, hole, ARENA_BLOCK), 0);
	assert_true(store_begins(store));
	assert_int_equal(io_counted(&f->first.io).bytes, 0);
	store->believe_cache = false;
	assert_read_directly(f, 2 * ARENA_CHUNK);
}

/* Where the program has closed the file, the store reads nothing by its descriptor. */
static void pages_when_the_program_has_closed_the_file_then_they_are_touched(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	store_guess(store, GUESS_CHUNKS);
	store->file.inode++;
	hole = ARENA_CHUNK;
	closed = true;
	assert_int_equal(store_bring(store, hole, ARENA_BLOCK), 0);
	closed = false;
	assert_int_equal(passed, 0);
	assert_true(touched);
	store->file.inode--;
}

/* Another program has cut the file, and a transaction of another thread sees that meanwhile. */
static void pages_when_the_file_gets_shorter_then_no_thread_hangs(void **state)
{
	struct fixture *f = *state;

	alarm(60);
	cut = f->identity;
	cut.size /= 2;
	for (uint64_t at = SIZE / 2 - ARENA_BLOCK; at < SIZE; at += ARENA_CHUNK / 2) {
		assert_int_equal(store_snapshot(&f->first.store, &f->identity, SIZE, LOW, true), 0);
		shortened = &f->first.store;
		assert_int_equal(store_await(&f->first.store, at, ARENA_BLOCK), 0);
		shortened = NULL;
	}
	alarm(0);
}

/* For a file that is read in pieces, the page cache would take memory from other programs. */
static void pages_when_memory_has_no_room_for_the_file_then_directly(void **state)
{
	struct fixture *f = *state;

	f->first.store.options.budget = f->second.store.options.budget = SIZE / 2;
	store_guess(&f->first.store, GUESS_CHUNKS);
	assert_read_directly(f, ARENA_CHUNK);
	assert_read_directly(f, 2 * ARENA_CHUNK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(pages_when_they_come_alone_then_through_the_page_cache),
		CASE(pages_when_neighbours_are_wanted_then_through_the_page_cache_twice),
		CASE(pages_when_the_kernel_reads_no_neighbours_then_directly),
		CASE(pages_when_others_do_not_look_at_the_page_cache_then_directly),
		CASE(pages_when_memory_has_no_room_for_the_file_then_directly),
		CASE(pages_when_the_program_has_closed_the_file_then_they_are_touched),
		CASE(pages_when_the_file_gets_shorter_then_no_thread_hangs),
		CASE(value_when_it_is_passed_on_then_others_find_it_in_the_page_cache),
		CASE(value_when_the_kernel_is_reading_it_then_the_reader_waits_for_that),
		CASE(value_when_its_chunk_is_shown_then_the_page_cache_serves_it_all_the_same),
		CASE(value_when_the_kernels_read_fails_then_that_is_told),
		CASE(value_that_was_passed_on_when_its_chunk_is_shown_then_pointers_stay_right),
		CASE(value_when_its_chunk_shows_parts_then_later_pointers_to_it_stay_right),
		CASE(value_when_it_is_passed_on_then_threads_look_for_it_again),
		CASE(values_when_the_page_cache_keeps_none_then_no_more_are_passed_on),
		CASE(values_when_the_kernel_does_not_tell_what_is_cached_then_none_is_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
