/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes one HTML page of the statistics from the processes of a job. */
#include "report_page.h"
#include "report_read.h"
#include "tool_common.h"
#include "tool_output.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct tool_option report_options[] = {
	{'o', "output", "FILE", "write the page to FILE, not to standard output"},
	{0},
};

static const struct tool report_tool = {
	.name = "lmdbio-report",
	.synopsis = "[-o PAGE] FILE...",
	.purpose = "Make one HTML page of the statistics that LMDBIO_STATS=FILE has written, of "
		   "one process or of all processes of a job. The page needs no network and no "
		   "script. The FILE - is standard input.",
	.options = report_options,
	.closing = "Exit status: 0 the page is written; 2 a FILE is not lmdbio's statistics, the "
		   "page could not be written, or wrong usage.",
};

/* Returns whether `a` and `b` are one file: the page must not replace an input file. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat left, right;

	return !stat(a, &left) && !stat(b, &right) && S_ISREG(left.st_mode) &&
	       left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

static int page_write(struct report_input *input, const char *output)
{
	int status = output ? tool_output_file(&report_tool, output) : 0;

	if (status)
		return status;
	report_page(input->processes, input->count);
	return tool_output_commit(&report_tool, TOOL_OK, true);
}

static int files_read(struct report_input *input, char **files, const char *output)
{
	for (; *files; files++) {
		int status;

		if (output && is_same_file(*files, output)) {
			tool_complain(&report_tool,
				      "%s is one of the statistics; -o wants another name for "
				      "the page",
				      output);
			return TOOL_FAILED;
		}
		status = report_read(input, *files);
		if (status)
			return status;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct report_input input = {.tool = &report_tool};
	const char *output = NULL;
	int key, status;

	while ((key = tool_option_next(&report_tool, argc, argv)) != -1) {
		if (key != 'o')
			return tool_usage_hint(&report_tool);
		output = optarg;
	}
	if (optind == argc)
		return tool_usage_error(&report_tool, "no FILE is given; give files that "
						      "LMDBIO_STATS=FILE has written");
	tool_signals_catch();
	status = files_read(&input, argv + optind, output);
	if (!status)
		status = page_write(&input, output);
	report_read_end(&input);
	return status;
}
