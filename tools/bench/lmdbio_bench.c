/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements lmdbio-bench's command line, and the order of its work and reports. */
#include "given_bench.h"
#include "train.h"
#include "drop_in.h"
#include "tool_output.h"
#include "tool_place.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	OPTION_ACCELERATOR = TOOL_LONG_ONLY,
	OPTION_BATCH,
	OPTION_BYTES,
	OPTION_COMPUTE,
	OPTION_DROP,
	OPTION_HTML,
	OPTION_JSON,
	OPTION_MEMORY,
	OPTION_NO_LOCK,
	OPTION_ONLY,
	OPTION_PAIRS,
	OPTION_RAW,
	OPTION_READERS,
	OPTION_SECONDS,
	OPTION_SEED,
	OPTION_TRAIN,
};

static const struct tool_option bench_options[] = {
	{OPTION_ACCELERATOR, "accelerator", "a100|h100",
	 "with --train: let accelerators compute as fast as these (h100)"},
	{OPTION_BATCH, "batch", "N", "with --train: let a batch have N records, not the model's number"},
	{OPTION_BYTES, "bytes", "SIZE", "read at most SIZE of values in a run (1G)"},
	{OPTION_COMPUTE, "compute", "MS",
	 "with --train: let computing with a batch take MS milliseconds, not the model's time"},
	{'d', "db", "DATABASE", "measure the database DATABASE instead of the largest one"},
	{OPTION_DROP, "drop-caches", NULL,
	 "empty the whole machine's caches for cold runs, which root may"},
	{OPTION_HTML, "html", "FILE", "write a page for a browser to FILE as well"},
	{OPTION_JSON, "json", NULL, "print one JSON object instead of a table"},
	{'l', "library", "LIBRARY",
	 "measure the lmdbio in LIBRARY (the one installed with this command)"},
	{OPTION_MEMORY, "memory", "SIZE",
	 "with --train: let all readers together have SIZE of memory (a fifth of the data)"},
	{'n', "no-subdir", NULL,
	 "PATH is the data file, not its directory (a file is recognised without this)"},
	{OPTION_NO_LOCK, "no-lock", NULL,
	 "leave the lock file alone: no program may write to the data set meanwhile"},
	{OPTION_ONLY, "only", "TEXT", "measure the rows with TEXT in their titles"},
	{OPTION_PAIRS, "pairs", "N", "run each row N times on each library (3)"},
	{'p', "processes", "LIST", "let so many processes read at a time (1,4)"},
	{OPTION_RAW, "raw", "PATH", "let the original read PATH: the data set that is in the container, or the same data in a "
	 "data file of LMDB 0.9"},
	{OPTION_READERS, "readers", "N",
	 "with --train: let an accelerator have N readers, not the model's number"},
	{OPTION_SECONDS, "seconds", "N", "take about N seconds in all (60; with --train 300)"},
	{OPTION_SEED, "seed", "N", "draw keys and their order by the number N (1)"},
	{OPTION_TRAIN, "train", "unet3d|resnet50|cosmoflow",
	 "find how many emulated accelerators that train this model are fed"},
	{0},
};

static const struct tool bench_tool = {
	.name = "lmdbio-bench",
	.synopsis = "[OPTION]... PATH",
	.purpose = "Measure how fast your LMDB data set is read here, by the original LMDB and by "
		   "lmdbio in turn. With --train, emulated accelerators read it after the rules of "
		   "MLPerf Storage. The data set is not written to.",
	.options = bench_options,
	.closing = "Exit status: 0 measured; 1 the two have not read the same; 2 it could not be "
		   "measured, or wrong usage; 130 interrupted.",
};

enum { BYTES_DEFAULT = 1 << 30, SECONDS_DEFAULT = 60, PAIRS_DEFAULT = 3, PROCESSES_MOST = 64 };
enum { TRAIN_SECONDS = 300, BATCH_MOST = 1 << 20, READERS_MOST = 64, COMPUTE_MOST = 3600000 };

static struct given_bench bench = {
	.tool = &bench_tool,
	.options = {.bytes = BYTES_DEFAULT,
		    .pairs = PAIRS_DEFAULT,
		    .seed = 1,
		    .processes = {1, 4}},
};
static struct train train = {.bench = &bench};
static struct {
	const char *path, *database, *raw, *html, *library;
	unsigned flags;
	bool json, a100;
	/* The last given option that --train excludes, and the last one that needs --train. */
	const char *given_alone, *train_alone;
} asked;

static bool parse_processes(const char *list)
{
	char *copy = strdup(list), *rest = copy, *word;
	unsigned n = 0;
	bool right = copy != NULL;

	memset(bench.options.processes, 0, sizeof(bench.options.processes));
	while (right && (word = strsep(&rest, ","))) {
		uint64_t number = 0;

		right = n < PROCESS_COUNTS && tool_number_parse(&bench_tool, "--processes", word, 1,
								PROCESSES_MOST, &number);
		if (n == PROCESS_COUNTS)
			tool_usage_error(&bench_tool, "--processes takes at most %d numbers",
					 PROCESS_COUNTS);
		else
			bench.options.processes[n++] = (unsigned)number;
	}
	free(copy);
	return right;
}

