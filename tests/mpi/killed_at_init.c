/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates a job whose MPI process is killed, or hangs, while MPI begins.
 *
 * Preloaded under a test's job. Rank 1, or KILLED_RANK, gets SIGKILL, or the signal KILLED_BY,
 * where MPI_Init_thread() is called (KILLED_AT=before) or has returned (KILLED_AT=after), or does
 * not return from it (KILLED_AT=never).
 */
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int MPI_Init_thread(int *argc, char ***argv, int required,
							    int *provided);

static void die(const char *at)
{
	const char *rank = getenv("PMI_RANK"), *wanted = getenv("KILLED_AT");
	const char *killed = getenv("KILLED_RANK"), *number = getenv("KILLED_BY");

	if (!rank || !wanted || strcmp(rank, killed ? killed : "1"))
		return;
	if (!strcmp(wanted, at))
		raise(number ? atoi(number) : SIGKILL);
	while (!strcmp(wanted, "never"))
		pause();
}

/* RTLD_NEXT does not find MPI, because its module is loaded later. */
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	void *at = dlsym(dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD), "PMPI_Init_thread");
	int (*init)(int *, char ***, int, int *);
	int rc;

	memcpy(&init, &at, sizeof(at)); /* ISO C has no cast for it */
	die("before");
	rc = init(argc, argv, required, provided);
	die("after");
	return rc;
}
