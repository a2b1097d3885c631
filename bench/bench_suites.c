/* SPDX-License-Identifier: OLDAP-2.8 */
/* Holds the tables of figures to reach, and computes each. */
#include "bench_suites.h"

#include "bench_statistics.h"

#include <math.h>
#include <string.h>

enum { TOUCH = 64 };

#define WARM(set_, work_, state_)                                                                  \
	.what = {.set = set_, .work = work_, .state = state_, .processes = 1, .touch = TOUCH}
#define WARM_SLOW(set_, work_)                                                                     \
	.what = {.set = set_,                                                                      \
		 .work = work_,                                                                    \
		 .state = STATE_WARM,                                                              \
		 .slow = true,                                                                     \
		 .processes = 1,                                                                   \
		 .touch = TOUCH}
#define AGAIN_NORDAHEAD(set_)                                                                      \
	.what = {.set = set_,                                                                      \
		 .work = WORK_SCAN,                                                                \
		 .state = STATE_AGAIN,                                                             \
		 .processes = 1,                                                                   \
		 .nordahead = true,                                                                \
		 .touch = TOUCH}
#define COLD_LOCAL(set_)                                                                           \
	.what = {.set = set_,                                                                      \
		 .work = WORK_SCAN,                                                                \
		 .state = STATE_COLD,                                                              \
		 .processes = 1,                                                                   \
		 .touch = TOUCH,                                                                   \
		 .fio = true},                                                                     \
	.figures = {                                                                               \
		{FIGURE_FIO, 0.9},                                                                 \
		{FIGURE_DIRECT, 0.9},                                                              \
		{FIGURE_RATE, 1.0},                                                                \
	}
#define SLOW(set_, work_, processes_, nordahead_, count_)                                          \
	.what = {.set = set_,                                                                      \
		 .work = work_,                                                                    \
		 .state = STATE_COLD,                                                              \
		 .slow = true,                                                                     \
		 .processes = processes_,                                                          \
		 .nordahead = nordahead_,                                                          \
		 .touch = TOUCH,                                                                   \
		 .count = count_}
#define RATE(least)                                                                                \
	.figures = {                                                                               \
		{FIGURE_RATE, least},                                                              \
	}
#define READ_ONCE                                                                                  \
	.figures = {                                                                               \
		{FIGURE_REQUESTS, 1.1},                                                            \
		{FIGURE_BYTES, 1.02},                                                              \
		{FIGURE_CEILING, 1.3},                                                             \
		{FIGURE_MAJOR, 20},                                                                \
	}
#define READ_ONCE_TOGETHER(row)                                                                    \
	.figures =                                                                                 \
		{                                                                                  \
			{FIGURE_REQUESTS, 1.1},                                                    \
			{FIGURE_BYTES, 1.02},                                                      \
			{FIGURE_ONE, 1.3},                                                         \
			{FIGURE_MAJOR, 20},                                                        \
	},                                                                                         \
	.one = row

/* No user has asked for these figures; they guard a scan's costs. */
#define LOOKED_UP                                                                                  \
	.figures = {{FIGURE_RATE, 1.0},                                                            \
		    {FIGURE_REQUESTS, 1.1},                                                        \
		    {FIGURE_BYTES, 1.02},                                                          \
		    {FIGURE_MAJOR, 20}}

static const struct suite_row speed2[] = {
	{WARM("small", WORK_SCAN, STATE_WARM), RATE(1.0)},
	{WARM("small", WORK_SCAN, STATE_HOT), RATE(1.0)},
	{WARM("small", WORK_GET, STATE_WARM), RATE(1.0)},
	{WARM("small", WORK_GET, STATE_HOT), RATE(1.0)},
	{WARM("cifar", WORK_SCAN, STATE_WARM), RATE(1.0)},
	{WARM("cifar", WORK_SCAN, STATE_HOT), RATE(1.0)},
	{WARM("cifar", WORK_GET, STATE_WARM), RATE(1.0)},
	{WARM("cifar", WORK_GET, STATE_HOT), RATE(1.0)},
	{WARM("img", WORK_SCAN, STATE_WARM), RATE(1.0)},
	{WARM("img", WORK_SCAN, STATE_HOT), RATE(1.0)},
	{WARM("img", WORK_GET, STATE_WARM), RATE(1.0)},
	{WARM("img", WORK_GET, STATE_HOT), RATE(1.0)},
	{WARM("tiny", WORK_OPEN, STATE_WARM), .figures = {{FIGURE_TIME, 1.15}}},
	{WARM("tiny", WORK_LOAD, STATE_WARM), .figures = {{FIGURE_START, 1.0}}},
};

