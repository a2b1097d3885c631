/* SPDX-License-Identifier: OLDAP-2.8 */
/* Adds up what a program and all its children have counted, and tells it when the program ends.
 *
 * The counters are in a table of this process (lib/util/stats_layout.h), which they join by
 * LMDBIO_STATS_AT: so those that end by _exit or a signal are counted, too. */
#ifndef LMDBIO_TOOLS_RUN_COUNT_H
#define LMDBIO_TOOLS_RUN_COUNT_H

#include "util/stats.h"
#include "util/stats_table.h"

/* Milliseconds from one look at which processes live to the next. */
enum { RUN_COUNT_LOOK = 250 };

struct run_count {
	struct stats_table table;
	struct settings_output output;
	const char *program; /* its name, for the report */
};

/* Makes the table where LMDBIO_STATS wants a report, and sets LMDBIO_STATS_AT. false: this process
 * has nothing to tell: no report is wanted, or an lmdbio-run that has started this one tells it, or
 * there is no shared memory, and each process reports for itself. */
bool run_count_begin(struct run_count *count, const char *program);

/* To be called that often while the program runs. */
void run_count_look(struct run_count *count);

/* The program has ended: writes the sum, if anything was counted. */
void run_count_end(struct run_count *count, pid_t program);

/* Starts the program in a child and waits for it as a shell would: signals and stops are the
 * program's. start() becomes the program; it returns only where that fails, with an exit status.
 * Returns the program's exit status, 128 and the number of the signal that has ended it, or
 * TOOL_FAILED (2) after a line on standard error: it has not run. */
int run_counted(struct run_count *count, int (*start)(void *context), void *context);

#endif
