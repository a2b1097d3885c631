/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the result as a page for a browser. */
#include "given_bench.h"

#include "html_page.h"

#include <inttypes.h>
#include <stdlib.h>

enum { COLUMNS = 9, CELL = 64 };

static const double mib = 1048576;

static void write_about(const struct given_bench *bench, FILE *out)
{
	const struct given_set *set = &bench->sets[ORIGINAL];
	const struct given_machine *machine = &bench->machine;
	char text[PATH_MAX + 256], size[TOOL_SIZE_TEXT];

	snprintf(text, sizeof(text), "Data: %s, %s, %s%s%" PRIu64 " records.",
		 bench->sets[LMDBIO].file, tool_size_text(bench->sets[LMDBIO].file_size, size),
		 set->database ? set->database : "", set->database ? ", " : "", set->records);
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

static void write_bars(const struct given_bench *bench, FILE *out)
{
	struct html_bar *bars = calloc(2 * (size_t)bench->n_rows, sizeof(*bars));
	char(*texts)[CELL] = calloc(2 * (size_t)bench->n_rows, sizeof(*texts));
	char(*labels)[ROW_TITLE] = calloc(2 * (size_t)bench->n_rows, sizeof(*labels));
	size_t n = 0;

	for (unsigned i = 0; bars && texts && labels && i < bench->n_rows; i++) {
		const struct given_row *row = &bench->rows[i];
		double rates[LIBRARIES], most;

		if (!row->pairs)
			continue;
		for (int library = 0; library < LIBRARIES; library++)
			rates[library] = library == LMDBIO || bench->compared
						 ? given_rate(row, library, -1)
						 : 0;
		most = rates[ORIGINAL] > rates[LMDBIO] ? rates[ORIGINAL] : rates[LMDBIO];
		for (int library = bench->compared ? ORIGINAL : LMDBIO; library < LIBRARIES;
		     library++, n++) {
			if (library == ORIGINAL || !bench->compared)
				given_title(row, labels[n]);
			snprintf(texts[n], CELL, "%s: %.0f records/s", library_names[library],
				 rates[library]);
			bars[n] = (struct html_bar){.label = labels[n],
						    .text = texts[n],
						    .part = most > 0 ? rates[library] / most : 0,
						    .colour = library == LMDBIO};
		}
	}
	html_bars(out, bars, n);
	free(bars);
	free(texts);
	free(labels);
}

static void write_library(const struct given_bench *bench, const struct given_row *row,
			  enum library library, FILE *out)
{
	char cells[COLUMNS][ROW_TITLE] = {{0}};
	const char *texts[COLUMNS];
	struct given_ratio ratio;

	given_title(row, cells[0]);
	snprintf(cells[1], CELL, "%s", library_names[library]);
	snprintf(cells[2], CELL, "%.0f", GIVEN(row, library, records));
	snprintf(cells[3], CELL, "%.0f", given_rate(row, library, -1));
	snprintf(cells[4], CELL, "%.1f", given_bytes_rate(row, library, -1) / mib);
	snprintf(cells[5], CELL, "%.1f", GIVEN(row, library, asked) / mib);
	snprintf(cells[6], CELL, "%.0f", GIVEN(row, library, major) + GIVEN(row, library, minor));
	snprintf(cells[7], CELL, "%.2f", given_processor_seconds(row, library));
	if (library == LMDBIO && bench->compared) {
		ratio = given_ratio(row);
		given_ratio_text(&ratio, cells[8]);
	}
	for (size_t i = 0; i < COLUMNS; i++)
		texts[i] = cells[i];
	html_table_row(out, texts, COLUMNS);
}

void given_html(const struct given_bench *bench, FILE *out)
{
	static const char *const heads[COLUMNS] = {
		"workload",    "library",     "records", "records/s",           "MiB/s",
		"storage MiB", "page faults", "cpu s",   "ratio (of the pairs)"};
	char text[512];

	html_begin(out, "lmdbio-bench");
	given_verdict(bench, text, sizeof(text));
	html_paragraph(out, text);
	html_heading(out, "Records a second");
	html_paragraph(out, "The faster of each two bars has the full length.");
	write_bars(bench, out);
	html_heading(out, "Medians of the runs");
	html_table_begin(out, heads, COLUMNS);
	for (unsigned i = 0; i < bench->n_rows; i++) {
		if (!bench->rows[i].pairs)
			continue;
		if (bench->compared)
			write_library(bench, &bench->rows[i], ORIGINAL, out);
		write_library(bench, &bench->rows[i], LMDBIO, out);
	}
	html_table_end(out);
	html_heading(out, "What was measured");
	write_about(bench, out);
	for (unsigned i = 0; i < bench->n_notes; i++)
		html_paragraph(out, bench->notes[i]);
	html_end(out);
}
