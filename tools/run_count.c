/* SPDX-License-Identifier: OLDAP-2.8 */
/* Waits for a program and reports the counters of the program and its children. */
#include "config.h"
#include "run_count.h"
#include "run_server.h"
#include "run_signals.h"
#include "tool_common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Returns whether another lmdbio-run adds up the counters of this one's processes. */
static bool is_counted_above(void)
{
	const char *where = getenv("LMDBIO_STATS_AT");
	struct stats_table above;
	bool counted;

	if (!where || stats_table_join(&above, where))
		return false;
	counted = stats_owner_lives(atomic_load(&above.head->reporter));
	stats_table_close(&above);
	return counted;
}

bool run_count_begin(struct run_count *count, const char *program)
{
	const char *wanted = getenv("LMDBIO_STATS");
	char where[STATS_WHERE];

	*count = (struct run_count){.table = {.fd = -1}, .program = basename(program)};
	if (!wanted || !settings_output_parse(wanted, &count->output) ||
	    count->output.how == SETTINGS_STATS_OFF || is_counted_above() ||
	    stats_table_make(&count->table))
		return false;
	atomic_store(&count->table.head->reporter, stats_owner_of(getpid()));
	stats_table_where(&count->table, where);
	if (!setenv("LMDBIO_STATS_AT", where, 1))
		return true;
	stats_table_close(&count->table);
	return false;
}

void run_count_look(struct run_count *count)
{
	stats_table_look(&count->table);
}

void run_count_end(struct run_count *count, pid_t program)
{
	struct stats_report report = {.program = count->program, .pid = program, .whole = true};
	bool any = false;

	stats_sum_table(&count->table, &report.sum);
	for (unsigned i = 0; i < STATS_COUNT; i++)
		any |= report.sum.counters[i] != 0;
	if (any)
		stats_report_write(&report, &count->output);
	/* Processes that live longer report the rest themselves. */
	atomic_store(&count->table.head->reporter, 0);
	stats_table_close(&count->table);
}

/* Runs the program, which dies with its parent: a killed parent would have been the program
 * itself. */
static void program_run(pid_t parent, int (*start)(void *), void *context)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(TOOL_FAILED);
	run_signals_give_back();
	_exit(start(context));
}

int run_counted(struct run_count *count, int (*start)(void *context), void *context)
{
	pid_t self = getpid(), program;
	int status = TOOL_FAILED, signals = run_signals_take();

	fflush(NULL);
	program = signals < 0 ? -1 : fork();
	if (program < 0) {
		fprintf(stderr, "lmdbio-run: %s\n", strerror(errno));
		return TOOL_FAILED;
	}
	if (!program)
		program_run(self, start, context);
	run_streams_leave();
	while (!run_signals_step(signals, program, &status)) {
		run_signals_wait(signals, RUN_COUNT_LOOK);
		run_count_look(count);
	}
	close(signals);
	run_signals_leave();
	run_count_end(count, program);
	return status;
}
