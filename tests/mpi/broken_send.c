/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows a rank that cannot reach the others any more, as when one of them has been killed: rank 1's
 * messages without bytes of the tag BROKEN_TAG and of higher ones fail.
 *
 * Preloaded under a test's job. */
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

/* The module is loaded later on, so that RTLD_NEXT does not know its MPI. */
int MPI_Isend(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	void *at = dlsym(dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD), "PMPI_Isend");
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

	memcpy(&send, &at, sizeof(at)); /* ISO C has no cast for it */
	return is_broken(count, tag) ? MPI_ERR_OTHER
				     : send(bytes, count, type, to, tag, comm, request);
}
