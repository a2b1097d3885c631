/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what readers of a readiness bitmap rely on.
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
	for (uint64_t unit = 0; unit < UNITS; unit++)
		assert_int_equal(ready_test(words, unit), unit % 3 == 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bit_when_set_and_cleared_then_only_its_own),
		cmocka_unit_test(bits_when_set_by_several_threads_then_none_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
