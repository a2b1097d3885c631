/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes text, numbers and bars as HTML onto standard output. */
#include "report_html.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BAR_HEIGHT = 12, STACK_WIDTH = 720, STACK_HEIGHT = 20, STACK_GAP = 2 };
/* The least width and height of what is not nothing. */
static const double VISIBLE = 1.5;
enum { COLUMNS_WIDTH = 720, COLUMNS_HEIGHT = 140 };

/* --- text ------------------------------------------------------------------------------------- */

/* The length of the UTF-8 character at `at`, or 0: it is none, or one that is not printed. */
static unsigned utf8_length(const unsigned char *at)
{
	unsigned length = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
	uint32_t code = length < 2 ? *at : *at & (0x7fU >> length);

	if (!length || *at > 0xf4 || *at < 0x20 || *at == 0x7f)
		return 0;
	for (unsigned i = 1; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	if ((length == 3 && code < 0x800) || (length == 4 && code < 0x10000) || code > 0x10ffff ||
	    (code >= 0xd800 && code < 0xe000) || (code >= 0x80 && code < 0xa0))
		return 0;
	return length;
}

void html_text(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	/* Letters that run from right to left must not turn what follows around. */
	fputs("<bdi>", stdout);
	while (*at) {
		unsigned length = utf8_length(at);

		if (!length)
			printf("\\x%02x", *at);
		else if (strchr("&<>\"'", *at))
			printf("&#%u;", *at);
		else
			fwrite(at, 1, length, stdout);
		at += length ? length : 1;
	}
	fputs("</bdi>", stdout);
}

const char *html_number(uint64_t number, char text[HTML_NUMBER])
{
	char digits[HTML_NUMBER], *to = text;
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, number);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return text;
}

const char *html_power(unsigned i, char text[HTML_NUMBER])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

	snprintf(text, HTML_NUMBER, "%u %s", 1U << i % 10, i ? units[i / 10] : "byte");
	return text;
}

const char *html_time(uint64_t ns, char text[HTML_NUMBER])
{
	double s = (double)ns / 1e9;

	if (ns < 1000)
		snprintf(text, HTML_NUMBER, "%u ns", (unsigned)ns);
	else if (s < 0.9995e-3)
		snprintf(text, HTML_NUMBER, "%.3g us", s * 1e6);
	else if (s < 0.9995)
		snprintf(text, HTML_NUMBER, "%.3g ms", s * 1e3);
	else if (s < 999.5)
		snprintf(text, HTML_NUMBER, "%.3g s", s);
	else if (s < 36e3)
		snprintf(text, HTML_NUMBER, "%.0f min", s / 60);
	else
		snprintf(text, HTML_NUMBER, "%.0f h", s / 3600);
	return text;
}

/* --- drawings --------------------------------------------------------------------------------- */

static double between(double value, double least, double most)
{
	return value > most ? most : value > least ? value : least;
}

void html_bar(double part, int width, const char *style)
{
	double full = part > 0 ? between(part, 0, 1) * width : 0;

	if (part > 0 && full < VISIBLE)
		full = VISIBLE;
	printf("<svg class=\"bar\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
	       "preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"track\" "
	       "width=\"%d\" height=\"%d\" rx=\"2\"/>"
	       "<rect class=\"%s\" width=\"%.1f\" height=\"%d\" rx=\"2\"/></svg>",
	       width, BAR_HEIGHT, width, BAR_HEIGHT, width, BAR_HEIGHT, style, full, BAR_HEIGHT);
}

void html_stack(const struct html_part *parts, unsigned count)
{
	double sum = 0, at = 0;

	for (unsigned i = 0; i < count; i++)
		sum += parts[i].value;
	printf("<svg class=\"wide\" viewBox=\"0 0 %d %d\" aria-hidden=\"true\">", STACK_WIDTH,
	       STACK_HEIGHT);
	for (unsigned i = 0; i < count && sum > 0; i++) {
		double width = parts[i].value / sum * STACK_WIDTH;

		if (width > 0)
			printf("<rect class=\"%s\" x=\"%.1f\" width=\"%.1f\" height=\"%d\" "
			       "rx=\"2\"/>",
			       parts[i].style, at,
			       width > VISIBLE + STACK_GAP ? width - STACK_GAP : width,
			       STACK_HEIGHT);
		at += width;
	}
	printf("</svg>\n");
}

void html_columns(const double *heights, unsigned count,
		  void (*name)(unsigned i, const void *context), const void *context)
{
	double step = (double)COLUMNS_WIDTH / (count ? count : 1);
	double gap = step > 6 ? 2 : step / 4;

	printf("<svg class=\"wide\" viewBox=\"0 0 %d %d\" role=\"img\" "
	       "aria-label=\"waits over time\">",
	       COLUMNS_WIDTH, COLUMNS_HEIGHT + 1);
	for (unsigned i = 0; i <= 2; i++)
		printf("<rect class=\"line\" y=\"%d\" width=\"%d\" height=\"1\"/>",
		       (int)i * COLUMNS_HEIGHT / 2, COLUMNS_WIDTH);
	for (unsigned i = 0; i < count; i++) {
		double height = between(heights[i], 0, 1) * COLUMNS_HEIGHT;

		if (heights[i] <= 0)
			continue;
		height = height < VISIBLE ? VISIBLE : height;
		printf("<rect class=\"wait\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
		       "height=\"%.1f\"><title>",
		       i * step + gap / 2, COLUMNS_HEIGHT - height, step - gap, height);
		name(i, context);
		printf("</title></rect>");
	}
	printf("</svg>\n");
}