/* Rows 0 and 1 are the ones that several processes are compared with. */
static const struct suite_row storms[] = {
	{SLOW("img", WORK_SCAN, 1, false, 0), READ_ONCE},
	{SLOW("cifar", WORK_SCAN, 1, false, 0), READ_ONCE},
	{SLOW("small", WORK_SCAN, 1, false, 0), READ_ONCE},
	{SLOW("img", WORK_SCAN, 1, true, 0), READ_ONCE},
	{SLOW("cifar", WORK_SCAN, 1, true, 0), READ_ONCE},
	{SLOW("small", WORK_SCAN, 1, true, 0), READ_ONCE},
	{SLOW("img", WORK_STRIDE, 4, false, 0), READ_ONCE_TOGETHER(0)},
	{SLOW("img", WORK_STRIDE, 8, false, 0), READ_ONCE_TOGETHER(0)},
	{SLOW("cifar", WORK_STRIDE, 4, false, 0), READ_ONCE_TOGETHER(1)},
	{SLOW("cifar", WORK_STRIDE, 8, false, 0), READ_ONCE_TOGETHER(1)},
	{SLOW("img", WORK_LOOKUP, 1, true, 0), LOOKED_UP},
	{SLOW("cifar", WORK_LOOKUP, 1, false, 0), LOOKED_UP},
	{SLOW("img", WORK_GET, 1, true, 500),
	 .figures = {{FIGURE_REQUESTS_VALUE, 1.2}, {FIGURE_MAJOR, 20}}},
	{SLOW("cifar", WORK_BATCH, 1, false, 20480),
	 .figures = {{FIGURE_RATE, 10}, {FIGURE_BYTES_VALUE, 2}, {FIGURE_MAJOR, 20}}},
	{SLOW("img", WORK_BACKWARD, 1, false, 0), READ_ONCE},
	{SLOW("cifar", WORK_BACKWARD, 1, false, 0), READ_ONCE},
	{SLOW("small", WORK_BACKWARD, 1, false, 0), READ_ONCE},
	{.what = {.set = "img",
		  .work = WORK_KEEP,
		  .state = STATE_COLD,
		  .slow = true,
		  .processes = 1,
		  .touch = TOUCH,
		  .variable = "LMDBIO_MEMORY=64M"},
	 .figures = {{FIGURE_OWN, 80}}},
	{WARM_SLOW("img", WORK_SCAN), RATE(1.3)},
	{WARM_SLOW("cifar", WORK_SCAN), RATE(1.0)},
	{WARM_SLOW("small", WORK_SCAN), RATE(1.0)},
	{WARM_SLOW("cifar", WORK_GET), RATE(1.0)},
	{WARM_SLOW("small", WORK_GET), RATE(1.0)},
	{WARM("img", WORK_SCAN, STATE_AGAIN), RATE(1.0)},
	{AGAIN_NORDAHEAD("img"), RATE(1.3)},
	{AGAIN_NORDAHEAD("cifar"), RATE(1.0)},
	{COLD_LOCAL("img")},
	{COLD_LOCAL("cifar")},
	{COLD_LOCAL("small")},
};

/* Cold values in random order on a local disk, beside other processes: at least as fast as the
 * original. Values of several pages are one request each where the kernel does not read around. At
 * nice 19, beside others, a reader gets a 200th of a processor, so it reads a tenth of the
 * values. */
#define RANDOM(set_, count_, nordahead_, busy_, nice_, least)                                      \
	{                                                                                          \
		.what = {.set = set_,                                                              \
			 .work = WORK_GET,                                                         \
			 .state = STATE_COLD,                                                      \
			 .processes = 1,                                                           \
			 .touch = TOUCH,                                                           \
			 .count = (count_) / ((nice_) && (busy_) ? 10 : 1),                        \
			 .nordahead = nordahead_,                                                  \
			 .busy = busy_,                                                            \
			 .nice = nice_},                                                           \
		RATE(least)                                                                        \
	}
