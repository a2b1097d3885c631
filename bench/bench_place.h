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
	bool drop_caches;    /* cold means the whole machine's caches, not this file's alone */
	bool complained;
	pid_t slowfs;
	char backing[PATH_MAX];
	uint64_t disk_reads; /* of the plain directory's disk, at the last reset */
};

struct slowfs_settings {
	const char *program;
	unsigned latency;   /* microseconds for each request */
	unsigned bandwidth; /* MiB/s */
};

/* A plain directory. */
void place_plain(struct place *place, const char *directory, bool drop_caches);

/* The same directory seen through slowfs, which ends with this process at the latest. Returns 0 or
 * an errno, after a line on standard error. */
int place_slow(struct place *place, const char *directory, const struct slowfs_settings *settings);
void place_close(struct place *place);

/* The data file of a set as it is seen at this place. */
void place_file(const struct place *place, const struct data *data, char path[PATH_MAX]);

/* Makes the set's pages absent (cold, again) or present (warm, hot) in the kernel's page cache and
 * sets the counters to 0. On slowfs cold means: in the backing folder's cache but not in the
 * mount's, so that no real disk is waited for. Returns 0 or an errno. */
int place_prepare(struct place *place, const struct data *data, enum state state);

/* Sets the counters alone to 0. Returns 0 or an errno. */
int place_reset(struct place *place);

/* Read requests and bytes since either. Of a plain directory the requests are all that its disk has
 * been sent, by whatever program, and there are no bytes; 0 and 0 where nothing counts. */
int place_counters(const struct place *place, uint64_t *requests, uint64_t *bytes);

#endif
