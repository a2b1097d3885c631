/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints how many accelerators are fed, as a table or as JSON. */
#include "train.h"

#include "tool_json.h"

#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static const double mib = 1048576, giga = 1e9;

/* Writes "12", or "64 or more" if no larger number was tried. */
static const char *fed_text(const struct train_way *way, char text[32])
{
	bool open = way->search.passed && way->search.passed == way->search.most;

	snprintf(text, 32, "%u%s", way->search.passed, open ? " or more" : "");
	return text;
}

/* Returns a library's better way without hints, or its way with hints; NULL: not measured. */
static const struct train_way *best(const struct train *train, enum library library, bool hints)
{
	const struct train_way *found = NULL;

	for (unsigned i = 0; i < train->n_ways; i++) {
		const struct train_way *way = &train->ways[i];

		if (way->library == library && way->hints == hints && way->runs &&
		    (!found || way->search.passed > found->search.passed))
			found = way;
	}
	return found;
}

void train_verdict(const struct train *train, char *text, size_t size)
{
	static const struct {
		enum library library;
		bool hints;
		const char *says;
	} parts[] = {{LMDBIO, false, "lmdbio feeds"},
		     {LMDBIO, true, "lmdbio with hints"},
		     {ORIGINAL, false, "the original"}};
	char fed[32];

	*text = 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		const struct train_way *way = best(train, parts[i].library, parts[i].hints);
		size_t length = strlen(text);

		if (way)
			snprintf(text + length, size - length, "%s%s %s", length ? ", " : "",
				 parts[i].says, fed_text(way, fed));
	}
	snprintf(text + strlen(text), size - strlen(text),
		 " emulated accelerators of %s at %.0f %% utilisation", train->model->name,
		 100 * train->model->wanted);
}

/* Returns the time from the end of the first step to that of the last; 0 without a step between. */
static double seconds_of(const struct train_run *run)
{
	return run->result.steps ? (double)(run->result.last_step - run->result.first_step) / 1e9
				 : 0;
}

static double samples_of(const struct train *train, const struct train_run *run)
{
	double seconds = seconds_of(run);

	return seconds > 0 ? (double)(run->result.steps * train->batch) / seconds : 0;
}

static double bytes_of(const struct train *train, const struct train_run *run)
{
	double records = (double)run->result.records;

	return records > 0 ? samples_of(train, run) * (double)run->result.bytes / records : 0;
}

/* Returns the processor seconds for a number of bytes. */
static double processor_of(const struct train_run *run)
{
	double bytes = (double)run->result.bytes;

	return bytes > 0 ? (double)(run->result.user + run->result.system) / 1e6 / (bytes / giga)
			 : 0;
}

static void print_percent(const struct train_run *run, FILE *out)
{
	if (run)
		fprintf(out, " %10.1f %%", 100 * run->utilisation);
	else
		fprintf(out, " %12s", "-");
}

static void print_way(const struct train *train, const struct train_way *way, FILE *out)
{
	const struct train_run *fed = train_run_of(way, way->search.passed);
	const struct train_run *more = train_run_of(way, way->search.passed + 1);
	const struct train_run *shown = fed ? fed : more;
	char title[TRAIN_TITLE], text[32];

	train_title(way, title);
	fprintf(out, "%-28s %11s", title, way->runs ? fed_text(way, text) : "-");
	print_percent(fed, out);
	print_percent(more, out);
	if (shown)
		fprintf(out, " %11.1f %9.1f %9.2f", samples_of(train, shown),
			bytes_of(train, shown) / mib, processor_of(shown));
	fputc('\n', out);
}

