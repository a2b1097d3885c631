/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps processors busy beside a measured run. */
#ifndef BENCH_BUSY_H
#define BENCH_BUSY_H

#include <sys/types.h>

enum { BUSY_MAX = 64 };

struct busy {
	pid_t pids[BUSY_MAX];
	unsigned n;
};

/* Starts n processes that compute without an end, at this process's priority. They end with this
 * process at the latest. Returns 0 or an errno; in both cases busy_stop() ends those that were
 * started. */
int busy_start(struct busy *busy, unsigned n);
void busy_stop(struct busy *busy);

#endif
