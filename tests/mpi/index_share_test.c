/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks whether all leaves are shared out, evenly, and to the ranks that can keep them. */
#include "mpi/rank_shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RANKS = 5 };

static void assert_shares(uint64_t count, const uint64_t *can, const uint64_t *expected)
{
	uint64_t firsts[RANKS + 1];

	index_share(count, can, RANKS, firsts);
	assert_int_equal(firsts[0], 0);
	assert_int_equal(firsts[RANKS], count);
	for (int i = 0; i < RANKS; i++)
		assert_int_equal(firsts[i + 1] - firsts[i], expected[i]);
}

static void leaves_when_all_can_keep_them_then_shared_evenly(void **state)
{
	static const uint64_t can[RANKS] = {1000, 1000, 1000, 1000, 1000};

	(void)state;
	assert_shares(1000, can, (const uint64_t[]){200, 200, 200, 200, 200});
	assert_shares(1003, can, (const uint64_t[]){201, 201, 201, 200, 200});
	assert_shares(3, can, (const uint64_t[]){1, 1, 1, 0, 0});
	assert_shares(0, can, (const uint64_t[]){0, 0, 0, 0, 0});
	assert_shares(5000, can, can);
}

static void leaves_when_a_rank_cannot_keep_its_share_then_others_have_them(void **state)
{
	static const uint64_t can[RANKS] = {10, 1000, 0, 300, 1000};

	(void)state;
	assert_shares(1000, can, (const uint64_t[]){10, 345, 0, 300, 345});
	assert_shares(2310, can, can);
	assert_shares(2309, can, (const uint64_t[]){10, 1000, 0, 300, 999});
}

static void leaves_when_nobody_can_keep_them_then_the_rest_is_shared_evenly(void **state)
{
	static const uint64_t none[RANKS] = {0}, can[RANKS] = {10, 20, 0, 0, 0};

	(void)state;
	assert_shares(10, none, (const uint64_t[]){2, 2, 2, 2, 2});
	assert_shares(130, can, (const uint64_t[]){30, 40, 20, 20, 20});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves_when_all_can_keep_them_then_shared_evenly),
		cmocka_unit_test(leaves_when_a_rank_cannot_keep_its_share_then_others_have_them),
		cmocka_unit_test(leaves_when_nobody_can_keep_them_then_the_rest_is_shared_evenly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
