/* SPDX-License-Identifier: OLDAP-2.8 */
/* Escapes texts and draws bars. */
#include "html_page.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { LABEL = 330, LENGTH = 360, TEXT = 210, BAR = 14, STEP = 20 };

static const char style[] =
	"body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;"
	"color:#222;background:#fff}"
	"h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}"
	"table{border-collapse:collapse;font-size:.9em}"
	"th,td{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:left}"
	".n{text-align:right;font-variant-numeric:tabular-nums}"
	"svg text{font:12px system-ui,sans-serif;fill:#222}"
	".c0{fill:#9aa5b1}.c1{fill:#1f77b4}"
	"@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#ddd}"
	"th,td{border-color:#444}svg text{fill:#ddd}}";

/* The length of the UTF-8 character at `at`, 0: there is none. */
static size_t utf8_length(const unsigned char *at)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t least;
	} kinds[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (size_t n = 0; n < sizeof(kinds) / sizeof(*kinds); n++) {
		uint32_t code;

		if ((*at & kinds[n].mask) != kinds[n].lead)
			continue;
		code = *at & (unsigned char)~kinds[n].mask;
		for (size_t i = 1; i <= n; i++) {
			if ((at[i] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (at[i] & 0x3fu);
		}
		return code < kinds[n].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)
			       ? 0
			       : n + 1;
	}
	return 0;
}

static void put_text(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		size_t length = utf8_length(at);

		if (*at == '<')
			fputs("&lt;", out);
		else if (*at == '>')
			fputs("&gt;", out);
		else if (*at == '&')
			fputs("&amp;", out);
		else if (*at == '"')
			fputs("&quot;", out);
		else if (!length || *at < ' ' || *at == 0x7f)
			fputc('?', out);
		else
			fwrite(at, 1, length, out);
		at += length ? length : 1;
	}
}

static void put_element(FILE *out, const char *name, const char *text)
{
	fprintf(out, "<%s>", name);
	put_text(out, text);
	fprintf(out, "</%s>\n", name);
}

void html_begin(FILE *out, const char *title)
{
	fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
	      "<meta charset=\"utf-8\"/>\n"
	      "<meta name=\"viewport\" content=\"width=device-width\"/>\n",
	      out);
	put_element(out, "title", title);
	fprintf(out, "<style>%s</style>\n</head>\n<body>\n", style);
	put_element(out, "h1", title);
}

void html_end(FILE *out)
{
	fputs("</body>\n</html>\n", out);
}

void html_heading(FILE *out, const char *text)
{
	put_element(out, "h2", text);
}

void html_paragraph(FILE *out, const char *text)
{
	put_element(out, "p", text);
}

void html_table_begin(FILE *out, const char *const *heads, size_t n)
{
	fputs("<table>\n<tr>", out);
	for (size_t i = 0; i < n; i++)
		put_element(out, "th", heads[i]);
	fputs("</tr>\n", out);
}

void html_table_row(FILE *out, const char *const *cells, size_t n)
{
	fputs("<tr>", out);
	for (size_t i = 0; i < n; i++) {
		const char *at = cells[i] + (*cells[i] == '-');

		fputs(isdigit((unsigned char)*at) ? "<td class=\"n\">" : "<td>", out);
		put_text(out, cells[i]);
		fputs("</td>", out);
	}
	fputs("</tr>\n", out);
}

void html_table_end(FILE *out)
{
	fputs("</table>\n", out);
}

void html_bars(FILE *out, const struct html_bar *bars, size_t n)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" "
		"height=\"%zu\" viewBox=\"0 0 %d %zu\">\n",
		LABEL + LENGTH + TEXT, n * STEP + BAR, LABEL + LENGTH + TEXT, n * STEP + BAR);
	for (size_t i = 0; i < n; i++) {
		double part = bars[i].part > 0 ? bars[i].part < 1 ? bars[i].part : 1 : 0;
		double width = part * LENGTH;
		size_t top = i * STEP + 2;

		fprintf(out, "<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">", LABEL - 8, top + 11);
		put_text(out, bars[i].label);
		fprintf(out,
			"</text>\n<rect class=\"c%u\" x=\"%d\" y=\"%zu\" width=\"%.1f\" "
			"height=\"%d\"/>\n",
			bars[i].colour ? 1 : 0, LABEL, top, width < 1 ? 1 : width, BAR);
		fprintf(out, "<text x=\"%.1f\" y=\"%zu\">", LABEL + width + 6, top + 11);
		put_text(out, bars[i].text);
		fputs("</text>\n", out);
	}
	fputs("</svg>\n", out);
}
