/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the report of the counters, as text or JSON. */
#include "util/stats.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/phrases.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum unit { NUMBER, BYTES, NANOSECONDS };

/* The names are those of struct lmdbio_stats. */
static const struct counter_row {
	const char *name;
	enum unit unit;
	const char *text;
} rows[] = {
	[STATS_STORAGE_REQUESTS] = {"storage_requests", NUMBER, "requests to storage"},
	[STATS_STORAGE_BYTES] = {"storage_bytes", BYTES, "asked of storage"},
	[STATS_SERVED_BYTES] = {"served_bytes", BYTES, "served to the program"},
	[STATS_WAITS] = {"waits", NUMBER, "waits for storage"},
	[STATS_WAIT_NS] = {"wait_ns", NANOSECONDS, "time waited"},
	[STATS_HITS_CACHE] = {"hits_cache", NUMBER, "extents from the page cache"},
	[STATS_HITS_ARENA_OWN] = {"hits_arena_own", NUMBER, "extents from the arena, own"},
	[STATS_HITS_ARENA_PEER] = {"hits_arena_peer", NUMBER, "extents from the arena, peers'"},
	[STATS_AT_REST] = {"at_rest", NUMBER, "extents from the file mapping"},
	[STATS_EVICTIONS] = {"evictions", NUMBER, "extents evicted"},
	[STATS_POPULATE_CALLS] = {"populate_calls", NUMBER, "page-table populations"},
	[STATS_PREFETCH_REQUESTS] = {"prefetch_requests", NUMBER, "requests ahead of need"},
	[STATS_PREFETCH_BYTES] = {"prefetch_bytes", BYTES, "asked ahead of need"},
	[STATS_PREFETCH_USED] = {"prefetch_used", BYTES, "of that, used"},
	[STATS_STREAMS_STARTED] = {"streams_started", NUMBER, "look-aheads started"},
	[STATS_STREAMS_BROKEN] = {"streams_broken", NUMBER, "look-aheads broken off"},
	[STATS_FALLBACKS] = {"fallbacks", NUMBER, "fallbacks to a slower way"},
	[STATS_HUGE_BYTES] = {"huge_bytes", BYTES, "read into huge pages"},
	[STATS_LOADER_MEMORY_BYTES] = {"loader_memory_bytes", BYTES, "loader: from memory"},
	[STATS_LOADER_STAGE_BYTES] = {"loader_stage_bytes", BYTES, "loader: from the local disk"},
	[STATS_LOADER_PEER_BYTES] = {"loader_peer_bytes", BYTES, "loader: from other nodes"},
	[STATS_LOADER_FILE_BYTES] = {"loader_file_bytes", BYTES, "loader: from storage"},
	[STATS_CONTAINER_CHUNKS] = {"container_chunks", NUMBER, "chunks decompressed"},
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == STATS_COUNT, "each counter has a row");

const char *stats_name(enum stats_counter counter)
{
	return rows[counter].name;
}

/* Text that grows in the caller's buffer and is cut, never overrun, at its end. */
struct text {
	char *bytes;
	size_t size, used;
};

static void text_add(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void text_add(struct text *text, const char *format, ...)
{
	size_t room = text->size - text->used;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(text->bytes + text->used, room, format, arguments);
	va_end(arguments);
	if (n > 0 && room)
		text->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* Adds a JSON string. A name may be in any encoding: bytes beyond ASCII are written as Latin-1,
 * which is sound JSON whatever they were. */
static void text_add_quoted(struct text *text, const char *string)
{
	text_add(text, "\"");
	for (; *string; string++) {
		if (*string == '"' || *string == '\\')
			text_add(text, "\\%c", *string);
		else if ((unsigned char)*string < 0x20 || (unsigned char)*string >= 0x7f)
			text_add(text, "\\u%04x", (unsigned char)*string);
		else
			text_add(text, "%c", *string);
	}
	text_add(text, "\"");
}

static void host_name(char *name, size_t size)
{
	if (gethostname(name, size) || !*name)
		snprintf(name, size, "unknown");
	name[size - 1] = 0;
}

static void text_add_size(struct text *text, uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		text_add(text, " bytes");
		return;
	}
	while (value >= 1024 && i + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		i++;
	}
	text_add(text, " bytes (%.1f %s)", value, units[i]);
}

/* Returns the rank in the launcher's variable, which is there without MPI, too. */
static const char *rank_of(void)
{
	static const char *const names[] = {"PMI_RANK",     "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
					    "SLURM_PROCID", "RANK"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value && !value[strspn(value, "0123456789")])
			return value;
	}
	return NULL;
}

/* Formats the verdict. If no process has waited, takes the time that all of them could have. */
static size_t verdict_of(const struct stats_sum *sum, char line[VERDICT_LINE])
{
	return verdict_format(line, VERDICT_LINE, sum->counters[STATS_WAIT_NS],
			      sum->of_ns ? sum->of_ns : sum->elapsed_ns);
}

void stats_report_self(struct stats_report *report)
{
	*report = (struct stats_report){.program = program_invocation_short_name, .pid = getpid()};
	stats_sum_own(&report->sum);
}

static void text_add_title(struct text *text, const struct stats_report *report)
{
	const struct stats_sum *sum = &report->sum;
	char host[HOST_NAME_MAX + 1];

	host_name(host, sizeof(host));
	text_add(text, "lmdbio: statistics of %.64s", report->program);
	if (!report->whole) {
		text_add(text, ", process %ld on %s\n", (long)report->pid, host);
		return;
	}
	text_add(text, " and its children on %s: %" PRIu64 " process%s", host, sum->processes,
		 sum->processes == 1 ? "" : "es");
	if (sum->living)
		text_add(text, ", %" PRIu64 " of them still at work", sum->living);
	text_add(text, "\n");
}

