/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints the result as a table. */
#include "given_bench.h"

#include <inttypes.h>

static const double mib = 1048576;

static void print_data(const struct given_bench *bench, FILE *out)
{
	const struct given_set *set = &bench->sets[ORIGINAL];
	char size[TOOL_SIZE_TEXT], tree[TOOL_SIZE_TEXT];

	fprintf(out, "data      %s, %s: ", bench->sets[LMDBIO].file,
		tool_size_text(bench->sets[LMDBIO].file_size, size));
	if (set->database)
		fprintf(out, "database %s, ", set->database);
	fprintf(out, "%" PRIu64 " records in %s%s\n", set->records,
		tool_size_text(set->tree_size, tree),
		set->flags & MDB_NOLOCK && !set->container ? "; the lock file is left alone" : "");
	if (bench->compared && set->file != bench->sets[LMDBIO].file)
		fprintf(out, "raw       %s, %s\n", set->file, tool_size_text(set->file_size, size));
}

static void print_machine(const struct given_bench *bench, FILE *out)
{
	const struct given_machine *machine = &bench->machine;

	fprintf(out, "machine   %ld processors; memcpy %.0f MiB/s; ", machine->processors,
		machine->memory / mib);
	if (machine->direct > 0)
		fprintf(out, "O_DIRECT reader %.0f MiB/s\n", machine->direct / mib);
	else
		fprintf(out, "no O_DIRECT reader\n");
}

static void print_library(const struct given_row *row, enum library library, const char *title,
			  FILE *out)
{
	fprintf(out, "%-50s %-8s %10.0f %11.0f %9.1f %11.1f %8.0f %8.2f", title,
		library_names[library], GIVEN(row, library, records), given_rate(row, library, -1),
		given_bytes_rate(row, library, -1) / mib, GIVEN(row, library, asked) / mib,
		GIVEN(row, library, major) + GIVEN(row, library, minor),
		given_processor_seconds(row, library));
}

static void print_row(const struct given_bench *bench, const struct given_row *row, FILE *out)
{
	char title[ROW_TITLE], text[RATIO_TEXT];
	struct given_ratio ratio;

	given_title(row, title);
	if (!row->pairs) {
		fprintf(out, "%-50s not measured\n", title);
		return;
	}
	if (!bench->compared) {
		print_library(row, LMDBIO, title, out);
		fputc('\n', out);
		return;
	}
	ratio = given_ratio(row);
	print_library(row, ORIGINAL, title, out);
	fputc('\n', out);
	print_library(row, LMDBIO, "", out);
	given_ratio_text(&ratio, text);
	fprintf(out, "   %s\n", text);
}

void given_table_libraries(const struct given_bench *bench, FILE *out)
{
	if (bench->compared)
		fprintf(out, "original  %s, %s\n", bench->original.version,
			bench->original.library);
	fprintf(out, "lmdbio    %s\n\n", bench->drop_in);
}

void given_table_notes(const struct given_bench *bench, FILE *out)
{
	for (unsigned i = 0; i < bench->n_notes; i++)
		fprintf(out, "%s%s\n", i ? "" : "\n", bench->notes[i]);
}

void given_table(const struct given_bench *bench, FILE *out)
{
	char text[512];

	given_verdict(bench, text, sizeof(text));
	fprintf(out, "%s\n\n", text);
	given_plan_text(bench, text, sizeof(text));
	fprintf(out, "plan      %s\n", text);
	print_data(bench, out);
	print_machine(bench, out);
	given_table_libraries(bench, out);
	fprintf(out, "%-50s %-8s %10s %11s %9s %11s %8s %8s", "", "", "records", "records/s",
		"MiB/s", "storage MiB", "faults", "cpu s");
	fprintf(out, bench->compared ? "   ratio (of the pairs)\n" : "\n");
	for (unsigned i = 0; i < bench->n_rows; i++)
		print_row(bench, &bench->rows[i], out);
	given_table_notes(bench, out);
}
