/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how a program is started so that it reads through lmdbio. */
#include "config.h"
#include "preload_check.h"
#include "run_job.h"
#include "tool_place.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_OURS = 2, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* What lmdbio(7) lists and the program's own variables may be set to by a flag. */
enum {
	SET_IO,
	SET_STORE,
	SET_MEMORY,
	SET_NODE,
	SET_STAGED,
	SET_SHARE,
	SET_PREFETCH,
	SET_AROUND,
	SET_STATS,
	SETTINGS
};
enum { KEY_SETTING = 0x100, KEY_MPI = 0x200 }; /* no characters */

static const char *const variables[SETTINGS] = {
	[SET_IO] = "LMDBIO_IO",
	[SET_STORE] = "LMDBIO_STORE",
	[SET_MEMORY] = "LMDBIO_MEMORY",
	[SET_NODE] = "LMDBIO_NODE",
	[SET_STAGED] = "LMDBIO_STAGED",
	[SET_SHARE] = "LMDBIO_SHARE",
	[SET_PREFETCH] = "LMDBIO_PREFETCH",
	[SET_AROUND] = "LMDBIO_AROUND",
	[SET_STATS] = "LMDBIO_STATS",
};

struct options {
	bool verbose, disable, print_env, check, check_by_running, mpi, mpi_inside;
	const char *library;
	const char *settings[SETTINGS]; /* NULL: left as the environment has it */
	char **program;                 /* its arguments, the name first; NULL-terminated */
};

/* libc looks for this by name, so it must not be hidden as our symbols are by default. */
__attribute__((visibility("default"))) const char *argp_program_version =
	"lmdbio-run (lmdbio) " PACKAGE_VERSION;

static const struct argp_option argp_options[] = {
	{"check", 'c', "run", OPTION_ARG_OPTIONAL,
	 "say whether lmdbio will take effect, and if not, why; with =run, run the program to find "
	 "out",
	 0},
	{"disable", 'd', NULL, 0, "preload, but leave all work to the original LMDB", 0},
	{"library", 'l', "PATH", 0, "the drop-in library to preload instead of the installed one",
	 0},
	{"mpi", KEY_MPI, "inside", OPTION_ARG_OPTIONAL,
	 "under mpiexec or srun: read each data set from storage once for all nodes of the job; "
	 "with "
	 "=inside, PROGRAM uses MPI itself",
	 0},
	{"print-env", 'p', NULL, 0, "print the environment's words for a batch script, run nothing",
	 0},
	{"verbose", 'v', NULL, 0, "one line on standard error when the first environment is opened",
	 0},
	{NULL, 0, NULL, 0, "Settings, as the variables of the same names in lmdbio(7):", 1},
	{"io", KEY_SETTING + SET_IO, "HOW", 0, "how storage is read: auto, pread or direct", 1},
	{"store", KEY_SETTING + SET_STORE, "WHERE", 0, "where to: auto, cache or arena", 1},
	{"memory", KEY_SETTING + SET_MEMORY, "SIZE", 0, "the arena's budget", 1},
	{"node", KEY_SETTING + SET_NODE, "NAME", 0, "a name for the node", 1},
	{"staged", KEY_SETTING + SET_STAGED, "DIR", 0,
	 "read what lmdbio-stage has put into DIR; with --mpi also parts, %n in it being the "
	 "node's number",
	 1},
	{"share", KEY_SETTING + SET_SHARE, "0|1", 0, "share memory with other processes", 1},
	{"prefetch", KEY_SETTING + SET_PREFETCH, "0|1", 0, "look ahead", 1},
	{"around", KEY_SETTING + SET_AROUND, "auto|0|1", 0,
	 "bring what is around values that are read at random", 1},
	{"stats", KEY_SETTING + SET_STATS, "WHERE", 0, "counters at the end: 1, json or a file", 1},
	{0},
};

static error_t option_parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	if (key >= KEY_SETTING && key < KEY_SETTING + SETTINGS) {
		options->settings[key - KEY_SETTING] = argument;
		return 0;
	}
	switch (key) {
	case 'c':
		options->check = true;
		if (argument && strcmp(argument, "run"))
			argp_error(state, "--check takes nothing or =run, not '%s'", argument);
		options->check_by_running = argument != NULL;
		return 0;
	case 'd':
		options->disable = true;
		return 0;
	case 'l':
		options->library = argument;
		return 0;
	case KEY_MPI:
		if (argument && strcmp(argument, "inside"))
			argp_error(state, "--mpi takes nothing or =inside, not '%s'", argument);
		options->mpi = !argument;
		options->mpi_inside = argument != NULL;
		return 0;
	case 'p':
		options->print_env = true;
		return 0;
	case 'v':
		options->verbose = true;
		return 0;
	case ARGP_KEY_ARGS:
		options->program = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!options->print_env)
			argp_error(state, "which program?");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = argp_options,
	.parser = option_parse,
	.args_doc = "PROGRAM [ARGUMENT...]\n--print-env",
	.doc = "Start PROGRAM so that it reads its LMDB data sets through lmdbio.\v"
	       "Exit status: the program's; 126 and 127 when it cannot be started or is not found; "
	       "2 when "
	       "lmdbio-run itself cannot do its work. With --check: 0 takes effect, 1 does not, 2 "
	       "not known.",
};

