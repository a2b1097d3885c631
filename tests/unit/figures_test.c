/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests what the benchmark concludes from the pairs of a figure: the interval of their median, and
 * whether the figure is reached. */
#include "bench_statistics.h"
#include "bench_suites.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SAMPLES = 4000 };

static const double *rates; /* the pairs' values */

/* Replace the functions that return measurements, from which the figures are computed. */
double measured_seconds(const struct measured *m, enum library library, int run)
{
	(void)m;
	return library == ORIGINAL ? 1 : 1 / rates[run];
}

double measured_direct(const struct measured *m, int run)
{
	(void)m, (void)run;
	return 0;
}

double measured_fio(const struct measured *m, int run)
{
	(void)m, (void)run;
	return 0;
}

double measured_field(const struct measured *m, enum library library, int run, size_t offset)
{
	(void)m, (void)library, (void)run, (void)offset;
	return 0;
}

/* The ranks of the interval's two ends, from below and from above, from tables of the sign test. */
static void interval_when_pairs_are_counted_then_its_ends_have_the_ranks_of_the_tables(void **state)
{
	static const struct {
		unsigned n, rank;
	} table[] = {{6, 1}, {8, 1}, {9, 2}, {11, 2}, {12, 3}, {20, 6}, {31, 10}, {99, 40}};
	double numbers[NUMBERS_MAX], low, high;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		/* The numbers 1 to n in mixed order, each once: the step and n have no common
		 * factor. */
		unsigned n = table[i].n, step = n % 7 ? 7 : 5;

		for (unsigned j = 0; j < n; j++)
			numbers[j] = 1 + (j * step) % n;
		assert_true(median_interval(numbers, n, &low, &high));
		assert_int_equal((int)low, table[i].rank);
		assert_int_equal((int)high, n + 1 - table[i].rank);
	}
}

static void interval_when_there_are_fewer_than_six_then_none(void **state)
{
	const double numbers[] = {1, 2, 3, 4, 5, 6};
	double low, high;

	(void)state;
	for (unsigned n = 0; n < 6; n++)
		assert_false(median_interval(numbers, n, &low, &high));
	assert_true(median_interval(numbers, 6, &low, &high));
}

/* At least 95 % of the intervals hold the known median. Not all of them do: then the interval would
 * be wider than it needs to be. */
static void interval_when_samples_are_many_then_it_holds_the_median_as_often_as_said(void **state)
{
	unsigned held = 0;

	(void)state;
	srand48(1);
	for (unsigned i = 0; i < SAMPLES; i++) {
		double numbers[20], low, high;

		for (unsigned j = 0; j < 20; j++)
			numbers[j] = exp(4 * drand48());
		assert_true(median_interval(numbers, 20, &low, &high));
		held += low <= exp(2) && exp(2) <= high;
	}
	assert_in_range(held, SAMPLES * 95 / 100, SAMPLES * 97 / 100);
}

static const char *verdict_of(const double *pairs, unsigned n, struct figure_measured *measured)
{
	static struct measured m;
	static const struct figure figure = {FIGURE_RATE, 1.0};
	const struct figure_input input = {.m = &m};

	m.pairs = n;
	rates = pairs;
	figure_measure(FIGURE_RATE, &input, measured);
	return figure_verdict(&figure, measured);
}

static void figure_when_the_whole_interval_meets_or_misses_it_then_decided_else_open(void **state)
{
	/* For eight numbers the interval reaches from the least to the greatest. */
	const double meets[] = {1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
	const double misses[] = {0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99};
	const double holds[] = {0.9, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
	struct figure_measured measured;

	(void)state;
	assert_string_equal(verdict_of(meets, 8, &measured), "yes");
	assert_true(fabs(measured.median - 1.35) < 1e-9);
	assert_string_equal(verdict_of(misses, 8, &measured), "NO");
	assert_string_equal(verdict_of(holds, 8, &measured), "open");
	assert_true(measured.sure && fabs(measured.low - 0.9) < 1e-9 &&
		    fabs(measured.high - 1.7) < 1e-9);
}

static void figure_when_there_are_too_few_pairs_then_open(void **state)
{
	const double meets[] = {1.1, 1.2, 1.3, 1.4, 1.5};
	struct figure_measured measured;

	(void)state;
	assert_string_equal(verdict_of(meets, 5, &measured), "open");
	assert_false(measured.sure);
	assert_true(fabs(measured.least - 1.1) < 1e-9 && fabs(measured.greatest - 1.5) < 1e-9);
}

static void figure_when_one_pair_cannot_tell_then_not_measured(void **state)
{
	static struct measured m = {.pairs = 8};
	const struct figure_input input = {.m = &m};
	struct figure_measured measured;

	(void)state;
	figure_measure(FIGURE_FIO, &input, &measured);
	assert_true(isnan(measured.median));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			interval_when_pairs_are_counted_then_its_ends_have_the_ranks_of_the_tables),
		cmocka_unit_test(interval_when_there_are_fewer_than_six_then_none),
		cmocka_unit_test(
			interval_when_samples_are_many_then_it_holds_the_median_as_often_as_said),
		cmocka_unit_test(
			figure_when_the_whole_interval_meets_or_misses_it_then_decided_else_open),
		cmocka_unit_test(figure_when_there_are_too_few_pairs_then_open),
		cmocka_unit_test(figure_when_one_pair_cannot_tell_then_not_measured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
