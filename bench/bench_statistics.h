/* SPDX-License-Identifier: OLDAP-2.8 */
/* What is computed of the numbers of several runs. */
#ifndef BENCH_STATISTICS_H
#define BENCH_STATISTICS_H

enum { NUMBERS_MAX = 128 };

/* The median of n numbers, at most NUMBERS_MAX; 0 if there are none. */
double median(const double *numbers, unsigned n);

#endif
