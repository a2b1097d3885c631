/* SPDX-License-Identifier: OLDAP-2.8 */
/* Adds up the counters of a program and all its children, and reports them when the program ends.
 *
 * The counters are in a table of this process (lib/util/stats_layout.h), which the others join by
 * LMDBIO_STATS_AT. So processes that end by _exit or a signal are counted, too. */
#ifndef LMDBIO_TOOLS_RUN_COUNT_H
#define LMDBIO_TOOLS_RUN_COUNT_H

#include "util/stats.h"
#include "util/stats_table.h"

/* Milliseconds between two checks of which processes live. */
enum { RUN_COUNT_LOOK = 250 };

struct run_count {
	struct stats_table table;
	struct settings_output output;
	const char *program; /* its name, for the report */
};

/* Makes the table if LMDBIO_STATS wants a report, and sets LMDBIO_STATS_AT. Returns false if this
 * process reports nothing: no report is wanted, an lmdbio-run above this one reports, or there is
 * no shared memory and each process reports for itself. */
bool run_count_begin(struct run_count *count, const char *program);

/* Records which processes live, and their reads so far, in case one is killed. Call this every
 * RUN_COUNT_LOOK ms while the program runs. */
void run_count_look(struct run_count *count);

/* Writes the sum, if anything was counted, after the program's end. */
void run_count_end(struct run_count *count, pid_t program);

/* Starts the program in a child and waits for it as a shell would: signals and stops are the
 * program's. start() becomes the program. It returns only if that fails, with an exit status.
 * Returns the program's exit status, 128 plus the number of the signal that ended it, or
 * TOOL_FAILED (2) after a message on standard error if the program has not run. */
int run_counted(struct run_count *count, int (*start)(void *context), void *context);

#endif
