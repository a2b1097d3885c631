/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides when two nodes are one machine. */
#include "config.h"
#include "mpi/mpi_node.h"

#include "util/settings.h"

#include <stdio.h>

void mpi_node_name(const struct mpi_job *job, char name[MPI_NODE_NAME])
{
	const char *wanted = settings_get()->node ? settings_get()->node : "";

	if (job->played)
		snprintf(name, MPI_NODE_NAME, "%s#%d", wanted, job->place.node);
	else
		snprintf(name, MPI_NODE_NAME, "%s", wanted);
}
