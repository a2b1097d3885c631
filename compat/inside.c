/* What only this file knows: when the drop-in loads the module with MPI into the program. */
#include "config.h"
#include "inside.h"

#include "mpi/mpi_module.h"
#include "util/log.h"
#include "util/settings.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Beside this library; or, in a build tree, where it is built. */
static void *module_open(void)
{
	static const char *const places[] = {"", "/../../lib/mpi/.libs"};
	char path[PATH_MAX];
	Dl_info self;
	void *module = NULL;

	if (!dladdr((void *)(uintptr_t)inside_start, &self) || !strrchr(self.dli_fname, '/'))
		return NULL;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !module; i++) {
		int length = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);

		if (snprintf(path, sizeof(path), "%.*s%s/liblmdbio-mpi.so.0", length, self.dli_fname,
			     places[i]) < (int)sizeof(path))
			module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return module;
}

static void start_once(void)
{
	void *library = module_open();
	const struct mpi_module *found = library ? dlsym(library, MPI_MODULE_SYMBOL) : NULL;
	const char *why = NULL;

	if (!library)
		why = dlerror();
	else if (!found || found->version != MPI_MODULE_VERSION ||
		 strcmp(found->release, PACKAGE_VERSION))
		why = "the module is of another release";
	else if (found->inside())
		why = "no thread";
	if (why)
		log_refused("the node is not served: no MPI: %s", why);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A rank that opens nothing is waited for by those that do. So all ranks come at once where the program
 * is linked with MPI; one that loads it later comes at its first environment. What has no MPI, as a
 * shell in front of the program, never does. */
static void __attribute__((constructor)) inside_come(void)
{
	if (settings_get()->mpi && dlsym(RTLD_DEFAULT, "MPI_Init"))
		pthread_once(&once, start_once);
}

void inside_start(void)
{
	if (settings_get()->mpi)
		pthread_once(&once, start_once);
}
