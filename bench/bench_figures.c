/* SPDX-License-Identifier: OLDAP-2.8 */
/* Parses the command line of bench_figures, and runs the cases that it asks for. */
#include "bench_busy.h"
#include "bench_ceiling.h"
#include "bench_print.h"
#include "config.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CASES_MAX = 64, PAIRS_DEFAULT = 5 };

struct options {
	const struct suite *suite;
	const char *sets, *works, *only, *data, *library;
	enum state state;
	double scale;
	unsigned pairs;
	uint64_t seed;
	bool on_slowfs, json, instructions, drop_caches;
	struct bench_case what; /* processes, nordahead, hash, touch, count */
	struct slowfs_settings slowfs;
};

enum {
	OPTION_SUITE = 256,
	OPTION_ONLY,
	OPTION_LIBRARY,
	OPTION_SEED,
	OPTION_SLOWFS,
	OPTION_LATENCY,
	OPTION_BANDWIDTH,
	OPTION_JSON,
	OPTION_INSTRUCTIONS,
	OPTION_DROP,
	OPTION_FIO,
	OPTION_HASH,
	OPTION_TOUCH,
	OPTION_STATE,
	OPTION_NORDAHEAD,
	OPTION_SCALE,
	OPTION_BUSY,
	OPTION_NICE,
};

const char *argp_program_version = "bench_figures (lmdbio) " PACKAGE_VERSION;

static const struct argp_option argp_options[] = {
	{0, 0, 0, 0, "What is measured", 1},
	{"suite", OPTION_SUITE, "NAME", 0,
	 "speed2, storms, random, unhinted or seconds: the figures to reach, and whether they are",
	 0},
	{"only", OPTION_ONLY, "TEXT", 0, "the suite's rows with this in their titles", 0},
	{"set", 's', "LIST", 0, "img, photo, mid, cifar, small, tiny (small)", 0},
	{"work", 'w', "LIST", 0,
	 "scan, backward, stride, keys, lookup, get, begin, batch, keep, open, load (scan)", 0},
	{"state", OPTION_STATE, "WORD", 0,
	 "cold: nothing in memory; warm: in the page cache, each process maps it anew; hot: after "
	 "an untimed pass in the same process; again: in the page "
	 "cache as a cold pass of the same library has left it, mapped anew (warm)",
	 0},
	{"processes", 'p', "N", 0, "readers at a time, 1 to 64 (1)", 0},
	{"nordahead", OPTION_NORDAHEAD, NULL, 0, "open with MDB_NORDAHEAD", 0},
	{"busy", OPTION_BUSY, "N", 0,
	 "beside the readers N processes use a processor each, 0 to 64 (0)", 0},
	{"nice", OPTION_NICE, "N", 0, "of the readers, 0 to 19 (0)", 0},
	{"count", 'c', "N", 0, "random reads, or opens (as many as suit the set)", 0},
	{"touch", OPTION_TOUCH, "N", 0,
	 "read each N-th byte of a value, from its first on; 0: none (64)", 0},
	{"hash", OPTION_HASH, NULL, 0, "read every byte of a value instead", 0},
	{"fio", OPTION_FIO, NULL, 0,
	 "beside cold runs, `fio --rw=read --bs=1M --iodepth=16 --direct=1` reads the file", 0},
	{0, 0, 0, 0, "How", 2},
	{"pairs", 'n', "N", 0, "runs on each library, in alternation (5)", 0},
	{"scale", OPTION_SCALE, "F", 0, "of the data sets: 0.1 is a tenth of the records (1)", 0},
	{"seed", OPTION_SEED, "N", 0, "of random orders (1)", 0},
	{"data", 'd', "DIR", 0, "where the data sets are kept (/tmp/lmdbio-bench-data)", 0},
	{"library", OPTION_LIBRARY, "FILE", 0, "the drop-in (the build tree's)", 0},
	{"slowfs", OPTION_SLOWFS, "PROGRAM", 0,
	 "read through this file system; a suite needs it for its rows on slowfs", 0},
	{"latency", OPTION_LATENCY, "US", 0, "of a request there (500)", 0},
	{"bandwidth", OPTION_BANDWIDTH, "MIB", 0, "there, a second (1500)", 0},
	{"drop-caches", OPTION_DROP, NULL, 0,
	 "cold runs empty the whole machine's caches, not only the file's", 0},
	{"instructions", OPTION_INSTRUCTIONS, NULL, 0,
	 "count instructions by valgrind's callgrind, hot, no byte of the values read; use a small "
	 "--scale",
	 0},
	{"json", OPTION_JSON, NULL, 0, "JSON instead of tables", 0},
	{0},
};

