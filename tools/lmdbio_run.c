/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts a program so that it reads through lmdbio. */
#include "config.h"
#include "drop_in.h"
#include "launcher.h"
#include "preload_check.h"
#include "program_start.h"
#include "run_count.h"
#include "run_job.h"
#include "tool_common.h"
#include "tool_place.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The settings that a flag can give: those of lmdbio(7), and the program's own variables. */
enum {
	SET_IO,
	SET_STORE,
	SET_MEMORY,
	SET_NODE,
	SET_STAGED,
	SET_LMDB1,
	SET_SHARE,
	SET_PATIENCE,
	SET_PREFETCH,
	SET_AROUND,
	SET_CHECKSUM,
	SET_STATS,
	SETTINGS
};
enum { OPTION_MPI = TOOL_LONG_ONLY, OPTION_SETTING };

static const struct {
	const char *option, *variable;
} variables[SETTINGS] = {
	[SET_IO] = {"--io", "LMDBIO_IO"},
	[SET_STORE] = {"--store", "LMDBIO_STORE"},
	[SET_MEMORY] = {"--memory", "LMDBIO_MEMORY"},
	[SET_NODE] = {"--node", "LMDBIO_NODE"},
	[SET_STAGED] = {"--staged", "LMDBIO_STAGED"},
	[SET_LMDB1] = {"--lmdb1", "LMDBIO_LMDB1"},
	[SET_SHARE] = {"--share", "LMDBIO_SHARE"},
	[SET_PATIENCE] = {"--patience", "LMDBIO_PATIENCE"},
	[SET_PREFETCH] = {"--prefetch", "LMDBIO_PREFETCH"},
	[SET_AROUND] = {"--around", "LMDBIO_AROUND"},
	[SET_CHECKSUM] = {"--checksum", "LMDBIO_CHECKSUM"},
	[SET_STATS] = {"--stats", "LMDBIO_STATS"},
};

struct run_options {
	bool verbose, disable, print_env, check, check_by_running, mpi, mpi_inside;
	const char *library;
	const char *settings[SETTINGS]; /* NULL: keep the environment's value */
	char **program;                 /* its arguments, the name first; NULL-terminated */
};

static const struct tool_option run_options[] = {
	{'c', "check", "[run]",
	 "say whether lmdbio will take effect, and if not, why; with =run, run the program to find "
	 "out"},
	{'d', "disable", NULL, "preload the library, but leave all work to the original LMDB"},
	{'l', "library", "LIBRARY", "preload this drop-in library instead of the installed ones"},
	{OPTION_MPI, "mpi", "[inside]",
	 "under mpiexec or srun: read each data set from storage once for all nodes of the job; "
	 "with =inside, PROGRAM uses MPI itself"},
	{'p', "print-env", NULL,
	 "print the variables to put before a program in a batch script, and run nothing"},
	{'v', "verbose", NULL,
	 "say on standard error that lmdbio is there, and what it leaves to the original LMDB"},
	{OPTION_SETTING + SET_IO, "io", "auto|pread|direct", "how storage is read"},
	{OPTION_SETTING + SET_STORE, "store", "auto|cache|arena",
	 "where data is kept: in the page cache or in the node's shared memory"},
	{OPTION_SETTING + SET_MEMORY, "memory", "SIZE", "the budget of the node's shared memory"},
	{OPTION_SETTING + SET_NODE, "node", "NAME", "a name for the node"},
	{OPTION_SETTING + SET_STAGED, "staged", "DIR",
	 "read what lmdbio-stage has put into DIR; with --mpi also parts, %n in it being the "
	 "node's number"},
	{OPTION_SETTING + SET_LMDB1, "lmdb1", "none|FILE",
	 "the LMDB 1.0 that writes for programs which were built for it"},
	{OPTION_SETTING + SET_SHARE, "share", "0|1",
	 "whether memory is shared with other processes"},
	{OPTION_SETTING + SET_PATIENCE, "patience", "N",
	 "wait N times as long for other processes and nodes, 1 to 1000"},
	{OPTION_SETTING + SET_PREFETCH, "prefetch", "0|1", "whether data is read ahead of need"},
	{OPTION_SETTING + SET_AROUND, "around", "auto|0|1",
	 "whether a read at random also brings the pages around the value"},
	{OPTION_SETTING + SET_CHECKSUM, "checksum", "NAME",
	 "verify checksums of pages of LMDB 1.0: crc32c, fnv1a, sha256, xxh3 or xxh64"},
	{OPTION_SETTING + SET_STATS, "stats", "1|json|FILE",
	 "write the counters at the end: to standard error, as JSON, or into a file"},
	{0},
};

