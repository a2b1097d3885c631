/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which lookups by key count as a series of equal steps, and what is then read ahead of
 * them. */
#include "prefetch_fixture.h"

#include "util/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The number of lookups after which a look-ahead begins. Far fewer equal steps could be chance. */
enum { ENOUGH = 3 + CURSOR_PACE_FIRST, EACH = 8 };

/* The distance between two records, in bytes: a value's overflow pages. */
static const uint64_t PLACE_BIG = (VALUE_BIG + 16 + 4095) / 4096 * 4096;

static int setup_lookups(void **state)
{
	int rc = setup_big(state);

	watch_lookups();
	return rc;
}

static unsigned aheads(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < LOOKUPS; i++)
		n += f.lookups.each[i].ahead != NULL;
	return n;
}

static unsigned streams(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&f.prefetch->lock);
	for (unsigned i = 0; i < PREFETCH_STREAMS; i++)
		n += f.prefetch->streams[i] != NULL;
	pthread_mutex_unlock(&f.prefetch->lock);
	return n;
}

static bool is_there(uint64_t value)
{
	return store_covers(&f.store, value, VALUE_BIG);
}

/* Looks records up in equal steps until one that comes some steps later is there. A look-ahead
 * that finds the prefetch thread at work is tried again some lookups later. Returns the place of
 * the last record. */
static uint64_t look_up_until_there(unsigned step, unsigned steps)
{
	unsigned record = 0;
	uint64_t here = 0;

	for (unsigned i = 0; i < ENOUGH; i++, record += step)
		here = look_up(record);
	assert_int_equal(aheads(), 1);
	assert_comes_to_rest();
	while (!is_there(here + steps * step * PLACE_BIG)) {
		assert_true(record < RECORDS_BIG);
		for (unsigned i = 0; i < CURSOR_PACE_FIRST; i++, record += step)
			here = look_up(record);
		assert_comes_to_rest_again();
	}
	return here;
}

static void records_when_looked_up_in_order_then_the_next_are_brought(void **state)
{
	(void)state;
	look_up_until_there(1, 2 * (ENOUGH - 1));
}

/* Also by a cursor, with a record that is looked up twice now and then. */
static void records_when_set_by_a_cursor_then_the_same(void **state)
{
	static struct comparators order;
	struct cursor cursor;

	(void)state;
	order = f.order;
	cursor_init(&cursor, &f.snapshot, &f.tree, &order, NULL);
	for (unsigned i = 0; i < ENOUGH; i++) {
		char text[16];
		MDB_val key, data;

		key_make(text, &key, i);
		assert_int_equal(cursor_get(&cursor, &key, &data, MDB_SET), 0);
		assert_int_equal(cursor_get(&cursor, &key, &data, MDB_SET_KEY), 0);
	}
	assert_int_equal(aheads(), 1);
	cursor_leave(&cursor);
}

/* The records between are not wanted here, and each value is larger than what two requests are
 * joined over. */
static void each_nth_record_then_those_alone_are_brought(void **state)
{
	uint64_t here;

	(void)state;
	here = look_up_until_there(EACH, 1);
	assert_false(is_there(here + EACH / 2 * PLACE_BIG));
}

static void two_that_take_turns_then_both_are_looked_ahead_of(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ENOUGH; i++) {
		look_up(i);
		look_up(RECORDS_BIG / 2 + i);
	}
	assert_int_equal(aheads(), 2);
	assert_int_equal(streams(), 2);
}

static void steps_when_they_are_not_equal_then_no_look_ahead(void **state)
{
	static const unsigned records[] = {3, 5, 8, 9, 14, 16, 20, 21, 30, 33, 34, 40, 42, 45, 50};

	(void)state;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		look_up(records[i]);
	assert_int_equal(aheads(), 0);
	for (unsigned i = 0; i < 2 * ENOUGH; i++)
		look_up(RECORDS_BIG - 1 - i);
	assert_int_equal(streams(), 0);
}

static void pattern_when_it_breaks_then_the_look_ahead_ends(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ENOUGH; i++)
		look_up(i);
	assert_int_equal(streams(), 1);
	look_up(ENOUGH + 1);
	assert_int_equal(aheads(), 0);
	assert_int_equal(streams(), 0);
}

/* The program uses a transaction for each record. */
static void transaction_when_it_ends_then_the_look_ahead_goes_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ENOUGH; i++) {
		look_up(i);
		prefetch_end(f.prefetch, &f.snapshot);
	}
	assert_int_equal(streams(), 1);
	lookups_end(&f.lookups, f.snapshot.watch);
	assert_int_equal(streams(), 0);
}

static void advice_when_random_then_no_look_ahead(void **state)
{
	(void)state;
	f.tree.pattern = PATTERN_RANDOM;
	for (unsigned i = 0; i < 2 * ENOUGH; i++)
		look_up(i);
	assert_int_equal(streams(), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_lookups, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(records_when_looked_up_in_order_then_the_next_are_brought),
		CASE(records_when_set_by_a_cursor_then_the_same),
		CASE(each_nth_record_then_those_alone_are_brought),
		CASE(two_that_take_turns_then_both_are_looked_ahead_of),
		CASE(steps_when_they_are_not_equal_then_no_look_ahead),
		CASE(pattern_when_it_breaks_then_the_look_ahead_ends),
		CASE(transaction_when_it_ends_then_the_look_ahead_goes_on),
		CASE(advice_when_random_then_no_look_ahead),
	};

	return cmocka_run_group_tests_name("prefetch_lookups", tests, NULL, NULL);
}
