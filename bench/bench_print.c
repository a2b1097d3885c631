/* SPDX-License-Identifier: OLDAP-2.8 */
/* Holds the columns of the tables and the members of the JSON objects. The strings in the JSON
 * are the benchmark's own constants, so nothing needs escaping. */
#include "bench_print.h"

#include <inttypes.h>
#include <math.h>

static void print_library(FILE *out, const struct measured *m, enum library library)
{
	double seconds = measured_seconds(m, library, MEDIANS);
	double cpu = MEASURED(m, library, MEDIANS, user) + MEASURED(m, library, MEDIANS, system);

	fprintf(out,
		"  %-9s %9.4f %8.4f %9.0f %11.0f %8.3f %8.3f %8.0f %9.0f %9.0f %8.0f %9.0f "
		"%10.1f\n",
		library_names[library], seconds, MEASURED(m, library, MEDIANS, closing) / 1e9,
		MEASURED(m, library, MEDIANS, bytes) / 1048576 / seconds,
		MEASURED(m, library, MEDIANS, records) / seconds, cpu / 1e6,
		cpu * 1e3 / MEASURED(m, library, MEDIANS, bytes),
		MEASURED(m, library, MEDIANS, major), MEASURED(m, library, MEDIANS, minor),
		MEASURED(m, library, MEDIANS, switches), MEASURED(m, library, MEDIANS, rss) / 1024,
		MEASURED(m, library, MEDIANS, requests),
		MEASURED(m, library, MEDIANS, asked) / 1048576);
}

/* Noise only adds time, so the least disturbed run of each library is compared. */
static double best_ratio(const struct measured *m)
{
	double best[LIBRARIES] = {INFINITY, INFINITY};

	for (int library = 0; library < LIBRARIES; library++)
		for (unsigned i = 0; i < m->pairs; i++)
			best[library] = fmin(best[library], measured_seconds(m, library, (int)i));
	return best[ORIGINAL] / best[LMDBIO];
}

/* "0.994, by 95 % 0.982 to 1.003 (pairs 0.961 to 1.039)" */
static void print_measured(FILE *out, const struct figure_measured *measured)
{
	fprintf(out, "%.3f, by 95 %% ", measured->median);
	if (measured->sure)
		fprintf(out, "%.3f to %.3f", measured->low, measured->high);
	else
		fprintf(out, "not known");
	fprintf(out, " (pairs %.3f to %.3f)", measured->least, measured->greatest);
}

void print_case(FILE *out, const struct measured *m, const struct figure_input *input)
{
	struct figure_measured rate, cpu;
	char title[TITLE_ROOM];

	case_title(m->what, title);
	fprintf(out, "\n%s; %u pairs", title, m->pairs);
	if (m->what->work != WORK_LOAD)
		fprintf(out, "; %" PRIu64 " records of %" PRIu64 " bytes, file %.1f MiB",
			m->data.records, m->data.set->value_size,
			(double)m->data.file_size / 1048576);
	fprintf(out, "\n  %-9s %9s %8s %9s %11s %8s %8s %8s %9s %9s %8s %9s %10s\n", "", "seconds",
		"closing", "MiB/s", "records/s", "cpu s", "cpu s/GB", "major", "minor", "switches",
		"RSS MiB", "requests", "MiB asked");
	print_library(out, m, ORIGINAL);
	print_library(out, m, LMDBIO);
	figure_measure(FIGURE_RATE, input, &rate);
	figure_measure(FIGURE_CPU, input, &cpu);
	fprintf(out, "  lmdbio's rate / original's ");
	print_measured(out, &rate);
	fprintf(out, ", of the best runs %.3f\n", best_ratio(m));
	if (!isnan(cpu.median)) {
		fprintf(out, "  %s ", figure_name(FIGURE_CPU));
		print_measured(out, &cpu);
		fprintf(out, "\n");
	}
	if (measured_direct(m, MEDIANS) > 0)
		fprintf(out, "  the O_DIRECT reader takes %.4f s\n", measured_direct(m, MEDIANS));
	if (m->what->fio && measured_fio(m, MEDIANS) > 0)
		fprintf(out, "  fio takes %.4f s\n", measured_fio(m, MEDIANS));
	else if (m->what->fio)
		fprintf(out, "  there is no fio here\n");
	fflush(out);
}

void print_figures_head(FILE *out)
{
	fprintf(out, "\n%-52s %-25s %9s %9s %-19s %-19s %s\n", "workload", "figure", "asked",
		"median", "  by 95 %", "  pairs", "met");
}

void print_figures(FILE *out, const struct suite_row *row, const struct figure_input *input)
{
	char title[TITLE_ROOM];

	case_title(&row->what, title);
	for (int i = 0; i < FIGURES_MAX && row->figures[i].kind != FIGURE_NONE; i++) {
		const struct figure *figure = &row->figures[i];
		struct figure_measured measured;

		figure_measure(figure->kind, input, &measured);
		fprintf(out, "%-52s %-25s %s%7.2f ", title, figure_name(figure->kind),
			figure_is_minimum(figure->kind) ? ">=" : "<=", figure->asked);
		if (isnan(measured.median)) {
			fprintf(out, "%9s %-19s %-19s %s\n", "-", "", "",
				figure_why_not(figure->kind));
			continue;
		}
		fprintf(out, "%9.3f ", measured.median);
		if (measured.sure)
			fprintf(out, "%8.3f..%-9.3f ", measured.low, measured.high);
		else
			fprintf(out, "%8s%-11s ", "-", "");
		fprintf(out, "%8.3f..%-9.3f %s\n", measured.least, measured.greatest,
			figure_verdict(figure, &measured));
	}
}