static const struct tool run_tool = {
	.name = "lmdbio-run",
	.synopsis = "[OPTION]... PROGRAM [ARGUMENT]...\n[OPTION]... --print-env",
	.purpose = "Start PROGRAM so that it reads its LMDB data sets through lmdbio.",
	.options = run_options,
	.closing = "--io to --stats are the variables of the same names in lmdbio(7).\n"
		   "Exit status: 2 lmdbio-run cannot do its work, or wrong usage; 126 PROGRAM "
		   "cannot be executed; 127 PROGRAM is not found; else that of PROGRAM. With "
		   "--check it is 0 (lmdbio takes effect), 1 (it does not) or 2 (not known).",
	.in_order = true,
};

/* Judges an option that takes nothing or one word. */
static bool word_judge(const char *option, const char *word)
{
	if (!optarg || !strcmp(optarg, word))
		return true;
	tool_usage_error(&run_tool, "%s takes nothing or =%s, not '%s'", option, word, optarg);
	return false;
}

static bool option_take(struct run_options *options, int key)
{
	switch (key) {
	case 'c':
		options->check = true;
		options->check_by_running = optarg != NULL;
		return word_judge("--check", "run");
	case 'd':
		options->disable = true;
		return true;
	case 'l':
		options->library = optarg;
		return true;
	case OPTION_MPI:
		options->mpi = !optarg;
		options->mpi_inside = optarg != NULL;
		return word_judge("--mpi", "inside");
	case 'p':
		options->print_env = true;
		return true;
	case 'v':
		options->verbose = true;
		return true;
	case '?':
		tool_usage_hint(&run_tool);
		return false;
	default:
		options->settings[key - OPTION_SETTING] = optarg;
		return true;
	}
}

static bool settings_judge(const struct run_options *options)
{
	for (int i = 0; i < SETTINGS; i++) {
		/* A node's directory need not exist where a batch script is written. */
		if (!options->settings[i] || (options->print_env && i == SET_STAGED))
			continue;
		if (!tool_setting_take(&run_tool, variables[i].option, variables[i].variable,
				       options->settings[i]))
			return false;
	}
	return true;
}

static int parse(struct run_options *options, int argc, char **argv)
{
	const char *later;
	int key;

	while ((key = tool_option_next(&run_tool, argc, argv)) != -1)
		if (!option_take(options, key))
			return TOOL_FAILED;
	options->program = argv + optind;
	if (!*options->program && !options->print_env)
		return tool_usage_error(&run_tool, "no PROGRAM is given");
	if (options->check && options->print_env)
		return tool_usage_error(&run_tool, "--check and --print-env exclude each other");
	if (options->mpi && options->print_env)
		return tool_usage_error(&run_tool, "--mpi starts a server beside the program, which "
						   "--print-env cannot: srun lmdbio-run --mpi, or "
						   "--mpi=inside");
	if (*options->program && options->print_env)
		return tool_usage_error(&run_tool, "--print-env runs nothing: leave '%s' out",
					*options->program);
	if (!settings_judge(options))
		return TOOL_FAILED;
	later = options->settings[SET_LMDB1];
	return later && strcasecmp(later, "none") ? lmdb_1_judge(&run_tool, "--lmdb1", later) : 0;
}

