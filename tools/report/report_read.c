/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the statistics that processes wrote as JSON, and trusts none of it. */
#include "report_read.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* FILE_MOST: bytes of a file; a process writes a few KiB. */
enum { FILE_MOST = 256 << 20, SPAN_SECONDS_MOST = 1 << 20 };

static const char schema[] = "lmdbio-stats/1";

uint64_t report_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* The current place in the input, for messages. */
struct report_place {
	const struct tool *tool;
	const char *file;
	size_t entry; /* from 1 on */
};

static int refuse(const struct report_place *place, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(const struct report_place *place, const char *format, ...)
{
	char what[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	if (place->entry > 1)
		tool_complain(place->tool, "%s: entry %zu: %s", place->file, place->entry, what);
	else
		tool_complain(place->tool, "%s: %s", place->file, what);
	return TOOL_FAILED;
}

/* --- fields ----------------------------------------------------------------------------------- */

/* Takes `value` as a count; messages call it `name`. */
static bool take_count(const struct report_place *place, const char *name, const json_t *value,
		       uint64_t *count)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		refuse(place, "'%s' is no count; the file is damaged, or another program wrote it",
		       name);
		return false;
	}
	*count = (uint64_t)json_integer_value(value);
	return true;
}

/* Takes a count that earlier releases did not write. */
static bool take_optional(const struct report_place *place, const json_t *entry, const char *name,
			  uint64_t *count)
{
	const json_t *value = json_object_get(entry, name);

	return !value || take_count(place, name, value, count);
}

static bool take_text(const struct report_place *place, const json_t *entry, const char *name,
		      char **text)
{
	const json_t *value = json_object_get(entry, name);

	if (!json_is_string(value)) {
		refuse(place, "'%s' is no text; the file is damaged, or another program wrote it",
		       name);
		return false;
	}
	*text = strdup(json_string_value(value));
	if (!*text)
		refuse(place, "%s", strerror(ENOMEM));
	return *text;
}

/* Takes at most `most` counts; `*n` becomes their number. */
static bool take_counts(const struct report_place *place, const json_t *entry, const char *name,
			unsigned most, uint64_t *counts, unsigned *n)
{
	const json_t *values = json_object_get(entry, name);

	*n = 0;
	if (!values)
		return true;
	if (!json_is_array(values) || json_array_size(values) > most) {
		refuse(place,
		       "'%s' is no list of at most %u counts; the file is damaged, or a "
		       "later lmdbio wrote it",
		       name, most);
		return false;
	}
	for (; *n < json_array_size(values); ++*n)
		if (!take_count(place, name, json_array_get(values, *n), &counts[*n]))
			return false;
	return true;
}

static bool take_spans(const struct report_place *place, const json_t *entry,
		       struct report_process *process)
{
	uint64_t seconds = 0;

	if (!take_counts(place, entry, "wait_spans_ns", REPORT_SPANS, process->span_ns,
			 &process->spans) ||
	    !take_optional(place, entry, "wait_span_s", &seconds))
		return false;
	if (seconds > SPAN_SECONDS_MOST) {
		refuse(place, "'wait_span_s' is more than %d; the file is damaged",
		       SPAN_SECONDS_MOST);
		return false;
	}
	process->span_seconds = (unsigned)seconds;
	return true;
}

/* Takes all fields of an entry with the right schema. */
static bool take_process(const struct report_place *place, const json_t *entry,
			 struct report_process *process)
{
	unsigned sizes;

	process->rank = UINT64_MAX;
	process->processes = 1;
	if (!take_text(place, entry, "program", &process->program) ||
	    !take_text(place, entry, "host", &process->host) ||
	    !take_count(place, "pid", json_object_get(entry, "pid"), &process->pid) ||
	    !take_optional(place, entry, "rank", &process->rank) ||
	    !take_optional(place, entry, "processes", &process->processes) ||
	    !take_optional(place, entry, "elapsed_ns", &process->elapsed_ns) ||
	    !take_optional(place, entry, "wait_of_ns", &process->of_ns) ||
	    !take_optional(place, entry, "began", &process->began) ||
	    !take_counts(place, entry, "request_sizes", REPORT_SIZES, process->sizes, &sizes) ||
	    !take_spans(place, entry, process))
		return false;
	for (unsigned i = 0; i < STATS_COUNT; i++)
		if (!take_optional(place, entry, stats_name((enum stats_counter)i),
				   &process->counters[i]))
			return false;
	/* If no process has waited, all could have waited all the time. */
	if (!process->of_ns)
		process->of_ns = process->elapsed_ns;
	return true;
}

/* --- entries ---------------------------------------------------------------------------------- */

static void process_free(struct report_process *process)
{
	free(process->program);
	free(process->host);
}

static bool is_same(const struct report_process *a, const struct report_process *b)
{
	return a->pid == b->pid && a->began == b->began && a->elapsed_ns == b->elapsed_ns &&
	       !memcmp(a->counters, b->counters, sizeof(a->counters)) &&
	       !strcmp(a->host, b->host) && !strcmp(a->program, b->program);
}

