/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes medians. */
#include "bench_statistics.h"

#include <stdlib.h>
#include <string.h>

static int compare_numbers(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(const double *numbers, unsigned n)
{
	double sorted[NUMBERS_MAX];

	if (!n)
		return 0;
	memcpy(sorted, numbers, n * sizeof(*numbers));
	qsort(sorted, n, sizeof(*sorted), compare_numbers);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}
