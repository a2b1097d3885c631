/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes text from outside so that no byte of it is HTML, and numbers in readable units. */
#include "html_page.h"

#include <inttypes.h>
#include <string.h>

/* Returns the length of the UTF-8 character at `at`, or 0 if it is none, or not printable. */
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
	    (code >= 0xd800 && code < 0xe000) || (code >= 0x80 && code < 0xa0) || code == 0xfffe ||
	    code == 0xffff)
		return 0;
	return length;
}

void html_text(FILE *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	/* Letters that run from right to left must not reverse the text behind them. */
	fputs("<bdi>", out);
	while (*at) {
		unsigned length = utf8_length(at);

		if (!length)
			fprintf(out, "\\x%02x", *at);
		else if (strchr("&<>\"'", *at))
			fprintf(out, "&#%u;", *at);
		else
			fwrite(at, 1, length, out);
		at += length ? length : 1;
	}
	fputs("</bdi>", out);
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
