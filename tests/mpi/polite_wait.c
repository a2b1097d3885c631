/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes ranks that wait in MPI yield the processor to the ranks that they wait for.
 *
 * Preloaded under a test's job. MPICH waits by polling. On a machine with fewer processors than
 * ranks, the rank that others wait for gets no processor until the kernel takes one away from a
 * waiting rank: a barrier of eight ranks on two processors takes 37 ms without this library, and 3
 * ms with it.
 */
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

/* Replaces a function of libucp, through which all of MPICH's waits go. RTLD_NEXT does not find it
 * if it belongs to a module that was loaded later. */
__attribute__((visibility("default"))) unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
	static _Atomic(void *) found;
	unsigned (*progress)(void *);
	void *at = found;
	unsigned done;

	if (!at)
		found = at = dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD),
				   "ucp_worker_progress");
	memcpy(&progress, &at, sizeof(at)); /* ISO C has no cast for it */
	done = progress(worker);
	if (!done)
		sched_yield();
	return done;
}
