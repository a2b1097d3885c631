/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the statistics that processes wrote as JSON. */
#ifndef LMDBIO_TOOLS_REPORT_READ_H
#define LMDBIO_TOOLS_REPORT_READ_H

#include "tool_common.h"
#include "util/stats.h"

enum {
	REPORT_SIZES = STATS_SIZES, /* classes of request sizes: [i] from 2^i bytes on */
	REPORT_SPANS = 128,         /* spans of time that waits are summed over, at most */
};

/* One process, or an lmdbio-run's program with all its children. */
struct report_process {
	const char *file; /* the input file */
	char *program, *host;
	uint64_t pid;
	uint64_t rank; /* in its job; UINT64_MAX: none */
	uint64_t counters[STATS_COUNT];
	uint64_t processes;  /* processes in the sum */
	uint64_t elapsed_ns; /* their time with a data set open, summed; 0: unknown */
	uint64_t of_ns;      /* the time in which they could have waited; 0: unknown */
	uint64_t began;      /* when the first data set was opened, seconds of the Unix clock; 0:
			   unknown */
	uint64_t sizes[REPORT_SIZES]; /* requests by size */
	unsigned span_seconds;        /* the length of a span; 0: no waits over time */
	unsigned spans;
	uint64_t span_ns[REPORT_SPANS]; /* waits in each, from `began` on */
};

struct report_input {
	const struct tool *tool; /* prefix of messages */
	struct report_process *processes;
	size_t count, room;
};

/* Adds the processes of a file; "-" is standard input. Skips a process that is there already with
 * the same counters, and says so. Returns 0, or TOOL_FAILED after a message with the file's name,
 * the fault and the remedy. */
int report_read(struct report_input *input, const char *file);

void report_read_end(struct report_input *input);

/* Returns a + b, or UINT64_MAX if the sum is more. */
uint64_t report_add(uint64_t a, uint64_t b);

#endif
