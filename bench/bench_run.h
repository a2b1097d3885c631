/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts worker processes, on either library, and puts together what they say. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include "bench_job.h"

#include <stdbool.h>
#include <sys/types.h>

enum library { ORIGINAL, LMDBIO, LIBRARIES };

extern const char *const library_names[LIBRARIES];

/* Where worker and drop-in lie: beside this program, in the build tree, unless `library` names the
 * drop-in. Returns 0 or an errno, after a line on standard error. To be called first. */
int run_init(const char *library);

/* The same with both files named, in place of run_init(). */
int run_init_at(const char *worker, const char *drop_in);

/* Finds out what the original is: the system's liblmdb.so.0 or, if there is none or it is lmdbio
 * itself, the one that lmdbio holds, by LMDBIO_DISABLE=1; *built_in says so from then on. *result
 * names the library and its version. Returns 0, or EIO after a line on standard error. */
int run_original(struct bench_result *result, bool *built_in);

/* From now on workers are put, before they begin, into the control group whose list of processes
 * this file is; NULL: they stay in this process's own. */
void run_confine(const char *processes);

/* Writes a number into a file of a control group. Returns 0 or an errno. */
int run_group_put(const char *path, uint64_t number);

/* One process on the original that needs no start signal (WORK_MAKE). */
int run_worker(const struct bench_job *job, struct bench_result *result);

/* `processes` workers that begin together, each a fresh process; with WORK_STRIDE or _LOOKUP process i takes
 * the records i, i + processes, ... The result is the sum; its time is from the first one's begin
 * to the last one's end, its rss and own the largest. `variable`, "NAME=value" or NULL, is set for
 * them. Returns 0, or EIO after a line on standard error. */
int run_group(const struct bench_job *job, enum library library, unsigned processes,
	      const char *variable, struct bench_result *sum);

/* The same, one process under valgrind, and how many instructions the timed part took. Returns 0,
 * ENOENT where there is no valgrind, or EIO. */
int run_counted(const struct bench_job *job, enum library library, uint64_t *instructions,
		struct bench_result *result);

/* How long it takes to start `true` and see it end: nanoseconds. Returns 0 or an errno. */
int run_true(enum library library, uint64_t *nanoseconds);

#endif
