/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements lmdbio-sim's command line. */
#include "sim_papers_report.h"
#include "sim_private.h"
#include "sim_report.h"
#include "tool_common.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPTION_JSON = TOOL_LONG_ONLY,
	OPTION_LIST,
	OPTION_PAPERS,
	OPTION_PLOT,
	OPTION_POLICY,
	OPTION_PRESET,
	OPTION_STORAGE,
	OPTION_STREAMS,
	OPTION_STRIDED,
	OPTION_READ_AHEAD,
	OPTION_SET, /* the first of settings[] */
};

enum setting_kind {
	SETTING_COUNT32, /* uint32_t */
	SETTING_COUNT,   /* uint64_t */
	SETTING_SIZE,    /* uint64_t, bytes */
	SETTING_RATE,    /* double, bytes a second */
	SETTING_MICRO,   /* double, seconds; given in microseconds */
	SETTING_PART,    /* double, 0 to 1 */
	SETTING_BELOW_1, /* double, 0 to less than 1 */
};

#define CLUSTER(field) offsetof(struct sim_preset, cluster.field)
#define JOB(field)     offsetof(struct sim_preset, job.field)

/* In the order of the options, from OPTION_SET on. */
static const struct setting {
	enum setting_kind kind;
	size_t offset;
	uint64_t least, most; /* of a count */
} settings[] = {
	{SETTING_COUNT32, CLUSTER(nodes), 1, SIM_NODES_MOST},
	{SETTING_COUNT, JOB(records), 1, INT64_MAX},
	{.kind = SETTING_SIZE, .offset = JOB(record_bytes)},
	{.kind = SETTING_BELOW_1, .offset = JOB(spread)},
	{SETTING_COUNT32, JOB(batch), 1, UINT32_MAX},
	{SETTING_COUNT32, JOB(epochs), 1, PLACEMENT_READS_MOST},
	{SETTING_COUNT, JOB(seed), 0, INT64_MAX},
	{.kind = SETTING_SIZE, .offset = CLUSTER(room[SIM_STAGING])},
	{.kind = SETTING_SIZE, .offset = CLUSTER(room[SIM_MEMORY])},
	{.kind = SETTING_SIZE, .offset = CLUSTER(room[SIM_SSD])},
	{.kind = SETTING_RATE, .offset = CLUSTER(compute)},
	{.kind = SETTING_RATE, .offset = CLUSTER(preprocess)},
	{.kind = SETTING_RATE, .offset = CLUSTER(staging_rate)},
	{.kind = SETTING_RATE, .offset = CLUSTER(memory_rate)},
	{.kind = SETTING_RATE, .offset = CLUSTER(ssd_read)},
	{.kind = SETTING_RATE, .offset = CLUSTER(ssd_write)},
	{.kind = SETTING_RATE, .offset = CLUSTER(network)},
	{.kind = SETTING_MICRO, .offset = CLUSTER(network_latency)},
	{.kind = SETTING_PART, .offset = CLUSTER(storage_gain)},
	{.kind = SETTING_RATE, .offset = CLUSTER(storage_node)},
	{.kind = SETTING_RATE, .offset = CLUSTER(storage_total)},
	{.kind = SETTING_MICRO, .offset = CLUSTER(storage_latency)},
};

