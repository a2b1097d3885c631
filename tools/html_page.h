/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a self-contained HTML page: text, tables and bars as inline SVG, without network.
 *
 * The page is well-formed XML as well. Every text is escaped here; bytes that are not UTF-8 become
 * '?'. Errors are the stream's: ferror().
 */
#ifndef LMDBIO_TOOLS_HTML_PAGE_H
#define LMDBIO_TOOLS_HTML_PAGE_H

#include <stdio.h>

/* A page's head, with its title as the heading; and its end. */
void html_begin(FILE *out, const char *title);
void html_end(FILE *out);

void html_heading(FILE *out, const char *text);
void html_paragraph(FILE *out, const char *text);

/* A table: its heads, then rows of as many cells. A cell that begins with a digit, or with '-' and
 * a digit, stands right. `cells` are n texts. */
void html_table_begin(FILE *out, const char *const *heads, size_t n);
void html_table_row(FILE *out, const char *const *cells, size_t n);
void html_table_end(FILE *out);

/* Horizontal bars, one below the other. */
struct html_bar {
	const char *label; /* stands left of it */
	const char *text;  /* stands behind it */
	double part;       /* of the full length, 0 to 1 */
	unsigned colour;   /* 0 or 1 */
};
void html_bars(FILE *out, const struct html_bar *bars, size_t n);

#endif
