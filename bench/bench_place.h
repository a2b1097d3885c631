/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says where a data set is read from, and makes its bytes cold or warm there. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include "bench_data.h"

#include <stdbool.h>
#include <sys/types.h>

enum state {
	STATE_COLD,
	STATE_WARM,
	STATE_HOT,
	STATE_AGAIN, /* cold, then read by the library itself */
	STATES,
};

extern const char *const state_names[STATES];

struct place {
	bool slow;	     /* on slowfs */
	char path[PATH_MAX]; /* a directory of data sets */
	bool drop_caches;    /* cold: drop the whole machine's caches, not only this file's */
	bool complained;
	pid_t slowfs;
	char backing[PATH_MAX];
	uint64_t disk_reads; /* reads of the plain directory's disk at the last reset */
};

struct slowfs_settings {
	const char *program;
	unsigned latency;   /* microseconds per request */
	unsigned bandwidth; /* MiB/s */
};

/* Uses a plain directory. */
void place_plain(struct place *place, const char *directory, bool drop_caches);

/* Mounts the same directory by slowfs, which ends with this process at the latest. Returns 0 or an
 * errno, after a line on standard error. */
int place_slow(struct place *place, const char *directory, const struct slowfs_settings *settings);
void place_close(struct place *place);

/* Returns the path of a set's data file at this place. */
void place_file(const struct place *place, const struct data *data, char path[PATH_MAX]);

/* Makes the set's pages absent (cold, again) or present (warm, hot) in the kernel's page cache, and
 * resets the counters. On slowfs, cold pages are in the backing folder's cache but not in the
 * mount's, so that no run waits for a real disk. Returns 0 or an errno. */
int place_prepare(struct place *place, const struct data *data, enum state state);

/* Resets only the counters. Returns 0 or an errno. */
int place_reset(struct place *place);

/* Returns read requests and bytes since the last place_prepare() or place_reset(). For a plain
 * directory the requests are all that its disk was sent, by any program, and bytes are not counted;
 * both are 0 where there is no counter. */
int place_counters(const struct place *place, uint64_t *requests, uint64_t *bytes);

#endif
