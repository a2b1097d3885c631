/* SPDX-License-Identifier: OLDAP-2.8 */
/* Adds up what the processes of a report have counted. */
#ifndef LMDBIO_TOOLS_REPORT_TOTAL_H
#define LMDBIO_TOOLS_REPORT_TOTAL_H

#include "report_read.h"

struct report_total {
	size_t entries, hosts;
	uint64_t processes;
	size_t timed; /* entries of which it is known how long they could have waited */
	uint64_t counters[STATS_COUNT];
	uint64_t of_ns, waited_ns; /* of the timed entries */
	uint64_t sizes[REPORT_SIZES];
	uint64_t requests;            /* in sizes */
	unsigned span_seconds, spans; /* 0: no process has waits over time */
	uint64_t span_ns[REPORT_SPANS];
};

/* Lays the processes' waits on one time axis, whose spans are as short as hold all of them; a
 * process without a beginning is taken to have begun first. A sum that overflows is UINT64_MAX. */
void report_total(const struct report_process *processes, size_t count, struct report_total *total);

/* What a process waited of the time that it could have, from 0 to 1; 0 where that is not known. */
double report_waited_part(const struct report_process *process);

#endif
