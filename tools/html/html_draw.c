/* SPDX-License-Identifier: OLDAP-2.8 */
/* Draws bars and columns as inline SVG. */
#include "html_page.h"

enum { BAR_HEIGHT = 12, STACK_WIDTH = 720, STACK_HEIGHT = 20, STACK_GAP = 2 };
/* The least width and height of a value above 0. */
static const double VISIBLE = 1.5;
enum { COLUMNS_WIDTH = 720, COLUMNS_HEIGHT = 140 };

static double between(double value, double least, double most)
{
	return value > most ? most : value > least ? value : least;
}

void html_bar(FILE *out, double part, int width, const char *colour)
{
	double full = part > 0 ? between(part, 0, 1) * width : 0;

	if (part > 0 && full < VISIBLE)
		full = VISIBLE;
	fprintf(out,
		"<svg class=\"bar\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
		"preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"track\" "
		"width=\"%d\" height=\"%d\" rx=\"2\"/>"
		"<rect class=\"%s\" width=\"%.1f\" height=\"%d\" rx=\"2\"/></svg>",
		width, BAR_HEIGHT, width, BAR_HEIGHT, width, BAR_HEIGHT, colour, full, BAR_HEIGHT);
}

void html_stack(FILE *out, const struct html_part *parts, unsigned count)
{
	double sum = 0, at = 0;

	for (unsigned i = 0; i < count; i++)
		sum += (double)parts[i].value;
	fprintf(out, "<svg class=\"wide\" viewBox=\"0 0 %d %d\" aria-hidden=\"true\">", STACK_WIDTH,
		STACK_HEIGHT);
	for (unsigned i = 0; i < count && sum > 0; i++) {
		double width = (double)parts[i].value / sum * STACK_WIDTH;

		if (width > 0)
			fprintf(out,
				"<rect class=\"%s\" x=\"%.1f\" width=\"%.1f\" height=\"%d\" "
				"rx=\"2\"/>",
				parts[i].style, at,
				width > VISIBLE + STACK_GAP ? width - STACK_GAP : width,
				STACK_HEIGHT);
		at += width;
	}
	fputs("</svg>\n", out);
}

void html_columns(FILE *out, const struct html_columns *columns)
{
	double step = (double)COLUMNS_WIDTH / (columns->count ? columns->count : 1);
	double gap = step > 6 ? 2 : step / 4;

	fprintf(out,
		"<svg class=\"wide\" viewBox=\"0 0 %d %d\" role=\"img\" "
		"aria-label=\"%s\">",
		COLUMNS_WIDTH, COLUMNS_HEIGHT + 1, columns->label);
	for (unsigned i = 0; i <= 2; i++)
		fprintf(out, "<rect class=\"line\" y=\"%d\" width=\"%d\" height=\"1\"/>",
			(int)i * COLUMNS_HEIGHT / 2, COLUMNS_WIDTH);
	for (unsigned i = 0; i < columns->count; i++) {
		double height = between(columns->heights[i], 0, 1) * COLUMNS_HEIGHT;

		if (columns->heights[i] <= 0)
			continue;
		height = height < VISIBLE ? VISIBLE : height;
		fprintf(out,
			"<rect class=\"wait\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
			"height=\"%.1f\"><title>",
			i * step + gap / 2, COLUMNS_HEIGHT - height, step - gap, height);
		columns->name(out, i, columns->context);
		fputs("</title></rect>", out);
	}
	fputs("</svg>\n", out);
}
