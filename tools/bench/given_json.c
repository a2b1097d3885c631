/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints the result as one JSON document. */
#include "given_bench.h"

#include "tool_json.h"

#include "config.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static json_t *json_set(const struct given_set *set)
{
	return json_pack("{so, so, sb, sI, so, sI, sI, sb, sI}", "path", tool_json_text(set->named),
			 "file", tool_json_text(set->file), "container", set->container, "file_bytes",
			 (json_int_t)set->file_size, "database", tool_json_text(set->database),
			 "records", (json_int_t)set->records, "tree_bytes",
			 (json_int_t)set->tree_size, "lock_file_used", !(set->flags & MDB_NOLOCK),
			 "transaction", (json_int_t)set->snapshot);
}

static json_t *json_run(const struct bench_result *run)
{
	double seconds = (double)(run->end - run->begin) / 1e9;

	return json_pack(
		"{sf, sI, sI, sI, sI, sI, sI, sf, sI, sI, sI, sI}", "seconds", seconds, "records",
		(json_int_t)run->records, "bytes", (json_int_t)run->bytes, "storage_bytes",
		(json_int_t)run->asked, "lmdbio_requests", (json_int_t)run->lmdbio_requests,
		"major_faults", (json_int_t)run->major, "minor_faults", (json_int_t)run->minor,
		"processor_seconds", (double)(run->user + run->system) / 1e6, "missing_keys",
		(json_int_t)run->missing, "stopped", (json_int_t)run->stopped, "early_records",
		(json_int_t)run->early_records, "sum", (json_int_t)(run->sum & INT64_MAX));
}

static json_t *json_library(const struct given_row *row, enum library library)
{
	json_t *runs = json_array();

	for (unsigned i = 0; i < row->pairs; i++)
		json_array_append_new(runs, json_run(&row->runs[library][i]));
	return json_pack("{sf, sf, sf, sf, sf, sf, so}", "records_a_second",
			 given_rate(row, library, -1), "bytes_a_second",
			 given_bytes_rate(row, library, -1), "storage_bytes",
			 GIVEN(row, library, asked), "major_faults", GIVEN(row, library, major),
			 "minor_faults", GIVEN(row, library, minor), "processor_seconds",
			 given_processor_seconds(row, library), "runs", runs);
}

static json_t *json_row(const struct given_bench *bench, const struct given_row *row)
{
	struct given_ratio ratio = given_ratio(row);
	char title[ROW_TITLE];
	json_t *json;

	given_title(row, title);
	json = json_pack("{ss, ss, ss, sb, sb, sI, sI}", "title", title, "state",
			 row->cold ? "cold" : "warm", "work",
			 row->work == WORK_PART ? "scan" : "get", "nordahead", row->nordahead,
			 "hints", row->hints, "processes", (json_int_t)row->processes, "pairs",
			 (json_int_t)row->pairs);
	if (!row->pairs)
		return json;
	if (bench->compared) {
		json_object_set_new(json, "ratio",
				    json_pack("{sf, sf, sf}", "median", ratio.median, "least",
					      ratio.least, "greatest", ratio.greatest));
		json_object_set_new(json_object_get(json, "ratio"), "interval",
				    ratio.sure ? json_pack("[ff]", ratio.low, ratio.high)
					       : json_null());
		json_object_set_new(json, "original", json_library(row, ORIGINAL));
	}
	json_object_set_new(json, "lmdbio", json_library(row, LMDBIO));
	return json;
}

static json_t *json_original(const struct given_bench *bench)
{
	if (!bench->compared)
		return json_null();
	return json_pack("{so, so, sb, so}", "library", tool_json_text(bench->original.library),
			 "version", tool_json_text(bench->original.version), "built_in", bench->built_in,
			 "data", json_set(&bench->sets[ORIGINAL]));
}

int given_json_end(json_t *json, const struct given_bench *bench, FILE *out)
{
	json_t *notes = json_array();
	int rc;

	for (unsigned i = 0; i < bench->n_notes; i++)
		json_array_append_new(notes, tool_json_text(bench->notes[i]));
	json_object_set_new(json, "notes", notes);
	rc = json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) ? EIO : 0;
	fputc('\n', out);
	json_decref(json);
	return rc;
}

int given_json(const struct given_bench *bench, FILE *out)
{
	const struct given_machine *machine = &bench->machine;
	json_t *rows = json_array(), *json;
	char verdict[512];

	given_verdict(bench, verdict, sizeof(verdict));
	for (unsigned i = 0; i < bench->n_rows; i++)
		json_array_append_new(rows, json_row(bench, &bench->rows[i]));
	json = json_pack("{ss, ss, ss, sb, so, so}", "schema", "lmdbio-bench/1", "version",
			 PACKAGE_VERSION, "verdict", verdict, "same", !bench->differ, "original",
			 json_original(bench), "lmdbio",
			 json_pack("{so, so}", "library", tool_json_text(bench->drop_in), "data",
				   json_set(&bench->sets[LMDBIO])));
	json_object_set_new(json, "machine",
			    json_pack("{sI, sf, sf, sI}", "processors",
				      (json_int_t)machine->processors, "memcpy_bytes_a_second",
				      machine->memory, "direct_bytes_a_second", machine->direct,
				      "direct_bytes", (json_int_t)machine->direct_bytes));
	json_object_set_new(json, "plan",
			    json_pack("{sI, sI, sI, sf, sf, sI, sI}", "seconds",
				      (json_int_t)bench->options.seconds, "bytes",
				      (json_int_t)bench->options.bytes, "pairs",
				      (json_int_t)bench->options.pairs, "cold_run_seconds",
				      bench->cold_seconds, "warm_run_seconds", bench->warm_seconds,
				      "keys", (json_int_t)bench->n_keys, "seed",
				      (json_int_t)bench->options.seed));
	json_object_set_new(json, "rows", rows);
	return given_json_end(json, bench, out);
}
