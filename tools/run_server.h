/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the process that serves a rank's node, and its messages to the process that the launcher
 * started.
 *
 * MPI is in a process of its own, so that the process that the launcher waits for outlives it. A
 * socket of packets joins the two. The server sends its place (struct mpi_place) when MPI has
 * begun, then once how the start went, and receives words of one byte. The server's end, which may
 * come at any time, closes the socket.
 */
#ifndef LMDBIO_TOOLS_RUN_SERVER_H
#define LMDBIO_TOOLS_RUN_SERVER_H

#include "run_job.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

enum run_word {
	RUN_OVER = 'o',  /* this rank's work is over */
	RUN_LEAVE = 'l', /* from now on only the process that ends MPI speaks to the launcher */
};

/* The server sends this when a program may begin, or when a failure of storage or memory keeps the
 * program from beginning: then rc is not 0. */
struct run_news {
	int rc;
	char text[128]; /* of rc, for the user */
	struct mpi_place place;
	struct lmdbio_stage_report report; /* if the job has paths */
	bool pmi1;                         /* as struct mpi_module has it */
	char node[512],
		staged[PATH_MAX]; /* the program's LMDBIO_NODE and LMDBIO_STAGED; "": as they are */
};

/* The server's exit status if MPI fails: MPI has not ended, and the launcher does not know. */
enum { RUN_SERVER_ALONE = 3 };

/* Runs the server in its process, which ends with `parent` at the latest. `talk` is its end of the
 * socket. Returns the exit status. */
int run_server(const struct run_job *job, pid_t parent, int talk);

/* Gives up input and output, which this process has only for the program: a process that writes to
 * the program's input must see that input end. */
void run_streams_leave(void);

#endif