/* Parses milliseconds, with fractions. */
static bool parse_compute(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end != text && !*end && value >= 0.001 && value <= COMPUTE_MOST) {
		train.compute = (uint64_t)(1e6 * value);
		return true;
	}
	tool_usage_error(&bench_tool, "--compute wants milliseconds from 0.001 to %d, not '%s'",
			 COMPUTE_MOST, text);
	return false;
}

static bool parse_accelerator(const char *text)
{
	asked.a100 = !strcmp(text, "a100");
	if (asked.a100 || !strcmp(text, "h100"))
		return true;
	tool_usage_error(&bench_tool, "--accelerator wants a100 or h100, not '%s'", text);
	return false;
}

static bool parse_model(const char *name)
{
	train.model = train_model_find(name);
	if (!train.model)
		tool_usage_error(&bench_tool,
				 "--train wants unet3d, resnet50 or cosmoflow, not '%s'", name);
	return train.model != NULL;
}

/* Parses --train's options, and those that only have an effect with it. */
static bool parse_train(int key)
{
	switch (key) {
	case OPTION_ACCELERATOR:
		asked.train_alone = "--accelerator";
		return parse_accelerator(optarg);
	case OPTION_BATCH:
		asked.train_alone = "--batch";
		return tool_number_parse(&bench_tool, "--batch", optarg, 1, BATCH_MOST,
					 &train.batch);
	case OPTION_COMPUTE:
		asked.train_alone = "--compute";
		return parse_compute(optarg);
	case OPTION_MEMORY:
		asked.train_alone = "--memory";
		return tool_size_parse(&bench_tool, "--memory", optarg, &train.memory);
	case OPTION_READERS:
		asked.train_alone = "--readers";
		return tool_number_parse(&bench_tool, "--readers", optarg, 1, READERS_MOST,
					 &train.readers);
	case OPTION_TRAIN:
		return parse_model(optarg);
	default:
		tool_usage_hint(&bench_tool);
		return false;
	}
}

/* Parses the options with a number. */
static bool parse_number(int key)
{
	struct given_options *options = &bench.options;

	switch (key) {
	case OPTION_BYTES:
		asked.given_alone = "--bytes";
		if (tool_size_parse(&bench_tool, "--bytes", optarg, &options->bytes) &&
		    options->bytes)
			return true;
		if (!options->bytes)
			tool_usage_error(&bench_tool, "--bytes wants more than nothing");
		return false;
	case OPTION_PAIRS:
		asked.given_alone = "--pairs";
		return tool_number_parse(&bench_tool, "--pairs", optarg, 1, PAIRS_LIMIT,
					 &options->pairs);
	case OPTION_SECONDS:
		return tool_number_parse(&bench_tool, "--seconds", optarg, 1, 86400,
					 &options->seconds);
	case OPTION_SEED:
		return tool_number_parse(&bench_tool, "--seed", optarg, 0, UINT32_MAX,
					 &options->seed);
	case 'p':
		asked.given_alone = "--processes";
		return parse_processes(optarg);
	default:
		return parse_train(key);
	}
}

static bool parse_option(int key)
{
	switch (key) {
	case 'd':
		asked.database = optarg;
		return true;
	case 'l':
		asked.library = optarg;
		return true;
	case 'n':
		asked.flags |= MDB_NOSUBDIR;
		return true;
	case OPTION_DROP:
		bench.options.drop_caches = true;
		return true;
	case OPTION_HTML:
		asked.html = optarg;
		asked.given_alone = "--html";
		return true;
	case OPTION_JSON:
		asked.json = true;
		return true;
	case OPTION_NO_LOCK:
		asked.flags |= MDB_NOLOCK;
		return true;
	case OPTION_ONLY:
		bench.options.only = optarg;
		return true;
	case OPTION_RAW:
		asked.raw = optarg;
		return true;
	default:
		return parse_number(key);
	}
}

/* Finds the worker, lmdbio's library and the original. */
static int find_programs(void)
{
	char worker[PATH_MAX];
	int rc;

	tool_place_program("bench_worker", "bench", worker);
	if (asked.library)
		snprintf(bench.drop_in, PATH_MAX, "%s", asked.library);
	else
		tool_place_library("liblmdb.so.0", "compat", bench.drop_in);
	rc = drop_in_judge(&bench_tool, "--library", bench.drop_in);
	if (!rc)
		rc = run_init_at(worker, bench.drop_in);
	if (!rc && bench.compared)
		rc = run_original(&bench.original, &bench.built_in);
	if (!rc && bench.compared && bench.built_in)
		given_note(&bench, "There is no liblmdb.so.0 of the system here: the original is "
				   "the one that lmdbio holds (LMDBIO_DISABLE=1).");
	return rc;
}