static const struct tool_option sim_options[] = {
	{OPTION_PRESET, "preset", "PRESET", "the numbers to begin with (scenario1)"},
	{OPTION_POLICY, "policy", "POLICY,...", "the policies to simulate (all)"},
	{OPTION_LIST, "list", NULL, "print the presets and the policies, and exit"},
	{OPTION_JSON, "json", NULL, "print one JSON object instead of a table"},
	{OPTION_PAPERS, "papers", NULL, "print the jobs of LMDBIO's papers, published and modelled"},
	{OPTION_PLOT, "plot", "bebop|blues", "print one of them as an SVG plot"},
	{OPTION_STRIDED, "strided", "N",
	 "count what N strided readers on each node ask of storage, by each way of those papers"},
	{OPTION_READ_AHEAD, "read-ahead", "SIZE",
	 "for --strided: what the kernel reads ahead at most (128KiB)"},
	{OPTION_SET, "nodes", "N", "how many nodes the job has"},
	{OPTION_SET + 1, "records", "N", "records in the data set"},
	{OPTION_SET + 2, "record-size", "SIZE", "bytes in a record, on average"},
	{OPTION_SET + 3, "size-spread", "PART",
	 "sizes are even between 1 - PART and 1 + PART of that"},
	{OPTION_SET + 4, "batch", "N", "records in a batch of all nodes together"},
	{OPTION_SET + 5, "epochs", "N", "how many epochs the job has"},
	{OPTION_SET + 6, "seed", "N", "the seed of the order"},
	{OPTION_SET + 7, "staging", "SIZE", "a node's staging buffer"},
	{OPTION_SET + 8, "memory", "SIZE", "a node's memory for data"},
	{OPTION_SET + 9, "ssd", "SIZE", "a node's SSD for data"},
	{OPTION_SET + 10, "compute", "RATE", "what a node can train on, in bytes a second"},
	{OPTION_SET + 11, "preprocess", "RATE", "what a stream can preprocess, in bytes a second"},
	{OPTION_SET + 12, "staging-rate", "RATE", "the rate of writing to the staging buffer"},
	{OPTION_SET + 13, "memory-rate", "RATE", "the rate of reading a node's memory"},
	{OPTION_SET + 14, "ssd-read", "RATE", "the rate of reading a node's SSD"},
	{OPTION_SET + 15, "ssd-write", "RATE", "the rate of writing to a node's SSD"},
	{OPTION_SET + 16, "network", "RATE", "a node's network, each way"},
	{OPTION_SET + 17, "network-latency", "US",
	 "the latency of a request to another node, in microseconds"},
	{OPTION_STORAGE, "storage", "N:RATE,...",
	 "what N nodes get of storage together, with one stream each"},
	{OPTION_SET + 18, "storage-gain", "PART",
	 "P streams of a node get P to the power of PART times one's rate"},
	{OPTION_SET + 19, "storage-node", "RATE", "the most that a node gets (0: no bound)"},
	{OPTION_SET + 20, "storage-total", "RATE", "the most that all get (0: no bound)"},
	{OPTION_SET + 21, "storage-latency", "US",
	 "the latency of a request to storage, in microseconds"},
	{OPTION_STREAMS, "streams", "S,M,D",
	 "streams of a node for staging buffer, memory and SSD"},
	{0},
};

static const struct tool sim_tool = {
	.name = "lmdbio-sim",
	.synopsis = "[OPTION]...",
	.purpose = "Compute how long a training job waits for its data on a cluster that need not "
		   "exist, under each of the published ways of feeding it.",
	.options = sim_options,
	.closing = "RATE is bytes a second and takes the same units as SIZE.\n\n"
		   "Exit status: 0 it was computed; 2 it could not be computed, or wrong usage.",
};

static struct sim_options {
	struct sim_preset preset;
	const char *policies; /* NULL: all */
	bool json;
	bool list;
	bool papers;
	const struct papers_plot *plot; /* the plot to draw, or NULL */
	uint64_t strided;               /* readers of a node; 0: count no readers */
	uint64_t read_ahead;
	bool read_ahead_given;
	unsigned others; /* options besides --papers and --plot */
} options = {.read_ahead = 128 << 10};

static const char *option_name(int key)
{
	static char name[64];

	for (const struct tool_option *option = sim_options; option->key; option++)
		if (option->key == key)
			snprintf(name, sizeof(name), "--%s", option->name);
	return name;
}

/* Parses a decimal number, not negative, that must be the whole text. */
static bool decimal_parse(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end && isfinite(*value) && *value >= 0;
}

static bool part_parse(const char *name, const char *text, double scale, double most, double *value)
{
	if (decimal_parse(text, value) && *value <= most) {
		*value *= scale;
		return true;
	}
	tool_usage_error(&sim_tool, "%s wants a number from 0 to %g, not '%s'", name, most, text);
	return false;
}

