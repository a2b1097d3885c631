/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what readers of a readiness bitmap and choosers of a source rely on.
 */
#include "loader/loader_ready.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { UNITS = 1000 };

static void bit_when_set_and_cleared_then_only_its_own(void **state)
{
	uint64_t words[16] = {0};

	(void)state;
	assert_int_equal(ready_words(0), 0);
	assert_int_equal(ready_words(64), 1);
	assert_int_equal(ready_words(65), 2);
	assert_int_equal(ready_words(UNITS), 16);
	for (uint64_t unit = 0; unit < UNITS; unit += 3)
		assert_false(ready_set(words, unit));
	assert_true(ready_set(words, 999));
	for (uint64_t unit = 0; unit < UNITS; unit++) {
		assert_int_equal(ready_test(words, unit), unit % 3 == 0);
		assert_int_equal(ready_in(words[ready_word(unit)], unit), unit % 3 == 0);
	}
	assert_true(ready_count(words, UNITS) == 334);
	assert_true(ready_clear(words, 3));
	assert_false(ready_clear(words, 3));
	assert_false(ready_test(words, 3));
	assert_true(ready_count(words, UNITS) == 333);
}

struct setter {
	uint64_t *words;
	uint64_t first;
};

static void *set_every_fourth(void *argument)
{
	const struct setter *setter = argument;

	for (uint64_t unit = setter->first; unit < UNITS; unit += 4)
		ready_set(setter->words, unit);
	return NULL;
}

static void bits_when_set_by_several_threads_then_none_is_lost(void **state)
{
	uint64_t words[16] = {0};
	struct setter setters[4];
	pthread_t threads[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		setters[i] = (struct setter){words, i};
		assert_int_equal(pthread_create(&threads[i], NULL, set_every_fourth, &setters[i]),
				 0);
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_true(ready_count(words, UNITS) == UNITS);
}

static void choice_when_queues_differ_then_who_finishes_first(void **state)
{
	/* A near one with a queue, a far one without, and one that has not got it. */
	struct ready_source sources[3] = {
		{.seconds_a_request = 1e-6, .seconds_a_byte = 1e-10, .ready = true},
		{.seconds_a_request = 1e-5, .seconds_a_byte = 1e-9, .ready = true},
		{.ready = false},
	};

	(void)state;
	assert_int_equal(ready_choose(sources, 3, 100000, 1), 0);
	sources[0].queued_bytes = 10000000;
	assert_int_equal(ready_choose(sources, 3, 100000, 1), 1);
	sources[1].queued_requests = 1000;
	assert_int_equal(ready_choose(sources, 3, 100000, 1), 0);
	assert_true(ready_finish(&sources[1], 1000) > 1e-5 * 1001);
	sources[0].ready = sources[1].ready = false;
	assert_int_equal(ready_choose(sources, 3, 100000, 1), 3);
	assert_int_equal(ready_choose(sources, 0, 1, 1), 0);
}

static void choice_when_all_are_equal_then_spread_by_key(void **state)
{
	struct ready_source sources[4];
	unsigned times[4] = {0};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		sources[i] = (struct ready_source){.seconds_a_byte = 1e-9, .ready = true};
	for (uint64_t key = 0; key < 4000; key++) {
		unsigned chosen = ready_choose(sources, 4, 10, key);

		assert_int_equal(ready_choose(sources, 4, 10, key), chosen);
		times[chosen]++;
	}
	for (unsigned i = 0; i < 4; i++)
		assert_in_range(times[i], 850, 1150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bit_when_set_and_cleared_then_only_its_own),
		cmocka_unit_test(bits_when_set_by_several_threads_then_none_is_lost),
		cmocka_unit_test(choice_when_queues_differ_then_who_finishes_first),
		cmocka_unit_test(choice_when_all_are_equal_then_spread_by_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
