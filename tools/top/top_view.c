/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lays out a sample of the node as lines of text. */
#include "top_view.h"

#include "tool_common.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const sort_names[TOP_SORTS] = {
	[TOP_BY_STORAGE] = "storage", [TOP_BY_VALUES] = "values", [TOP_BY_REQUESTS] = "requests",
	[TOP_BY_QUEUE] = "queue",     [TOP_BY_WAIT] = "wait",     [TOP_BY_PID] = "pid",
	[TOP_BY_PROGRAM] = "program",
};

const char *top_sort_name(enum top_sort sort)
{
	return sort_names[sort];
}

/* --- order ------------------------------------------------------------------------------------ */

static enum top_sort sorted_by; /* for qsort(), which has no context */

static double sort_value(const struct top_row *row)
{
	switch (sorted_by) {
	case TOP_BY_STORAGE:
		return row->storage;
	case TOP_BY_VALUES:
		return row->values;
	case TOP_BY_REQUESTS:
		return row->requests;
	case TOP_BY_QUEUE:
		return (double)row->queue;
	case TOP_BY_WAIT:
		return row->waited;
	default:
		return 0;
	}
}

static int row_compare(const void *a, const void *b)
{
	const struct top_row *left = a, *right = b;
	double x = sort_value(left), y = sort_value(right);
	int order = sorted_by == TOP_BY_PROGRAM ? strcmp(left->program, right->program) : 0;

	if (x != y)
		return x < y ? 1 : -1;
	if (order)
		return order;
	return left->pid < right->pid ? -1 : left->pid > right->pid;
}

void top_sort(struct top_sample *sample, enum top_sort sort)
{
	sorted_by = sort;
	if (sample->count)
		qsort(sample->rows, sample->count, sizeof(*sample->rows), row_compare);
}

/* --- numbers ---------------------------------------------------------------------------------- */

static uint64_t whole(double value)
{
	return value < 0 ? 0 : value < 1.8e19 ? (uint64_t)(value + 0.5) : UINT64_MAX;
}

/* Writes at most 6 characters: "123456", "123.4k". */
static const char *count_text(double value, char text[TOOL_SIZE_TEXT])
{
	static const char units[] = "kMGTPE";
	unsigned unit = 0;

	if (value < 99999.5) {
		snprintf(text, TOOL_SIZE_TEXT, "%.0f", value);
		return text;
	}
	value /= 1000;
	for (; value >= 999.95 && units[unit + 1]; unit++)
		value /= 1000;
	snprintf(text, TOOL_SIZE_TEXT, "%.1f%c", value > 9999 ? 9999 : value, units[unit]);
	return text;
}

static double share(const struct top_row *row, enum top_source source)
{
	double sum = 0;

	for (unsigned i = 0; i < TOP_SOURCES; i++)
		sum += row->sources[i];
	return sum > 0 ? 100 * row->sources[source] / sum : 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void head_node(const struct top_sample *sample, double every, char *line)
{
	char host[HOST_NAME_MAX + 1] = "", name[40];
	int n;

	if (gethostname(host, sizeof(host) - 1) || !*host)
		snprintf(host, sizeof(host), "this node");
	tool_escape(host, strlen(host), name, sizeof(name));
	n = snprintf(line, TOP_WIDTH, "lmdbio-top: %s, %zu reader%s, %zu server%s, every %g s",
		     name, sample->readers, sample->readers == 1 ? "" : "s", sample->servers,
		     sample->servers == 1 ? "" : "s", every);
	if (sample->others && n < TOP_WIDTH)
		snprintf(line + n, (size_t)(TOP_WIDTH - n), "; %u of another lmdbio",
			 sample->others);
}

static void head_memory(const struct top_sample *sample, char *line)
{
	char used[TOOL_SIZE_TEXT], budget[TOOL_SIZE_TEXT];

	tool_size_text(sample->used, used);
	if (sample->budget)
		snprintf(line, TOP_WIDTH, "Memory    %s of shared memory used, budget %s", used,
			 tool_size_text(sample->budget, budget));
	else
		snprintf(line, TOP_WIDTH, "Memory    %s of shared memory used", used);
}

const char *top_head(const struct top_sample *sample, double every, unsigned i,
		     char line[TOP_WIDTH])
{
	const struct top_row *all = &sample->all;
	char size[TOOL_SIZE_TEXT], mean[TOOL_SIZE_TEXT], count[TOOL_SIZE_TEXT];

	*line = 0;
	switch (i) {
	case 0:
		head_node(sample, every, line);
		break;
	case 1:
		snprintf(line, TOP_WIDTH,
			 "Storage   %s/s, %s requests/s of %s, %" PRIu64 " in flight",
			 tool_size_text(whole(all->storage), size),
			 count_text(all->requests, count),
			 tool_size_text(whole(all->requests > 0 ? all->storage / all->requests : 0),
					mean),
			 all->queue);
		break;
	case 2:
		snprintf(line, TOP_WIDTH, "Programs  %s/s of values, waited %.1f %% of the time",
			 tool_size_text(whole(all->values), size), 100 * all->waited);
		break;
	case 3:
		snprintf(line, TOP_WIDTH,
			 "Sources   page cache %.0f %%, shared memory own %.0f %% others' %.0f %%, "
			 "file map %.0f %%",
			 share(all, TOP_CACHE), share(all, TOP_OWN), share(all, TOP_OTHERS),
			 share(all, TOP_MAP));
		break;
	case 4:
		head_memory(sample, line);
		break;
	default:
		break;
	}
	return line;
}

const char *top_title(char line[TOP_WIDTH])
{
	snprintf(line, TOP_WIDTH, "%7s %-16s %-6s %11s %11s %6s %5s %5s %4s", "PID", "PROGRAM",
		 "KIND", "STORAGE/s", "VALUES/s", "REQ/s", "QUEUE", "WAIT%", "SETS");
	return line;
}

const char *top_line(const struct top_row *row, char line[TOP_WIDTH])
{
	char storage[TOOL_SIZE_TEXT], values[TOOL_SIZE_TEXT], count[TOOL_SIZE_TEXT];
	char program[TOOL_ESCAPED_TEXT];

	tool_escape(row->program, strlen(row->program), program, sizeof(program));
	snprintf(line, TOP_WIDTH,
		 "%7" PRId64 " %-16.16s %-6s %11s %11s %6s %5" PRIu64 " %5.1f %4" PRIu64, row->pid,
		 program,
		 !row->lives   ? "ended"
		 : row->server ? "server"
			       : "reader",
		 tool_size_text(whole(row->storage), storage),
		 tool_size_text(whole(row->values), values), count_text(row->requests, count),
		 row->queue < 99999 ? row->queue : 99999, 100 * row->waited,
		 row->sets < 9999 ? row->sets : 9999);
	return line;
}
