/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a rank without memory for an exchange asks nothing and answers nothing, but ends
 * together with the others. */
#include "config.h"
#include "mpi/exchange.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	(void)n, (void)size;
	return NULL;
}

static void exchange_when_there_is_no_memory_then_it_owes_nothing_and_ends(void **state)
{
	static const struct exchange_rules rules = {.silent_ns = 1, .owed_ns = 1};
	struct exchange_head remind = {.body = 3};
	struct exchange_question question;
	struct exchange_action action;
	struct exchange exchange;

	(void)state;
	assert_int_equal(exchange_open(&exchange, 4, &rules), ENOMEM);
	assert_false(exchange_ask(&exchange, &question, 1, 0, 10));
	exchange_gone(&exchange, 2);
	exchange_seal(&remind, WORD_REMIND, 7, 0);
	action = exchange_word(&exchange, 3, &remind, sizeof(remind), 10);
	assert_int_equal(action.act, ACT_SAY);
	assert_int_equal(action.kind, WORD_PAID);
	assert_int_equal(action.peer, 3);
	assert_int_equal(action.number, 7);
	assert_int_equal(action.body, 3);
	exchange_seal(&remind, WORD_ASK, 8, 0);
	assert_int_equal(exchange_word(&exchange, 3, &remind, sizeof(remind), 10).act, ACT_NOTHING);
	assert_int_equal(exchange_tick(&exchange, 20).act, ACT_QUIET);
	exchange_close(&exchange);
}

static void bounds_when_patient_are_multiplied_and_beats_are_not(void **state)
{
	static const struct exchange_rules rules = {.silent_ns = 10, .owed_ns = 30, .beat_ns = 7};
	struct exchange_rules patient = exchange_patient(&rules, 20);

	(void)state;
	assert_int_equal(patient.silent_ns, 200);
	assert_int_equal(patient.owed_ns, 600);
	assert_int_equal(patient.beat_ns, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exchange_when_there_is_no_memory_then_it_owes_nothing_and_ends),
		cmocka_unit_test(bounds_when_patient_are_multiplied_and_beats_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
