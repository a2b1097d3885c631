/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates a rank that can no longer reach the others, as when one of them has been killed: rank
 * 1's messages with tag BROKEN_TAG or a higher one fail if they have no bytes.
 *
 * Preloaded under a test's job.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int MPI_Isend(const void *bytes, int count,
						     MPI_Datatype type, int to, int tag,
						     MPI_Comm comm, MPI_Request *request);

static int is_broken(int count, int tag)
{
	const char *rank = getenv("PMI_RANK"), *least = getenv("BROKEN_TAG");

	return rank && least && !strcmp(rank, "1") && !count && tag >= atoi(least);
}

/* RTLD_NEXT does not find MPI, because its module is loaded later. */
int MPI_Isend(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	void *at = dlsym(dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD), "PMPI_Isend");
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

	memcpy(&send, &at, sizeof(at)); /* ISO C has no cast for it */
	return is_broken(count, tag) ? MPI_ERR_OTHER
				     : send(bytes, count, type, to, tag, comm, request);
}
