/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements lmdbio-stage's command line, and its reports of a staging. */
#include "config.h"
#include "run_job.h"
#include "launcher.h"
#include "program_start.h"
#include "stage_program.h"
#include "tool_common.h"
#include "tool_env.h"
#include "tool_json.h"
#include "tool_place.h"

#include "mpi/mpi_module.h"
#include "util/clock.h"
#include "util/phrases.h"
#include "util/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <lmdbio_stage.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	OPTION_BUFFER = TOOL_LONG_ONLY,
	OPTION_HINTS,
	OPTION_JSON,
	OPTION_MEASURE,
	OPTION_MEMORY,
	OPTION_READER,
	OPTION_SHARED,
	OPTION_STAGGER,
	OPTION_TIER,
};

enum { TERMINAL_NS = 250000000 };

static const struct tool stage_tool = {
	.name = "lmdbio-stage",
	.synopsis = "[OPTION]... --to=DIR PATH [-- PROGRAM [ARGUMENT]...]\n"
		    "[OPTION]... --hold PATH [-- PROGRAM [ARGUMENT]...]\n"
		    "[OPTION]... --tier=ssd --to=DIR PATH\n"
		    "[OPTION]... --tier=memory PATH [-- PROGRAM [ARGUMENT]...]",
	.purpose = "Under mpiexec or srun, brings the data set PATH to where each node has it at "
		   "hand: into "
		   "a local directory, or into the node's memory. The job reads each byte from "
		   "storage "
		   "once. Without a launcher it is a job of one.",
	.options =
		(const struct tool_option[]){
			{'t', "to", "DIR",
			 "stage to a local directory of each node, %n in it being the node's "
			 "number; "
			 "PROGRAM finds it by LMDBIO_STAGED"},
			{OPTION_SHARED, "shared", NULL,
			 "all nodes see the directory: one copy, written by all of them"},
			{'H', "hold", NULL,
			 "stage to the node's memory, for as long as PROGRAM runs, or until a "
			 "signal"},
			{OPTION_TIER, "tier", "ssd|memory",
			 "one copy on all nodes together, a part of it on each: ssd: in DIR, for "
			 "the servers of a job; memory: in the memory of such servers, for as "
			 "long as PROGRAM runs, or until a signal"},
			{OPTION_MEASURE, "measure", NULL, "read, and drop what was read"},
			{OPTION_READER, "reader", "posix|mpiio|collective",
			 "how storage is read (posix)"},
			{OPTION_HINTS, "hints", "KEY=VALUE,...",
			 "hints for MPI-IO, with mpiio and collective"},
			{OPTION_BUFFER, "buffer", "SIZE",
			 "bytes that a rank reads at a time, 64k to 1G; it takes three times that "
			 "much memory "
			 "(16M)"},
			{OPTION_MEMORY, "memory", "SIZE",
			 "budget of the node's memory for --hold and --tier=memory (as "
			 "LMDBIO_MEMORY)"},
			{OPTION_STAGGER, "stagger", "auto|N",
			 "only N ranks read at a time; auto finds out how many; 0 is all (0)"},
			{OPTION_JSON, "json", NULL, "print one JSON object instead of a line"},
			{'q', "quiet", NULL, "print nothing but errors"},
			{'v', "verbose", NULL, "each rank says on standard error what it has done"},
			{0},
		},
	.closing = "Exit status: 0 staged; 2 it could not be done, or wrong usage; 130 "
		   "interrupted; with PROGRAM its own.",
};

static struct {
	struct lmdbio_stage_options stage;
	const char *path;
	char **program; /* NULL: none */
	bool json, quiet, verbose, measure, shared, in_parts, by_servers;
} options;

static struct mpi_place place;
static uint64_t told_at;

/* --- options --------------------------------------------------------------------------------- */