static int open_sets(void)
{
	struct given_set *set = &bench.sets[LMDBIO];
	int rc = given_open(&bench_tool, set, asked.path, asked.flags, asked.database);

	if (rc)
		return rc;
	bench.compared = !(set->container || set->later) || asked.raw;
	bench.sets[ORIGINAL] = *set;
	if (asked.raw) {
		rc = given_open(&bench_tool, &bench.sets[ORIGINAL], asked.raw, 0, set->database);
		if (!rc && (bench.sets[ORIGINAL].container || bench.sets[ORIGINAL].later)) {
			tool_complain(&bench_tool,
				      "%s: the original cannot read %s: --raw takes a data set of "
				      "LMDB 0.9",
				      asked.raw,
				      bench.sets[ORIGINAL].container ? "a container"
								     : "LMDB 1.0's pages");
			rc = EINVAL;
		} else if (!rc && bench.sets[ORIGINAL].records != set->records) {
			tool_complain(
				&bench_tool,
				"%s: it has other records than %s: --raw takes the same data",
				asked.raw, asked.path);
			rc = EINVAL;
		}
	} else if (set->later) {
		given_note(&bench, "LMDB 1.0's pages are read by lmdbio alone: --raw=PATH lets the "
				   "original read the same data in a data file of LMDB 0.9, which "
				   "lmdbio-convert --to=lmdb-0.9 makes.");
	} else if (set->container) {
		given_note(&bench, "A container is read by lmdbio alone: --raw=PATH lets the "
				   "original read the data set of which it was made.");
	}
	if (!rc && set->unsearched && !asked.database)
		given_note(&bench, "The main database was measured; --db=NAME names another one.");
	return rc;
}

/* Reports the measurement, even if the page cannot be written. */
static int report(FILE *page)
{
	int status = bench.differ ? TOOL_PROBLEM : TOOL_OK;

	if (page) {
		given_html(&bench, page);
		status = tool_output_commit(&bench_tool, status, true);
	}
	if (!asked.json)
		given_table(&bench, stdout);
	else if (given_json(&bench, stdout))
		status = TOOL_FAILED;
	return status;
}

/* Takes the model's values for options that the user has not given. */
static void train_choose(void)
{
	const struct train_model *model = train.model;

	train.batch = train.batch ? train.batch : model->batch;
	train.readers = train.readers ? train.readers : model->readers;
	if (!train.compute)
		train.compute = 1000 * (asked.a100 ? model->a100 : model->h100);
	if (!bench.options.seconds)
		bench.options.seconds = TRAIN_SECONDS;
}

static int run_train(void)
{
	if (open_sets() || find_programs())
		return TOOL_FAILED;
	train_choose();
	fprintf(stderr, "%s: %s: accelerators of %s, about %u s\n", bench_tool.name, asked.path,
		train.model->name, (unsigned)bench.options.seconds);
	if (train_measure(&train))
		return TOOL_FAILED;
	if (!asked.json)
		train_table(&train, stdout);
	else if (train_json(&train, stdout))
		return TOOL_FAILED;
	return TOOL_OK;
}

static int run(void)
{
	char plan[256];
	FILE *page = NULL;
	int status;

	if (!bench.options.seconds)
		bench.options.seconds = SECONDS_DEFAULT;
	status = open_sets() || find_programs() ? TOOL_FAILED : given_plan(&bench);
	if (status)
		return status;
	tool_output_spare(asked.path);
	/* Opened before the measurement takes its time. */
	if (asked.html && !(page = tool_output_beside(&bench_tool, asked.html)))
		return TOOL_FAILED;
	given_plan_text(&bench, plan, sizeof(plan));
	fprintf(stderr, "%s: %s: %s\n", bench_tool.name, asked.path, plan);
	if (!given_measure(&bench))
		return report(page);
	return page ? tool_output_commit(&bench_tool, TOOL_FAILED, false) : TOOL_FAILED;
}

static void on_unreadable(void)
{
	tool_read_failed(&bench_tool, asked.path, EIO);
	_exit(tool_output_commit(&bench_tool, TOOL_FAILED, false));
}

int main(int argc, char **argv)
{
	int key, status;

	while ((key = tool_option_next(&bench_tool, argc, argv)) != -1)
		if (!parse_option(key))
			return TOOL_FAILED;
	if (optind != argc - 1)
		return tool_usage_error(&bench_tool, "one data set is wanted");
	if (train.model ? asked.given_alone : asked.train_alone)
		return tool_usage_error(&bench_tool, "%s has no effect %s --train",
					train.model ? asked.given_alone : asked.train_alone,
					train.model ? "with" : "without");
	asked.path = argv[optind];
	tool_signals_catch();
	tool_unreadable_catch(on_unreadable);
	status = train.model ? run_train() : run();
	given_close(&bench.sets[LMDBIO]);
	if (asked.raw)
		given_close(&bench.sets[ORIGINAL]);
	free(bench.rows);
	return tool_signal ? tool_signal_status() : tool_output_end(&bench_tool, status);
}