static bool setting_parse(int key, const char *text)
{
	const struct setting *setting = &settings[key - OPTION_SET];
	void *at = (char *)&options.preset + setting->offset;
	const char *name = option_name(key);
	uint64_t number;

	switch (setting->kind) {
	case SETTING_COUNT32:
		if (!tool_number_parse(&sim_tool, name, text, setting->least, setting->most,
				       &number))
			return false;
		*(uint32_t *)at = (uint32_t)number;
		return true;
	case SETTING_COUNT:
		return tool_number_parse(&sim_tool, name, text, setting->least, setting->most, at);
	case SETTING_SIZE:
		return tool_size_parse(&sim_tool, name, text, at);
	case SETTING_RATE:
		if (!tool_size_parse(&sim_tool, name, text, &number))
			return false;
		*(double *)at = (double)number;
		return true;
	case SETTING_MICRO:
		return part_parse(name, text, 1e-6, 1e9, at);
	case SETTING_BELOW_1:
		if (decimal_parse(text, at) && *(double *)at < 1)
			return true;
		tool_usage_error(&sim_tool, "%s wants a number from 0 to less than 1, not '%s'",
				 name, text);
		return false;
	default:
		return part_parse(name, text, 1, 1, at);
	}
}

/* Calls `one` for each word between commas. */
static bool words_parse(char *list, bool (*one)(char *word, unsigned number))
{
	char *rest = list, *word;
	unsigned n = 0;

	while ((word = strsep(&rest, ",")))
		if (!one(word, n++))
			return false;
	return true;
}

static bool point_parse(char *word, unsigned number)
{
	struct sim_curve *curve = &options.preset.cluster.storage;
	char *colon = strchr(word, ':');
	uint64_t rate;

	if (number == SIM_CURVE_POINTS || !colon) {
		tool_usage_error(&sim_tool,
				 "--storage wants up to %d points such as 4:1G, not '%s'",
				 SIM_CURVE_POINTS, word);
		return false;
	}
	*colon = 0;
	if (!part_parse("--storage", word, 1, 1e9, &curve->at[number]) ||
	    !tool_size_parse(&sim_tool, "--storage", colon + 1, &rate))
		return false;
	curve->value[number] = (double)rate;
	curve->n = number + 1;
	return true;
}

static bool streams_parse(char *word, unsigned number)
{
	uint64_t streams = 0;

	if (number >= SIM_STREAMS) {
		tool_usage_error(&sim_tool, "--streams takes at most %d numbers", SIM_STREAMS);
		return false;
	}
	if (!tool_number_parse(&sim_tool, "--streams", word, 1, 1000000, &streams))
		return false;
	options.preset.cluster.streams[number] = (uint32_t)streams;
	return true;
}

static bool preset_parse(const char *name)
{
	const struct sim_preset *preset = sim_preset_find(name);

	if (!preset) {
		tool_usage_error(&sim_tool, "there is no preset '%s': --list tells them", name);
		return false;
	}
	options.preset = *preset;
	return true;
}

static bool policy_check(char *word, unsigned number)
{
	(void)number;
	if (policy_find(word))
		return true;
	tool_usage_error(&sim_tool, "there is no policy '%s': --list tells them", word);
	return false;
}

static bool policies_parse(const char *list)
{
	char *copy = strdup(list);
	bool known = copy && words_parse(copy, policy_check);

	free(copy);
	options.policies = list;
	return known;
}

static bool plot_parse(const char *name)
{
	size_t n;
	const struct papers_plot *plots = papers_plots(&n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(plots[i].name, name))
			options.plot = &plots[i];
	if (!options.plot)
		tool_usage_error(&sim_tool, "--plot wants bebop or blues, not '%s'", name);
	return options.plot;
}

static bool option_parse(int key)
{
	options.others += key != OPTION_PAPERS && key != OPTION_PLOT;
	if (key >= OPTION_SET)
		return setting_parse(key, optarg);
	switch (key) {
	case OPTION_PAPERS:
		options.papers = true;
		return true;
	case OPTION_PLOT:
		return plot_parse(optarg);
	case OPTION_STRIDED:
		return tool_number_parse(&sim_tool, "--strided", optarg, 1, UINT32_MAX,
					 &options.strided);
	case OPTION_READ_AHEAD:
		options.read_ahead_given = true;
		return tool_size_parse(&sim_tool, "--read-ahead", optarg, &options.read_ahead);
	case OPTION_JSON:
		options.json = true;
		return true;
	case OPTION_LIST:
		options.list = true;
		return true;
	case OPTION_POLICY:
		return policies_parse(optarg);
	case OPTION_STORAGE:
		return words_parse(optarg, point_parse);
	case OPTION_STREAMS:
		return words_parse(optarg, streams_parse);
	case OPTION_PRESET:
		return true; /* already handled */
	default:
		return false;
	}
}

