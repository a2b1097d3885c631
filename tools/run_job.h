/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a program one rank of a job whose MPI it never sees.
 *
 * The program is forked first and waits; then a process that starts MPI, learns which node it is
 * on, and from then on serves the node (one process a node does). This one lets the program begin,
 * passes signals on and waits. Only when every program of the job is over is MPI ended: so a
 * program that crashes takes no other with it; nor does a server, as the launcher waits for this
 * process.
 */
#ifndef LMDBIO_TOOLS_RUN_JOB_H
#define LMDBIO_TOOLS_RUN_JOB_H

#include "mpi/mpi_module.h"

struct run_job {
	const char *tool; /* whose messages these are */
	/* Becomes the program, in a child with its signals and streams as they were, and
	 * LMDBIO_NODE and LMDBIO_STAGED set as its node has them; returns only where that fails,
	 * with an exit status. NULL: there is no program; the work is over when a signal says so.
	 */
	int (*start)(void *context);
	void *context;
	/* What the program and its children count; NULL: each process tells for itself. */
	struct run_count *count;
	/* Data sets that must be in the nodes' memory before the program begins; NULL-terminated.
	 * NULL: what programs read is brought as they read it. */
	const char *const *paths;
	/* Then: told on each rank what came of that; the report is the same on all. */
	void (*tell)(int rc, const char *text, const struct mpi_place *place,
		     const struct lmdbio_stage_report *report);
};

/* Runs the program as a rank of the job that this process was started in by mpiexec or srun;
 * without one it is a job of one. Returns the program's exit status (0 where there is none), 128
 * and the signal's number where a signal has ended it, or one has come before it began; or
 * TOOL_FAILED (2) after a line on standard error, or tell(): the program has not run. */
int run_job(const struct run_job *job);

#endif
