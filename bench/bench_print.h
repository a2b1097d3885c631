/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints results, for people and as JSON. */
#ifndef BENCH_PRINT_H
#define BENCH_PRINT_H

#include "bench_suites.h"

#include <stdio.h>

/* One case: a line for each library (medians), and the ratios of rate and processor time with the
 * interval of their median and their spread over the pairs. */
void print_case(FILE *out, const struct measured *m, const struct figure_input *input);

/* A row of the table "asked, measured, met" for each figure of a suite's row. */
void print_figures_head(FILE *out);
void print_figures(FILE *out, const struct suite_row *row, const struct figure_input *input);

/* Instructions for each record, by callgrind. */
void print_instructions_head(FILE *out);
void print_instructions(FILE *out, const struct measured *m);

/* One JSON object; `row` may be NULL. */
void print_json(FILE *out, const struct measured *m, const struct suite_row *row,
		const struct figure_input *input);

#endif
