/* SPDX-License-Identifier: OLDAP-2.8 */
/* Ends a rank by words to its launcher.
 *
 * MPI_Finalize of MPICH before 4.2 flushes each connection, and then waits in a barrier of the
 * launcher's, where it answers no other rank. Over TCP a flush needs an answer of the other side
 * (UCX 1.13), so a rank that comes a moment later waits for ever: nearly each job of four hosts. No
 * bytes are under way then, and the kernel closes the connections.
 */
#include "config.h"
#include "mpi/mpi_leave.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Waits for the answer; each line comes whole. A launcher that is gone needs no words. */
static void launcher_ask(int launcher, const char *line, const char *answer)
{
	char heard[1024];
	ssize_t n;

	if (send(launcher, line, strlen(line), MSG_NOSIGNAL) < 0)
		return;
	do {
		n = recv(launcher, heard, sizeof(heard) - 1, 0);
		heard[n > 0 ? n : 0] = 0;
	} while ((n < 0 && errno == EINTR) || (n > 0 && !strstr(heard, answer)));
}

/* Whether MPI_Finalize returns. On one machine no connection is TCP's. */
static bool is_finalized_safely(const struct mpi_job *job)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length, major = 0, minor = 0;

	if (job->place.nodes < 2 || job->played)
		return true;
	return MPI_Get_library_version(version, &length) != MPI_SUCCESS ||
	       sscanf(version, "MPICH Version: %d.%d", &major, &minor) != 2 || major > 4 ||
	       (major == 4 && minor >= 2);
}

bool mpi_leave(const struct mpi_job *job)
{
	const char *number = getenv("PMI_FD");
	int launcher = number ? atoi(number) : -1;

	if (launcher <= STDERR_FILENO || !mpi_job_is_pmi1() || is_finalized_safely(job))
		return false;
	launcher_ask(launcher, "cmd=barrier_in\n", "cmd=barrier_out");
	launcher_ask(launcher, "cmd=finalize\n", "cmd=finalize_ack");
	return true;
}
