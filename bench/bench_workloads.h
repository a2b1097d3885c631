/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares how a worker does its job. */
#ifndef BENCH_WORKLOADS_H
#define BENCH_WORKLOADS_H

#include "bench_job.h"

struct bench_state;

/* Prepares what can be made ready before the clock starts. Returns 0, an errno, or EINVAL after one
 * line on standard error. */
int workload_prepare(const struct bench_job *job, struct bench_state **state);

/* Does the job and fills in the result, except `library`. Returns 0, an errno or MDB_*. */
int workload_run(struct bench_state *state, struct bench_result *result);
void workload_free(struct bench_state *state);

/* The timed part, under a name of its own so that a profiler can select it. */
int bench_measured(struct bench_state *state, struct bench_result *result);

#endif
