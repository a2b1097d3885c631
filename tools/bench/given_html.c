/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the result as a page for a browser. */
#include "given_bench.h"

#include "html/html_page.h"

static const double mib = 1048576;

static void write_about(const struct given_bench *bench, FILE *out)
{
	const struct given_set *set = &bench->sets[ORIGINAL];
	const struct given_machine *machine = &bench->machine;
	char text[PATH_MAX + 256], size[TOOL_SIZE_TEXT], number[HTML_NUMBER];

	snprintf(text, sizeof(text), "Data: %s, %s, %s%s%s records.", bench->sets[LMDBIO].file,
		 tool_size_text(bench->sets[LMDBIO].file_size, size),
		 set->database ? set->database : "", set->database ? ", " : "",
		 html_number(set->records, number));
	html_paragraph(out, text);
	if (bench->compared) {
		snprintf(text, sizeof(text), "Original: %s, %s%s.", bench->original.version,
			 bench->original.library,
			 bench->built_in ? " (held by lmdbio, LMDBIO_DISABLE=1)" : "");
		html_paragraph(out, text);
	}
	if (machine->direct > 0)
		snprintf(text, sizeof(text),
			 "Machine: %ld processors; memcpy moves %.0f MiB/s; a reader by O_DIRECT "
			 "gets %.0f MiB/s from storage.",
			 machine->processors, machine->memory / mib, machine->direct / mib);
	else
		snprintf(text, sizeof(text), "Machine: %ld processors; memcpy moves %.0f MiB/s.",
			 machine->processors, machine->memory / mib);
	html_paragraph(out, text);
	given_plan_text(bench, text, sizeof(text));
	html_paragraph(out, text);
}

/* Writes a rate as "1.5 GiB/s". */
static const char *speed_text(double rate, char text[HTML_NUMBER])
{
	char size[TOOL_SIZE_TEXT];

	snprintf(text, HTML_NUMBER, "%.20s/s", tool_size_text((uint64_t)rate, size));
	return text;
}

static const char *records_text(double records, char text[HTML_NUMBER])
{
	return html_number((uint64_t)(records + 0.5), text);
}

static void write_bar(const struct given_row *row, enum library library, double most, FILE *out)
{
	double rate = given_rate(row, library, -1);
	char number[HTML_NUMBER], value[HTML_NUMBER + 16];
	struct html_bar bar = {.name = library_names[library],
			       .value = value,
			       .part = most > 0 ? rate / most : 0,
			       .colour = library == LMDBIO ? "c1" : "c0",
			       .indented = true};

	snprintf(value, sizeof(value), "%s records/s", records_text(rate, number));
	html_bars_row(out, &bar);
}

static void write_bars(const struct given_bench *bench, FILE *out)
{
	html_bars_begin(out);
	for (unsigned i = 0; i < bench->n_rows; i++) {
		const struct given_row *row = &bench->rows[i];
		char title[ROW_TITLE], ratio_text[RATIO_TEXT] = "";
		struct given_ratio ratio;
		double most;

		if (!row->pairs)
			continue;
		given_title(row, title);
		most = given_rate(row, LMDBIO, -1);
		if (bench->compared) {
			ratio = given_ratio(row);
			given_ratio_text(&ratio, ratio_text);
			if (given_rate(row, ORIGINAL, -1) > most)
				most = given_rate(row, ORIGINAL, -1);
		}
		html_bars_group(out, title, ratio_text);
		if (bench->compared)
			write_bar(row, ORIGINAL, most, out);
		write_bar(row, LMDBIO, most, out);
	}
	html_bars_end(out);
}

/* --- the table of medians --------------------------------------------------------------------- */

static const struct html_column columns[] = {
	{"Workload", false}, {"Library", false},     {"Records", true},     {"Records/s", true},
	{"Bytes/s", true},   {"From storage", true}, {"Page faults", true}, {"Processor", true},
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

static void write_library(const struct given_bench *bench, const struct given_row *row,
			  enum library library, FILE *out)
{
	char records[HTML_NUMBER], rate[HTML_NUMBER], bytes[HTML_NUMBER], asked[TOOL_SIZE_TEXT];
	char faults[HTML_NUMBER], processor[HTML_NUMBER], title[ROW_TITLE] = "";
	const char *cells[COLUMNS] = {
		title,
		library_names[library],
		records_text(GIVEN(row, library, records), records),
		records_text(given_rate(row, library, -1), rate),
		speed_text(given_bytes_rate(row, library, -1), bytes),
		tool_size_text((uint64_t)GIVEN(row, library, asked), asked),
		records_text(GIVEN(row, library, major) + GIVEN(row, library, minor), faults),
		html_time((uint64_t)(1e9 * given_processor_seconds(row, library)), processor)};

	if (library == ORIGINAL || !bench->compared)
		given_title(row, title);
	html_table_row(out, columns, COLUMNS, cells);
}

static void write_medians(const struct given_bench *bench, FILE *out)
{
	html_table_begin(out, columns, COLUMNS);
	for (unsigned i = 0; i < bench->n_rows; i++) {
		if (!bench->rows[i].pairs)
			continue;
		if (bench->compared)
			write_library(bench, &bench->rows[i], ORIGINAL, out);
		write_library(bench, &bench->rows[i], LMDBIO, out);
	}
	html_table_end(out);
}

void given_html(const struct given_bench *bench, FILE *out)
{
	char text[512];

	html_begin(out, "lmdbio-bench");
	given_verdict(bench, text, sizeof(text));
	html_verdict(out, bench->differ ? HTML_BAD : HTML_PLAIN, text);
	html_section_begin(out, "rates", "Records a second");
	html_paragraph(out, bench->compared
				    ? "The faster of each two bars has the full length. Behind a "
				      "title: how many times the original's rate lmdbio reaches, "
				      "and from which to which factor the pairs of runs were."
				    : "Medians of the runs.");
	write_bars(bench, out);
	html_section_end(out);
	html_section_begin(out, "medians", "Medians of the runs");
	write_medians(bench, out);
	html_section_end(out);
	html_section_begin(out, "about", "What was measured");
	write_about(bench, out);
	for (unsigned i = 0; i < bench->n_notes; i++)
		html_paragraph(out, bench->notes[i]);
	html_section_end(out);
	html_end(out, "lmdbio-bench");
}
