/* SPDX-License-Identifier: OLDAP-2.8 */
/* Adds up the counters of a report's processes. */
#ifndef LMDBIO_TOOLS_REPORT_TOTAL_H
#define LMDBIO_TOOLS_REPORT_TOTAL_H

#include "report_read.h"

struct report_total {
	size_t entries, hosts;
	uint64_t processes;
	size_t timed; /* entries with a known time in which they could have waited */
	uint64_t counters[STATS_COUNT];
	uint64_t of_ns, waited_ns; /* of the timed entries */
	uint64_t sizes[REPORT_SIZES];
	uint64_t requests;            /* in sizes */
	unsigned span_seconds, spans; /* 0: no process has waits over time */
	uint64_t span_ns[REPORT_SPANS];
};

/* Puts the processes' waits on one time axis, with the shortest spans that hold them all. A process
 * without a start time counts as the first to start. A sum that overflows is UINT64_MAX. */
void report_total(const struct report_process *processes, size_t count, struct report_total *total);

/* Returns a process's waits as a part of its possible waits, from 0 to 1; 0 if unknown. */
double report_waited_part(const struct report_process *process);

#endif
