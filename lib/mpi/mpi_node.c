/* What only this file knows: when two nodes are one machine. */
#include "config.h"
#include "mpi/mpi_node.h"

#include "mpi/mpi_error.h"
#include "util/settings.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static int64_t host_hash(void)
{
	char host[256] = "";
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	(void)gethostname(host, sizeof(host) - 1);
	for (const char *c = host; *c; c++)
		hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
	return (int64_t)(hash >> 1);
}

int mpi_node_name(const struct mpi_job *job, char name[MPI_NODE_NAME])
{
	const char *wanted = settings_get()->node ? settings_get()->node : "";
	int64_t mine = host_hash(), ends[2] = {mine, -mine}, least[2];
	int rc = MPI_Allreduce(ends, least, 2, MPI_INT64_T, MPI_MIN, job->all);

	if (rc != MPI_SUCCESS)
		return mpi_error_code(rc);
	/* MPICH makes several nodes of a machine only when the job has no other: then the least
	 * hash is the greatest. */
	if (job->place.nodes > 1 && least[0] == -least[1])
		snprintf(name, MPI_NODE_NAME, "%s#%d", wanted, job->place.node);
	else
		snprintf(name, MPI_NODE_NAME, "%s", wanted);
	return 0;
}