static bool reader_parse(const char *text)
{
	static const char *const names[] = {
		[LMDBIO_STAGE_POSIX] = "posix",
		[LMDBIO_STAGE_MPIIO] = "mpiio",
		[LMDBIO_STAGE_COLLECTIVE] = "collective",
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i])) {
			options.stage.reader = (enum lmdbio_stage_reader)i;
			return true;
		}
	tool_usage_error(&stage_tool, "--reader wants posix, mpiio or collective, not '%s'", text);
	return false;
}

static bool stagger_parse(const char *text)
{
	uint64_t group;

	if (!strcmp(text, "auto")) {
		options.stage.group = LMDBIO_STAGE_MEASURED;
		return true;
	}
	if (!tool_number_parse(&stage_tool, "--stagger", text, 0, INT32_MAX, &group))
		return false;
	options.stage.group = (int)group;
	return true;
}

static bool tier_parse(const char *text)
{
	options.in_parts = !strcmp(text, "ssd");
	options.by_servers = !strcmp(text, "memory");
	if (options.in_parts || options.by_servers)
		return true;
	tool_usage_error(&stage_tool, "--tier wants ssd or memory, not '%s'", text);
	return false;
}

static bool option_take(int key)
{
	switch (key) {
	case 't':
		options.stage.directory = optarg;
		if (*optarg)
			return true;
		tool_usage_error(&stage_tool, "--to wants a directory, not ''");
		return false;
	case 'H':
		options.stage.target = LMDBIO_STAGE_MEMORY;
		return true;
	case OPTION_SHARED:
		options.shared = true;
		return true;
	case OPTION_MEASURE:
		options.measure = true;
		return true;
	case OPTION_READER:
		return reader_parse(optarg);
	case OPTION_HINTS:
		options.stage.hints = optarg;
		return true;
	case OPTION_BUFFER:
		return tool_size_parse(&stage_tool, "--buffer", optarg, &options.stage.buffer);
	case OPTION_MEMORY:
		return tool_size_parse(&stage_tool, "--memory", optarg, &options.stage.memory);
	case OPTION_TIER:
		return tier_parse(optarg);
	case OPTION_STAGGER:
		return stagger_parse(optarg);
	case OPTION_JSON:
		options.json = true;
		return true;
	case 'q':
		options.quiet = true;
		return true;
	case 'v':
		options.verbose = true;
		return true;
	default:
		tool_usage_hint(&stage_tool);
		return false;
	}
}

/* Judges whether the other options fit --tier. */
static int tier_judge(void)
{
	const struct lmdbio_stage_options *stage = &options.stage;

	if (stage->target == LMDBIO_STAGE_MEMORY || options.shared || options.measure)
		return tool_usage_error(&stage_tool,
					"--tier is instead of --hold, --shared and --measure");
	if (options.in_parts && !stage->directory)
		return tool_usage_error(&stage_tool, "--tier=ssd wants --to=DIR");
	if (options.in_parts && (stage->reader != LMDBIO_STAGE_POSIX || stage->hints))
		return tool_usage_error(&stage_tool, "--tier=ssd is read by posix alone");
	if (options.in_parts && options.program)
		return tool_usage_error(&stage_tool,
					"parts are read by the servers of a job: lmdbio-run --mpi "
					"--staged=%s -- %s",
					stage->directory, options.program[0]);
	if (options.by_servers &&
	    (stage->directory || stage->reader || stage->hints || stage->buffer || stage->group))
		return tool_usage_error(&stage_tool,
					"with --tier=memory the nodes' servers read: --to, "
					"--reader, --hints, --buffer and --stagger say nothing "
					"to them");
	if (options.by_servers && stage->memory && stage->memory < SETTINGS_MEMORY_LEAST)
		return tool_usage_error(&stage_tool,
					"--memory wants 1M or more with --tier=memory");
	options.stage.target = options.in_parts ? LMDBIO_STAGE_PARTS : LMDBIO_STAGE_MEMORY;
	return 0;
}

