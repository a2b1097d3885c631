/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts what lmdbio does, per process, always.
 *
 * Counting is one relaxed add on a cache line of the counter's own, and costs nothing until
 * something happens. On the way of every mdb_get, which many threads take at once, add up in the
 * transaction or the cursor and count when that ends.
 *
 * A process that reads from storage or has read for a while counts in memory that outlives the
 * process (stats_layout.h).
 *
 * Adding a counter takes: a name in stats_layout.h, a row in stats_report.c, a field at the end of
 * struct lmdbio_stats in include/lmdbio.h and its line in compat/lmdbio_calls.c; the compiler
 * checks all four.
 */
#ifndef LMDBIO_UTIL_STATS_H
#define LMDBIO_UTIL_STATS_H

#include "util/settings.h"
#include "util/stats_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* This process's slot: memory of this library, over which the slot of a table is mapped. Only the
 * functions below read it and add to it. */
extern struct stats_slot stats_own;

/* Whether the process has its slot, or can have none. */
extern atomic_bool stats_settled;

/* Gives the process its slot, if it has opened an environment; takes a tenth of a millisecond once.
 * Without shared memory the process counts for itself. stats_settle_late() does so only 0.1 s after
 * the first open. Threads: any. */
void stats_settle(void);
void stats_settle_late(void);

/* Called before the process asks storage for bytes or has waited for some. Threads: any. */
static inline void stats_ensure_settled(void)
{
	if (!atomic_load_explicit(&stats_settled, memory_order_relaxed))
		stats_settle();
}

/* Called when a transaction ends, and for each part of a data set that is found in memory. Threads:
 * any. */
static inline void stats_lasts(void)
{
	if (!atomic_load_explicit(&stats_settled, memory_order_relaxed))
		stats_settle_late();
}

/* Adds to a counter. Never blocks. Threads: any. */
static inline void stats_add(enum stats_counter counter, uint64_t n)
{
	atomic_fetch_add_explicit(&stats_own.counters[counter].value, n, memory_order_relaxed);
}

/* Returns what this process has counted. */
static inline uint64_t stats_get(enum stats_counter counter)
{
	return atomic_load_explicit(&stats_own.counters[counter].value, memory_order_relaxed) -
	       atomic_load_explicit(&stats_own.base[counter], memory_order_relaxed);
}

/* Counts `n` requests to storage of `bytes` bytes together. Threads: any. */
static inline void stats_requests(uint64_t n, uint64_t bytes)
{
	uint64_t each = n ? bytes / n : 0;
	unsigned size = 63 - (unsigned)__builtin_clzll(each | 1);

	stats_ensure_settled();
	stats_add(STATS_STORAGE_REQUESTS, n);
	stats_add(STATS_STORAGE_BYTES, bytes);
	atomic_fetch_add_explicit(&stats_own.sizes[size < STATS_SIZES ? size : STATS_SIZES - 1], n,
				  memory_order_relaxed);
}

/* Returns a counter's name in struct lmdbio_stats and in JSON. */
const char *stats_name(enum stats_counter counter);

/* Counts `n` more reads in flight ahead of need; negative: fewer. */
static inline void stats_queue(int64_t n)
{
	stats_ensure_settled();
	atomic_fetch_add_explicit(&stats_own.queue, (uint64_t)n, memory_order_relaxed);
}

/* Counts an environment that was opened, or that a forked child has begun to use. The first call
 * takes the process's slot if an lmdbio-run reports for it. stats_closed() counts such an
 * environment as closed. */
void stats_opened(void);
void stats_closed(void);

/* Gives this process a slot as a server, which reads for the programs of its node, unless it is a
 * program that has opened an environment. If it opens one later, it is a program from then on.
 * Cheap after the first call. */
void stats_serve(void);

/* To be called when a data set is opened that the kernel reads into the page cache of its own
 * accord, and when a forked child first uses an inherited one. Bytes that the kernel reads from
 * disks for this process then count as asked of storage, as far as they are more than lmdbio's own
 * requests. */
void stats_kernel_watch(void);

/* Returns the bytes that this process has asked of storage, with those that the kernel has read for
 * it until now. Takes a few microseconds where the kernel reads. */
uint64_t stats_storage_bytes(void);

/* Records the bytes that the arenas of this process may have. */
void stats_budget(uint64_t bytes);

/* Counts a wait of the program for bytes since `began` (clock_now()). Counts nothing in a thread of
 * lmdbio's own: the program waits only if it comes to a place where the thread is not yet. */
void stats_waited(uint64_t began);

/* Marks this thread as lmdbio's own. */
void stats_thread_serves(void);

/* Whether anything was counted in this process. */
bool stats_any(void);

/* Sums up this process alone. */
void stats_sum_own(struct stats_sum *sum);

/* The table that this process has a slot in, or NULL (unit tests). */
struct stats_table;
const struct stats_table *stats_own_table(void);

/* A sum, and the process that it is about. `whole`: the sum is that of the program that lmdbio-run
 * has started and of its children. */
struct stats_report {
	struct stats_sum sum;
	const char *program;
	pid_t pid;
	bool whole;
};

/* Makes the report on this process. Lifetime: the program's name is the C library's. */
void stats_report_self(struct stats_report *report);

/* Format the report as lines for people, or as one line of JSON, ended by '\n'. Return its length,
 * cut to `size` (STATS_REPORT is always enough). */
enum { STATS_REPORT = 8192 };
size_t stats_format_text(const struct stats_report *report, char *buffer, size_t size);
size_t stats_format_json(const struct stats_report *report, char *buffer, size_t size);

/* Expands %h (host name), %p (process id), %r (the process's rank in its job; 0 outside one) and %%
 * into path. Returns 0 or ENAMETOOLONG. */
int stats_file_name(const char *pattern, pid_t pid, char *path, size_t size);

/* Writes the report where `output` says. */
void stats_report_write(const struct stats_report *report, const struct settings_output *output);

/* Called when the library is taken down, at the process's end. Writes the report where settings
 * say, if there is anything to report and the report was not written yet. If an lmdbio-run reports
 * for all processes, it reports this one. */
void stats_tell(const struct settings *settings);

#endif
