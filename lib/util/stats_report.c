/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells people and programs what was counted. */
#include "util/stats.h"

#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum unit { NUMBER, BYTES, NANOSECONDS };

/* The names are those of struct lmdbio_stats. */
static const struct row {
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
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == STATS_COUNT, "each counter has a row");

/* Text that grows in the caller's buffer and is cut, never overrun, at its end. */
struct report {
	char *text;
	size_t size, used;
};

static void report_add(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void report_add(struct report *report, const char *format, ...)
{
	size_t room = report->size - report->used;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(report->text + report->used, room, format, arguments);
	va_end(arguments);
	if (n > 0 && room)
		report->used += (size_t)n < room ? (size_t)n : room - 1;
}

/* A JSON string. A name may be in any encoding: bytes beyond ASCII are told as Latin-1, which is
 * sound JSON whatever they were. */
static void report_add_quoted(struct report *report, const char *text)
{
	report_add(report, "\"");
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			report_add(report, "\\%c", *text);
		else if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
			report_add(report, "\\u%04x", (unsigned char)*text);
		else
			report_add(report, "%c", *text);
	}
	report_add(report, "\"");
}

static void host_name(char *name, size_t size)
{
	if (gethostname(name, size) || !*name)
		snprintf(name, size, "unknown");
	name[size - 1] = 0;
}

static void report_add_size(struct report *report, uint64_t bytes)
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		report_add(report, " bytes");
		return;
	}
	while (value >= 1024 && i + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		i++;
	}
	report_add(report, " bytes (%.1f %s)", value, units[i]);
}

size_t stats_format_text(char *buffer, size_t size)
{
	struct report report = {buffer, size, 0};
	char host[HOST_NAME_MAX + 1];

	host_name(host, sizeof(host));
	report_add(&report, "lmdbio: statistics of %.64s, process %ld on %s\n",
		   program_invocation_short_name, (long)getpid(), host);
	for (size_t i = 0; i < STATS_COUNT; i++) {
		uint64_t value = stats_get((enum stats_counter)i);

		report_add(&report, "lmdbio:   %-30s %15" PRIu64, rows[i].text, value);
		if (rows[i].unit == BYTES)
			report_add_size(&report, value);
		else if (rows[i].unit == NANOSECONDS)
			report_add(&report, " ns (%.3f s)", (double)value / 1e9);
		report_add(&report, "\n");
	}
	return report.used;
}

size_t stats_format_json(char *buffer, size_t size)
{
	struct report report = {buffer, size, 0};
	char host[HOST_NAME_MAX + 1];

	host_name(host, sizeof(host));
	report_add(&report, "{\"schema\": \"lmdbio-stats/1\", \"program\": ");
	report_add_quoted(&report, program_invocation_short_name);
	report_add(&report, ", \"host\": ");
	report_add_quoted(&report, host);
	report_add(&report, ", \"pid\": %ld", (long)getpid());
	for (size_t i = 0; i < STATS_COUNT; i++)
		report_add(&report, ", \"%s\": %" PRIu64, rows[i].name,
			   stats_get((enum stats_counter)i));
	report_add(&report, "}\n");
	return report.used;
}

int stats_file_name(const char *pattern, char *path, size_t size)
{
	struct report report = {path, size, 0};
	char host[HOST_NAME_MAX + 1];

	for (const char *c = pattern; *c; c++) {
		bool special = *c == '%' && c[1];

		if (special)
			c++;
		if (special && *c == 'h') {
			host_name(host, sizeof(host));
			/* It names a file here, it must not lead into another directory. */
			for (char *slash = host; (slash = strchr(slash, '/'));)
				*slash = '_';
			report_add(&report, "%s", host);
		} else if (special && *c == 'p') {
			report_add(&report, "%ld", (long)getpid());
		} else {
			report_add(&report, "%c", *c);
		}
	}
	/* A path that just fits cannot be told from one that was cut. */
	return report.used + 1 < size ? 0 : ENAMETOOLONG;
}

static int write_all(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(fd, text, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		text += n;
		length -= (size_t)n;
	}
	return 0;
}

/* A new file or none: a name that exists, be it a link, is never opened. */
static void tell_file(const char *pattern, const char *text, size_t length)
{
	char path[PATH_MAX];
	int rc = stats_file_name(pattern, path, sizeof(path));
	int fd;

	if (rc) {
		log_line("LMDBIO_STATS=%s: %s", pattern, strerror(rc));
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		rc = errno;
		log_line("LMDBIO_STATS: %s: %s%s", path, strerror(rc),
			 rc == EEXIST ? ", not overwritten; %p in the name keeps processes apart"
				      : "");
		return;
	}
	rc = write_all(fd, text, length);
	if (close(fd) && !rc)
		rc = errno;
	if (rc)
		log_line("LMDBIO_STATS: %s: %s", path, strerror(rc));
}

void stats_report_own(const struct settings_output *output)
{
	char text[STATS_REPORT];
	size_t length;

	if (output->how == SETTINGS_STATS_TEXT)
		length = stats_format_text(text, sizeof(text));
	else
		length = stats_format_json(text, sizeof(text));
	if (output->how == SETTINGS_STATS_FILE)
		tell_file(output->file, text, length);
	else
		write_all(STDERR_FILENO, text, length);
}