/* Judges the options together. */
static int options_judge(int argc, char **argv)
{
	bool hold = options.stage.target == LMDBIO_STAGE_MEMORY;

	if (optind >= argc)
		return tool_usage_error(&stage_tool, "no data set is given");
	options.path = argv[optind];
	if (optind + 1 < argc)
		options.program = argv + optind + 1;
	if (options.stage.buffer && (options.stage.buffer < LMDBIO_STAGE_BUFFER_MIN ||
				     options.stage.buffer > LMDBIO_STAGE_BUFFER_MAX))
		return tool_usage_error(&stage_tool, "--buffer wants 64k to 1G");
	if (options.in_parts || options.by_servers)
		return tier_judge();
	if (hold + (options.stage.directory != NULL) + options.measure != 1)
		return tool_usage_error(&stage_tool,
					"one of --to=DIR, --hold, --tier and --measure is wanted");
	if (options.shared && !options.stage.directory)
		return tool_usage_error(&stage_tool, "--shared is about --to=DIR");
	if (options.shared)
		options.stage.target = LMDBIO_STAGE_SHARED;
	if (options.measure)
		options.stage.target = LMDBIO_STAGE_NOWHERE;
	if (options.measure && options.program)
		return tool_usage_error(&stage_tool, "--measure leaves nothing for a program");
	if (options.stage.reader == LMDBIO_STAGE_COLLECTIVE && options.stage.group)
		return tool_usage_error(&stage_tool, "a collective reader cannot be staggered");
	return 0;
}

static int parse(int argc, char **argv)
{
	int key;

	while ((key = tool_option_next(&stage_tool, argc, argv)) != -1)
		if (!option_take(key))
			return TOOL_FAILED;
	return options_judge(argc, argv);
}

/* --- reports --------------------------------------------------------------------------------- */

static bool on_terminal(void)
{
	return !place.rank && !options.quiet && isatty(STDERR_FILENO);
}

static int on_progress(void *argument, uint64_t done, uint64_t all)
{
	char text[TOOL_SIZE_TEXT];

	(void)argument;
	if (on_terminal() && clock_now() - told_at > TERMINAL_NS) {
		told_at = clock_now();
		fprintf(stderr, "\r%3u %% %s\033[K", (unsigned)(done * 100 / (all ? all : 1)),
			tool_size_text(done, text));
	}
	return tool_signal ? EINTR : 0;
}