/* Resolves the library into `path`, or says why it cannot be preloaded. */
static int library_resolve(const char *wanted, char *path)
{
	if (!wanted)
		tool_place_library("liblmdb.so.0", "compat", path);
	else
		snprintf(path, PATH_MAX, "%s", wanted);
	return drop_in_judge(&run_tool, "--library", path);
}

/* Finds the library for programs built for LMDB 1.0, beside the other one. `path` holds PATH_MAX
 * bytes and becomes "" if there is none, or if the user named a library. */
static void later_resolve(const char *wanted, const char *library, char *path)
{
	*path = 0;
	if (!wanted && (size_t)snprintf(path, PATH_MAX, "%.*s/liblmdb.so.1",
					(int)(strrchr(library, '/') - library), library) < PATH_MAX &&
	    !access(path, R_OK))
		return;
	*path = 0;
}

/* Returns the rest of LD_PRELOAD if it begins with a library. */
static const char *preload_behind(const char *value, const char *library)
{
	size_t length = strlen(library);

	if (length && !strncmp(value, library, length) && strchr(" :", value[length]))
		value += length + strspn(value + length, " :");
	return value;
}

/* Returns the new value of LD_PRELOAD: the libraries, then the old entries. Colons replace the
 * spaces between these: the loader takes both alike, and the value is then one word in a shell. */
static char *preload_compose(const char *library, const char *later)
{
	const char *before = getenv("LD_PRELOAD");
	char *value;

	before = before ? before + strspn(before, " :") : "";
	before = preload_behind(preload_behind(before, library), later);
	if (asprintf(&value, "%s%s%s%s%s", library, *later ? ":" : "", later, *before ? ":" : "",
		     before) < 0)
		return NULL;
	for (char *at = value; *at; at++)
		if (*at == ' ')
			*at = ':';
	return value;
}

/* Sets the thread level of MPI_Init in MPICH: that call names no level. */
static const char *const threads[] = {"MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_MULTIPLE"};

/* Returns whether a value needs no quotes in a shell, anywhere in a line. */
static bool is_plain(const char *option, const char *value)
{
	/* To a shell, bytes of other alphabets are ordinary. */
	while (*value && (isalnum((unsigned char)*value) || strchr("_@%+=:,./-", *value) ||
			  (unsigned char)*value > 127))
		value++;
	if (!*value)
		return true;
	if (strchr(" \t\n", *value))
		tool_complain(&run_tool,
			      "%s: a line of a batch script cannot hold a value with blanks: give "
			      "one without",
			      option);
	else
		tool_complain(&run_tool,
			      "%s: a line of a batch script cannot hold a value with '%c': give "
			      "one without",
			      option, *value);
	return false;
}

/* Returns a setting's value for the program, which may begin in another directory. */
static const char *setting_of(const struct run_options *options, int i)
{
	const char *value = options->settings[i];
	bool is_path = i == SET_STAGED ? *value && !options->mpi /* later code expands it */
				       : i == SET_LMDB1 && strcasecmp(value, "none");

	return is_path ? program_path(value) : value;
}

/* Returns whether the command line's settings can stand unquoted in the printed line. */
static bool settings_are_plain(const struct run_options *options)
{
	for (int i = 0; i < SETTINGS; i++) {
		char option[2 * PATH_MAX];
		const char *value;

		if (!options->settings[i])
			continue;
		value = setting_of(options, i);
		snprintf(option, sizeof(option), "%s=%s", variables[i].option, value);
		if (!is_plain(option, value))
			return false;
	}
	return true;
}

