/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts worker processes, on either library, and adds up their results. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include "bench_job.h"

#include <stdbool.h>
#include <sys/types.h>

enum library { ORIGINAL, LMDBIO, LIBRARIES };

extern const char *const library_names[LIBRARIES];

/* Finds the worker and the drop-in: beside this program, in the build tree, unless `library` names
 * the drop-in. Returns 0 or an errno, after a line on standard error. To be called first. */
int run_init(const char *library);

/* The same with both files named, instead of run_init(). */
int run_init_at(const char *worker, const char *drop_in);

/* Finds out what the original is: the system's liblmdb.so.0 or, if that is missing or is lmdbio
 * itself, the one built into lmdbio, by LMDBIO_DISABLE=1; from then on *built_in says so. *result
 * names the library and its version. Returns 0, or EIO after a line on standard error. */
int run_original(struct bench_result *result, bool *built_in);

/* From now on each worker is put, before it begins, into the control group with this file of
 * processes; NULL: workers stay in this process's group. */
void run_confine(const char *processes);

/* Writes a number into a file of a control group. Returns 0 or an errno. */
int run_group_put(const char *path, uint64_t number);

/* Runs one process on the original that needs no start signal (WORK_MAKE). */
int run_worker(const struct bench_job *job, struct bench_result *result);

/* Runs `processes` workers that begin together, each a fresh process. With WORK_STRIDE or _LOOKUP
 * process i takes the records i, i + processes, ... The result is the sum; its time is from the
 * first begin to the last end, its rss and own are the largest. `variable`, "NAME=value" or NULL,
 * is set for them. Returns 0, or EIO after a line on standard error. */
int run_group(const struct bench_job *job, enum library library, unsigned processes,
	      const char *variable, struct bench_result *sum);

/* The same with one process under valgrind; returns the instructions of the timed part. Returns 0,
 * ENOENT if valgrind is missing, or EIO. */
int run_counted(const struct bench_job *job, enum library library, uint64_t *instructions,
		struct bench_result *result);

/* Measures how long `true` takes to start and end: nanoseconds. Returns 0 or an errno. */
int run_true(enum library library, uint64_t *nanoseconds);

#endif
