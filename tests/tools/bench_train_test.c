/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges what lmdbio-bench --train computes: orders, utilisation, and the search for accelerators. */
#include "train.h"

#include "bench_train.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MILLISECOND = 1000000 };

/* Steps behind the first one, each of which computes for 10 ms and waits for `waits[i]` ms: as the
 * clock would show a run of so many accelerators that all wait as long. */
static double utilisation_of_waits(const unsigned *waits, unsigned n, unsigned accelerators)
{
	struct bench_result run = {.first_step = 7 * MILLISECOND, .last_step = 7 * MILLISECOND};

	for (unsigned i = 0; i < n; i++) {
		run.last_step += (10 + waits[i]) * (uint64_t)MILLISECOND;
		run.steps += accelerators;
	}
	return train_utilisation(&run, 10 * MILLISECOND, accelerators);
}

/* A number as it is computed, but for its last digits. */
static void about(double found, double expected)
{
	assert_true(fabs(found - expected) < 1e-9);
}

static void utilisation_is_computing_over_all_time(void **state)
{
	static const unsigned none[] = {0, 0, 0, 0}, some[] = {0, 1, 2, 1},
			      all[] = {10, 10, 10, 10};
	struct bench_result first_alone = {.first_step = MILLISECOND, .last_step = MILLISECOND};

	(void)state;
	about(utilisation_of_waits(none, 4, 1), 1);
	about(utilisation_of_waits(some, 4, 1), 40.0 / 44);
	about(utilisation_of_waits(all, 4, 1), 0.5);
	about(utilisation_of_waits(some, 4, 8), 40.0 / 44);
	about(train_utilisation(&first_alone, MILLISECOND, 1), 0);
}

static void storage_that_gives_no_more_feeds_in_proportion(void **state)
{
	(void)state;
	about(train_fed(16, 0.45, 0.9), 8);
	about(train_fed(1, 0.35, 0.7), 0.5);
	about(train_fed(10, 1, 1), 10);
}

/* Storage for `capacity` accelerators that never wait. */
static double utilisation_at(double capacity, unsigned accelerators)
{
	return accelerators <= capacity ? 1 : capacity / accelerators;
}

/* Searches, and returns how many runs that took. */
static unsigned searched(double capacity, double wanted, unsigned most, struct train_search *search)
{
	unsigned runs = 0, n;
	bool tried[65] = {false};

	*search = (struct train_search){.most = most};
	while ((n = train_search_next(search))) {
		assert_in_range(n, 1, most);
		assert_false(tried[n]);
		tried[n] = true;
		runs++;
		train_search_take(search, n, utilisation_at(capacity, n), wanted);
	}
	return runs;
}

static void search_finds_the_largest_number_that_is_fed(void **state)
{
	static const double wanted[] = {0.7, 0.9};

	(void)state;
	for (unsigned most = 1; most <= 64; most += 9)
		for (unsigned i = 0; i < 2; i++)
			for (double capacity = 0.1; capacity < 70; capacity += 0.37) {
				struct train_search search;
				unsigned runs = searched(capacity, wanted[i], most, &search);
				unsigned fed = search.passed;

				if (fed)
					assert_true(utilisation_at(capacity, fed) >= wanted[i]);
				if (fed < most)
					assert_true(utilisation_at(capacity, fed + 1) < wanted[i]);
				assert_true(runs <= 12);
			}
}

static void search_of_what_is_in_proportion_takes_few_runs(void **state)
{
	struct train_search search;

	(void)state;
	/* 1, 2, 4, 8, 16, and the guess: 13.5 / 0.9 = 15. */
	assert_int_equal(searched(13.5, 0.9, 64, &search), 6);
	assert_int_equal(search.passed, 15);
	assert_int_equal(searched(0.2, 0.9, 64, &search), 1);
	assert_int_equal(search.passed, 0);
	assert_int_equal(searched(100, 0.9, 64, &search), 7);
	assert_int_equal(search.passed, 64);
	assert_int_equal(searched(100, 0.9, 1, &search), 1);
}

/* Where a guess is far off, halving finds the end. */
static void search_goes_on_where_the_guess_is_wrong(void **state)
{
	struct train_search search = {.most = 64};
	unsigned runs = 0, n;

	(void)state;
	while ((n = train_search_next(&search))) {
		train_search_take(&search, n, n <= 29 ? 0.95 : 0.01, 0.9);
		runs++;
	}
	assert_int_equal(search.passed, 29);
	assert_true(runs <= 12);
}

/* Each accelerator's batches of two epochs: within one, no record comes twice. */
static void epoch_reads_each_record_at_most_once(void **state)
{
	const struct train_order order = {.records = 103, .batch = 7, .accelerators = 3, .seed = 5};
	uint64_t steps = train_steps(&order), read[2][84];

	(void)state;
	assert_int_equal(steps, 4);
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		bool seen[103] = {false};
		unsigned n = 0;

		for (uint64_t step = 0; step < steps; step++)
			for (uint64_t accelerator = 0; accelerator < 3; accelerator++)
				for (uint64_t i = 0; i < 7; i++, n++) {
					uint64_t record = train_record(&order, accelerator,
								       epoch * steps + step, i);

					assert_true(record < 103);
					assert_false(seen[record]);
					seen[record] = true;
					read[epoch][n] = record;
				}
		assert_int_equal(n, 84);
	}
	assert_memory_not_equal(read[0], read[1], sizeof(read[0]));
}

static void models_are_found_by_name(void **state)
{
	(void)state;
	assert_int_equal(train_model_find("unet3d")->batch, 7);
	about(train_model_find("resnet50")->wanted, 0.9);
	about(train_model_find("cosmoflow")->wanted, 0.7);
	assert_null(train_model_find("unet"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utilisation_is_computing_over_all_time),
		cmocka_unit_test(storage_that_gives_no_more_feeds_in_proportion),
		cmocka_unit_test(search_finds_the_largest_number_that_is_fed),
		cmocka_unit_test(search_of_what_is_in_proportion_takes_few_runs),
		cmocka_unit_test(search_goes_on_where_the_guess_is_wrong),
		cmocka_unit_test(epoch_reads_each_record_at_most_once),
		cmocka_unit_test(models_are_found_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
