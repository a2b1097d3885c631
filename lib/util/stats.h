/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: what lmdbio counts, per process, always.
 *
 * A counter is one relaxed add on a cache line of its own: nothing until something happens. On
 * the way of every mdb_get that many threads take at once, add up in the transaction or the cursor
 * and count when it ends.
 *
 * Adding a counter takes: a name here, a row in stats.c, a field at the end of struct lmdbio_stats
 * in include/lmdbio.h and its line in compat/lmdbio_calls.c; the compiler checks all four.
 */
#ifndef LMDBIO_UTIL_STATS_H
#define LMDBIO_UTIL_STATS_H

#include "util/settings.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stats_counter {
	STATS_STORAGE_REQUESTS, /* reads that lmdbio asked of storage */
	STATS_STORAGE_BYTES,    /* their length */
	STATS_SERVED_BYTES,     /* values handed to the program */
	STATS_WAITS,            /* times the program had to wait for bytes */
	STATS_WAIT_NS,          /* for how long */
	/* Extents that the program stepped on, by what stood under them: */
	STATS_HITS_CACHE,      /* page cache, brought there ahead of need */
	STATS_HITS_ARENA_OWN,  /* arena, loaded by this process */
	STATS_HITS_ARENA_PEER, /* arena, loaded by another process */
	STATS_AT_REST,         /* the file mapping as it was */
	STATS_EVICTIONS,       /* extents given back to stay within the budget */
	STATS_POPULATE_CALLS,  /* batches of page-table entries made */
	STATS_PREFETCH_REQUESTS,
	STATS_PREFETCH_BYTES,
	STATS_PREFETCH_USED,   /* bytes of them that the program came for */
	STATS_STREAMS_STARTED, /* look-ahead began */
	STATS_STREAMS_BROKEN,  /* and ended because the program went elsewhere */
	STATS_FALLBACKS,       /* times a slower way was taken because the better one failed */
	STATS_HUGE_BYTES,      /* of STATS_PREFETCH_BYTES, read straight into huge pages */
	STATS_COUNT
};

struct stats {
	alignas(64) _Atomic uint64_t value;
};

extern struct stats stats_counters[STATS_COUNT];

/* Threads: any. It never blocks. */
static inline void stats_add(enum stats_counter counter, uint64_t n)
{
	atomic_fetch_add_explicit(&stats_counters[counter].value, n, memory_order_relaxed);
}

static inline uint64_t stats_get(enum stats_counter counter)
{
	return atomic_load_explicit(&stats_counters[counter].value, memory_order_relaxed);
}

/* Whether anything was counted in this process. */
bool stats_any(void);

/* The report, as lines for people or as one line of JSON, ended by '\n'. Returns its length, cut
 * to what `size` holds (STATS_REPORT is always enough). */
enum { STATS_REPORT = 4096 };
size_t stats_format_text(char *buffer, size_t size);
size_t stats_format_json(char *buffer, size_t size);

/* Expands %h (host name), %p (process id) and %% into path. Returns 0 or ENAMETOOLONG. */
int stats_file_name(const char *pattern, char *path, size_t size);

/* What happens when the library is taken down, at the process's end: the report goes where
 * settings say, if there is anything to tell and it has not been told. */
void stats_tell(const struct settings *settings);

#endif