#define RANDOM_BESIDE(set_, count_, nordahead_, least)                                             \
	RANDOM(set_, count_, nordahead_, 0, 0, least),                                             \
		RANDOM(set_, count_, nordahead_, 0, 19, least),                                    \
		RANDOM(set_, count_, nordahead_, 2, 0, least),                                     \
		RANDOM(set_, count_, nordahead_, 2, 19, least),                                    \
		RANDOM(set_, count_, nordahead_, 8, 0, least),                                     \
		RANDOM(set_, count_, nordahead_, 8, 19, least)

static const struct suite_row random_rows[] = {
	RANDOM_BESIDE("small", 1000, true, 1.0), RANDOM_BESIDE("small", 1000, false, 1.0),
	RANDOM_BESIDE("cifar", 1000, true, 1.0), RANDOM_BESIDE("cifar", 1000, false, 1.0),
	RANDOM_BESIDE("mid", 1000, true, 2.0),   RANDOM_BESIDE("mid", 1000, false, 1.0),
	RANDOM_BESIDE("img", 200, true, 2.0),    RANDOM_BESIDE("img", 200, false, 1.0),
};

/* Cold values in random order, without hints, shared by the processes: the rate is at least the
 * original's, with hardly more than one request a value. */
#define UNHINTED(set_, count_, slow_, nordahead_, processes_)                                      \
	.what = {.set = set_,                                                                      \
		 .work = WORK_GET,                                                                 \
		 .state = STATE_COLD,                                                              \
		 .slow = slow_,                                                                    \
		 .processes = processes_,                                                          \
		 .touch = TOUCH,                                                                   \
		 .count = count_,                                                                  \
		 .nordahead = nordahead_}
#define UNHINTED_SMALL(processes_, slow_, nordahead_)                                              \
	{                                                                                          \
		UNHINTED("cifar", 4000, slow_, nordahead_, processes_), .figures = {               \
			{FIGURE_RATE, 1.0},                                                        \
			{FIGURE_REQUESTS_VALUE, 1.05}                                              \
		}                                                                                  \
	}
#define UNHINTED_LARGE(processes_, slow_, nordahead_)                                              \
	{                                                                                          \
		UNHINTED("photo", 400, slow_, nordahead_, processes_), .figures = {                \
			{FIGURE_RATE, 1.0},                                                        \
			{FIGURE_REQUESTS_VALUE, 1.05},                                             \
			{FIGURE_BYTES_VALUE, 1.2},                                                 \
		}                                                                                  \
	}
#define UNHINTED_BY_ALL(kind, slow_, nordahead_)                                                   \
	kind(1, slow_, nordahead_), kind(4, slow_, nordahead_), kind(8, slow_, nordahead_)

static const struct suite_row unhinted[] = {
	UNHINTED_BY_ALL(UNHINTED_SMALL, true, false),  UNHINTED_BY_ALL(UNHINTED_SMALL, true, true),
	UNHINTED_BY_ALL(UNHINTED_LARGE, true, false),  UNHINTED_BY_ALL(UNHINTED_LARGE, true, true),
	UNHINTED_BY_ALL(UNHINTED_SMALL, false, false), UNHINTED_BY_ALL(UNHINTED_SMALL, false, true),
	UNHINTED_BY_ALL(UNHINTED_LARGE, false, false), UNHINTED_BY_ALL(UNHINTED_LARGE, false, true),
};

/* Processor seconds of each way of reading, without what storage takes: on slowfs another process
 * pays for that. */
#define SECONDS(most, processes_, ...)                                                             \
	{                                                                                          \
		.what = {.processes = processes_, .touch = TOUCH, __VA_ARGS__}, .figures = {       \
			{FIGURE_CPU, most},                                                        \
		}                                                                                  \
	}