static void print_plan(const struct train *train, FILE *out)
{
	const struct given_set *set = &train->bench->sets[ORIGINAL];
	uint64_t record = given_record_size(set);
	char size[TOOL_SIZE_TEXT], other[TOOL_SIZE_TEXT];

	fprintf(out,
		"model     %s: batches of %" PRIu64 ", %.2f ms of computing each, %" PRIu64
		" readers an accelerator\n",
		train->model->name, train->batch, (double)train->compute / 1e6, train->readers);
	fprintf(out, "data      %s: %" PRIu64 " records in %s", train->bench->sets[LMDBIO].file,
		set->records, tool_size_text(set->tree_size, size));
	fprintf(out, ", %s each (the model's have %s)\n", tool_size_text(record, size),
		tool_size_text(train->model->record_size, other));
	fprintf(out, "memory    %s of %s for all readers\n",
		train->memory ? tool_size_text(train->memory, size) : "all",
		tool_size_text(train->machine, other));
	fprintf(out, "runs      up to %.2g s each, cold, with an order of its own\n",
		train->run_seconds);
}

void train_table(const struct train *train, FILE *out)
{
	char text[256];

	train_verdict(train, text, sizeof(text));
	fprintf(out, "%s\n\n", text);
	print_plan(train, out);
	given_table_libraries(train->bench, out);
	fprintf(out, "%-28s %11s %12s %12s %11s %9s %9s\n", "", "fed", "utilisation", "one more",
		"samples/s", "MiB/s", "cpu s/GB");
	for (unsigned i = 0; i < train->n_ways; i++)
		print_way(train, &train->ways[i], out);
	given_table_notes(train->bench, out);
}

static json_t *json_run(const struct train *train, const struct train_run *run)
{
	const struct bench_result *result = &run->result;

	return json_pack("{sI, sf, sI, sf, sf, sI, sI, sf, sf, sI, sI, sb}", "accelerators",
			 (json_int_t)run->accelerators, "utilisation", run->utilisation, "steps",
			 (json_int_t)result->steps, "seconds", seconds_of(run), "waited_seconds",
			 (double)result->waited / 1e9, "records", (json_int_t)result->records,
			 "bytes", (json_int_t)result->bytes, "samples_a_second",
			 samples_of(train, run), "processor_seconds",
			 (double)(result->user + result->system) / 1e6, "major_faults",
			 (json_int_t)result->major, "lmdbio_requests",
			 (json_int_t)result->lmdbio_requests, "given_up", result->stopped > 0);
}

static json_t *json_way(const struct train *train, const struct train_way *way)
{
	json_t *runs = json_array();
	char title[TRAIN_TITLE];

	train_title(way, title);
	for (unsigned i = 0; i < way->runs; i++)
		json_array_append_new(runs, json_run(train, &way->run[i]));
	return json_pack("{ss, ss, sb, sb, sI, sb, so}", "title", title, "library",
			 library_names[way->library], "nordahead", way->nordahead, "hints",
			 way->hints, "fed", (json_int_t)way->search.passed, "most_tried",
			 way->search.passed == way->search.most, "runs", runs);
}

int train_json(const struct train *train, FILE *out)
{
	const struct given_set *set = &train->bench->sets[LMDBIO];
	json_t *ways = json_array(), *json;
	char verdict[256];

	train_verdict(train, verdict, sizeof(verdict));
	for (unsigned i = 0; i < train->n_ways; i++)
		json_array_append_new(ways, json_way(train, &train->ways[i]));
	json = json_pack("{ss, ss, ss, ss, sI, sI, sf, sf, so, sI, sI, sI, sI, sf, so}", "schema",
			 "lmdbio-bench-train/1", "version", PACKAGE_VERSION, "verdict", verdict,
			 "model", train->model->name, "batch", (json_int_t)train->batch, "readers",
			 (json_int_t)train->readers, "compute_seconds",
			 (double)train->compute / 1e9, "utilisation_wanted", train->model->wanted,
			 "file", tool_json_text(set->file), "records", (json_int_t)set->records,
			 "tree_bytes", (json_int_t)set->tree_size, "memory_bytes",
			 (json_int_t)train->memory, "machine_bytes", (json_int_t)train->machine,
			 "run_seconds", train->run_seconds, "ways", ways);
	return given_json_end(json, train->bench, out);
}
