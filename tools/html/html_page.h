/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a self-contained HTML page: text, tables and bars as inline SVG, in one style sheet. The
 * page fetches nothing and runs no script.
 *
 * The page is well-formed XML as well, if what a caller writes itself is. Errors are the stream's:
 * ferror().
 */
#ifndef LMDBIO_TOOLS_HTML_PAGE_H
#define LMDBIO_TOOLS_HTML_PAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* --- the page (html_page.c) ------------------------------------------------------------------- */

/* A page's head, with its title as the first line; and its end, whose footer names the command. */
void html_begin(FILE *out, const char *title);
void html_end(FILE *out, const char *command);

/* The verdict in large letters, which `mood` gives their colour. */
enum html_mood { HTML_PLAIN, HTML_GOOD, HTML_BAD };
void html_verdict(FILE *out, enum html_mood mood, const char *text);

void html_section_begin(FILE *out, const char *id, const char *title);
void html_section_end(FILE *out);
void html_paragraph(FILE *out, const char *text);

/* A table: its columns, then rows of as many cells. Numbers stand right. */
struct html_column {
	const char *head;
	bool number;
};
void html_table_begin(FILE *out, const struct html_column *columns, unsigned n);
void html_table_row(FILE *out, const struct html_column *columns, unsigned n,
		    const char *const *cells);
void html_table_end(FILE *out);

/* A table of bars, whose columns have no heads: rows with a name, a value and a bar, and rows that
 * name a group of them. */
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

/* Text from outside: no byte of it is taken for HTML. Bytes that are no UTF-8 and control
 * characters become \xHH. */
void html_text(FILE *out, const char *text);

/* "1,234,567" */
enum { HTML_NUMBER = 32 };
const char *html_number(uint64_t number, char text[HTML_NUMBER]);

/* "0.5 ms", "12.3 s", "17 min" */
const char *html_time(uint64_t ns, char text[HTML_NUMBER]);

/* "4 KiB": 2 to the power of i bytes. */
const char *html_power(unsigned i, char text[HTML_NUMBER]);

/* --- drawings (html_draw.c) ------------------------------------------------------------------- */

/* A bar of which `part`, from 0 to 1, is full, `width` pixels wide. A part that is more than 0
 * stays visible. */
enum { HTML_BAR = 240, HTML_BAR_SHORT = 120 };
void html_bar(FILE *out, double part, int width, const char *colour);

/* Parts of a whole side by side. `style` is a class of the style sheet. */
struct html_part {
	const char *name, *style;
	uint64_t value;
};
void html_stack(FILE *out, const struct html_part *parts, unsigned count);

/* Columns over a base line, the highest of the height 1; name() writes what a pointer over column
 * `i` shows. */
struct html_columns {
	const double *heights;
	unsigned count;
	const char *label; /* what they are, for a reader who does not see them */
	void (*name)(FILE *out, unsigned i, const void *context);
	const void *context;
};
void html_columns(FILE *out, const struct html_columns *columns);

/* --- the style sheet (html_style.c) ----------------------------------------------------------- */

extern const char html_style[];

#endif
