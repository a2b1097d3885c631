/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes the median and its confidence interval from the numbers of several runs. */
#ifndef BENCH_STATISTICS_H
#define BENCH_STATISTICS_H

#include <stdbool.h>

enum { NUMBERS_MAX = 128 };

/* Returns the median of n numbers, at most NUMBERS_MAX; 0 if there are none. */
double median(const double *numbers, unsigned n);

/* Returns the interval that holds, with a probability of 95 % or more, the median of the
 * distribution from which the n numbers come. Returns false if there are too few numbers: below
 * six. */
bool median_interval(const double *numbers, unsigned n, double *least, double *greatest);

#endif
