/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that page-table entries are made ahead of a program with as little work as the machine
 * needs. */
#include "store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { PIECES = (SIZE - ARENA_CHUNK) / STORE_FAULT };

static uint64_t now, tick; /* nanoseconds; `tick` is what a look at the clock takes */
static unsigned calls;     /* to the kernel, for entries */
static size_t asked;       /* bytes of the largest call */
static bool refused;       /* storage fails */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	now += tick;
	*time = (struct timespec){.tv_sec = (time_t)(now / 1000000000),
				  .tv_nsec = (long)(now % 1000000000)};
	return 0;
}

int __wrap_madvise(void *address, size_t length, int advice)
{
	if (advice != MADV_POPULATE_READ)
		return __real_madvise(address, length, advice);
	calls++;
	if (length > asked)
		asked = length;
	return refused ? -1 : __real_madvise(address, length, advice);
}

static int setup(void **state)
{
	struct fixture *f;

	if (store_setup(state))
		return -1;
	f = *state;
	refused = false;
	reader_close(&f->first);
	return reader_open(&f->first, f, STORE_CACHE, true);
}

/* look_ns: what a look at all pages of a piece takes by the clock. */
static void map_all(struct fixture *f, uint64_t look_ns)
{
	tick = look_ns;
	calls = 0;
	asked = 0;
	store_map(&f->first.store, ARENA_CHUNK, SIZE - ARENA_CHUNK);
}

/* Returns how many bytes of a reader's window have entries. */
static unsigned long mapped(const struct reader *reader)
{
	char said[MAP_LINE];

	reader_map_says(reader, ARENA_CHUNK, "Rss:", said);
	return strtoul(said, NULL, 10) << 10;
}

static void map_when_looks_are_dear_then_each_page_is_asked_for(void **state)
{
	struct fixture *f = *state;

	/* Each time again: the store tries nothing cheaper. */
	for (unsigned i = 0; i < 3; i++) {
		map_all(f, 100000);
		assert_int_equal(calls, PIECES);
		assert_int_equal(asked, STORE_FAULT);
	}
	assert_in_range(mapped(&f->first), SIZE - ARENA_CHUNK, SIZE);
}

/* Reading the page would be a signal. */
static void map_when_a_page_cannot_be_read_then_nothing_behind_it(void **state)
{
	struct fixture *f = *state;

	refused = true;
	map_all(f, 100000);
	assert_int_equal(calls, 1);
}

static void map_when_looks_are_cheap_then_one_page_for_each_fault(void **state)
{
	struct fixture *f = *state;

	map_all(f, 100);
	assert_int_equal(asked, STORE_FAULT);
	map_all(f, 100);
	assert_int_equal(calls, PIECES);
	assert_int_equal(asked, ARENA_BLOCK);
	assert_in_range(mapped(&f->first), SIZE - ARENA_CHUNK, SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(map_when_looks_are_dear_then_each_page_is_asked_for,
						setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			map_when_a_page_cannot_be_read_then_nothing_behind_it, setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			map_when_looks_are_cheap_then_one_page_for_each_fault, setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