static int process_add(struct report_input *input, const struct report_place *place,
		       struct report_process *process)
{
	for (size_t i = 0; i < input->count; i++) {
		if (!is_same(&input->processes[i], process))
			continue;
		tool_complain(place->tool,
			      "%s: process %" PRIu64 " is in %s already; it is counted once",
			      place->file, process->pid, input->processes[i].file);
		process_free(process);
		return 0;
	}
	if (input->count == input->room) {
		size_t room = input->room ? 2 * input->room : 16;
		struct report_process *more = reallocarray(input->processes, room, sizeof(*more));

		if (!more) {
			process_free(process);
			return refuse(place, "%s", strerror(ENOMEM));
		}
		input->processes = more;
		input->room = room;
	}
	input->processes[input->count++] = *process;
	return 0;
}

static int entry_take(struct report_input *input, const struct report_place *place,
		      const json_t *entry)
{
	struct report_process process = {.file = place->file};
	const char *found = json_string_value(json_object_get(entry, "schema"));
	char text[TOOL_ESCAPED_TEXT];

	if (!found)
		return refuse(place, "JSON, but not lmdbio's statistics; give files that "
				     "LMDBIO_STATS=FILE has written");
	if (strcmp(found, schema))
		return refuse(place,
			      "its schema is '%s', not '%s'; give files that "
			      "LMDBIO_STATS=FILE has written",
			      tool_escape(found, strlen(found), text, sizeof(text)), schema);
	if (take_process(place, entry, &process))
		return process_add(input, place, &process);
	process_free(&process);
	return TOOL_FAILED;
}

/* Reports why the JSON library failed. */
static int entry_refuse(const struct report_place *place, FILE *stream, const json_error_t *error)
{
	char text[TOOL_ESCAPED_TEXT];

	switch (json_error_code(error)) {
	case json_error_premature_end_of_input:
		return refuse(place,
			      "it ends in the middle; the process that wrote it had not done so "
			      "yet, or the disk was full: leave it out, or run the program again");
	case json_error_numeric_overflow:
		return refuse(place,
			      "a number is too large (line %d); the file is damaged, or another "
			      "program wrote it",
			      error->line);
	case json_error_out_of_memory:
		return refuse(place, "%s", strerror(ENOMEM));
	default:
		if (ferror(stream))
			return refuse(place, "it cannot be read: %s", strerror(errno));
		return refuse(place,
			      "not JSON (line %d: %s); give files that LMDBIO_STATS=FILE has "
			      "written",
			      error->line,
			      tool_escape(error->text, strlen(error->text), text, sizeof(text)));
	}
}

/* Returns the next byte that is no blank, and leaves it to be read; EOF at the end. */
static int blanks_skip(FILE *stream)
{
	int c;

	do {
		c = getc(stream);
	} while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
	return c == EOF ? EOF : ungetc(c, stream);
}

static int entries_read(struct report_input *input, struct report_place *place, FILE *stream)
{
	json_error_t error;

	for (; blanks_skip(stream) != EOF; place->entry++) {
		json_t *entry = json_loadf(stream, JSON_DISABLE_EOF_CHECK, &error);
		int rc = entry ? entry_take(input, place, entry)
			       : entry_refuse(place, stream, &error);

		json_decref(entry);
		if (rc)
			return rc;
	}
	if (ferror(stream))
		return refuse(place, "it cannot be read: %s", strerror(errno));
	if (place->entry == 1)
		return refuse(place,
			      "it is empty; a process writes its statistics when it ends, and "
			      "none when it has read nothing through lmdbio");
	return 0;
}

int report_read(struct report_input *input, const char *file)
{
	struct report_place place = {input->tool, file, 1};
	FILE *stream = strcmp(file, "-") ? fopen(file, "re") : stdin;
	struct stat st;
	int rc;

	if (!stream)
		return refuse(&place, "%s; give files that LMDBIO_STATS=FILE has written",
			      strerror(errno));
	if (stream == stdin)
		place.file = "standard input";
	if (fstat(fileno(stream), &st))
		rc = refuse(&place, "%s", strerror(errno));
	else if (S_ISDIR(st.st_mode))
		rc = refuse(&place, "a directory; give the files in it");
	else if (S_ISREG(st.st_mode) && st.st_size > FILE_MOST)
		rc = refuse(&place,
			    "larger than %d MiB, which no statistics of lmdbio are; give files "
			    "that LMDBIO_STATS=FILE has written",
			    FILE_MOST >> 20);
	else
		rc = entries_read(input, &place, stream);
	if (stream != stdin)
		fclose(stream);
	return rc;
}

void report_read_end(struct report_input *input)
{
	for (size_t i = 0; i < input->count; i++)
		process_free(&input->processes[i]);
	free(input->processes);
	*input = (struct report_input){.tool = input->tool};
}