static double parse_number(const char *text, double least, double most, struct argp_state *state)
{
	char *end;
	double number = strtod(text, &end);

	if (end == text || *end || !(number >= least && number <= most))
		argp_error(state, "'%s' is not a number from %g to %g", text, least, most);
	return number;
}

static error_t parse_case(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case OPTION_STATE:
		for (int i = 0; i < STATES; i++)
			if (!strcmp(argument, state_names[i])) {
				options->state = (enum state)i;
				return 0;
			}
		argp_error(state, "--state takes cold, warm, hot or again, not '%s'", argument);
		return 0;
	case 'p':
		options->what.processes = (unsigned)parse_number(argument, 1, 64, state);
		return 0;
	case 'c':
		options->what.count = (uint64_t)parse_number(argument, 1, 1e9, state);
		return 0;
	case OPTION_TOUCH:
		options->what.touch = (unsigned)parse_number(argument, 0, 1e9, state);
		return 0;
	case OPTION_NORDAHEAD:
		options->what.nordahead = true;
		return 0;
	case OPTION_HASH:
		options->what.hash = true;
		return 0;
	case OPTION_BUSY:
		options->what.busy = (unsigned)parse_number(argument, 0, BUSY_MAX, state);
		return 0;
	case OPTION_NICE:
		options->what.nice = (unsigned)parse_number(argument, 0, 19, state);
		return 0;
	case OPTION_FIO:
		options->what.fio = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t option_parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case OPTION_SUITE:
		options->suite = suite_find(argument);
		if (!options->suite)
			argp_error(state, "no suite '%s'", argument);
		return 0;
	case OPTION_ONLY:
		options->only = argument;
		return 0;
	case 's':
		options->sets = argument;
		return 0;
	case 'w':
		options->works = argument;
		return 0;
	case 'n':
		options->pairs = (unsigned)parse_number(argument, 1, PAIRS_MAX, state);
		return 0;
	case OPTION_SCALE:
		options->scale = parse_number(argument, 1e-9, 1, state);
		return 0;
	case OPTION_SEED:
		options->seed = (uint64_t)parse_number(argument, 0, 1e9, state);
		return 0;
	case 'd':
		options->data = argument;
		return 0;
	case OPTION_LIBRARY:
		options->library = argument;
		return 0;
	case OPTION_SLOWFS:
		options->slowfs.program = argument;
		options->on_slowfs = true;
		return 0;
	case OPTION_LATENCY:
		options->slowfs.latency = (unsigned)parse_number(argument, 0, 1e6, state);
		return 0;
	case OPTION_BANDWIDTH:
		options->slowfs.bandwidth = (unsigned)parse_number(argument, 0, 1e6, state);
		return 0;
	case OPTION_DROP:
		options->drop_caches = true;
		return 0;
	case OPTION_INSTRUCTIONS:
		options->instructions = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	default:
		return parse_case(key, argument, state);
	}
}

static const struct argp argp = {
	.options = argp_options,
	.parser = option_parse,
	.doc = "Runs a workload on the original LMDB and on lmdbio in alternation, each time in a "
	       "fresh process, and prints medians and ratios.\v"
	       "A set's values are made once, by the original, and reused. Time, CPU, faults and "
	       "switches are from before mdb_env_create() to after mdb_env_close(); of a hot run, "
	       "from the second pass's begin to its end. Of several processes they are the sum, "
	       "and the time is from the first one's begin to the last one's end.\n\n"
	       "\"bench_figures loader --policy=P ENVIRONMENT\" measures a policy of lmdbio-sim(1) "
	       "instead, with processes as nodes: see \"bench_figures loader --help\".",
};