static void tell_json(const struct lmdbio_stage_report *report)
{
	json_t *json = json_pack(
		"{ss, so, sI, sI, sI, sI, sI, sI, sI, sI, sI, sI, sI}", "schema", "lmdbio-stage/1",
		"path", tool_json_text(options.path), "file_bytes", (json_int_t)report->file_bytes, "read_bytes",
		(json_int_t)report->read_bytes, "read_calls", (json_int_t)report->read_calls,
		"moved_bytes", (json_int_t)report->moved_bytes, "wall_ns",
		(json_int_t)report->wall_ns, "slowest_ns", (json_int_t)report->slowest_ns,
		"average_ns", (json_int_t)report->average_ns, "group", (json_int_t)report->group,
		"ranks", (json_int_t)report->ranks, "nodes", (json_int_t)report->nodes,
		"nodes_before", (json_int_t)report->nodes_before);

	if (!json) {
		tool_complain(&stage_tool, "%s", strerror(ENOMEM));
		return;
	}
	json_dumpf(json, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(json);
}

static void tell_line(const struct lmdbio_stage_report *report)
{
	static const char *const where[] = {
		[LMDBIO_STAGE_DIRECTORY] = "staged to a directory",
		[LMDBIO_STAGE_SHARED] = "staged to a shared directory",
		[LMDBIO_STAGE_MEMORY] = "staged to memory",
		[LMDBIO_STAGE_NOWHERE] = "read",
		[LMDBIO_STAGE_PARTS] = "spread over directories",
	};
	double seconds = (double)report->wall_ns / 1e9;
	char file[TOOL_SIZE_TEXT], rate[TOOL_SIZE_TEXT];

	if (report->nodes_before == report->nodes && report->nodes) {
		printf("%s: all %" PRIu64 " nodes have had it\n", options.path, report->nodes);
		return;
	}
	printf("%s: %s %s, %" PRIu64 " ranks on %" PRIu64 " nodes, %" PRIu64
	       " reads, %.2f s, %s/s\n",
	       options.path, tool_size_text(report->file_bytes, file),
	       options.by_servers ? "spread over memory" : where[options.stage.target],
	       report->ranks, report->nodes, report->read_calls, seconds,
	       tool_size_text((uint64_t)((double)report->file_bytes / (seconds > 0 ? seconds : 1)),
			      rate));
}

/* Returns whether a code concerns the target directory and not the data set. */
static bool is_of_target(int rc)
{
	switch (rc) {
	case ENOENT:
	case ENOTDIR:
	case EACCES:
	case EPERM:
	case EROFS:
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return options.stage.directory != NULL;
	default:
		return false;
	}
}

/* Names the file or directory behind a failure: the code alone does not. `unseen`: why a rank, not
 * this one perhaps, cannot open the data set, or 0. */
static void tell_failure(int rc, int unseen, const char *text,
			 const struct lmdbio_stage_report *report)
{
	bool file = rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH || rc == MDB_CORRUPTED;
	int source = tool_env_judge(options.path, 0);
	char *line =
		source || file ? tool_env_explain(options.path, 0, source ? source : rc) : NULL;

	if (line)
		tool_complain(&stage_tool, "%s (rank %" PRIu64 ")", line, report->failed_rank);
	else if (unseen)
		tool_complain(&stage_tool, "%s: %s (rank %" PRIu64 "): let each node see it there",
			      options.path, text, report->failed_rank);
	else if (is_of_target(rc))
		tool_complain(&stage_tool,
			      "%s: %s (rank %" PRIu64 "): %s, or name another with --to",
			      options.stage.directory, text, report->failed_rank,
			      rc == ENOSPC || rc == EDQUOT ? "make room in that directory"
			      : rc == ENOENT               ? "make the directory on each node"
			      : rc == EFBIG                ? remedy_find(rc)
							   : "let it be a directory that you "
							     "may write to");
	else
		tool_complain(&stage_tool, "%s: %s (rank %" PRIu64 ")%s", options.path, text,
			      report->failed_rank,
			      rc == ENOMEM && options.stage.target == LMDBIO_STAGE_MEMORY
				      ? ": it does not fit into its node's memory or --memory"
				      : "");
	free(line);
}

static void tell(int rc, int unseen, const char *text, const struct lmdbio_stage_report *report)
{
	if (on_terminal())
		fputs("\r\033[K", stderr);
	if (options.verbose)
		fprintf(stderr, "rank %d of %d: %s\n", place.rank, place.ranks,
			rc ? text : "staged");
	if (place.rank)
		return;
	if (rc)
		tell_failure(rc, unseen, text, report);
	else if (options.json)
		tell_json(report);
	else if (!options.quiet)
		tell_line(report);
	if (!rc && !options.quiet && options.stage.target == LMDBIO_STAGE_MEMORY)
		tool_store_tell(&stage_tool, options.path, "what is held in memory");
	fflush(stdout);
}

/* --- the work -------------------------------------------------------------------------------- */

/* Runs a program with the variables by which programs of this node find the staged data. */
static int program_run(struct stage_program *program, const struct mpi_module *module,
		       const struct lmdbio_stage_hold *hold)
{
	if (hold)
		return stage_program_run(program, "LMDBIO_NODE", module->stage_node(hold));
	return stage_program_run(program, "LMDBIO_STAGED", program_path(options.stage.directory));
}

static void wait_for_signal(void)
{
	/* Any thread of MPI's may receive the signal, so this thread polls. */
	while (!tool_signal)
		clock_sleep(CLOCK_SECOND / 5);
}

/* Agrees whether a signal has come to any rank, also while MPI began or after the last step, when
 * no progress is reported. Collective. */
static int interruption_agree(const struct mpi_module *module)
{
	int rc = module->sharing->agree(tool_signal ? EINTR : 0);

	if (rc && !place.rank)
		tool_complain(&stage_tool, "%s: %s", options.path,
			      rc == EINTR ? "interrupted" : lmdbio_orig_mdb_strerror(rc));
	return rc;
}

static int work(const struct mpi_module *module, struct stage_program *program)
{
	struct lmdbio_stage_report report = {.size = sizeof(report)};
	struct lmdbio_stage_hold *hold = NULL;
	int status = 0, unseen = 0, rc;

	options.stage.directory = tool_place_expand(options.stage.directory, &place);
	options.stage.size = sizeof(options.stage);
	options.stage.progress = on_progress;
	options.stage.report = &report;
	options.stage.hold = options.stage.target == LMDBIO_STAGE_MEMORY ? &hold : NULL;
	rc = module->stage(options.path, &options.stage);
	/* Rank 0 tells, and another rank may have failed, with the same code on all ranks. */
	if (rc)
		unseen = module->sharing->agree(tool_env_judge(options.path, 0));
	tell(rc, unseen, lmdbio_orig_mdb_strerror(rc), &report);
	if (!rc)
		rc = interruption_agree(module);
	if (rc) {
		stage_program_drop(program);
		module->stage_release(hold);
		return tool_signal ? tool_signal_status() : TOOL_FAILED;
	}
	if (program->pid)
		status = program_run(program, module, hold);
	else if (hold)
		wait_for_signal();
	/* A rank's hold serves all ranks of its node. */
	if (hold)
		(void)module->gather();
	module->stage_release(hold);
	return status;
}

static void tell_of_servers(int rc, const char *text, const struct mpi_place *at,
			    const struct lmdbio_stage_report *report)
{
	place = *at;
	tell(rc, 0, text, report);
}

/* Stages by servers like those of `lmdbio-run --mpi`. The program begins when the data is there. */
static int work_by_servers(void)
{
	const char *const paths[] = {options.path, NULL};
	const struct run_job job = {
		.tool = stage_tool.name,
		.start = options.program ? stage_program_become : NULL,
		.context = options.program,
		.paths = paths,
		.tell = tell_of_servers,
	};
	char memory[32];

	snprintf(memory, sizeof(memory), "%" PRIu64, options.stage.memory);
	if (options.stage.memory && setenv("LMDBIO_MEMORY", memory, 1)) {
		tool_complain(&stage_tool, "%s", strerror(errno));
		launcher_greet(); /* as in main() */
		return TOOL_FAILED;
	}
	return tool_output_end(&stage_tool, run_job(&job));
}

int main(int argc, char **argv)
{
	struct stage_program program = {0};
	const struct mpi_module *module;
	int status = parse(argc, argv), rc;

	if (status) {
		launcher_greet(); /* the other ranks would wait for this one */
		return status;
	}
	if (options.by_servers)
		return work_by_servers();
	tool_signals_catch();
	rc = options.program ? stage_program_fork(&program, options.program) : 0;
	if (rc) {
		tool_complain(&stage_tool, "%s", strerror(rc));
		launcher_greet(); /* the other ranks would wait for this one */
		return TOOL_FAILED;
	}
	module = tool_place_begin(stage_tool.name, &place);
	if (!module) {
		stage_program_drop(&program);
		return TOOL_FAILED;
	}
	tool_place_tasks(stage_tool.name, &place);
	status = work(module, &program);
	rc = tool_place_end(module, stage_tool.name);
	if (rc && !status)
		status = TOOL_FAILED;
	return tool_output_end(&stage_tool, status);
}
