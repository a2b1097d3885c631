/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes text, numbers and bars as HTML onto standard output. */
#ifndef LMDBIO_TOOLS_REPORT_HTML_H
#define LMDBIO_TOOLS_REPORT_HTML_H

#include "tool_common.h"

/* Text from outside: no byte of it is taken for HTML. Bytes that are no UTF-8 and control
 * characters become \xHH. */
void html_text(const char *text);

/* "1,234,567" */
enum { HTML_NUMBER = 32 };
const char *html_number(uint64_t number, char text[HTML_NUMBER]);

/* "0.5 ms", "12.3 s", "1 h 02 min" */
const char *html_time(uint64_t ns, char text[HTML_NUMBER]);

/* "4 KiB": 2 to the power of i bytes. */
const char *html_power(unsigned i, char text[HTML_NUMBER]);

/* A bar of which `part`, from 0 to 1, is full, `width` pixels wide. `style` is a class of the
 * page's style sheet. A part that is more than 0 stays visible. */
enum { HTML_BAR = 240, HTML_BAR_SHORT = 120 };
void html_bar(double part, int width, const char *style);

/* Parts of a whole side by side. `style` is a class of the page's style sheet; no value is
 * negative. */
struct html_part {
	const char *name, *style;
	double value;
};
void html_stack(const struct html_part *parts, unsigned count);

/* Columns over a base line, the highest of the height 1; `names[i]` is what a pointer over it
 * shows. */
void html_columns(const double *heights, unsigned count,
		  void (*name)(unsigned i, const void *context), const void *context);

#endif