void print_instructions_head(FILE *out)
{
	fprintf(out, "\n%-52s %12s %12s %8s\n", "instructions for each record (callgrind)",
		"original", "lmdbio", "ratio");
}

void print_instructions(FILE *out, const struct measured *m)
{
	double records = (double)m->runs[ORIGINAL][0].records;
	char title[TITLE_ROOM];

	case_title(m->what, title);
	fprintf(out, "%-52s %12.1f %12.1f %8.3f\n", title,
		(double)m->instructions[ORIGINAL] / records,
		(double)m->instructions[LMDBIO] / records,
		(double)m->instructions[LMDBIO] / (double)m->instructions[ORIGINAL]);
	fflush(out);
}

static void json_library(FILE *out, const struct measured *m, enum library library)
{
	fprintf(out, "\"%s\":{\"seconds\":%.9f", library_names[library],
		measured_seconds(m, library, MEDIANS));
	for (size_t i = 0; i < bench_result_n; i++) {
		const struct field *field = &bench_result_fields[i];

		if (field->kind != FIELD_NUMBER ||
		    field->offset <= offsetof(struct bench_result, end))
			continue;
		fprintf(out, ",\"%s\":%.0f", field->name,
			measured_field(m, library, MEDIANS, field->offset));
	}
	fprintf(out, ",\"requests\":%.0f,\"asked\":%.0f,\"instructions\":%" PRIu64 ",\"runs\":[",
		MEASURED(m, library, MEDIANS, requests), MEASURED(m, library, MEDIANS, asked),
		m->instructions[library]);
	for (unsigned i = 0; i < m->pairs; i++)
		fprintf(out, "%s%.9f", i ? "," : "", measured_seconds(m, library, (int)i));
	fprintf(out, "]}");
}

/* The interval is null if there are too few pairs for one. */
static void json_measured(FILE *out, const struct figure_measured *measured)
{
	fprintf(out, "\"measured\":%.9g,\"pairs\":[%.9g,%.9g],\"interval\":", measured->median,
		measured->least, measured->greatest);
	if (measured->sure)
		fprintf(out, "[%.9g,%.9g]", measured->low, measured->high);
	else
		fprintf(out, "null");
}

/* Printed for every case, whether or not a figure is asked of it. */
static void json_ratio(FILE *out, const char *name, enum figure_kind kind,
		       const struct figure_input *input)
{
	struct figure_measured measured;

	figure_measure(kind, input, &measured);
	fprintf(out, ",\"%s\":", name);
	if (isnan(measured.median)) {
		fprintf(out, "null");
		return;
	}
	fprintf(out, "{");
	json_measured(out, &measured);
	fprintf(out, "}");
}

static void json_figures(FILE *out, const struct suite_row *row, const struct figure_input *input)
{
	fprintf(out, ",\"figures\":[");
	for (int i = 0; i < FIGURES_MAX && row->figures[i].kind != FIGURE_NONE; i++) {
		const struct figure *figure = &row->figures[i];
		struct figure_measured measured;

		figure_measure(figure->kind, input, &measured);
		fprintf(out, "%s{\"figure\":\"%s\",\"%s\":%g,", i ? "," : "",
			figure_name(figure->kind),
			figure_is_minimum(figure->kind) ? "at_least" : "at_most", figure->asked);
		if (isnan(measured.median)) {
			fprintf(out, "\"measured\":null,\"met\":null,\"why\":\"%s\"}",
				figure_why_not(figure->kind));
			continue;
		}
		json_measured(out, &measured);
		fprintf(out, ",\"met\":\"%s\"}", figure_verdict(figure, &measured));
	}
	fprintf(out, "]");
}

void print_json(FILE *out, const struct measured *m, const struct suite_row *row,
		const struct figure_input *input)
{
	const struct bench_case *what = m->what;
	char title[TITLE_ROOM];

	case_title(what, title);
	fprintf(out,
		"{\"title\":\"%s\",\"work\":\"%s\",\"set\":\"%s\",\"state\":\"%s\",\"slowfs\":%s,"
		"\"processes\":%u,\"nordahead\":%s,\"touch\":%u,\"every_byte\":%s,",
		title, bench_work_names[what->work], what->set, state_names[what->state],
		what->slow ? "true" : "false", what->processes, what->nordahead ? "true" : "false",
		what->touch, what->hash ? "true" : "false");
	fprintf(out,
		"\"set_records\":%" PRIu64 ",\"value_size\":%" PRIu64 ",\"file_size\":%" PRIu64
		",\"pairs\":%u,\"direct_seconds\":%.9f,",
		m->data.records, m->data.set->value_size, m->data.file_size, m->pairs,
		measured_direct(m, MEDIANS));
	if (what->fio && measured_fio(m, MEDIANS) > 0)
		fprintf(out, "\"fio_seconds\":%.9f,", measured_fio(m, MEDIANS));
	else if (what->fio)
		fprintf(out, "\"fio_seconds\":null,");
	json_library(out, m, ORIGINAL);
	fprintf(out, ",");
	json_library(out, m, LMDBIO);
	json_ratio(out, "rate", FIGURE_RATE, input);
	json_ratio(out, "processor_time", FIGURE_CPU, input);
	if (row)
		json_figures(out, row, input);
	fprintf(out, "}");
}
