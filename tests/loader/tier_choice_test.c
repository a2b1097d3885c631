/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks from which of the tiers that have a record it is fetched. */
#include "loader/loader_tier.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static bool all_has(void *state, uint64_t record)
{
	(void)state, (void)record;
	return true;
}

static void choice_when_one_is_faster_then_that_one(void **state)
{
	struct tier_ops has_all = tier_null;
	struct tiers tiers;
	unsigned other = 0;

	(void)state;
	has_all.has = all_has;
	tiers_init(&tiers);
	assert_ptr_equal(tiers_choose(&tiers, 1), tiers_file(&tiers));
	tier_done(tiers_file(&tiers), 1, 1000000);
	assert_int_equal(tier_add(&tiers, &has_all, NULL, SOURCE_DISK), 0);
	tier_done(tiers_file(&tiers), 0, 0);
	/* Not known yet: tried. */
	assert_int_equal(tiers_choose(&tiers, 1)->source, SOURCE_DISK);
	tier_done(&tiers.tier[0], 1, 1000);
	atomic_store(&tiers_file(&tiers)->pace, 100000);
	assert_int_equal(tiers_choose(&tiers, 1)->source, SOURCE_DISK);
	tier_done(&tiers.tier[0], 1, 1000);
	/* A long queue there makes storage the faster one. */
	atomic_store(&tiers.tier[0].queue, 1000);
	for (unsigned i = 0; i < 128; i++) {
		struct tier *chosen = tiers_choose(&tiers, 1);

		other += chosen->source == SOURCE_FILE;
		tier_done(chosen, 1, 0);
	}
	assert_true(other > 100 && other < 128);
	for (unsigned i = 1; i < TIERS; i++)
		assert_int_equal(tier_add(&tiers, &has_all, NULL, SOURCE_DISK), 0);
	assert_int_equal(tier_add(&tiers, &has_all, NULL, SOURCE_DISK), ENOSPC);
	tiers_close(&tiers);
}

static void choice_when_peers_are_slow_then_asked_all_the_same(void **state)
{
	struct tier_ops has_all = tier_null;
	unsigned file = 0;
	struct tiers tiers;

	(void)state;
	has_all.has = all_has;
	tiers_init(&tiers);
	assert_int_equal(tier_add(&tiers, &has_all, NULL, SOURCE_PEER), 0);
	atomic_store(&tiers.tier[0].pace, 1000000);
	atomic_store(&tiers_file(&tiers)->pace, 100000);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(tiers_choose(&tiers, 1)->source, SOURCE_PEER);
	/* LMDBIO_PATIENCE=4 times 16. */
	atomic_store(&tiers_file(&tiers)->pace, 1000000 / 64);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(tiers_choose(&tiers, 1)->source, SOURCE_PEER);
	/* Too slow: now and then they are. */
	atomic_store(&tiers_file(&tiers)->pace, 1000000 / 65);
	for (unsigned i = 0; i < 128; i++)
		file += tiers_choose(&tiers, 1)->source == SOURCE_FILE;
	assert_true(file > 100 && file < 128);
	tiers_close(&tiers);
}

/* What a job has planned to be kept is asked of storage only where that is far faster. */
static void choice_when_planned_then_a_long_queue_is_no_reason_to_read_again(void **state)
{
	struct tier_ops has_all = tier_null;
	struct tiers tiers;

	(void)state;
	has_all.has = all_has;
	tiers_init(&tiers);
	tiers.planned = 1;
	assert_int_equal(tier_add(&tiers, &has_all, NULL, SOURCE_DISK), 0);
	atomic_store(&tiers.tier[0].pace, 400000);
	atomic_store(&tiers_file(&tiers)->pace, 100000);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(tiers_choose(&tiers, 1)->source, SOURCE_DISK);
	tiers_close(&tiers);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(choice_when_one_is_faster_then_that_one),
		cmocka_unit_test(choice_when_peers_are_slow_then_asked_all_the_same),
		cmocka_unit_test(choice_when_planned_then_a_long_queue_is_no_reason_to_read_again),
	};

	setenv("LMDBIO_PATIENCE", "4", 1); /* settings are read once in a process */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
