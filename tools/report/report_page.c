/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lays out the counters of processes as one HTML page: the verdict first, then its evidence. */
#include "report_page.h"

#include "html/html_page.h"
#include "util/phrases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS_MOST = 200 /* processes in the table */ };

static const char later[] = "These files do not say; an earlier release of lmdbio wrote them.";

static void row(const char *name, const char *value, double part, const char *colour)
{
	const struct html_bar bar = {name, value, part, colour, .indented = false};

	html_bars_row(stdout, &bar);
}

/* Writes a row for a part of the row before. */
static void row_of_these(const char *name, const char *value, double part, const char *colour)
{
	const struct html_bar bar = {name, value, part, colour, .indented = true};

	html_bars_row(stdout, &bar);
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void process_name(const struct report_process *process)
{
	if (process->rank != UINT64_MAX)
		printf("rank %" PRIu64 ", ", process->rank);
	html_text(stdout, process->program);
	printf(" %" PRIu64, process->pid);
	if (process->processes > 1)
		printf(" (%" PRIu64 " processes)", process->processes);
	printf(" on ");
	html_text(stdout, process->host);
}

/* --- the verdict ------------------------------------------------------------------------------ */

/* Shows the slowest process: ranks in step wait for it, and sums hide that. */
static void slowest(const struct report_process *processes, size_t count, double of_all)
{
	const struct report_process *first = &processes[0]; /* they are sorted */
	double part = report_waited_part(first);

	if (count < 2 || 100 * part < VERDICT_PERCENT || 100 * of_all >= VERDICT_PERCENT)
		return;
	printf("<p>");
	process_name(first);
	printf(" waited %.1f %% of its time: ranks that go in step wait for the slowest.</p>\n",
	       100 * part);
}

static void verdict_head(const struct report_total *total)
{
	char line[VERDICT_LINE], number[HTML_NUMBER];

	if (!total->timed) {
		snprintf(line, sizeof(line), "Waited %s for data; of how long is not known",
			 html_time(total->counters[STATS_WAIT_NS], number));
		html_verdict(stdout, HTML_PLAIN, line);
		return;
	}
	(void)verdict_format(line, sizeof(line), total->waited_ns, total->of_ns);
	html_verdict(stdout,
		     100 * ratio(total->waited_ns, total->of_ns) < VERDICT_PERCENT ? HTML_GOOD
										   : HTML_BAD,
		     line);
}

static void verdict(const struct report_total *total, const struct report_process *processes,
		    size_t count)
{
	double part = ratio(total->waited_ns, total->of_ns);
	char number[HTML_NUMBER];

	verdict_head(total);
	printf("<p class=\"note\">%s process%s on %zu host%s",
	       html_number(total->processes, number), total->processes == 1 ? "" : "es",
	       total->hosts, total->hosts == 1 ? "" : "s");
	if (total->processes > 1)
		printf("; times are sums over them");
	if (total->timed && total->timed < total->entries)
		printf(" (%zu of the statistics do not say how long they are of, and are left "
		       "out)",
		       total->entries - total->timed);
	printf(".</p>\n");
	slowest(processes, count, part);
	if (100 * part >= VERDICT_PERCENT)
		printf("<p>What to try: read through lmdbio's batch loader, or announce what you "
		       "will read (lmdbio-loader(3), lmdbio(3)); make the data smaller with "
		       "lmdbio-convert(1); bring it to the nodes with lmdbio-stage(1).</p>\n");
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void bytes(const struct report_total *total)
{
	const uint64_t *counters = total->counters;
	uint64_t asked = counters[STATS_STORAGE_BYTES], needed = counters[STATS_SERVED_BYTES];
	uint64_t most = larger(asked, needed);
	char size[TOOL_SIZE_TEXT];

	html_section_begin(stdout, "bytes", "Bytes asked against bytes needed");
	if (asked && needed && asked >= needed)
		printf("<p>Storage was asked for %.2f bytes for each byte that the program "
		       "took.</p>\n",
		       (double)asked / (double)needed);
	else if (asked && needed)
		printf("<p>The program took %.2f bytes for each byte that storage was asked "
		       "for: the rest was in memory.</p>\n",
		       (double)needed / (double)asked);
	else
		printf("<p>%s</p>\n",
		       !needed ? "The program took no values through lmdbio."
			       : "Storage was asked for nothing: all was in memory.");
	html_bars_begin(stdout);
	row("Needed: values handed to the program", tool_size_text(needed, size),
	    ratio(needed, most), "c1");
	row("Asked of storage", tool_size_text(asked, size), ratio(asked, most), "c2");
	row_of_these("of these, ahead of need",
		     tool_size_text(counters[STATS_PREFETCH_BYTES], size),
		     ratio(counters[STATS_PREFETCH_BYTES], most), "c2");
	row_of_these("of those, used by the program",
		     tool_size_text(counters[STATS_PREFETCH_USED], size),
		     ratio(counters[STATS_PREFETCH_USED], most), "c2");
	html_bars_end(stdout);
	html_section_end(stdout);
}

static void sizes(const struct report_total *total)
{
	char from[HTML_NUMBER], to[HTML_NUMBER], name[2 * HTML_NUMBER + 8];
	unsigned first = REPORT_SIZES, end = 0;
	char number[HTML_NUMBER], mean[TOOL_SIZE_TEXT];
	uint64_t most = 0;

	html_section_begin(stdout, "sizes", "Sizes of requests to storage");
	for (unsigned i = 0; i < REPORT_SIZES; i++) {
		if (!total->sizes[i])
			continue;
		first = first < i ? first : i;
		end = i + 1;
		most = larger(most, total->sizes[i]);
	}
	if (!end) {
		printf("<p>%s</p>\n",
		       total->counters[STATS_STORAGE_REQUESTS] ? later : "No request was made.");
		html_section_end(stdout);
		return;
	}
	printf("<p>%s requests", html_number(total->counters[STATS_STORAGE_REQUESTS], number));
	printf(", %s on average.</p>\n<table>\n",
	       tool_size_text(total->counters[STATS_STORAGE_BYTES] /
				      larger(total->counters[STATS_STORAGE_REQUESTS], 1),
			      mean));
	for (unsigned i = first; i < end; i++) {
		if (i + 1 < REPORT_SIZES)
			snprintf(name, sizeof(name), "%s to %s", html_power(i, from),
				 html_power(i + 1, to));
		else
			snprintf(name, sizeof(name), "%s and more", html_power(i, from));
		row(name, html_number(total->sizes[i], number), ratio(total->sizes[i], most), "c1");
	}
	printf("</table>\n");
	html_section_end(stdout);
}

/* --- waits over time -------------------------------------------------------------------------- */

static void span_name(FILE *out, unsigned i, const void *context)
{
	const struct report_total *total = context;
	char number[HTML_NUMBER];

	fprintf(out, "from %" PRIu64 " s on: %s waited", (uint64_t)i * total->span_seconds,
		html_time(total->span_ns[i], number));
}

static void waits(const struct report_total *total)
{
	char number[HTML_NUMBER], each[HTML_NUMBER];
	double heights[REPORT_SPANS];
	uint64_t most = 0;

	html_section_begin(stdout, "waits", "Waits over time");
	printf("<p>The processes waited %s times for data, %s in all.</p>\n",
	       html_number(total->counters[STATS_WAITS], number),
	       html_time(total->counters[STATS_WAIT_NS], each));
	for (unsigned i = 0; i < total->spans; i++)
		most = larger(most, total->span_ns[i]);
	if (!most) {
		printf("<p>%s</p>\n",
		       total->counters[STATS_WAIT_NS] ? later : "There is nothing to draw.");
		html_section_end(stdout);
		return;
	}
	for (unsigned i = 0; i < total->spans; i++)
		heights[i] = ratio(total->span_ns[i], most);
	printf("<figure><figcaption>Each column is %u s; the upper line is %s waited in "
	       "it.</figcaption>\n",
	       total->span_seconds, html_time(most, number));
	html_columns(stdout, &(struct html_columns){.heights = heights,
						    .count = total->spans,
						    .label = "waits over time",
						    .name = span_name,
						    .context = total});
	printf("<div class=\"axis\"><span>0 s</span> <span>%" PRIu64 " s</span></div></figure>\n",
	       (uint64_t)total->spans * total->span_seconds);
	printf("<details><summary>As a table</summary>\n<table>\n<tr><th>From</th>"
	       "<th class=\"n\">Waited</th></tr>\n");
	for (unsigned i = 0; i < total->spans; i++)
		printf("<tr><td>%" PRIu64 " s</td><td class=\"n\">%s</td></tr>\n",
		       (uint64_t)i * total->span_seconds, html_time(total->span_ns[i], number));
	printf("</table></details>\n");
	html_section_end(stdout);
}

/* --- sources ---------------------------------------------------------------------------------- */

/* Draws parts of one whole: a stacked bar, and its key with the numbers. */
static void source_table(const struct html_part *parts, unsigned count,
			 const char *(*text)(uint64_t value, char *buffer))
{
	char buffer[TOOL_SIZE_TEXT];
	double sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += (double)parts[i].value;
	html_stack(stdout, parts, count);
	printf("<table>\n");
	for (unsigned i = 0; i < count; i++)
		printf("<tr><td><svg class=\"key\" width=\"10\" height=\"10\" aria-hidden=\"true\">"
		       "<rect class=\"%s\" width=\"10\" height=\"10\" rx=\"2\"/></svg>%s</td>"
		       "<td class=\"n\">%s</td><td class=\"n\">%.1f %%</td></tr>\n",
		       parts[i].style, parts[i].name, text(parts[i].value, buffer),
		       sum > 0 ? 100 * (double)parts[i].value / sum : 0);
	printf("</table>\n");
}

static const char *number_text(uint64_t value, char *buffer)
{
	return html_number(value, buffer);
}

static const char *size_text(uint64_t value, char *buffer)
{
	return tool_size_text(value, buffer);
}

static void sources(const struct report_total *total)
{
	const uint64_t *counters = total->counters;
	const struct html_part extents[] = {
		{"Page cache, brought there ahead of need", "c1", counters[STATS_HITS_CACHE]},
		{"Page cache or storage, through the file's map", "c3", counters[STATS_AT_REST]},
		{"Shared memory, loaded by the process itself", "c2",
		 counters[STATS_HITS_ARENA_OWN]},
		{"Shared memory, loaded by other processes", "c4", counters[STATS_HITS_ARENA_PEER]},
	};
	const struct html_part batches[] = {
		{"Memory of the node", "c2", counters[STATS_LOADER_MEMORY_BYTES]},
		{"Local disk", "c1", counters[STATS_LOADER_STAGE_BYTES]},
		{"Other nodes (peers)", "c4", counters[STATS_LOADER_PEER_BYTES]},
		{"Storage", "c3", counters[STATS_LOADER_FILE_BYTES]},
	};

	html_section_begin(stdout, "sources", "Sources");
	printf("<p>The parts of the data set (extents) that the program stepped on, by where "
	       "they were.</p>\n");
	source_table(extents, 4, number_text);
	if (batches[0].value || batches[1].value || batches[2].value || batches[3].value) {
		printf("<p>The bytes of the batch loader's samples, by where they came "
		       "from.</p>\n");
		source_table(batches, 4, size_text);
	}
	html_section_end(stdout);
}

/* --- the spread of ranks ---------------------------------------------------------------------- */

static int process_compare(const void *a, const void *b)
{
	const struct report_process *left = a, *right = b;
	double x = report_waited_part(left), y = report_waited_part(right);

	if (x != y)
		return x < y ? 1 : -1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->pid < right->pid ? -1 : left->pid > right->pid;
}

static void process_row(const struct report_process *process, uint64_t most_bytes)
{
	char number[HTML_NUMBER], size[TOOL_SIZE_TEXT];
	double part = report_waited_part(process);

	printf("<tr><td>");
	process_name(process);
	printf("</td><td class=\"n\">%s</td><td class=\"n\">",
	       html_time(process->counters[STATS_WAIT_NS], number));
	if (process->of_ns)
		printf("%.1f %%", 100 * part);
	else
		printf("?");
	printf("</td><td>");
	html_bar(stdout, part, HTML_BAR_SHORT, "wait");
	printf("</td><td class=\"n\">%s</td><td>",
	       tool_size_text(process->counters[STATS_STORAGE_BYTES], size));
	html_bar(stdout, ratio(process->counters[STATS_STORAGE_BYTES], most_bytes), HTML_BAR_SHORT,
		 "c2");
	printf("</td></tr>\n");
}

static void spread(const struct report_process *processes, size_t count)
{
	size_t shown = count < ROWS_MOST ? count : ROWS_MOST;
	uint64_t most = 0;

	html_section_begin(stdout, "spread", "Spread over processes and ranks");
	if (count > 1)
		printf("<p>A process waited at least %.1f %%, in the median %.1f %%, at most "
		       "%.1f %% of its time.</p>\n",
		       100 * report_waited_part(&processes[count - 1]),
		       100 * report_waited_part(&processes[count / 2]),
		       100 * report_waited_part(&processes[0]));
	for (size_t i = 0; i < count; i++)
		most = larger(most, processes[i].counters[STATS_STORAGE_BYTES]);
	printf("<table>\n<tr><th>Process</th><th class=\"n\" colspan=\"2\">Waited</th>"
	       "<th>of its time</th><th class=\"n\">Asked</th><th>of storage</th></tr>\n");
	for (size_t i = 0; i < shown; i++)
		process_row(&processes[i], most);
	printf("</table>\n");
	if (shown < count)
		printf("<p class=\"note\">And %zu more, which waited less.</p>\n", count - shown);
	html_section_end(stdout);
}

/* --- the page --------------------------------------------------------------------------------- */

static void counters_all(const struct report_total *total)
{
	char number[HTML_NUMBER];

	html_section_begin(stdout, "counters", "All counters");
	printf("<details><summary>Sums over the processes, as lmdbio(3) explains them"
	       "</summary>\n<table>\n");
	for (unsigned i = 0; i < STATS_COUNT; i++)
		printf("<tr><td>%s</td><td class=\"n\">%s</td></tr>\n",
		       stats_name((enum stats_counter)i), html_number(total->counters[i], number));
	printf("</table></details>\n");
	html_section_end(stdout);
}

void report_page(struct report_process *processes, size_t count)
{
	struct report_total total;

	report_total(processes, count, &total);
	qsort(processes, count, sizeof(*processes), process_compare);
	html_begin(stdout, "lmdbio report");
	verdict(&total, processes, count);
	bytes(&total);
	sizes(&total);
	waits(&total);
	sources(&total);
	spread(processes, count);
	counters_all(&total);
	html_end(stdout, "lmdbio-report");
}
