/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a data set of the benchmark. */
#ifndef BENCH_MAKE_H
#define BENCH_MAKE_H

#include "bench_job.h"

/* Writes job->records values of job->value_size pseudo-random bytes, which follow from the record's
 * number, into the empty directory job->path. Returns 0, an errno or MDB_*. */
int bench_make(const struct bench_job *job);

#endif
