/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows live the reads of this user's processes through lmdbio on this node. */
#include "tool_common.h"
#include "top_screen.h"
#include "top_view.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SECONDS = 3600, OPTION_SORT = TOOL_LONG_ONLY };

struct top_options {
	bool batch;
	uint64_t looks; /* 0: until a signal */
	uint64_t every_ms;
	enum top_sort sort;
};

static const struct tool_option top_options[] = {
	{'b', "batch", NULL, "print plain text, each look below the one before"},
	{'n', "looks", "N", "with --batch: end after N looks"},
	{'d', "delay", "SECONDS", "the time between two looks, 0.1 to 3600; 1 without this option"},
	{OPTION_SORT, "sort", "storage|values|requests|queue|wait|pid|program",
	 "the column that says which process comes first; storage without this option"},
	{0},
};

static const struct tool top_tool = {
	.name = "lmdbio-top",
	.synopsis = "[-d SECONDS] [--sort=COLUMN]\n-b [-n N] [-d SECONDS] [--sort=COLUMN]",
	.purpose = "Show live what your processes read through lmdbio on this node, also those "
		   "that were started without lmdbio-run. Keys: q quits, h explains, s sorts by "
		   "the next column.",
	.options = top_options,
	.closing =
		"Exit status: 0 it has ended as it was told to; 2 there is no usable terminal, it "
		"could not be done, or wrong usage; 130 the interrupt key ended it.",
};

/* Parses seconds with a fraction. */
static bool delay_parse(const char *text, uint64_t *ms)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end != text && !*end && seconds >= 0.1 && seconds <= MOST_SECONDS) {
		*ms = (uint64_t)(seconds * 1e3 + 0.5);
		return true;
	}
	tool_usage_error(&top_tool, "--delay wants seconds from 0.1 to %d, not '%s'", MOST_SECONDS,
			 text);
	return false;
}

static bool sort_parse(const char *text, enum top_sort *sort)
{
	for (unsigned i = 0; i < TOP_SORTS; i++) {
		if (strcmp(text, top_sort_name((enum top_sort)i)) != 0)
			continue;
		*sort = (enum top_sort)i;
		return true;
	}
	tool_usage_error(&top_tool,
			 "--sort wants storage, values, requests, queue, wait, pid or program, "
			 "not '%s'",
			 text);
	return false;
}

static bool option_take(struct top_options *options, int key)
{
	switch (key) {
	case 'b':
		options->batch = true;
		return true;
	case 'n':
		return tool_number_parse(&top_tool, "--looks", optarg, 1, UINT32_MAX,
					 &options->looks);
	case 'd':
		return delay_parse(optarg, &options->every_ms);
	case OPTION_SORT:
		return sort_parse(optarg, &options->sort);
	default:
		tool_usage_hint(&top_tool);
		return false;
	}
}

/* --- plain text ------------------------------------------------------------------------------- */

static int look_print(const struct top_options *options, struct top_sampler *sampler)
{
	struct top_sample sample;
	char line[TOP_WIDTH];
	int rc = top_look(sampler, &sample);

	if (rc) {
		tool_complain(&top_tool, "%s", strerror(rc));
		return TOOL_FAILED;
	}
	top_sort(&sample, options->sort);
	for (unsigned i = 0; i < TOP_HEAD; i++)
		puts(top_head(&sample, (double)options->every_ms / 1e3, i, line));
	puts(top_title(line));
	for (size_t i = 0; i < sample.count; i++)
		puts(top_line(&sample.rows[i], line));
	return tool_output_end(&top_tool, TOOL_OK);
}

static int looks_print(const struct top_options *options, struct top_sampler *sampler)
{
	for (uint64_t i = 0; !options->looks || i < options->looks; i++) {
		int status;

		if (i) {
			putchar('\n');
			poll(NULL, 0, (int)options->every_ms);
		}
		if (tool_signal)
			return tool_signal_status();
		status = look_print(options, sampler);
		if (status)
			return status;
	}
	return tool_output_end(&top_tool, TOOL_OK);
}

int main(int argc, char **argv)
{
	struct top_options options = {.every_ms = 1000};
	struct top_sampler *sampler;
	int key, status;

	while ((key = tool_option_next(&top_tool, argc, argv)) != -1)
		if (!option_take(&options, key))
			return TOOL_FAILED;
	if (optind < argc)
		return tool_usage_error(&top_tool, "no operand is wanted, such as '%s'",
					argv[optind]);
	if (options.looks && !options.batch)
		return tool_usage_error(&top_tool, "--looks wants --batch");
	sampler = top_sampler_open();
	if (!sampler) {
		tool_complain(&top_tool, "%s", strerror(ENOMEM));
		return TOOL_FAILED;
	}
	tool_signals_catch();
	status = options.batch ? looks_print(&options, sampler)
			       : top_screen(&top_tool, sampler, options.every_ms, options.sort);
	top_sampler_close(sampler);
	return status;
}
