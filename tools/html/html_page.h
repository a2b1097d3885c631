/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a self-contained HTML page: text, tables and bars as inline SVG, in one style sheet. The
 * page fetches nothing and runs no script.
 *
 * The page is well-formed XML as well, if the caller's own output is. The stream keeps errors:
 * ferror().
 */
#ifndef LMDBIO_TOOLS_HTML_PAGE_H
#define LMDBIO_TOOLS_HTML_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* --- the page (html_page.c) ------------------------------------------------------------------- */

/* Write a page's head, with its title as the first line, and its end, whose footer names the
 * command. */
void html_begin(FILE *out, const char *title);
void html_end(FILE *out, const char *command);

/* Writes the verdict in large letters, in the colour of `mood`. */
enum html_mood { HTML_PLAIN, HTML_GOOD, HTML_BAD };
void html_verdict(FILE *out, enum html_mood mood, const char *text);

void html_section_begin(FILE *out, const char *id, const char *title);
void html_section_end(FILE *out);
void html_paragraph(FILE *out, const char *text);

/* A table: its columns, then rows of as many cells. Numbers are right-aligned. */
struct html_column {
	const char *head;
	bool number;
};
void html_table_begin(FILE *out, const struct html_column *columns, unsigned n);
void html_table_row(FILE *out, const struct html_column *columns, unsigned n,
		    const char *const *cells);
void html_table_end(FILE *out);

/* A table of bars without column heads: rows with a name, a value and a bar, and rows that name a
 * group. */
void html_bars_begin(FILE *out);
void html_bars_group(FILE *out, const char *name, const char *value);
struct html_bar {
	const char *name, *value;
	double part;        /* of the full length, 0 to 1 */
	const char *colour; /* a class of the style sheet: c0 to c4, wait */
	bool indented;
};
void html_bars_row(FILE *out, const struct html_bar *bar);
void html_bars_end(FILE *out);

/* --- text and numbers (html_text.c) ----------------------------------------------------------- */

/* Writes text from outside so that no byte counts as HTML. Bytes that are not UTF-8 and control
 * characters become \xHH. */
void html_text(FILE *out, const char *text);

/* Writes "1,234,567". */
enum { HTML_NUMBER = 32 };
const char *html_number(uint64_t number, char text[HTML_NUMBER]);

/* Writes "0.5 ms", "12.3 s", "17 min". */
const char *html_time(uint64_t ns, char text[HTML_NUMBER]);

/* Writes 2 to the power of i bytes as "4 KiB". */
const char *html_power(unsigned i, char text[HTML_NUMBER]);

/* --- drawings (html_draw.c) ------------------------------------------------------------------- */

/* Draws a bar `width` pixels wide, of which `part`, from 0 to 1, is full. A part above 0 stays
 * visible. */
enum { HTML_BAR = 240, HTML_BAR_SHORT = 120 };
void html_bar(FILE *out, double part, int width, const char *colour);

/* Draws parts of a whole side by side. `style` is a class of the style sheet. */
struct html_part {
	const char *name, *style;
	uint64_t value;
};
void html_stack(FILE *out, const struct html_part *parts, unsigned count);

/* Columns over a base line, the highest of height 1. name() writes the text for a pointer over
 * column `i`. */
struct html_columns {
	const double *heights;
	unsigned count;
	const char *label; /* text that screen readers speak in place of the columns */
	void (*name)(FILE *out, unsigned i, const void *context);
	const void *context;
};
void html_columns(FILE *out, const struct html_columns *columns);

/* --- the style sheet (html_style.c) ----------------------------------------------------------- */

extern const char html_style[];

#endif