struct bench {
	const struct options *options;
	struct place plain, slow;
	struct suite_row rows[CASES_MAX];
	struct measured *results[CASES_MAX]; /* NULL: left out, or failed */
	bool failed[CASES_MAX];
	size_t n;
};

static int add_cases(struct bench *bench)
{
	const struct options *options = bench->options;
	char *sets = strdup(options->sets), *next_set = sets, *set;

	while (sets && (set = strsep(&next_set, ","))) {
		char *works = strdup(options->works), *next_work = works, *work;

		while (works && (work = strsep(&next_work, ",")) && bench->n < CASES_MAX) {
			struct bench_case *what = &bench->rows[bench->n++].what;

			*what = options->what;
			what->set = data_set_find(set) ? data_set_find(set)->name : NULL;
			what->work = bench_work_find(work);
			what->state = options->state;
			what->slow = options->on_slowfs;
			if (!what->set || what->work >= WORK_MAKE) {
				fprintf(stderr, "bench_figures: no set or workload '%s %s'\n", set,
					work);
				free(works);
				free(sets);
				return EINVAL;
			}
		}
		free(works);
	}
	free(sets);
	return 0;
}

static int add_rows(struct bench *bench)
{
	const struct suite *suite = bench->options->suite;

	if (!suite)
		return add_cases(bench);
	bench->n = suite->n;
	memcpy(bench->rows, suite->rows, suite->n * sizeof(suite->rows[0]));
	return 0;
}

/* Whether to leave out a row: one that was not asked for, or, after a line that says why, one that
 * needs something that does not exist here. */
static bool left_out(const struct bench *bench, const struct bench_case *what)
{
	char title[TITLE_ROOM];

	case_title(what, title);
	if (bench->options->only && !strstr(title, bench->options->only))
		return true;
	if (bench->options->instructions)
		return what->slow || what->work == WORK_LOAD || what->state == STATE_COLD;
	if (!what->slow || bench->slow.slow)
		return false;
	fprintf(stderr, "left out, it needs --slowfs: %s\n", title);
	return true;
}

static int run_row(struct bench *bench, size_t i)
{
	const struct options *options = bench->options;
	const struct suite_row *row = &bench->rows[i];
	struct place *place = row->what.slow ? &bench->slow : &bench->plain;
	struct measured *m = calloc(1, sizeof(*m));
	struct figure_input input = {.m = m, .bandwidth = options->slowfs.bandwidth};
	int rc;

	if (!m)
		return ENOMEM;
	rc = data_make(&m->data, data_set_find(row->what.set), options->scale, options->data);
	if (!rc && options->instructions)
		rc = measure_instructions(m, &row->what, place, options->seed);
	else if (!rc)
		rc = measure_case(m, &row->what, place, options->pairs, options->seed);
	if (rc) {
		free(m);
		return rc;
	}
	bench->results[i] = m;
	if (!options->json && options->instructions)
		print_instructions(stdout, m);
	else if (!options->json)
		print_case(stdout, m, &input);
	return 0;
}

/* A row that fails prints an error, and the others go on. */
static int run_rows(struct bench *bench)
{
	char title[TITLE_ROOM];
	int rc = 0;

	for (size_t i = 0; i < bench->n; i++) {
		int failed = 0;

		if (!left_out(bench, &bench->rows[i].what))
			failed = run_row(bench, i);
		if (!failed)
			continue;
		case_title(&bench->rows[i].what, title);
		fprintf(stderr, "bench_figures: failed: %s: %s\n", title, strerror(failed));
		bench->failed[i] = true;
		rc = failed;
	}
	return rc;
}