/* Resolves the library into `path`, or says why it cannot be preloaded. */
static int library_resolve(const char *wanted, char *path)
{
	char resolved[PATH_MAX];

	if (!wanted)
		tool_place_library("liblmdb.so.0", "compat", path);
	else
		snprintf(path, PATH_MAX, "%s", wanted);
	if (!realpath(path, resolved) || access(resolved, R_OK)) {
		fprintf(stderr, "lmdbio-run: %s: %s\n", path, strerror(errno));
		return -1;
	}
	/* The name that was asked for is kept: the loader compares a library's file name. */
	if (*path != '/')
		snprintf(path, PATH_MAX, "%s", resolved);
	if (strpbrk(path, " :$\n\t")) {
		fprintf(stderr,
			"lmdbio-run: %s: LD_PRELOAD cannot hold a path with a space, colon or "
			"dollar sign\n",
			path);
		return -1;
	}
	return 0;
}

/* The new value of LD_PRELOAD: the library, then what was there. Spaces between the old entries
 * become colons, which the loader takes alike, so that the value is one word in a shell. */
static char *preload_compose(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	size_t length = strlen(library);
	char *value;

	before = before ? before + strspn(before, " :") : "";
	if (!strncmp(before, library, length) && strchr(" :", before[length]))
		before += length + strspn(before + length, " :");
	if (asprintf(&value, "%s%s%s", library, *before ? ":" : "", before) < 0)
		return NULL;
	for (char *at = value; *at; at++)
		if (*at == ' ')
			*at = ':';
	return value;
}

/* What MPI_Init, which asks for no threads, gives in MPICH. */
static const char *const threads[] = {"MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_MULTIPLE"};

static int environment_print(const struct options *options, const char *preload)
{
	for (int i = 0; i < SETTINGS; i++)
		if (options->settings[i] && strpbrk(options->settings[i], " \t\n")) {
			fprintf(stderr, "lmdbio-run: %s: not one word for a batch script\n",
				options->settings[i]);
			return EXIT_OURS;
		}
	printf("LD_PRELOAD=%s%s%s%s", preload, options->verbose ? " LMDBIO_VERBOSE=1" : "",
	       options->disable ? " LMDBIO_DISABLE=1" : "",
	       options->mpi_inside ? " LMDBIO_MPI=1" : "");
	if (options->mpi_inside)
		printf(" %s=%s", threads[0], threads[1]);
	for (int i = 0; i < SETTINGS; i++)
		if (options->settings[i])
			printf(" %s=%s", variables[i], options->settings[i]);
	putchar('\n');
	return fflush(stdout) ? EXIT_OURS : 0;
}

static int environment_set(const struct options *options, const char *preload)
{
	char self[16];

	snprintf(self, sizeof(self), "%d", (int)getpid());
	for (int i = 0; i < SETTINGS; i++)
		if (options->settings[i] && setenv(variables[i], options->settings[i], 1))
			return -1;
	return setenv("LD_PRELOAD", preload, 1) ||
	       (options->verbose && setenv("LMDBIO_VERBOSE", "1", 1)) ||
	       (options->disable && setenv("LMDBIO_DISABLE", "1", 1)) ||
	       (options->mpi_inside &&
		(setenv("LMDBIO_MPI", "1", 1) || setenv("LMDBIO_MPI_PID", self, 1) ||
		 setenv(threads[0], threads[1], 0)));
}

/* A program that has been looked for, and what looking has brought. */
struct start {
	const struct options *options;
	const char *path;
	int error;
};

/* Becomes the program. Returns an exit status where that fails. */
static int program_become(void *context)
{
	struct start *start = context;
	char **program = start->options->program;
	int rc = start->error;

	if (!rc) {
		execv(start->path, program);
		rc = errno;
		if (rc == ENOEXEC) { /* a script without #!, which is for the shell */
			execvp(start->path, program);
			rc = errno;
		}
	}
	fprintf(stderr, "lmdbio-run: %s: %s\n", program[0], strerror(rc));
	return rc == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static int program_start(const struct options *options, const char *library, const char *preload)
{
	const char *name = options->program[0];
	char program[PATH_MAX];
	struct start start = {.options = options, .path = program};
	const struct run_job job = {
		.tool = "lmdbio-run", .start = program_become, .context = &start};

	start.error = preload_find(name, program);
	if (options->check && start.error) {
		printf("%s: does not take effect: %s\n", name, strerror(start.error));
		return PRELOAD_FAILS;
	}
	if (options->check && !options->check_by_running)
		return (int)preload_check(program, library, preload);
	/* The program finds it beside the library, which a person may have named. */
	if (options->mpi_inside && !options->check && !options->library &&
	    !tool_place_module("lmdbio-run"))
		return EXIT_OURS;
	if (environment_set(options, preload)) {
		fprintf(stderr, "lmdbio-run: %s\n", strerror(errno));
		return EXIT_OURS;
	}
	if (options->check)
		return (int)preload_check_run(program, options->program, library);
	return options->mpi ? run_job(&job) : program_become(&start);
}

int main(int argc, char **argv)
{
	struct options options = {0};
	char library[PATH_MAX];
	char *preload;
	int rc;

	argp_err_exit_status = EXIT_OURS;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options))
		return EXIT_OURS;
	if (library_resolve(options.library, library))
		return EXIT_OURS;
	preload = preload_compose(library);
	if (!preload) {
		fprintf(stderr, "lmdbio-run: %s\n", strerror(ENOMEM));
		return EXIT_OURS;
	}
	rc = options.print_env ? environment_print(&options, preload)
			       : program_start(&options, library, preload);
	free(preload);
	return rc;
}
