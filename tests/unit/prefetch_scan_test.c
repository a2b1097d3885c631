/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the prefetch thread reads ahead of a cursor, and which cached pages it maps. */
#include "prefetch_fixture.h"

#include "util/checked.h"
#include "util/stats.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct comparators *comparators(void)
{
	static struct comparators both;

	both = f.order;
	return &both;
}

/* A cursor at a record. */
static void cursor_place(struct cursor *cursor, unsigned record)
{
	char text[16];
	MDB_val key, data;

	key_make(text, &key, record);
	cursor_init(cursor, &f.snapshot, &f.tree, comparators(), NULL);
	assert_int_equal(cursor_get(cursor, &key, &data, MDB_SET_KEY), 0);
}

static const uint8_t *cursor_step(struct cursor *cursor)
{
	MDB_val key, data;

	assert_int_equal(cursor_get(cursor, &key, &data, MDB_NEXT), 0);
	return data.mv_data;
}

/* The program has found the branch in memory, so no thread has loaded it. The way from one leaf to
 * the next leads over that branch. */
static void scan_when_its_branch_was_never_brought_then_it_is_looked_ahead_of(void **state)
{
	unsigned record = RECORDS_LONG - 100, behind = RECORDS_LONG - 51;
	struct cursor cursor, other;
	uint64_t value;

	(void)state;
	f.snapshot.view.store = NULL;
	f.tree.pattern = PATTERN_SEQUENTIAL;
	cursor_place(&other, behind);
	value = (uint64_t)(cursor_step(&other) - f.window.base);
	cursor_leave(&other);
	cursor_place(&cursor, record);
	for (int i = 0; i < CURSOR_PACE_FIRST; i++)
		cursor_step(&cursor);
	assert_non_null(cursor.ahead);
	assert_comes_to_rest();
	assert_true(store_covers(&f.store, value, VALUE_BIG));
	cursor_leave(&cursor);
}

static void map_when_all_is_there_then_the_program_takes_no_fault(void **state)
{
	uint64_t offset = 2 << 20, length = 2 << 20, without;

	(void)state;
	unmap_all();
	without = faults_over(offset, length);
	unmap_all();
	store_map(&f.store, offset, length);
	assert_in_range(faults_over(offset, length), 0, without / 8);
}

/* The prefetch thread takes the faults of cached pages, and the program then reads them without a
 * fault. */
static void scan_when_its_faults_are_dear_then_they_are_taken_ahead_of_it(void **state)
{
	uint64_t without;
	struct cursor cursor;

	(void)state;
	f.dear = true;
	unmap_all();
	without = faults_over(1 << 20, 1 << 20);
	unmap_all();
	cursor_place(&cursor, 0);
	for (int i = 0; i < CURSOR_PACE_FIRST; i++)
		cursor_step(&cursor);
	assert_non_null(cursor.ahead);
	assert_comes_to_rest();
	assert_in_range(faults_over(1 << 20, 1 << 20), 0, without / 8);
	assert_int_equal(bytes_read(), 0);
	cursor_leave(&cursor);
}

/* A scan over cached data; some of its steps move it from one value to another. */
struct mapped_scan {
	struct cursor cursor;
	uint64_t at; /* the value's offset in the file */
};

static void mapped_begin(struct mapped_scan *scan)
{
	f.dear = true;
	cursor_place(&scan->cursor, 0);
	for (int i = 0; i < CURSOR_PACE_FIRST; i++)
		cursor_step(&scan->cursor);
	assert_non_null(scan->cursor.ahead);
	assert_comes_to_rest_again();
}

static void mapped_steps(struct mapped_scan *scan, unsigned steps)
{
	const uint8_t *value = NULL;

	for (unsigned i = 0; i < steps; i++)
		value = cursor_step(&scan->cursor);
	scan->at = (uint64_t)(value - f.window.base);
}

/* Returns how many pieces of STORE_FAULT bytes are not mapped. */
static unsigned unmapped(uint64_t from, uint64_t to)
{
	unsigned n = 0;

	for (from = round_up(from, STORE_FAULT); from + STORE_FAULT <= to; from += STORE_FAULT)
		n += !f.maps[from / STORE_FAULT];
	return n;
}

/* The database is one of several in the file, and its pieces are asked for as the scan reaches
 * them. */
static void scan_when_its_database_is_a_part_of_the_file_then_all_of_it_is_mapped(void **state)
{
	struct mapped_scan scan;
	uint64_t from;

	(void)state;
	f.tree.record.overflow_pages /= 2;
	mapped_begin(&scan);
	mapped_steps(&scan, 100);
	assert_comes_to_rest_again();
	from = scan.at;
	for (int i = 0; i < 400; i++) {
		mapped_steps(&scan, 1);
		assert_comes_to_rest_again();
	}
	assert_in_range(unmapped(from, scan.at), 0, (scan.at - from) / STORE_FAULT / 16);
	cursor_leave(&scan.cursor);
}