static int environment_print(const struct run_options *options, const char *library,
			     const char *preload)
{
	if (!settings_are_plain(options) || !is_plain(library, library))
		return TOOL_FAILED;
	printf("LD_PRELOAD=%s%s%s%s", preload, options->verbose ? " LMDBIO_VERBOSE=1" : "",
	       options->disable ? " LMDBIO_DISABLE=1" : "",
	       options->mpi_inside ? " LMDBIO_MPI=1" : "");
	if (options->mpi_inside)
		printf(" %s=%s", threads[0], threads[1]);
	for (int i = 0; i < SETTINGS; i++)
		if (options->settings[i])
			printf(" %s=%s", variables[i].variable, setting_of(options, i));
	putchar('\n');
	return tool_output_end(&run_tool, TOOL_OK);
}

static int environment_set(const struct run_options *options, const char *preload)
{
	for (int i = 0; i < SETTINGS; i++)
		if (options->settings[i] &&
		    setenv(variables[i].variable, setting_of(options, i), 1))
			return -1;
	return setenv("LD_PRELOAD", preload, 1) ||
	       (options->verbose && setenv("LMDBIO_VERBOSE", "1", 1)) ||
	       (options->disable && setenv("LMDBIO_DISABLE", "1", 1)) ||
	       (options->mpi_inside &&
		(setenv("LMDBIO_MPI", "1", 1) || setenv(threads[0], threads[1], 0)));
}

/* Ends the job of a rank that ends before MPI begins: the other ranks would wait for it. */
static int rank_fail(const struct run_options *options, int status)
{
	if (options->mpi || options->mpi_inside)
		launcher_greet();
	return status;
}

/* Becomes the program. Returns an exit status if that fails. */
static int become(void *context)
{
	const struct run_options *options = context;
	char self[16];
	int status;

	snprintf(self, sizeof(self), "%d", (int)getpid());
	if (options->mpi_inside && setenv("LMDBIO_MPI_PID", self, 1)) {
		fprintf(stderr, "lmdbio-run: %s\n", strerror(errno));
		return rank_fail(options, TOOL_FAILED);
	}
	status = program_become(run_tool.name, options->program);
	return options->mpi_inside ? rank_fail(options, status) : status;
}

static int program_start(struct run_options *options, const char *library, const char *preload)
{
	const char *name = options->program[0];
	char program[PATH_MAX] = "";
	struct run_count count;
	struct run_job job = {.tool = "lmdbio-run", .start = become, .context = options};
	int rc = options->check ? program_find(name, program) : 0;

	if (rc) {
		printf("%s: does not take effect: %s: %s\n", name, strerror(rc),
		       program_remedy(name, program, rc));
		return tool_output_end(&run_tool, PRELOAD_FAILS);
	}
	if (options->check && !options->check_by_running)
		return tool_output_end(&run_tool, (int)preload_check(program, library, preload));
	/* The program finds the module beside the library, which the user may have named. */
	if (options->mpi_inside && !options->check && !options->library &&
	    !tool_place_module("lmdbio-run"))
		return rank_fail(options, TOOL_FAILED);
	if (environment_set(options, preload)) {
		fprintf(stderr, "lmdbio-run: %s\n", strerror(errno));
		return rank_fail(options, TOOL_FAILED);
	}
	if (options->check)
		return tool_output_end(
			&run_tool, (int)preload_check_run(program, options->program, library));
	if (run_count_begin(&count, name))
		job.count = &count;
	if (options->mpi)
		return run_job(&job);
	return job.count ? run_counted(&count, become, options) : become(options);
}

int main(int argc, char **argv)
{
	struct run_options options = {0};
	char library[PATH_MAX], later[PATH_MAX];
	char *preload;
	int rc;

	rc = parse(&options, argc, argv);
	if (rc)
		return rank_fail(&options, rc);
	if (library_resolve(options.library, library))
		return rank_fail(&options, TOOL_FAILED);
	later_resolve(options.library, library, later);
	preload = preload_compose(library, later);
	if (!preload) {
		fprintf(stderr, "lmdbio-run: %s\n", strerror(ENOMEM));
		return rank_fail(&options, TOOL_FAILED);
	}
	rc = options.print_env ? environment_print(&options, library, preload)
			       : program_start(&options, library, preload);
	free(preload);
	return rc;
}