size_t stats_format_text(const struct stats_report *report, char *buffer, size_t size)
{
	struct text text = {buffer, size, 0};
	char verdict[VERDICT_LINE];

	(void)verdict_of(&report->sum, verdict);
	text_add(&text, "lmdbio: %s\n", verdict);
	text_add_title(&text, report);
	for (size_t i = 0; i < STATS_COUNT; i++) {
		uint64_t value = report->sum.counters[i];

		text_add(&text, "lmdbio:   %-30s %15" PRIu64, rows[i].text, value);
		if (rows[i].unit == BYTES)
			text_add_size(&text, value);
		else if (rows[i].unit == NANOSECONDS)
			text_add(&text, " ns (%.3f s)", (double)value / 1e9);
		text_add(&text, "\n");
	}
	return text.used;
}

/* Adds a list, without the zeros at its end. */
static void text_add_list(struct text *text, const char *name, const uint64_t *values, size_t n)
{
	while (n && !values[n - 1])
		n--;
	text_add(text, ", \"%s\": [", name);
	for (size_t i = 0; i < n; i++)
		text_add(text, "%s%" PRIu64, i ? ", " : "", values[i]);
	text_add(text, "]");
}

/* Adds when the sum began, by the wall clock, which hosts have in common, and the waits since. */
static void text_add_time(struct text *text, const struct stats_sum *sum)
{
	uint64_t age = clock_now() - sum->opened_ns;

	if (!sum->opened_ns)
		return;
	text_add(text, ", \"began\": %" PRIu64, (uint64_t)time(NULL) - age / 1000000000);
	text_add(text, ", \"wait_span_s\": %u", 1U << 2 * sum->scale);
	text_add_list(text, "wait_spans_ns", sum->spans, STATS_SPANS);
}

size_t stats_format_json(const struct stats_report *report, char *buffer, size_t size)
{
	const struct stats_sum *sum = &report->sum;
	struct text text = {buffer, size, 0};
	char host[HOST_NAME_MAX + 1], verdict[VERDICT_LINE];
	const char *rank = rank_of();

	host_name(host, sizeof(host));
	(void)verdict_of(sum, verdict);
	text_add(&text, "{\"schema\": \"lmdbio-stats/1\", \"verdict\": ");
	text_add_quoted(&text, verdict);
	text_add(&text, ", \"program\": ");
	text_add_quoted(&text, report->program);
	text_add(&text, ", \"host\": ");
	text_add_quoted(&text, host);
	text_add(&text, ", \"pid\": %ld", (long)report->pid);
	if (rank)
		text_add(&text, ", \"rank\": %lu", strtoul(rank, NULL, 10));
	text_add(&text, ", \"processes\": %" PRIu64 ", \"living\": %" PRIu64, sum->processes,
		 sum->living);
	text_add(&text, ", \"elapsed_ns\": %" PRIu64 ", \"wait_of_ns\": %" PRIu64, sum->elapsed_ns,
		 sum->of_ns);
	for (size_t i = 0; i < STATS_COUNT; i++)
		text_add(&text, ", \"%s\": %" PRIu64, rows[i].name, sum->counters[i]);
	text_add_list(&text, "request_sizes", sum->sizes, STATS_SIZES);
	text_add_time(&text, sum);
	text_add(&text, "}\n");
	return text.used;
}

int stats_file_name(const char *pattern, pid_t pid, char *path, size_t size)
{
	struct text text = {path, size, 0};
	char host[HOST_NAME_MAX + 1];

	for (const char *c = pattern; *c; c++) {
		bool special = *c == '%' && c[1];

		if (special)
			c++;
		if (special && *c == 'h') {
			host_name(host, sizeof(host));
			/* A host name in a file's name must not lead into another directory. */
			for (char *slash = host; (slash = strchr(slash, '/'));)
				*slash = '_';
			text_add(&text, "%s", host);
		} else if (special && *c == 'r') {
			text_add(&text, "%s", rank_of() ? rank_of() : "0");
		} else if (special && *c == 'p') {
			text_add(&text, "%ld", (long)pid);
		} else {
			text_add(&text, "%c", *c);
		}
	}
	/* A path that just fits cannot be told from a path that was cut. */
	return text.used + 1 < size ? 0 : ENAMETOOLONG;
}

/* Writes a new file or none: a name that exists, be it a link, is never opened. */
static void tell_file(const char *pattern, pid_t pid, const char *text, size_t length)
{
	char path[PATH_MAX];
	int rc = stats_file_name(pattern, pid, path, sizeof(path));
	int fd;

	if (rc) {
		log_line("LMDBIO_STATS=%s: %s", pattern, strerror(rc));
		return;
	}
	if (!limits_allow_file(length)) {
		log_line("LMDBIO_STATS: %s: %s", path, strerror(EFBIG));
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = errno;
		log_line("LMDBIO_STATS: %s: %s%s", path, strerror(rc),
			 rc == EEXIST   ? ", not overwritten; %p in the name keeps processes apart"
			 : rc == ENOENT ? ": make the directory before the program starts"
					: "");
		return;
	}
	rc = whole_put(fd, text, length);
	if (close(fd) && !rc)
		rc = errno;
	if (rc)
		log_line("LMDBIO_STATS: %s: %s", path, strerror(rc));
}

void stats_report_write(const struct stats_report *report, const struct settings_output *output)
{
	char text[STATS_REPORT];
	size_t length;

	if (output->how == SETTINGS_STATS_TEXT)
		length = stats_format_text(report, text, sizeof(text));
	else
		length = stats_format_json(report, text, sizeof(text));
	if (output->how == SETTINGS_STATS_FILE)
		tell_file(output->file, report->pid, text, length);
	else
		log_bytes(text, length);
}
