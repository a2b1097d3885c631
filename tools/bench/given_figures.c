/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes rates and ratios of the rows, and explains them in one sentence. */
#include "given_bench.h"

#include "bench_statistics.h"

#include <math.h>
#include <string.h>

/* Ratios between these two are called "as fast". */
static const double as_fast_from = 0.95, as_fast_to = 1.05;

/* Computes a run's rate. A stopped run is rated without the first quarter of its time: reading
 * ahead begins then, and the last data read ahead would count for no record. */
static double rate_of(const struct bench_result *run, bool bytes)
{
	uint64_t begin = run->begin, early = 0, all = bytes ? run->bytes : run->records;

	if (run->stopped && run->settled && run->records > run->early_records) {
		begin = run->settled;
		early = bytes ? run->early_bytes : run->early_records;
	}
	return run->end > begin ? (double)(all - early) / ((double)(run->end - begin) / 1e9) : 0;
}

static double rate_median(const struct given_row *row, enum library library, int i, bool bytes)
{
	double all[PAIRS_LIMIT];

	if (i >= 0)
		return rate_of(&row->runs[library][i], bytes);
	for (unsigned pair = 0; pair < row->pairs; pair++)
		all[pair] = rate_of(&row->runs[library][pair], bytes);
	return median(all, row->pairs);
}

double given_rate(const struct given_row *row, enum library library, int i)
{
	return rate_median(row, library, i, false);
}

double given_bytes_rate(const struct given_row *row, enum library library, int i)
{
	return rate_median(row, library, i, true);
}

double given_field(const struct given_row *row, enum library library, size_t offset)
{
	const struct field field = {NULL, offset, FIELD_NUMBER};
	double all[PAIRS_LIMIT];

	for (unsigned pair = 0; pair < row->pairs; pair++)
		all[pair] = (double)field_number(&field, &row->runs[library][pair]);
	return median(all, row->pairs);
}

double given_processor_seconds(const struct given_row *row, enum library library)
{
	return (GIVEN(row, library, user) + GIVEN(row, library, system)) / 1e6;
}

struct given_ratio given_ratio(const struct given_row *row)
{
	struct given_ratio ratio = {.least = INFINITY};
	double all[PAIRS_LIMIT];

	for (unsigned i = 0; i < row->pairs; i++) {
		double original = given_rate(row, ORIGINAL, (int)i);

		all[i] = original > 0 ? given_rate(row, LMDBIO, (int)i) / original : 0;
		ratio.least = fmin(ratio.least, all[i]);
		ratio.greatest = fmax(ratio.greatest, all[i]);
	}
	ratio.median = median(all, row->pairs);
	ratio.sure = median_interval(all, row->pairs, &ratio.low, &ratio.high);
	return ratio;
}

void given_ratio_text(const struct given_ratio *ratio, char text[RATIO_TEXT])
{
	char interval[40] = "";

	if (ratio->sure)
		snprintf(interval, sizeof(interval), ", by 95 %% %.2f to %.2f", ratio->low,
			 ratio->high);
	snprintf(text, RATIO_TEXT, "%.2f x%s (%.2f to %.2f)", ratio->median, interval, ratio->least,
		 ratio->greatest);
}

/* Returns the ratio for the verdict: 1, no difference, if the interval lies on both sides of 1.
 * Without an interval the least and greatest pair replace it. */
static double ratio_told(const struct given_row *row)
{
	struct given_ratio ratio = given_ratio(row);

	if (ratio.sure)
		return ratio.low < 1 && ratio.high > 1 ? 1 : ratio.median;
	return ratio.least < 1 && ratio.greatest > 1 ? 1 : ratio.median;
}

/* Writes a factor as "3.1" or "31". */
static const char *factor(double value, char text[16])
{
	snprintf(text, 16, value < 10 ? "%.1f" : "%.0f", value);
	return text;
}

static const char *speed(double bytes_a_second, char text[32])
{
	if (bytes_a_second >= 1e9)
		snprintf(text, 32, "%.1f GB/s", bytes_a_second / 1e9);
	else
		snprintf(text, 32, "%.0f MB/s", bytes_a_second / 1e6);
	return text;
}