#define SCANNED .work = WORK_SCAN, .state = STATE_COLD
#define SECONDS_OF(set_)                                                                           \
	SECONDS(0.8, 1, .set = set_, SCANNED, .slow = true),                                       \
		SECONDS(0.8, 1, .set = set_, SCANNED, .slow = true, .nordahead = true),            \
		SECONDS(0.8, 1, .set = set_, SCANNED, .slow = true,                                \
			.variable = "LMDBIO_STORE=cache"),                                         \
		SECONDS(0.8, 1, .set = set_, SCANNED),                                             \
		SECONDS(0.8, 1, .set = set_, SCANNED, .nordahead = true),                          \
		SECONDS(0.8, 4, .set = set_, .work = WORK_STRIDE, .slow = true),                   \
		SECONDS(1.0, 1, .set = set_, .work = WORK_SCAN, .slow = true,                      \
			.state = STATE_WARM),                                                      \
		SECONDS(1.0, 1, .set = set_, .work = WORK_SCAN, .state = STATE_WARM),              \
		SECONDS(1.0, 1, .set = set_, .work = WORK_SCAN, .state = STATE_HOT),               \
		SECONDS(1.0, 1, .set = set_, .work = WORK_GET, .state = STATE_WARM),               \
		SECONDS(1.0, 1, .set = set_, .work = WORK_GET, .slow = true, .count = 400),        \
		SECONDS(1.0, 1, .set = set_, .work = WORK_GET, .slow = true, .count = 400,         \
			.nordahead = true),                                                        \
		SECONDS(1.0, 1, .set = set_, .work = WORK_GET, .count = 400),                      \
		SECONDS(1.0, 1, .set = set_, .work = WORK_GET, .count = 400, .nordahead = true)

static const struct suite_row seconds_rows[] = {
	SECONDS_OF("small"),
	SECONDS_OF("cifar"),
	SECONDS_OF("img"),
};

static const struct suite suites[] = {
	{"speed2", "as fast as the original where the data is in memory", speed2,
	 sizeof(speed2) / sizeof(speed2[0])},
	{"storms", "no page-fault storms: each byte once, in large requests", storms,
	 sizeof(storms) / sizeof(storms[0])},
	{"random", "cold random reading of a local disk, beside busy processes", random_rows,
	 sizeof(random_rows) / sizeof(random_rows[0])},
	{"unhinted", "cold random reading by processes together, with nothing told", unhinted,
	 sizeof(unhinted) / sizeof(unhinted[0])},
	{"seconds", "processor seconds of each way of reading", seconds_rows,
	 sizeof(seconds_rows) / sizeof(seconds_rows[0])},
};

const struct suite *suite_find(const char *name)
{
	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
		if (!strcmp(suites[i].name, name))
			return &suites[i];
	return NULL;
}

static double value_time(const struct figure_input *in, int run)
{
	return measured_seconds(in->m, LMDBIO, run) / measured_seconds(in->m, ORIGINAL, run);
}

static double value_rate(const struct figure_input *in, int run)
{
	return 1 / value_time(in, run);
}

static double value_requests(const struct figure_input *in, int run)
{
	return MEASURED(in->m, LMDBIO, run, requests) / ((double)in->m->data.file_size / 1048576);
}

static double value_bytes(const struct figure_input *in, int run)
{
	return MEASURED(in->m, LMDBIO, run, asked) / (double)in->m->data.file_size;
}

static double value_direct(const struct figure_input *in, int run)
{
	return measured_direct(in->m, run) / measured_seconds(in->m, LMDBIO, run);
}

static double value_fio(const struct figure_input *in, int run)
{
	double fio = measured_fio(in->m, run);

	return fio > 0 ? fio / measured_seconds(in->m, LMDBIO, run) : NAN;
}

static double value_ceiling(const struct figure_input *in, int run)
{
	double longest = measured_direct(in->m, run), bandwidth = 0;

	if (in->bandwidth)
		bandwidth = (double)in->m->data.file_size / 1048576 / in->bandwidth;
	if (bandwidth > longest)
		longest = bandwidth;
	return measured_seconds(in->m, LMDBIO, run) / longest;
}

static double value_one(const struct figure_input *in, int run)
{
	if (!in->one)
		return NAN;
	return measured_seconds(in->m, LMDBIO, run) / measured_seconds(in->one, LMDBIO, MEDIANS);
}

