/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints the summary, as text and as JSON. */
#include "convert_summary.h"

#include <stdio.h>
#include <string.h>

void summary_tell(const struct convert *convert, const struct convert_result *result)
{
	char data[TOOL_SIZE_TEXT], file[TOOL_SIZE_TEXT], rate[TOOL_SIZE_TEXT];
	double seconds = (double)result->seconds_ns / 1e9;

	if (!result->written) {
		fprintf(stderr, "%s: verified against %s\n", result->path, convert->sources[0]);
		return;
	}
	if (convert->to == FORM_CONTAINER && result->data)
		fprintf(stderr, "%s : %.2f %% (%s => %s, %s)\n", convert->sources[0],
			(double)result->file * 100 / (double)result->data,
			tool_size_text(result->data, data), tool_size_text(result->file, file),
			result->path);
	else
		fprintf(stderr, "%s : %s, %s\n", convert->sources[0],
			tool_size_text(result->file, file), result->path);
	if (convert->skipped)
		fprintf(stderr,
			"lmdbio-convert: %llu members or files are no regular files, and "
			"were left out\n",
			(unsigned long long)convert->skipped);
	if (convert->verbose < 2)
		return;
	fprintf(stderr, "lmdbio-convert: %.1f s, %s/s", seconds,
		tool_size_text(seconds > 0 ? (uint64_t)((double)result->data / seconds) : 0, rate));
	if (result->counted)
		fprintf(stderr, ", %llu records", (unsigned long long)convert->records);
	fprintf(stderr, "%s\n", result->verified ? ", verified" : "");
	if (result->resumed)
		fprintf(stderr, "lmdbio-convert: %s were there already\n",
			tool_size_text(result->resumed, data));
	if (result->busy)
		fprintf(stderr,
			"lmdbio-convert: %s was written to meanwhile; this is transaction %llu\n",
			convert->sources[0], (unsigned long long)result->txnid);
}

/* Returns the length of the UTF-8 character that begins here; 0: none does. The second byte shows a
 * form that is too long, half of a surrogate pair, and what is behind the last character. */
static size_t utf8_length(const unsigned char *at)
{
	size_t length = *at < 0x80   ? 1
			: *at < 0xc2 ? 0
			: *at < 0xe0 ? 2
			: *at < 0xf0 ? 3
			: *at < 0xf5 ? 4
				     : 0;

	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
	    (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

/* Prints a text as JSON. A path may hold any bytes and JSON only characters: others become
 * U+FFFD. */
static void put_text(const char *name, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	printf(",\"%s\":\"", name);
	while (*at) {
		size_t length = utf8_length(at);

		if (!length)
			printf("\\ufffd");
		else if (*at < ' ' || *at == 0x7f)
			printf("\\u%04x", *at);
		else
			printf("%s%.*s", *at == '"' || *at == '\\' ? "\\" : "", (int)length, at);
		at += length ? length : 1;
	}
	printf("\"");
}

static void put_number(const char *name, uint64_t number)
{
	printf(",\"%s\":%llu", name, (unsigned long long)number);
}

static void put_flag(const char *name, bool flag)
{
	printf(",\"%s\":%s", name, flag ? "true" : "false");
}

void summary_json(const struct convert *convert, const struct convert_result *result, int status)
{
	printf("{\"schema\":\"lmdbio-convert/1\"");
	put_number("exit_status", (uint64_t)status);
	put_text("source", convert->sources[0]);
	put_text("source_form", convert_form_name(convert->from));
	put_text("target", result->path ? result->path : convert->target);
	put_text("target_form", result->made);
	put_flag("written", result->written);
	put_flag("verified", result->verified);
	put_flag("relayout", result->relaid);
	put_flag("source_changed", result->busy);
	put_number("data_bytes", result->data);
	put_number("file_bytes", result->file);
	put_number("resumed_bytes", result->resumed);
	put_number("chunks", result->chunks);
	if (result->counted)
		put_number("records", convert->records);
	else
		printf(",\"records\":null");
	put_number("skipped", convert->skipped);
	put_number("damaged", convert->damaged);
	put_number("txnid", result->txnid);
	put_number("threads", convert->threads);
	printf(",\"level\":%d", convert->level);
	if (result->file)
		printf(",\"ratio\":%.4f", (double)result->data / (double)result->file);
	printf(",\"seconds\":%.3f}\n", (double)result->seconds_ns / 1e9);
}
