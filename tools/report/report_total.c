/* SPDX-License-Identifier: OLDAP-2.8 */
/* Adds up the counters of a report's processes. */
#include "report_total.h"

#include <stdlib.h>
#include <string.h>

static int host_compare(const void *a, const void *b)
{
	const struct report_process *const *left = a, *const *right = b;

	return strcmp((*left)->host, (*right)->host);
}

static size_t hosts_count(const struct report_process *processes, size_t count)
{
	const struct report_process **sorted = calloc(count + 1, sizeof(const void *));
	size_t hosts = 0;

	if (!sorted)
		return 0;
	for (size_t i = 0; i < count; i++)
		sorted[i] = &processes[i];
	qsort(sorted, count, sizeof(*sorted), host_compare);
	for (size_t i = 0; i < count; i++)
		hosts += !i || strcmp(sorted[i]->host, sorted[i - 1]->host) != 0;
	free(sorted);
	return hosts;
}

/* --- waits over time -------------------------------------------------------------------------- */

static bool has_spans(const struct report_process *process)
{
	return process->span_seconds && process->spans;
}

static void spans_lay(const struct report_process *processes, size_t count,
		      struct report_total *total)
{
	uint64_t first = UINT64_MAX, end = 0, width = 1;

	for (size_t i = 0; i < count; i++)
		if (has_spans(&processes[i]) && processes[i].began && processes[i].began < first)
			first = processes[i].began;
	for (size_t i = 0; i < count; i++) {
		const struct report_process *process = &processes[i];
		uint64_t offset = process->began > first ? process->began - first : 0;

		if (!has_spans(process))
			continue;
		if (width < process->span_seconds)
			width = process->span_seconds;
		offset = report_add(offset, (uint64_t)process->spans * process->span_seconds);
		end = end < offset ? offset : end;
	}
	while (end / width >= REPORT_SPANS && width < UINT32_MAX / 2)
		width *= 2;
	for (size_t i = 0; i < count; i++) {
		const struct report_process *process = &processes[i];
		uint64_t offset = process->began > first ? process->began - first : 0;

		for (unsigned span = 0; has_spans(process) && span < process->spans; span++) {
			uint64_t to = (offset + (uint64_t)span * process->span_seconds) / width;

			to = to < REPORT_SPANS ? to : REPORT_SPANS - 1;
			total->span_ns[to] = report_add(total->span_ns[to], process->span_ns[span]);
			total->spans = total->spans > to ? total->spans : (unsigned)to + 1;
			total->span_seconds = (unsigned)width;
		}
	}
}

/* --- everything ------------------------------------------------------------------------------- */

void report_total(const struct report_process *processes, size_t count, struct report_total *total)
{
	*total = (struct report_total){.entries = count};
	for (size_t i = 0; i < count; i++) {
		const struct report_process *process = &processes[i];

		total->processes = report_add(total->processes, process->processes);
		for (unsigned j = 0; j < STATS_COUNT; j++)
			total->counters[j] = report_add(total->counters[j], process->counters[j]);
		for (unsigned j = 0; j < REPORT_SIZES; j++) {
			total->sizes[j] = report_add(total->sizes[j], process->sizes[j]);
			total->requests = report_add(total->requests, process->sizes[j]);
		}
		if (!process->of_ns)
			continue;
		total->timed++;
		total->of_ns = report_add(total->of_ns, process->of_ns);
		total->waited_ns = report_add(total->waited_ns, process->counters[STATS_WAIT_NS]);
	}
	total->hosts = hosts_count(processes, count);
	spans_lay(processes, count, total);
}

double report_waited_part(const struct report_process *process)
{
	uint64_t waited = process->counters[STATS_WAIT_NS];

	if (!process->of_ns)
		return 0;
	return waited < process->of_ns ? (double)waited / (double)process->of_ns : 1;
}
