/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges the sentence that lmdbio-bench makes of rates, and how a stopped run is rated. */
#include "given_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *const library_names[LIBRARIES] = {[ORIGINAL] = "original", [LMDBIO] = "lmdbio"};

enum { SECOND = 1000000000, ROWS = 8 };

static struct given_row rows[ROWS];

static int bench_begin(void **state)
{
	static struct given_bench bench;

	memset(rows, 0, sizeof(rows));
	memset(&bench, 0, sizeof(bench));
	bench.rows = rows;
	bench.compared = true;
	*state = &bench;
	return 0;
}

/* A row of pairs in which the original reads 1,000 records a second and lmdbio as many as given. */
static void row_add(struct given_bench *bench, struct given_row kind, const uint64_t *rates,
		    unsigned pairs)
{
	struct given_row *row = &rows[bench->n_rows++];

	*row = kind;
	row->pairs = pairs;
	for (unsigned i = 0; i < pairs; i++) {
		row->runs[ORIGINAL][i] = (struct bench_result){
			.begin = 1, .end = 1 + SECOND, .records = 1000, .bytes = 1000000};
		row->runs[LMDBIO][i] = (struct bench_result){.begin = 1,
							     .end = 1 + SECOND,
							     .records = rates[i],
							     .bytes = 1000 * rates[i]};
	}
}

static void cold(struct given_bench *bench, uint64_t rate)
{
	row_add(bench, (struct given_row){.cold = true}, &rate, 1);
}

static void warm(struct given_bench *bench, uint64_t rate)
{
	row_add(bench, (struct given_row){.cold = false}, &rate, 1);
}

static void verdict_is(const struct given_bench *bench, const char *expected)
{
	char text[512];

	given_verdict(bench, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void rows_alike_have_one_factor(void **state)
{
	struct given_bench *bench = *state;

	cold(bench, 3000);
	cold(bench, 3200);
	warm(bench, 1010);
	bench->machine.direct = 2.1e9;
	verdict_is(bench, "lmdbio reads this data set 3.1 x faster cold, as fast warm; the storage "
			  "can deliver 2.1 GB/s");
}

static void rows_apart_have_two_factors(void **state)
{
	struct given_bench *bench = *state;

	cold(bench, 2000);
	cold(bench, 31000);
	warm(bench, 1000);
	warm(bench, 1500);
	verdict_is(bench, "lmdbio reads this data set 2.0 to 31 x faster cold, up to 1.5 x faster "
			  "warm");
}

static void losses_are_told(void **state)
{
	struct given_bench *bench = *state;

	cold(bench, 800);
	cold(bench, 4000);
	warm(bench, 800);
	warm(bench, 1000);
	verdict_is(bench,
		   "lmdbio reads this data set at 0.80 to 4.0 times the original's rate cold, "
		   "as fast warm, or slower (down to 0.80 of the original's rate)");
	bench->n_rows = 1;
	verdict_is(bench, "lmdbio reads this data set slower cold (0.80 to 0.80 of the original's "
			  "rate)");
}

static void hints_are_told_apart(void **state)
{
	struct given_bench *bench = *state;
	uint64_t rate = 40000;

	cold(bench, 1000);
	row_add(bench, (struct given_row){.cold = true, .hints = true}, &rate, 1);
	verdict_is(bench, "lmdbio reads this data set as fast cold, with hints up to 40 x faster");
}

static void pairs_on_both_sides_of_one_show_no_difference(void **state)
{
	struct given_bench *bench = *state;
	const uint64_t rates[] = {900, 1500, 1600};

	row_add(bench, (struct given_row){.cold = true}, rates, 3);
	assert_float_equal(given_ratio(&rows[0]).median, 1.5, 1e-9);
	verdict_is(bench, "lmdbio reads this data set as fast cold");
}

static void interval_decides_where_pairs_are_enough_for_one(void **state)
{
	struct given_bench *bench = *state;
	const uint64_t rates[] = {990, 1400, 1500, 1500, 1500, 1500, 1500, 1500, 1500, 1600};
	struct given_ratio ratio;
	char text[RATIO_TEXT];

	row_add(bench, (struct given_row){.cold = true}, rates, 10);
	ratio = given_ratio(&rows[0]);
	assert_true(ratio.sure);
	given_ratio_text(&ratio, text);
	assert_string_equal(text, "1.50 x, by 95 % 1.40 to 1.50 (0.99 to 1.60)");
	verdict_is(bench, "lmdbio reads this data set 1.5 x faster cold");
	rows[0].pairs = 5;
	ratio = given_ratio(&rows[0]);
	assert_false(ratio.sure);
	verdict_is(bench, "lmdbio reads this data set as fast cold");
}

static void container_alone_has_rates(void **state)
{
	struct given_bench *bench = *state;

	bench->compared = false;
	bench->sets[LMDBIO].container = true;
	cold(bench, 5000);
	warm(bench, 1500000);
	bench->machine.direct = 5e8;
	verdict_is(bench,
		   "lmdbio reads this container at up to 5 MB/s cold, at up to 1.5 GB/s warm; "
		   "the storage can deliver 500 MB/s");
}

static void file_of_lmdb_1_alone_has_rates(void **state)
{
	struct given_bench *bench = *state;

	bench->compared = false;
	warm(bench, 1500000);
	verdict_is(bench, "lmdbio reads this data file of LMDB 1.0 at up to 1.5 GB/s warm");
}

static void difference_is_all_that_is_told(void **state)
{
	struct given_bench *bench = *state;

	cold(bench, 5000);
	bench->differ = true;
	verdict_is(bench, "lmdbio and the original have not read the same: lmdbio-check(1) says "
			  "whether the data set is sound");
}

static void stopped_run_is_rated_without_its_beginning(void **state)
{
	struct given_bench *bench = *state;
	struct bench_result *run;

	cold(bench, 1000);
	run = &rows[0].runs[LMDBIO][0];
	run->settled = 1 + SECOND / 4;
	run->early_records = 100;
	run->early_bytes = 100000;
	assert_float_equal(given_rate(&rows[0], LMDBIO, 0), 1000, 1e-6);
	run->stopped = 1;
	assert_float_equal(given_rate(&rows[0], LMDBIO, 0), 1200, 1e-6);
	assert_float_equal(given_bytes_rate(&rows[0], LMDBIO, -1), 1200000, 1e-3);
	/* Where nothing came later, all of it counts. */
	run->early_records = 1000;
	assert_float_equal(given_rate(&rows[0], LMDBIO, 0), 1000, 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(rows_alike_have_one_factor, bench_begin),
		cmocka_unit_test_setup(rows_apart_have_two_factors, bench_begin),
		cmocka_unit_test_setup(losses_are_told, bench_begin),
		cmocka_unit_test_setup(hints_are_told_apart, bench_begin),
		cmocka_unit_test_setup(pairs_on_both_sides_of_one_show_no_difference, bench_begin),
		cmocka_unit_test_setup(interval_decides_where_pairs_are_enough_for_one,
				       bench_begin),
		cmocka_unit_test_setup(container_alone_has_rates, bench_begin),
		cmocka_unit_test_setup(file_of_lmdb_1_alone_has_rates, bench_begin),
		cmocka_unit_test_setup(difference_is_all_that_is_told, bench_begin),
		cmocka_unit_test_setup(stopped_run_is_rated_without_its_beginning, bench_begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
