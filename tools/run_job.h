/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a program one rank of a job whose MPI the program never sees.
 *
 * This process forks the program first, which waits. Then it forks a process that starts MPI,
 * learns which node it is on, and from then on serves the node (one process a node does). This
 * process lets the program begin, passes signals on and waits. MPI ends only when every program of
 * the job is over, so a program that crashes ends no other. Nor does a server that crashes, as the
 * launcher waits for this process.
 */
#ifndef LMDBIO_TOOLS_RUN_JOB_H
#define LMDBIO_TOOLS_RUN_JOB_H

#include "mpi/mpi_module.h"

struct run_job {
	const char *tool; /* prefix of messages */
	/* Becomes the program, in a child with its signals and streams as they were, and
	 * LMDBIO_NODE and LMDBIO_STAGED set for its node. Returns only if that fails, with an exit
	 * status. NULL: there is no program, and a signal ends the work. */
	int (*start)(void *context);
	void *context;
	/* Counters of the program and its children; NULL: each process reports for itself. */
	struct run_count *count;
	/* Data sets to bring into the nodes' memory before the program begins; NULL-terminated.
	 * NULL: chunks are brought as programs read them. */
	const char *const *paths;
	/* Reports on each rank how bringing them went; all ranks get the same report. */
	void (*tell)(int rc, const char *text, const struct mpi_place *place,
		     const struct lmdbio_stage_report *report);
};

/* Runs the program as a rank of the job in which mpiexec or srun started this process; without
 * these it is a job of one. Returns the program's exit status (0 without a program), or 128 plus
 * the number of a signal that ended the program or came before it began. Returns TOOL_FAILED (2),
 * after a message on standard error or tell(), if the program has not run. */
int run_job(const struct run_job *job);

#endif
