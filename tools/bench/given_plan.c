/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses the rows to measure, and how long each run may take. */
#include "given_bench.h"

#include <stdlib.h>
#include <string.h>

/* Memory shows its speed quickly, storage does not: a cold run has this many times a warm one's
 * time. */
static const double cold_weight = 4;

/* Keys of a run, at most: drawing more from a slow file system would take most of the time. */
enum { KEYS_MAX = 20000 };

static const struct given_row kinds[] = {
	{.cold = true, .work = WORK_PART},
	{.cold = true, .work = WORK_GIVEN},
	{.cold = true, .work = WORK_GIVEN, .nordahead = true},
	{.cold = true, .work = WORK_GIVEN, .nordahead = true, .hints = true},
	{.work = WORK_PART},
	{.work = WORK_GIVEN},
};

void given_title(const struct given_row *row, char title[ROW_TITLE])
{
	char processes[32] = "1 process";

	if (row->processes > 1)
		snprintf(processes, sizeof(processes), "%u processes", row->processes);
	snprintf(title, ROW_TITLE, "%s, %s%s%s, %s", row->cold ? "cold" : "warm",
		 row->work == WORK_PART ? "scan" : "shuffled get",
		 row->nordahead ? ", NORDAHEAD" : "", row->hints ? ", hints" : "", processes);
}

static void add_row(struct given_bench *bench, const struct given_row *kind, unsigned processes)
{
	struct given_row *row = &bench->rows[bench->n_rows];
	char title[ROW_TITLE];

	*row = *kind;
	row->processes = processes;
	given_title(row, title);
	if (bench->options.only && !strstr(title, bench->options.only))
		return;
	if (row->cold && (bench->sets[LMDBIO].in_memory || bench->sets[ORIGINAL].in_memory)) {
		given_note(bench, "No row is cold: %s lies in memory (tmpfs).",
			   bench->sets[LMDBIO].file);
		return;
	}
	bench->n_rows++;
}

static uint64_t keys_wanted(const struct given_bench *bench)
{
	const struct given_set *set = &bench->sets[ORIGINAL];
	uint64_t n = bench->options.bytes / given_record_size(set);

	if (n > KEYS_MAX)
		n = KEYS_MAX;
	if (n > set->records)
		n = set->records;
	return n ? n : 1;
}

int given_plan(struct given_bench *bench)
{
	const struct given_options *options = &bench->options;
	uint64_t runs = options->pairs * (bench->compared ? 2 : 1);
	double parts = 0;

	bench->rows = calloc(ROWS_MAX, sizeof(*bench->rows));
	if (!bench->rows) {
		tool_complain(bench->tool, "out of memory");
		return TOOL_FAILED;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (size_t p = 0; p < PROCESS_COUNTS && options->processes[p]; p++)
			add_row(bench, &kinds[i], options->processes[p]);
	if (!bench->n_rows && bench->n_notes) {
		tool_complain(bench->tool,
			      "%s: it lies in memory (tmpfs): no reading of it is cold",
			      bench->sets[LMDBIO].file);
		return TOOL_FAILED;
	}
	if (!bench->n_rows)
		return tool_usage_error(bench->tool,
					"no row has '%s' in its title, such as "
					"\"cold, shuffled get, 4 processes\"",
					options->only ? options->only : "cold");
	bench->n_keys = keys_wanted(bench);
	/* The keys and the machine each take a tenth, and one run of each warm row is untimed. */
	for (unsigned i = 0; i < bench->n_rows; i++)
		parts += bench->rows[i].cold ? cold_weight * (double)runs : (double)runs + 1;
	bench->warm_seconds = 0.8 * (double)options->seconds / parts;
	bench->cold_seconds = cold_weight * bench->warm_seconds;
	return 0;
}

void given_plan_text(const struct given_bench *bench, char *text, size_t size)
{
	const struct given_options *options = &bench->options;
	char bytes[TOOL_SIZE_TEXT];

	snprintf(text, size,
		 "%u workload%s, %u run%s of each%s, a run up to %.2g s cold, %.2g s warm, and %s: "
		 "about %u s",
		 bench->n_rows, bench->n_rows == 1 ? "" : "s", (unsigned)options->pairs,
		 options->pairs == 1 ? "" : "s",
		 bench->compared ? " on the original and on lmdbio in turn" : "",
		 bench->cold_seconds, bench->warm_seconds, tool_size_text(options->bytes, bytes),
		 (unsigned)options->seconds);
}