/* Parses the options. The others change the preset, wherever that stands among them. */
static bool options_parse(int argc, char **argv)
{
	int key;

	options.preset = *sim_preset_find("scenario1");
	while ((key = tool_option_next(&sim_tool, argc, argv)) != -1) {
		if (key == '?')
			tool_usage_hint(&sim_tool);
		if (key == '?' || (key == OPTION_PRESET && !preset_parse(optarg)))
			return false;
	}
	optind = 0;
	while ((key = tool_option_next(&sim_tool, argc, argv)) != -1)
		if (!option_parse(key))
			return false;
	if (optind < argc) {
		tool_usage_error(&sim_tool, "'%s' is no option", argv[optind]);
		return false;
	}
	if (options.read_ahead_given && !options.strided) {
		tool_usage_error(&sim_tool, "--read-ahead is for --strided");
		return false;
	}
	return true;
}

static bool is_wanted(const char *name)
{
	const char *at = options.policies;
	size_t length = strlen(name);

	while (at && !(strncmp(at, name, length) == 0 && (!at[length] || at[length] == ','))) {
		at = strchr(at, ',');
		at += at != NULL;
	}
	return !options.policies || at;
}

static int run_one(const struct policy *policy, struct sim_result *result)
{
	int rc = sim_run(policy, &options.preset.cluster, &options.preset.job, result);

	if (rc)
		tool_complain(&sim_tool, "%s: %s", policy->name, strerror(rc));
	return rc;
}

static int run_all(void)
{
	size_t n;
	const struct policy *policies = policy_table(&n);
	json_t *json = options.json ? sim_json_head(&options.preset) : NULL;
	struct sim_result bound, result;
	int rc = run_one(&policies[0], &bound);

	if (!rc && !json)
		sim_print_head(&options.preset);
	for (size_t i = 0; !rc && i < n; i++) {
		if (!is_wanted(policies[i].name))
			continue;
		rc = run_one(&policies[i], &result);
		if (!rc && json)
			json_array_append_new(json_object_get(json, "policies"),
					      sim_json_result(&policies[i], &options.preset,
							      &result, bound.seconds));
		else if (!rc)
			sim_print_result(&policies[i], &options.preset, &result, bound.seconds);
	}
	if (!rc && json) {
		json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
		putchar('\n');
	}
	json_decref(json);
	return rc ? TOOL_FAILED : TOOL_OK;
}

/* Shows published jobs. --papers and --plot allow no other option, and exclude each other. */
static int papers_show(void)
{
	int rc;

	if (options.others || (options.papers && options.plot))
		return tool_usage_error(&sim_tool, "--papers and --plot go with no other option");
	rc = options.plot ? papers_draw(options.plot) : papers_print();
	if (rc)
		tool_complain(&sim_tool, "%s", strerror(rc));
	return tool_output_end(&sim_tool, rc ? TOOL_FAILED : TOOL_OK);
}

static int strided_show(void)
{
	const struct sim_preset *preset = &options.preset;
	struct requests_job job = {
		.nodes = preset->cluster.nodes,
		.readers = (uint32_t)options.strided,
		.records = preset->job.records,
		.record_bytes = preset->job.record_bytes,
		.batch = preset->job.batch,
		.read_ahead = options.read_ahead,
		.latency = preset->cluster.storage_latency,
		.rate = preset->cluster.storage_total,
	};
	const char *complaint;
	int rc;

	if (!job.rate)
		job.rate = sim_curve_at(&preset->cluster.storage, job.nodes);
	complaint = requests_complaint(&job);
	if (options.json || options.policies)
		complaint = "--strided prints one table, of all ways";
	if (complaint)
		return tool_usage_error(&sim_tool, "%s", complaint);
	rc = requests_print(&job);
	if (rc)
		tool_complain(&sim_tool, "%s", strerror(rc));
	return tool_output_end(&sim_tool, rc ? TOOL_FAILED : TOOL_OK);
}

int main(int argc, char **argv)
{
	const char *complaint;

	if (!options_parse(argc, argv))
		return TOOL_FAILED;
	if (options.papers || options.plot)
		return papers_show();
	if (options.list) {
		sim_print_list();
		return tool_output_end(&sim_tool, TOOL_OK);
	}
	if (options.strided)
		return strided_show();
	complaint = sim_complaint(&options.preset.cluster, &options.preset.job);
	if (complaint)
		return tool_usage_error(&sim_tool, "%s", complaint);
	return tool_output_end(&sim_tool, run_all());
}
