/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the parts of a page: head, sections, tables, end. */
#include "html_page.h"

#include "config.h"

static void put_element(FILE *out, const char *name, const char *text)
{
	fprintf(out, "<%s>", name);
	html_text(out, text);
	fprintf(out, "</%s>\n", name);
}

void html_begin(FILE *out, const char *title)
{
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
		/* Whatever a file contains, the page fetches nothing and runs nothing. */
		"<meta http-equiv=\"Content-Security-Policy\" "
		"content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
		"<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n"
		"<h1>%s</h1>\n",
		title, html_style, title);
}

void html_end(FILE *out, const char *command)
{
	fprintf(out,
		"<footer>%s %s. lmdbio(7) explains the terms.</footer>\n"
		"</main>\n</body>\n</html>\n",
		command, PACKAGE_VERSION);
}

void html_verdict(FILE *out, enum html_mood mood, const char *text)
{
	static const char *const classes[] = {
		[HTML_PLAIN] = "", [HTML_GOOD] = " good", [HTML_BAD] = " bad"};

	fprintf(out, "<p class=\"verdict%s\">", classes[mood]);
	html_text(out, text);
	fputs("</p>\n", out);
}

void html_section_begin(FILE *out, const char *id, const char *title)
{
	fprintf(out, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
}

void html_section_end(FILE *out)
{
	fputs("</section>\n", out);
}

void html_paragraph(FILE *out, const char *text)
{
	put_element(out, "p", text);
}

/* --- tables ----------------------------------------------------------------------------------- */

static void put_cell(FILE *out, const char *element, bool number, const char *text)
{
	fprintf(out, "<%s%s>", element, number ? " class=\"n\"" : "");
	html_text(out, text);
	fprintf(out, "</%s>", element);
}

void html_table_begin(FILE *out, const struct html_column *columns, unsigned n)
{
	fputs("<table>\n<tr>", out);
	for (unsigned i = 0; i < n; i++)
		put_cell(out, "th", columns[i].number, columns[i].head);
	fputs("</tr>\n", out);
}

void html_table_row(FILE *out, const struct html_column *columns, unsigned n,
		    const char *const *cells)
{
	fputs("<tr>", out);
	for (unsigned i = 0; i < n; i++)
		put_cell(out, "td", columns[i].number, cells[i]);
	fputs("</tr>\n", out);
}

void html_table_end(FILE *out)
{
	fputs("</table>\n", out);
}

void html_bars_begin(FILE *out)
{
	fputs("<table>\n", out);
}

void html_bars_group(FILE *out, const char *name, const char *value)
{
	fputs("<tr class=\"g\">", out);
	put_cell(out, "td", false, name);
	fputs("<td class=\"n\" colspan=\"2\">", out);
	html_text(out, value);
	fputs("</td></tr>\n", out);
}

void html_bars_row(FILE *out, const struct html_bar *bar)
{
	fputs(bar->indented ? "<tr class=\"in\">" : "<tr>", out);
	put_cell(out, "td", false, bar->name);
	put_cell(out, "td", true, bar->value);
	fputs("<td class=\"d\">", out);
	html_bar(out, bar->part, HTML_BAR, bar->colour);
	fputs("</td></tr>\n", out);
}

void html_bars_end(FILE *out)
{
	fputs("</table>\n", out);
}
