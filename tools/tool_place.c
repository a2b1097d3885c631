/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the libraries of a command's installation, and checks whether its processes are one job. */
#include "config.h"
#include "tool_place.h"

#include "launcher.h"
#include "tool_common.h"

#include "mpi/mpi_module.h"
#include "util/phrases.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Returns whether the file is in root/below. `path` becomes its name, the directory without ".."
 * and links. The last part stays as it is, to appear so in a batch script. */
static bool file_is_below(const char *root, const char *below, const char *name, char *path)
{
	char directory[PATH_MAX], resolved[PATH_MAX];

	return snprintf(directory, sizeof(directory), "%s/%s", root, below) < PATH_MAX &&
	       realpath(directory, resolved) &&
	       snprintf(path, PATH_MAX, "%s/%s", resolved, name) < PATH_MAX && !access(path, R_OK);
}

const char *tool_place_self(void)
{
	static const char self[] = "/proc/self/exe";

	return access(self, F_OK) ? (const char *)getauxval(AT_EXECFN) : self;
}

/* Finds the directory of the running command, and the prefix of its installation, else "". */
static void place_here(char here[PATH_MAX], char prefix[PATH_MAX])
{
	static const char bin[] = BINDIR_BELOW_PREFIX; /* "/bin" */
	size_t length;

	if (!realpath(tool_place_self(), here))
		*here = 0;
	if (strrchr(here, '/'))
		*strrchr(here, '/') = 0;
	length = strlen(here);
	*prefix = 0;
	if (length >= sizeof(bin) - 1 && !strcmp(here + length - (sizeof(bin) - 1), bin))
		snprintf(prefix, PATH_MAX, "%.*s", (int)(length - (sizeof(bin) - 1)), here);
}

/* Finds a file of the build tree: a tool lies in tools/ or, as libtool has it, in tools/.libs/. */
static bool place_built(const char *here, const char *built, const char *folder, const char *name,
			char *path)
{
	char below[NAME_MAX];

	for (int up = 1; up <= 2; up++) {
		snprintf(below, sizeof(below), "%s%s%s", up == 1 ? "../" : "../../", built, folder);
		if (file_is_below(here, below, name, path))
			return true;
	}
	return false;
}

void tool_place_library(const char *name, const char *built, char *path)
{
	char here[PATH_MAX], prefix[PATH_MAX];

	place_here(here, prefix);
	if (*prefix && file_is_below(prefix, LIBDIR_BELOW_PREFIX "/lmdbio", name, path))
		return;
	if (!place_built(here, built, "/.libs", name, path))
		snprintf(path, PATH_MAX, "%s/lmdbio/%s", LIBDIR, name);
}

void tool_place_program(const char *name, const char *built, char *path)
{
	char here[PATH_MAX], prefix[PATH_MAX];

	place_here(here, prefix);
	if (*prefix && file_is_below(prefix, LIBEXECDIR_BELOW_PREFIX "/lmdbio", name, path))
		return;
	if (!place_built(here, built, "", name, path))
		snprintf(path, PATH_MAX, "%s/lmdbio/%s", LIBEXECDIR, name);
}

const struct mpi_module *tool_place_module(const char *command)
{
	const struct mpi_module *module;
	char path[PATH_MAX];
	void *library;

	tool_place_library("liblmdbio-mpi.so.0", "compat", path);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s: no MPI: %s\n", command, dlerror());
		return NULL;
	}
	module = dlsym(library, MPI_MODULE_SYMBOL);
	if (!module || module->version != MPI_MODULE_VERSION ||
	    strcmp(module->release, PACKAGE_VERSION)) {
		fprintf(stderr, "%s: %s is of another release of lmdbio\n", command, path);
		return NULL;
	}
	return module;
}

const struct mpi_module *tool_place_begin(const char *command, struct mpi_place *place)
{
	const struct mpi_module *module = tool_place_module(command);
	int rc = module ? module->begin(false, place) : 0;
	const char *remedy = rc == EMFILE || rc == EFBIG || rc == ENOMEM ? remedy_find(rc) : NULL;

	if (module && !rc)
		return module;
	if (rc)
		fprintf(stderr, "%s: MPI does not start: %s%s%s\n", command, strerror(rc),
			remedy ? ": " : "", remedy ? remedy : "");
	launcher_greet();
	return NULL;
}

void tool_place_break(const struct mpi_module *module, const char *command)
{
	fprintf(stderr, "%s: MPI fails, and other ranks wait for this one: the job ends\n",
		command);
	module->abort(TOOL_FAILED);
}

int tool_place_end(const struct mpi_module *module, const char *command)
{
	int rc = module->end();

	if (rc == ECONNABORTED)
		tool_place_break(module, command);
	return rc;
}

const char *tool_place_expand(const char *directory, const struct mpi_place *place)
{
	const char *at = directory ? strstr(directory, "%n") : NULL;
	char *text;

	if (!at)
		return directory;
	if (asprintf(&text, "%.*s%d%s", (int)(at - directory), directory, place->node, at + 2) < 0)
		return NULL;
	return text;
}

const char *tool_place_staged(const struct mpi_place *place)
{
	const char *staged = tool_place_expand(getenv("LMDBIO_STAGED"), place);

	return staged && !setenv("LMDBIO_STAGED", staged, 1) ? staged : "";
}

static int number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? atoi(text) : 0;
}

/* MPICH's own launcher sets PMI_SIZE, and so does srun with a PMI that MPICH speaks. It stays in
 * the environment of a program that lmdbio-run has cut off from the launcher. Open MPI's mpirun may
 * itself run under srun. */
void tool_place_tasks(const char *command, const struct mpi_place *place)
{
	bool open_mpi = number_of("OMPI_COMM_WORLD_SIZE") > 0;
	int tasks = number_of(open_mpi ? "OMPI_COMM_WORLD_SIZE" : "SLURM_STEP_NUM_TASKS");
	const char *kind = getenv("SLURM_MPI_TYPE");

	if (place->ranks > 1 || tasks < 2 || getenv("PMI_SIZE") ||
	    number_of(open_mpi ? "OMPI_COMM_WORLD_RANK" : "SLURM_PROCID"))
		return;
	if (open_mpi)
		fprintf(stderr,
			"%s: Open MPI has started %d processes, which MPICH cannot make one job: "
			"each works for itself; start them with MPICH's mpiexec\n",
			command, tasks);
	else
		fprintf(stderr,
			"%s: Slurm has started %d tasks (--mpi=%s), which MPICH cannot make one "
			"job: each works for itself; start them with srun --mpi=pmi2\n",
			command, tasks, kind ? kind : "none");
}
