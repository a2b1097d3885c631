/* SPDX-License-Identifier: OLDAP-2.8 */
/* Loads the module with MPI into the program, in time for all ranks to come together. */
#include "config.h"
#include "handles.h"

#include "mpi/mpi_module.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/thread.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Opens the module in this library's folder. */
static void *module_open(void)
{
	char path[PATH_MAX];
	Dl_info self;
	int length;

	if (!dladdr((void *)(uintptr_t)inside_call, &self) || !strrchr(self.dli_fname, '/'))
		return NULL;
	length = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
	if (snprintf(path, sizeof(path), "%.*s/liblmdbio-mpi.so.0", length, self.dli_fname) >=
	    (int)sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Returns whether the job's launcher or lmdbio-run started this process as a rank. A rank's
 * children inherit its environment, and must not speak to the launcher in its name. */
static bool is_rank(void)
{
	return settings_get()->mpi_pid == (unsigned)getpid();
}

/* A program linked with MPI is being loaded. */
static bool loading;

/* The module, once it serves. */
static const struct mpi_module *_Atomic module;

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
	else if (found->inside(loading && is_rank()))
		why = "no thread";
	if (why)
		log_refused("the node is not served: no MPI: %s", why);
	else
		module = found;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Returns whether the program has loaded the MPI that the module is linked with. */
static bool has_mpi(void)
{
	void *library = dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD);

	if (library)
		dlclose(library);
	return library != NULL;
}

/* Waits until MPI is loaded; nothing announces that. A program that has not loaded MPI within a
 * second is checked 50 times a second from then on. */
static void *watch_run(void *argument)
{
	enum { LONGEST_NS = 20000000 };
	uint64_t pause = 5000000; /* ns */

	(void)argument;
	thread_name("lmdbio-mpi");
	while (!has_mpi()) {
		clock_sleep(pause);
		if (pause < LONGEST_NS)
			pause += pause / 64;
	}
	pthread_once(&once, start_once);
	return NULL;
}

/* Loads the module in all ranks as soon as they have MPI: ranks that open an environment wait for
 * the ranks that open none. A program linked with MPI has it at once; an interpreter loads it
 * later. A process that never loads MPI, as a shell in front of the program, never starts the
 * module. */
static void __attribute__((constructor)) inside_come(void)
{
	pthread_t watch;

	if (!settings_get()->mpi)
		return;
	loading = dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
	if (loading) {
		pthread_once(&once, start_once);
		loading = false;
	} else if (!thread_start(&watch, watch_run, NULL)) {
		pthread_detach(watch);
	}
}

void inside_call(void)
{
	const struct mpi_module *serving;

	if (!settings_get()->mpi)
		return;
	pthread_once(&once, start_once);
	serving = module;
	if (serving)
		(void)serving->inside(false);
}
