/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counters and a log of reads: how a read is reported, and how the counts are printed. */
#ifndef SLOWFS_STATS_H
#define SLOWFS_STATS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SLOWFS_HIST_ROWS 33
#define SLOWFS_LOG_ROWS	 65536

struct slowfs_counters {
	atomic_uint_fast64_t requests; /* reads that arrived */
	atomic_uint_fast64_t asked;    /* bytes that they asked for */
	atomic_uint_fast64_t bytes;  /* bytes that they got: less at the file's end and by faults */
	atomic_uint_fast64_t failed; /* by a fault */
	atomic_uint_fast64_t shortened; /* by a fault */
	/* hist[i]: requests of more than 2^(i-1) and at most 2^i bytes */
	atomic_uint_fast64_t hist[SLOWFS_HIST_ROWS];
};

/* Lives until the process ends: logs and nodes may point to it for ever. */
struct slowfs_file {
	struct slowfs_file *next;
	struct slowfs_counters counters;
	char path[]; /* below the mount, without a leading slash */
};

/* One read, as it arrived and as it is answered. */
struct slowfs_read {
	struct slowfs_file *file;
	uint64_t microseconds; /* since the counters were reset */
	uint64_t offset;
	uint64_t asked;
	uint64_t served;
	uint64_t delay_ns; /* that the model gave it */
	bool shortened;
	int error; /* errno, or 0 */
};

struct slowfs_stats {
	pthread_mutex_t lock; /* for files and log */
	struct slowfs_file *files;
	struct slowfs_counters total;
	atomic_uint_fast64_t inflight;
	atomic_uint_fast64_t inflight_max;
	atomic_uint_fast64_t delay_us; /* that the model gave all reads together, each rounded up */
	atomic_uint_fast64_t delay_max_us;
	atomic_uint_fast64_t reset_us;
	atomic_bool logging;
	uint64_t log_count; /* ever written; row is log_count % SLOWFS_LOG_ROWS */
	struct slowfs_read *log;
};

void slowfs_stats_init(struct slowfs_stats *stats);

/* The counters of a path. Returns NULL when memory is short. */
struct slowfs_file *slowfs_stats_file(struct slowfs_stats *stats, const char *path);

/* Around the time that a read is under way. begin fills in read->microseconds; end counts and
 * logs the read and must come before it is answered, so that who has the data sees the count. */
void slowfs_stats_begin(struct slowfs_stats *stats, struct slowfs_read *read);
void slowfs_stats_end(struct slowfs_stats *stats, const struct slowfs_read *read);

/* Counters and log to nothing. Reads under way are counted after it when they end after it. */
void slowfs_stats_reset(struct slowfs_stats *stats);

/* Returns 0 or ENOMEM. The rows stay readable after the log is switched off. */
int slowfs_stats_log(struct slowfs_stats *stats, bool on);

/* Lines "KEY VALUE", the totals first, then with "PATH:" before KEY for each file that was read. */
void slowfs_stats_print(struct slowfs_stats *stats, FILE *out);

/* Lines "MICROSECONDS OFFSET ASKED SERVED ERRNO PATH", the oldest first. */
void slowfs_stats_print_log(struct slowfs_stats *stats, FILE *out);

#endif