/* Returns the end of what has been mapped. */
static uint64_t mapped_end(void)
{
	unsigned i = MAPS;

	while (i && !f.maps[i - 1])
		i--;
	return (uint64_t)i * STORE_FAULT;
}

enum { AHEAD_MAPPED = 8 << 20 };

/* Maps come in whole chunks, so one chunk more is allowed, and the part that the prefetch thread
 * adds only at its next look. */
static void assert_maps_8_mib_ahead(unsigned steps)
{
	struct mapped_scan scan;

	mapped_begin(&scan);
	for (int i = 0; i < 50; i++) {
		mapped_steps(&scan, steps);
		assert_comes_to_rest_again();
		assert_in_range(mapped_end(), scan.at, scan.at + AHEAD_MAPPED + 2 * ARENA_CHUNK);
	}
	assert_in_range(mapped_end(), scan.at + AHEAD_MAPPED / 2, f.size);
	cursor_leave(&scan.cursor);
}

static void scan_when_it_is_long_then_no_more_than_8_mib_are_mapped_ahead(void **state)
{
	(void)state;
	assert_maps_8_mib_ahead(10);
}

static void scan_of_leaves_when_it_is_long_then_no_more_are_mapped_ahead(void **state)
{
	(void)state;
	assert_maps_8_mib_ahead(3000);
}

/* One stream's bytes have to be read, another stream's bytes to be mapped. The finished read is not
 * kept back until all is mapped. */
static void read_when_much_is_to_be_mapped_then_it_does_not_wait_for_that(void **state)
{
	const uint64_t chunks = 8, size = ARENA_CHUNK;

	(void)state;
	f.cold = 4;
	pthread_mutex_lock(&f.prefetch->lock);
	assert_int_equal(prefetch_wake(f.prefetch), 0);
	assert_true(prefetch_want(f.prefetch,
				  (struct wanted_range){.offset = f.cold * size, .length = size}));
	for (uint64_t i = 1; i <= chunks; i++)
		assert_true(prefetch_want(f.prefetch,
					  (struct wanted_range){.offset = (f.cold + i) * size,
								.length = size,
								.map = true}));
	pthread_mutex_unlock(&f.prefetch->lock);
	assert_comes_to_rest();
	assert_int_equal(bytes_read(), size);
	assert_int_equal(maps_count(), chunks * size / STORE_FAULT);
	assert_in_range(f.maps_waited, 0, 2 * size / STORE_FAULT);
}

/* Pages that were already in memory were not read ahead. */
static void scan_when_nothing_was_read_for_it_then_nothing_of_that_counts_as_used(void **state)
{
	uint64_t used = stats_get(STATS_PREFETCH_USED);
	struct mapped_scan scan;

	(void)state;
	mapped_begin(&scan);
	mapped_steps(&scan, 100);
	cursor_leave(&scan.cursor);
	assert_int_equal(bytes_read(), 0);
	assert_int_equal(stats_get(STATS_PREFETCH_USED), used);
}

/* Scans to the end of the data with a look-ahead that has begun; returns whether the look-ahead is
 * still there then. */
static bool is_mapped_until_the_end(void)
{
	struct mapped_scan scan;
	bool mapped;

	mapped_begin(&scan);
	f.dear = false;
	f.busy = true;
	for (int i = 0; i < 97; i++) {
		mapped_steps(&scan, 10);
		assert_comes_to_rest_again();
	}
	mapped = scan.cursor.ahead != NULL;
	cursor_leave(&scan.cursor);
	return mapped;
}

static void scan_when_its_faults_go_on_then_its_look_ahead_does(void **state)
{
	(void)state;
	single_pages_show(0, f.size & ~(uint64_t)4095);
	assert_true(is_mapped_until_the_end());
}

static void scan_when_all_is_mapped_already_then_its_look_ahead_ends(void **state)
{
	(void)state;
	single_pages_show(0, f.size & ~(uint64_t)4095);
	(void)faults_over(0, f.size & ~(uint64_t)4095);
	assert_false(is_mapped_until_the_end());
}

static void *snapshot_again(void *argument)
{
	(void)argument;
	for (unsigned i = 0; i < 20; i++) {
		f.identity.snapshot++;
		assert_int_equal(store_snapshot(&f.store, &f.identity, f.identity.size,
						2 * f.snapshot.page_size, true),
				 0);
	}
	return NULL;
}