static bool is_as_fast(double ratio)
{
	return ratio >= as_fast_from && ratio <= as_fast_to;
}

/* Says what ratios from `low` to `high` mean, for cold or warm rows. */
static void phrase(char *text, size_t size, double low, double high, const char *state)
{
	double mean = sqrt(low * high);
	char a[16], b[16];

	if (is_as_fast(low) && is_as_fast(high))
		snprintf(text, size, "as fast %s", state);
	else if (is_as_fast(low))
		snprintf(text, size, "up to %s x faster %s", factor(high, a), state);
	else if (low > 1 && high < 1.25 * low)
		snprintf(text, size, "%s x faster %s", factor(mean, a), state);
	else if (low > 1)
		snprintf(text, size, "%s to %s x faster %s", factor(low, a), factor(high, b),
			 state);
	else if (is_as_fast(high))
		snprintf(text, size, "as fast %s, or slower (down to %.2f of the original's rate)",
			 state, low);
	else if (high < 1)
		snprintf(text, size, "slower %s (%.2f to %.2f of the original's rate)", state, low,
			 high);
	else
		snprintf(text, size, "at %.2f to %s times the original's rate %s", low,
			 factor(high, b), state);
}

struct figure_range {
	double low, high;
	unsigned n;
};

static void range_take(struct figure_range *range, double value)
{
	range->low = range->n && range->low < value ? range->low : value;
	range->high = range->n && range->high > value ? range->high : value;
	range->n++;
}

static void append(char *text, size_t size, const char *before, const char *more)
{
	size_t length = strlen(text);

	snprintf(text + length, size - length, "%s%s", before, more);
}

static void verdict_compared(const struct given_bench *bench, char *text, size_t size)
{
	struct figure_range cold = {0}, warm = {0}, hints = {0};
	char part[128], a[16];

	for (unsigned i = 0; i < bench->n_rows; i++) {
		const struct given_row *row = &bench->rows[i];

		if (row->pairs)
			range_take(row->hints  ? &hints
				   : row->cold ? &cold
					       : &warm,
				   ratio_told(row));
	}
	snprintf(text, size, "lmdbio reads this data set");
	if (cold.n) {
		phrase(part, sizeof(part), cold.low, cold.high, "cold");
		append(text, size, " ", part);
	}
	if (hints.n && hints.high > as_fast_to) {
		append(text, size, cold.n ? ", with hints up to " : " with hints up to ",
		       factor(hints.high, a));
		append(text, size, " x faster", "");
	}
	if (warm.n) {
		phrase(part, sizeof(part), warm.low, warm.high, "warm");
		append(text, size, cold.n || hints.n ? ", " : " ", part);
	}
}

/* Compares data that only lmdbio reads with the machine's speed. */
static void verdict_alone(const struct given_bench *bench, char *text, size_t size)
{
	char part[128], a[32];

	snprintf(text, size, "lmdbio reads this %s",
		 bench->sets[LMDBIO].container ? "container" : "data file of LMDB 1.0");
	for (int cold = 1; cold >= 0; cold--) {
		double best = 0;

		for (unsigned i = 0; i < bench->n_rows; i++)
			if (bench->rows[i].pairs && bench->rows[i].cold == (bool)cold)
				best = fmax(best, given_bytes_rate(&bench->rows[i], LMDBIO, -1));
		if (best <= 0)
			continue;
		snprintf(part, sizeof(part), "at up to %s %s", speed(best, a),
			 cold ? "cold" : "warm");
		append(text, size, strstr(text, " at ") ? ", " : " ", part);
	}
}

void given_verdict(const struct given_bench *bench, char *text, size_t size)
{
	char a[32];

	if (bench->differ) {
		snprintf(text, size,
			 "lmdbio and the original have not read the same: lmdbio-check(1) says "
			 "whether the data set is sound");
		return;
	}
	if (bench->compared)
		verdict_compared(bench, text, size);
	else
		verdict_alone(bench, text, size);
	if (bench->machine.direct > 0)
		append(text, size, "; the storage can deliver ", speed(bench->machine.direct, a));
}