static void print_all(const struct bench *bench, double memory)
{
	const struct options *options = bench->options;
	bool first = true;

	if (options->json)
		printf("{\"version\":\"%s\",\"scale\":%g,\"memcpy_bytes_a_second\":%.0f,\"cases\":"
		       "[",
		       PACKAGE_VERSION, options->scale, memory);
	else if (options->suite && !options->instructions)
		print_figures_head(stdout);
	for (size_t i = 0; i < bench->n; i++) {
		const struct suite_row *row = options->suite ? &bench->rows[i] : NULL;
		struct figure_input input = {
			.m = bench->results[i],
			.one = bench->results[bench->rows[i].one],
			.bandwidth = options->slowfs.bandwidth,
		};

		if (bench->failed[i] && !options->json && row) {
			char title[TITLE_ROOM];

			case_title(&row->what, title);
			printf("%-52s failed\n", title);
		}
		if (!input.m)
			continue;
		if (options->json) {
			printf("%s\n", first ? "" : ",");
			print_json(stdout, input.m, options->instructions ? NULL : row, &input);
		} else if (row && !options->instructions) {
			print_figures(stdout, row, &input);
		}
		first = false;
	}
	if (options->json)
		printf("\n]}\n");
}

static int run_all(struct bench *bench)
{
	const struct options *options = bench->options;
	double memory = 0;
	int rc;

	if (!options->instructions && (rc = ceiling_memory(&memory)))
		return rc;
	if (!options->json) {
		printf("scale %g", options->scale);
		if (memory > 0)
			printf("; memcpy moves %.0f MiB/s", memory / 1048576);
		printf("; read of a value: ");
		if (options->instructions || (!options->what.touch && !options->what.hash))
			printf("nothing\n");
		else if (options->what.hash)
			printf("every byte\n");
		else
			printf("each %u-th byte, from its first on\n", options->what.touch);
		if (options->suite)
			printf("%s: %s\n", options->suite->name, options->suite->about);
		if (options->instructions)
			print_instructions_head(stdout);
	}
	rc = run_rows(bench);
	print_all(bench, memory);
	return rc;
}

/* "bench_figures loader ..." is a program of its own, in lab/: it links lmdbio, which this program
 * must not. Returns only if the program cannot be run. */
static int run_nodes(char **argv)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("/../lab/bench_nodes"));

	path[n > 0 ? n : 0] = 0;
	strcpy(strrchr(path, '/') ? strrchr(path, '/') : path, "/../lab/bench_nodes");
	execv(path, argv);
	fprintf(stderr, "bench_figures: %s: %s\n", path, strerror(errno));
	return 2;
}

int main(int argc, char **argv)
{
	struct options options = {
		.sets = "small",
		.works = "scan",
		.state = STATE_WARM,
		.scale = 1,
		.pairs = PAIRS_DEFAULT,
		.seed = 1,
		.data = "/tmp/lmdbio-bench-data",
		.what = {.processes = 1, .touch = 64},
		.slowfs = {.latency = 500, .bandwidth = 1500},
	};
	static struct bench bench;
	int rc;

	if (argc > 1 && !strcmp(argv[1], "loader"))
		return run_nodes(argv + 1);
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (options.what.fio && !options.suite && options.state != STATE_COLD) {
		fprintf(stderr, "bench_figures: --fio goes with --state=cold\n");
		return 2;
	}
	bench.options = &options;
	rc = run_init(options.library);
	if (!rc)
		rc = add_rows(&bench);
	if (rc)
		return 2;
	place_plain(&bench.plain, options.data, options.drop_caches);
	if (options.on_slowfs)
		rc = place_slow(&bench.slow, options.data, &options.slowfs);
	if (!rc)
		rc = run_all(&bench);
	place_close(&bench.slow);
	for (size_t i = 0; i < bench.n; i++)
		free(bench.results[i]);
	if (rc)
		fprintf(stderr, "bench_figures: not finished: %s\n", strerror(rc));
	return rc ? 1 : 0;
}