/* Another thread begins transactions while another program writes. ThreadSanitizer looks for
 * races. */
static void scan_when_newer_snapshots_begin_then_it_goes_on(void **state)
{
	struct mapped_scan scan;
	pthread_t thread;

	(void)state;
	mapped_begin(&scan);
	assert_int_equal(pthread_create(&thread, NULL, snapshot_again, NULL), 0);
	mapped_steps(&scan, 900);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_comes_to_rest_again();
	cursor_leave(&scan.cursor);
}

/* Goes on while the prefetch thread is blocked. Then the thread maps nothing behind the program,
 * but all in front of it. */
static void overtake(struct mapped_scan *scan, unsigned steps)
{
	uint64_t from, to;

	pthread_mutex_lock(&f.prefetch->lock);
	from = round_up(mapped_end(), ARENA_CHUNK) + ARENA_CHUNK;
	mapped_steps(scan, steps);
	to = scan->at - 2 * ARENA_CHUNK;
	pthread_mutex_unlock(&f.prefetch->lock);
	assert_true(from + 4 * ARENA_CHUNK < to);
	assert_comes_to_rest_again();
	assert_int_equal(unmapped(from, to), (to - from) / STORE_FAULT);
	assert_int_equal(unmapped(scan->at, scan->at + ARENA_CHUNK), 0);
}

static void scan_when_it_has_overtaken_its_look_ahead_then_that_maps_nothing_behind_it(void **state)
{
	struct mapped_scan scan;

	(void)state;
	mapped_begin(&scan);
	mapped_steps(&scan, 100);
	assert_comes_to_rest_again();
	overtake(&scan, 500);
	cursor_leave(&scan.cursor);
}

static void scan_of_leaves_when_it_has_overtaken_its_look_ahead_then_the_same(void **state)
{
	struct mapped_scan scan;

	(void)state;
	mapped_begin(&scan);
	mapped_steps(&scan, 10000);
	assert_comes_to_rest_again();
	overtake(&scan, 200000);
	cursor_leave(&scan.cursor);
}

/* When the look-ahead goes on, the page that it wants next has left memory. */
static void
scan_when_it_has_overtaken_its_look_ahead_in_little_memory_then_that_catches_up(void **state)
{
	struct mapped_scan scan;
	unsigned waits = 0;

	(void)state;
	assert_true(store_limit(&f.store, 16 << 20));
	mapped_begin(&scan);
	mapped_steps(&scan, 10000);
	assert_comes_to_rest_again();
	pthread_mutex_lock(&f.prefetch->lock);
	mapped_steps(&scan, 200000);
	pthread_mutex_unlock(&f.prefetch->lock);
	for (int i = 0; i < 20; i++) {
		if (i == 2)
			waits = store_waits(&f.store);
		mapped_steps(&scan, (unsigned)scan.cursor.pace);
		assert_comes_to_rest_again();
	}
	assert_int_equal(store_waits(&f.store), waits);
	cursor_leave(&scan.cursor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			scan_when_its_branch_was_never_brought_then_it_is_looked_ahead_of,
			setup_cached, teardown),
		cmocka_unit_test_setup_teardown(
			map_when_all_is_there_then_the_program_takes_no_fault, setup_cached,
			teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_its_faults_are_dear_then_they_are_taken_ahead_of_it, setup_cached,
			teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_its_database_is_a_part_of_the_file_then_all_of_it_is_mapped,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_it_is_long_then_no_more_than_8_mib_are_mapped_ahead,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_of_leaves_when_it_is_long_then_no_more_are_mapped_ahead,
			setup_cached_leaves, teardown),
		cmocka_unit_test_setup_teardown(
			read_when_much_is_to_be_mapped_then_it_does_not_wait_for_that, setup_cached,
			teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_nothing_was_read_for_it_then_nothing_of_that_counts_as_used,
			setup_cached, teardown),
		cmocka_unit_test_setup_teardown(scan_when_its_faults_go_on_then_its_look_ahead_does,
						setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_all_is_mapped_already_then_its_look_ahead_ends,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(scan_when_newer_snapshots_begin_then_it_goes_on,
						setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_it_has_overtaken_its_look_ahead_then_that_maps_nothing_behind_it,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_of_leaves_when_it_has_overtaken_its_look_ahead_then_the_same,
			setup_cached_leaves, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_it_has_overtaken_its_look_ahead_in_little_memory_then_that_catches_up,
			setup_arena_leaves, teardown),
	};

	return cmocka_run_group_tests_name("prefetch_scan", tests, NULL, NULL);
}
