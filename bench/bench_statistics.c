/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes medians, and their confidence intervals. */
#include "bench_statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void sort(double sorted[NUMBERS_MAX], const double *numbers, unsigned n)
{
	memcpy(sorted, numbers, n * sizeof(*numbers));
	qsort(sorted, n, sizeof(*sorted), compare_numbers);
}

double median(const double *numbers, unsigned n)
{
	double sorted[NUMBERS_MAX];

	if (!n)
		return 0;
	sort(sorted, numbers, n);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Each number lies below the true median with a probability of one half, whatever the distribution,
 * and independently of the others. So the true median lies below the k-th of n sorted numbers only
 * if fewer than k of n tosses of a coin show heads, and as probably above the k-th from the top.
 * The largest k for which each of the two has a probability of at most 2.5 % gives the interval; of
 * fewer than six numbers not even the least and the greatest do. */
bool median_interval(const double *numbers, unsigned n, double *least, double *greatest)
{
	double sorted[NUMBERS_MAX], exactly = ldexp(1, -(int)n), fewer = exactly;
	unsigned k = 0;

	/* `exactly` k heads, and `fewer` than k + 1 of them. */
	while (fewer <= 0.025 && k < n) {
		k++;
		exactly = exactly * (n - k + 1) / k;
		fewer += exactly;
	}
	if (!k)
		return false;
	sort(sorted, numbers, n);
	*least = sorted[k - 1];
	*greatest = sorted[n - k];
	return true;
}
