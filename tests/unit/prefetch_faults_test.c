/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks when the page faults of a scan over cached data count as expensive. */
#include "prefetch_fixture.h"

#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

/* A scan is judged by the bytes behind it, and by sample faults that are spread over the bytes in
 * front of it. */
enum { LOOKED_AT_BYTES = 4 << 20, AHEAD_BYTES = 32 << 20 };

/* Makes a cursor as of a scan over a large set in single pages. */
static void scan_make(struct cursor *cursor)
{
	cursor_init(cursor, &f.snapshot, &f.tree, &f.order, NULL);
	f.tree.record.leaf_pages = 0;
	f.tree.record.overflow_pages = 1 << 20;
	f.tree.record.entries = f.tree.record.overflow_pages / (LOOKED_AT_BYTES / 4096);
	cursor->paced = 1;
	single_pages_show(LOOKED_AT_BYTES, LOOKED_AT_BYTES + AHEAD_BYTES);
}

/* Simulates a scan that has moved 4 MiB between two looks, at the cost of faults alone, or with
 * `computed` nanoseconds of computing as well. */
static bool is_dear(struct cursor *cursor, uint64_t touched, uint64_t computed)
{
	unmap_all();
	cursor->seen = (struct cursor_seen){clock_now() - computed, faults_now()};
	(void)faults_over(LOOKED_AT_BYTES, touched);
	return __real_faults_are_dear(f.prefetch, cursor, 2 * LOOKED_AT_BYTES, true);
}

static void faults_when_they_take_the_time_then_and_only_then_they_are_dear(void **state)
{
	struct cursor cursor;
	bool dear = false;

	(void)state;
	scan_make(&cursor);
	/* A thread that waits for a processor in between looks as if it had computed. */
	for (int i = 0; i < 1000 && !dear; i++)
		dear = is_dear(&cursor, LOOKED_AT_BYTES, 0);
	assert_true(dear);
	for (int i = 0; i < 20; i++) {
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES, 1000000000));
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES / 2, 0));
		assert_false(is_dear(&cursor, 0, 0));
	}
	f.busy = true;
	for (int i = 0; i < 20; i++)
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES, 0));
}

/* The same for a backward scan: the pages that it has passed lie at higher offsets. */
static void faults_when_a_scan_goes_backwards_then_those_before_it_tell(void **state)
{
	struct cursor cursor;
	bool dear = false;

	(void)state;
	scan_make(&cursor);
	for (int i = 0; i < 1000 && !dear; i++) {
		unmap_all();
		cursor.seen = (struct cursor_seen){clock_now(), faults_now()};
		(void)faults_over(AHEAD_BYTES, LOOKED_AT_BYTES);
		dear = __real_faults_are_dear(f.prefetch, &cursor, AHEAD_BYTES, false);
	}
	assert_true(dear);
	/* Fewer faults are left there than a thread's start costs. */
	for (int i = 0; i < 200; i++) {
		unmap_all();
		cursor.seen = (struct cursor_seen){clock_now(), faults_now()};
		(void)faults_over(AHEAD_BYTES, LOOKED_AT_BYTES);
		assert_false(
			__real_faults_are_dear(f.prefetch, &cursor, AHEAD_BYTES - 4096, false));
	}
}

/* As when the kernel's readahead has begun the file with single pages and gone on with large
 * folios: the first fault in a folio maps all of it. */
static void faults_when_only_the_next_ones_cost_then_they_are_not_dear(void **state)
{
	uint64_t next = (uint64_t)2 * LOOKED_AT_BYTES, far = next + STORE_FAULT * 16;
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	for (int i = 0; i < 200; i++) {
		unmap_all();
		for (uint64_t at = far; at < next + AHEAD_BYTES; at += 2 << 20)
			store_map(&f.store, at + STORE_FAULT, (2 << 20) - 2 * STORE_FAULT);
		cursor.seen = (struct cursor_seen){clock_now(), faults_now()};
		(void)faults_over(LOOKED_AT_BYTES, LOOKED_AT_BYTES);
		assert_false(__real_faults_are_dear(f.prefetch, &cursor, next, true));
	}
}

/* A program that copies each value into fresh memory takes faults that no other thread can take for
 * it. */
static void faults_when_they_are_for_other_memory_then_they_are_not_dear(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	(void)faults_over(LOOKED_AT_BYTES, LOOKED_AT_BYTES + AHEAD_BYTES);
	for (int i = 0; i < 20; i++) {
		uint8_t *copy = mmap(NULL, LOOKED_AT_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(copy != MAP_FAILED);
		madvise(copy, LOOKED_AT_BYTES, MADV_NOHUGEPAGE);
		cursor.seen = (struct cursor_seen){clock_now(), faults_now()};
		for (size_t at = 0; at < LOOKED_AT_BYTES; at += 4096)
			copy[at] = f.window.base[LOOKED_AT_BYTES + at];
		munmap(copy, LOOKED_AT_BYTES);
		assert_false(
			__real_faults_are_dear(f.prefetch, &cursor, 2 * LOOKED_AT_BYTES, true));
	}
}

/* As when another thread, or a forked child, goes on with a cursor. */
static void faults_when_another_thread_had_taken_more_then_they_are_not_dear(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	for (int i = 0; i < 20; i++) {
		unmap_all();
		cursor.seen = (struct cursor_seen){clock_now() - 1000000000, faults_now() + 1000};
		assert_false(
			__real_faults_are_dear(f.prefetch, &cursor, 2 * LOOKED_AT_BYTES, true));
	}
}

/* The earlier faults belong to another scan, and their number does not matter. */
static void faults_when_the_cursor_was_set_elsewhere_then_it_is_looked_at_anew(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	for (int i = 0; i < 200; i++) {
		unmap_all();
		cursor.seen = (struct cursor_seen){clock_now(), faults_now()};
		(void)faults_over(LOOKED_AT_BYTES, LOOKED_AT_BYTES);
		cursor_leave(&cursor);
		cursor.paced = 1;
		assert_false(
			__real_faults_are_dear(f.prefetch, &cursor, 2 * LOOKED_AT_BYTES, true));
	}
}

/* While a writer commits, the library does not know which pages of a file on a network are in
 * memory. */
static void faults_when_nothing_is_known_of_the_file_then_they_are_not_dear(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	assert_int_equal(store_snapshot(&f.store, &f.identity, f.identity.size,
					2 * f.snapshot.page_size, false),
			 0);
	for (int i = 0; i < 200; i++)
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES, 0));
}

#define CASE(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(faults_when_they_take_the_time_then_and_only_then_they_are_dear,
		     setup_cached_longer),
		CASE(faults_when_a_scan_goes_backwards_then_those_before_it_tell,
		     setup_cached_longer),
		CASE(faults_when_only_the_next_ones_cost_then_they_are_not_dear,
		     setup_cached_longer),
		CASE(faults_when_they_are_for_other_memory_then_they_are_not_dear,
		     setup_cached_longer),
		CASE(faults_when_another_thread_had_taken_more_then_they_are_not_dear,
		     setup_cached_longer),
		CASE(faults_when_the_cursor_was_set_elsewhere_then_it_is_looked_at_anew,
		     setup_cached_longer),
		CASE(faults_when_nothing_is_known_of_the_file_then_they_are_not_dear, setup_longer),
	};

	return cmocka_run_group_tests_name("prefetch_faults", tests, NULL, NULL);
}
