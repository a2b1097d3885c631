/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the line of progress. */
#include "convert_progress.h"
#include "tool_common.h"

#include "util/clock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	TERMINAL_NS = 250000000, /* between two lines on a terminal */
	FIRST_NS = 500000000,    /* work shorter than this shows no line */
};

#define SECOND_NS 1000000000ull

static uint64_t interval_ns(const struct progress *progress)
{
	unsigned seconds = progress->seconds ? progress->seconds : PROGRESS_LOG_SECONDS;

	return progress->terminal ? TERMINAL_NS : seconds * SECOND_NS;
}

void progress_begin(struct progress *progress, const char *phase, uint64_t total)
{
	progress_clear(progress);
	progress->terminal = isatty(STDERR_FILENO) && !progress->seconds;
	progress->on = progress->mode != PROGRESS_NEVER;
	progress->phase = phase;
	progress->total = total;
	progress->since = clock_now();
	progress->next = progress->since + (progress->terminal ? FIRST_NS : interval_ns(progress));
	atomic_store(&progress->in, 0);
	atomic_store(&progress->out, 0);
}

void progress_count(struct progress *progress, uint64_t in, uint64_t out)
{
	atomic_fetch_add_explicit(&progress->in, in, memory_order_relaxed);
	atomic_fetch_add_explicit(&progress->out, out, memory_order_relaxed);
}

void progress_clear(struct progress *progress)
{
	if (!progress->shown)
		return;
	fputs("\r\033[K", stderr);
	progress->shown = false;
}

static void duration_text(uint64_t seconds, char *text, size_t size)
{
	if (seconds >= 3600)
		snprintf(text, size, "%uh%02um", (unsigned)(seconds / 3600),
			 (unsigned)(seconds / 60 % 60));
	else
		snprintf(text, size, "%um%02us", (unsigned)(seconds / 60),
			 (unsigned)(seconds % 60));
}

static void progress_line(const struct progress *progress, uint64_t now, char *line, size_t size)
{
	uint64_t in = atomic_load(&progress->in), out = atomic_load(&progress->out);
	double seconds = (double)(now - progress->since) / 1e9, rate = (double)in / seconds;
	char took[TOOL_SIZE_TEXT], made[TOOL_SIZE_TEXT], each[TOOL_SIZE_TEXT], left[TOOL_SIZE_TEXT];
	int at = 0;

	if (progress->total)
		at = snprintf(line, size, "%3u %% ",
			      (unsigned)((double)in * 100 / (double)progress->total));
	at += snprintf(line + at, size - (size_t)at, "%s %s", progress->phase,
		       tool_size_text(in, took));
	if (out)
		at += snprintf(line + at, size - (size_t)at, " -> %s, ratio %.2f",
			       tool_size_text(out, made), (double)in / (double)out);
	at += snprintf(line + at, size - (size_t)at, ", %s/s",
		       tool_size_text((uint64_t)rate, each));
	if (progress->total && rate > 0 && in <= progress->total) {
		duration_text((uint64_t)((double)(progress->total - in) / rate), left,
			      sizeof(left));
		snprintf(line + at, size - (size_t)at, ", %s left", left);
	}
}

void progress_show(struct progress *progress)
{
	char line[256];
	uint64_t now;

	if (!progress->on)
		return;
	now = clock_now();
	if (now < progress->next)
		return;
	progress->next = now + interval_ns(progress);
	progress_line(progress, now, line, sizeof(line));
	if (progress->terminal) {
		fprintf(stderr, "\r%s\033[K", line);
		progress->shown = true;
	} else {
		fprintf(stderr, "lmdbio-convert: %s\n", line);
	}
}
