/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the module for the process's place in a job, as a program without MPI does, and prints
 * it. */
#include "config.h"
#include "mpi/mpi_module.h"
#include "tool_place.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	const struct mpi_module *module = tool_place_module("place_print");
	struct mpi_place at;
	int rc;

	if (!module)
		return 2;
	rc = module->begin(argc > 1 && !strcmp(argv[1], "threads"), &at);
	if (rc) {
		fprintf(stderr, "place_print: begin: %s\n", strerror(rc));
		return 1;
	}
	printf("rank %d of %d node %d of %d there %d of %d\n", at.rank, at.ranks, at.node, at.nodes,
	       at.node_rank, at.node_ranks);
	fflush(stdout);
	if (argc > 1 && !strcmp(argv[1], "abort") && at.rank == at.ranks - 1)
		module->abort(7);
	return module->end() ? 1 : 0;
}
