/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the statistics that processes have left as JSON. */
#ifndef LMDBIO_TOOLS_REPORT_READ_H
#define LMDBIO_TOOLS_REPORT_READ_H

#include "tool_common.h"
#include "util/stats.h"

enum {
	REPORT_SIZES = STATS_SIZES, /* classes of request sizes: [i] from 2^i bytes on */
	REPORT_SPANS = 128,         /* spans of time that waits are summed over, at most */
};

/* One process, or the program and all its children of an lmdbio-run. */
struct report_process {
	const char *file; /* where it was read */
	char *program, *host;
	uint64_t pid;
	uint64_t rank; /* in its job; UINT64_MAX: it has none */
	uint64_t counters[STATS_COUNT];
	uint64_t processes;  /* that it is the sum of */
	uint64_t elapsed_ns; /* that these had a data set open, summed; 0: not known */
	uint64_t of_ns;      /* that it could have waited; 0: not known */
	uint64_t began; /* when the first was opened, seconds of the Unix clock; 0: not known */
	uint64_t sizes[REPORT_SIZES]; /* requests by size */
	unsigned span_seconds;        /* the length of a span; 0: waits over time are not known */
	unsigned spans;
	uint64_t span_ns[REPORT_SPANS]; /* waited in each, from `began` on */
};

struct report_input {
	const struct tool *tool; /* what complains */
	struct report_process *processes;
	size_t count, room;
};

/* Adds the processes of a file, "-" being standard input. A process that is there already with the
 * same counters is not added, and a person is told. Returns 0, or TOOL_FAILED, and a person has
 * been told the file's name, what is wrong and what to do. */
int report_read(struct report_input *input, const char *file);

void report_read_end(struct report_input *input);

/* a + b, or UINT64_MAX where that is more. */
uint64_t report_add(uint64_t a, uint64_t b);

#endif
