/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the process that serves a rank's node, and what passes between it and the process that
 * the launcher has started.
 *
 * MPI is in a process of its own, so that the one that the launcher waits for outlives it. They are
 * joined by a socket of packets: the server says its place (struct mpi_place) when MPI has begun, then
 * once how the start went, and is told words of one byte. Its end, which may come at any time, is the
 * socket's.
 */
#ifndef LMDBIO_TOOLS_RUN_SERVER_H
#define LMDBIO_TOOLS_RUN_SERVER_H

#include "run_job.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum run_word {
	RUN_OVER = 'o',  /* the work of this rank */
	RUN_LEAVE = 'l', /* only the process that ends MPI speaks to the launcher any more */
};

/* What the server says when a program may begin, or when it may not because of what storage or
 * memory said: then rc is not 0. */
struct run_news {
	int rc;
	char text[128]; /* of rc, for a person */
	struct mpi_place place;
	struct lmdbio_stage_report report; /* where the job has paths */
	bool pmi1;                         /* as struct mpi_module has it */
	char node[512],
		staged[PATH_MAX]; /* the program's LMDBIO_NODE and LMDBIO_STAGED; "": as they are */
};

/* Its exit status when MPI fails: MPI has not ended, and the launcher has not been told. */
enum { RUN_SERVER_ALONE = 3 };

/* The life of that process, which ends with `parent` at the latest. `talk`: its end of what is
 * said. Returns its exit status. */
int run_server(const struct run_job *job, pid_t parent, int talk);

/* This process has its input and output only so that the program can: a process that writes to
 * the program's input must see it end. */
void run_streams_leave(void);

#endif
