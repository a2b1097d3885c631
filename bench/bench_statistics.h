/* SPDX-License-Identifier: OLDAP-2.8 */
/* What is computed of the numbers of several runs. */
#ifndef BENCH_STATISTICS_H
#define BENCH_STATISTICS_H

#include <stdbool.h>

enum { NUMBERS_MAX = 128 };

/* The median of n numbers, at most NUMBERS_MAX; 0 if there are none. */
double median(const double *numbers, unsigned n);

/* The interval that holds the median of what the n numbers are a sample of, with a probability of
 * 95 % or more. Returns false where so few numbers give none: below six. */
bool median_interval(const double *numbers, unsigned n, double *least, double *greatest);

#endif