static double value_requests_value(const struct figure_input *in, int run)
{
	return MEASURED(in->m, LMDBIO, run, requests) / MEASURED(in->m, LMDBIO, run, records);
}

static double value_bytes_value(const struct figure_input *in, int run)
{
	return MEASURED(in->m, LMDBIO, run, asked) / MEASURED(in->m, LMDBIO, run, bytes);
}

static double value_major(const struct figure_input *in, int run)
{
	return MEASURED(in->m, LMDBIO, run, major);
}

static double value_own(const struct figure_input *in, int run)
{
	return MEASURED(in->m, LMDBIO, run, own) / 1024;
}

static double value_start(const struct figure_input *in, int run)
{
	return 1e3 *
	       (measured_seconds(in->m, LMDBIO, run) - measured_seconds(in->m, ORIGINAL, run));
}

static double cpu_seconds(const struct measured *m, enum library library, int run)
{
	return (MEASURED(m, library, run, user) + MEASURED(m, library, run, system)) / 1e6;
}

static double value_cpu(const struct figure_input *in, int run)
{
	double original = cpu_seconds(in->m, ORIGINAL, run);

	return original > 0 ? cpu_seconds(in->m, LMDBIO, run) / original : NAN;
}

static const struct {
	const char *name;
	bool minimum;
	double (*value)(const struct figure_input *in, int run);
} figure_kinds[FIGURE_KINDS] = {
	[FIGURE_RATE] = {"rate / original's", true, value_rate},
	[FIGURE_TIME] = {"time / original's", false, value_time},
	[FIGURE_REQUESTS] = {"requests per MiB of file", false, value_requests},
	[FIGURE_BYTES] = {"bytes read / file's", false, value_bytes},
	[FIGURE_CEILING] = {"time / ceiling's", false, value_ceiling},
	[FIGURE_DIRECT] = {"rate / O_DIRECT reader's", true, value_direct},
	[FIGURE_FIO] = {"rate / fio's", true, value_fio},
	[FIGURE_ONE] = {"time / one process's", false, value_one},
	[FIGURE_REQUESTS_VALUE] = {"requests per value", false, value_requests_value},
	[FIGURE_BYTES_VALUE] = {"bytes read / values'", false, value_bytes_value},
	[FIGURE_MAJOR] = {"major faults", false, value_major},
	[FIGURE_OWN] = {"own memory, MiB", false, value_own},
	[FIGURE_START] = {"added to start, ms", false, value_start},
	[FIGURE_CPU] = {"processor time / original's", false, value_cpu},
};

const char *figure_name(enum figure_kind kind)
{
	return figure_kinds[kind].name;
}

bool figure_is_minimum(enum figure_kind kind)
{
	return figure_kinds[kind].minimum;
}

double figure_value(enum figure_kind kind, const struct figure_input *input, int run)
{
	return figure_kinds[kind].value(input, run);
}

void figure_measure(enum figure_kind kind, const struct figure_input *input,
		    struct figure_measured *measured)
{
	unsigned n = input->m->pairs;
	double all[PAIRS_MAX];

	*measured = (struct figure_measured){NAN, INFINITY, -INFINITY, false, NAN, NAN};
	for (unsigned i = 0; i < n; i++) {
		all[i] = figure_value(kind, input, (int)i);
		if (isnan(all[i]))
			return;
		measured->least = fmin(measured->least, all[i]);
		measured->greatest = fmax(measured->greatest, all[i]);
	}
	measured->median = median(all, n);
	measured->sure = median_interval(all, n, &measured->low, &measured->high);
}

static bool is_met(const struct figure *figure, double value)
{
	return figure_is_minimum(figure->kind) ? value >= figure->asked : value <= figure->asked;
}

const char *figure_verdict(const struct figure *figure, const struct figure_measured *measured)
{
	bool low = is_met(figure, measured->low), high = is_met(figure, measured->high);

	if (!measured->sure || low != high)
		return "open";
	return low ? "yes" : "NO";
}

const char *figure_why_not(enum figure_kind kind)
{
	return kind == FIGURE_FIO ? "not measured: no fio here" : "not measured";
}
