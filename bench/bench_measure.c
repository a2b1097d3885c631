/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the pairs of a case in order, and checks that the runs of a pair are comparable. */
#include "bench_measure.h"

#include "bench_ceiling.h"
#include "bench_fio.h"
#include "bench_statistics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 256, OPENS = 1000, STARTS = 40, COUNTED_OPENS = 50, COUNTED_GETS = 20000 };

_Static_assert((int)PAIRS_MAX <= NUMBERS_MAX && (int)STARTS <= NUMBERS_MAX,
	       "room for either median");

static const char *const work_titles[WORKS] = {
	[WORK_SCAN] = "sequential scan",     [WORK_BACKWARD] = "backward scan",
	[WORK_STRIDE] = "each n-th record",  [WORK_KEYS] = "scan of keys",
	[WORK_GET] = "random mdb_get",       [WORK_BATCH] = "announced batches",
	[WORK_KEEP] = "scan, pointers kept", [WORK_OPEN] = "open, get, close",
	[WORK_LOAD] = "start of `true`",     [WORK_BEGIN] = "begin, mdb_get, abort",
	[WORK_LOOKUP] = "mdb_get in order",
};

void case_title(const struct bench_case *what, char title[TITLE_ROOM])
{
	char processes[24] = "", busy[40] = "";

	if (what->work == WORK_LOAD) {
		snprintf(title, TITLE_ROOM, "%s", work_titles[WORK_LOAD]);
		return;
	}
	if (what->processes > 1)
		snprintf(processes, sizeof(processes), ", %u processes", what->processes);
	if (what->busy || what->nice)
		snprintf(busy, sizeof(busy), ", %u busy, nice %u", what->busy, what->nice);
	snprintf(title, TITLE_ROOM, "%s: %s, %s%s%s%s%s%s%s%s", what->set, work_titles[what->work],
		 state_names[what->state], what->slow ? ", slowfs" : "", processes,
		 what->nordahead ? ", NORDAHEAD" : "", what->hash ? ", every byte" : "", busy,
		 what->variable ? ", " : "", what->variable ? what->variable : "");
}

static struct bench_job case_job(const struct measured *m, const char *path, uint64_t seed)
{
	const struct bench_case *what = m->what;
	uint64_t gets = what->count ? what->count : m->data.set->gets;
	struct bench_job job = {
		.work = what->work,
		.path = path,
		.suffix = m->data.set->suffix,
		.records = m->data.records,
		.value_size = m->data.set->value_size,
		.count = gets < m->data.records ? gets : m->data.records,
		.batch = BATCH,
		.touch = what->touch,
		.hash = what->hash,
		.nordahead = what->nordahead,
		.passes = what->state == STATE_HOT,
		.seed = seed,
		.busy = what->busy,
		.nice = what->nice,
	};

	/* Reading a small part of a set is too short to time, so it is repeated until it has read
	 * as many records as the whole set has. */
	if (what->work == WORK_OPEN)
		job.count = what->count ? what->count : OPENS;
	else if (what->state != STATE_COLD &&
		 (what->work == WORK_GET || what->work == WORK_BEGIN || what->work == WORK_BATCH))
		job.repeat = what->count ? 0 : m->data.set->gets / job.count - 1;
	else if (what->state != STATE_COLD)
		job.repeat = m->data.set->records / m->data.records - 1;
	return job;
}

/* A run is the median of many starts, because a single start is too short to mean anything. */
static int start_run(enum library library, struct bench_result *result)
{
	double all[STARTS];

	memset(result, 0, sizeof(*result));
	for (unsigned i = 0; i < STARTS; i++) {
		uint64_t nanoseconds;
		int rc = run_true(library, &nanoseconds);

		if (rc)
			return rc;
		all[i] = (double)nanoseconds;
	}
	result->records = 1;
	result->end = (uint64_t)median(all, STARTS);
	return 0;
}

/* The layout of a file in the page cache depends on the program that has read it into the cache. */
static int first_epoch(const struct measured *m, struct place *place, const struct bench_job *again,
		       enum library library, struct bench_result *result)
{
	struct bench_job job = *again;
	int rc;

	job.repeat = 0;
	job.busy = 0;
	rc = run_group(&job, library, m->what->processes,
		       library == LMDBIO ? m->what->variable : NULL, result);
	return rc ? rc : place_reset(place);
}

static int one_run(const struct measured *m, struct place *place, enum library library,
		   uint64_t seed, struct bench_result *result)
{
	char path[PATH_MAX + 80];
	struct bench_job job;
	int rc;

	if (m->what->work == WORK_LOAD)
		return start_run(library, result);
	snprintf(path, sizeof(path), "%s/%s", place->path, m->data.name);
	job = case_job(m, path, seed);
	job.announce = m->what->work == WORK_BATCH && library == LMDBIO;
	rc = place_prepare(place, &m->data, m->what->state);
	if (!rc && m->what->state == STATE_AGAIN)
		rc = first_epoch(m, place, &job, library, result);
	if (!rc)
		rc = run_group(&job, library, m->what->processes,
			       library == LMDBIO ? m->what->variable : NULL, result);
	if (rc || (!place->slow && m->what->state != STATE_COLD))
		return rc;
	rc = place_counters(place, &result->requests, &result->asked);
	if (!place->slow)
		result->asked = result->fetched;
	return rc;
}

/* Two libraries that saw different bytes cannot be compared. */
static int check_same(const struct bench_result *a, const struct bench_result *b)
{
	if (a->records == b->records && a->bytes == b->bytes && a->sum == b->sum && a->records)
		return 0;
	fprintf(stderr,
		"bench_figures: the original read %" PRIu64 " records, %" PRIu64
		" bytes, sum %" PRIu64 "; lmdbio %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n",
		a->records, a->bytes, a->sum, b->records, b->bytes, b->sum);
	return EIO;
}

/* Programs that do not use LMDB read the file, cold each time. */
static int plain_readers(struct measured *m, struct place *place, unsigned i)
{
	static const struct ceiling_limit whole = {0};
	char file[PATH_MAX];
	uint64_t bytes;
	int rc;

	if (m->what->state != STATE_COLD)
		return 0;
	place_file(place, &m->data, file);
	rc = place_prepare(place, &m->data, STATE_COLD);
	if (!rc)
		rc = ceiling_direct(file, &whole, &m->direct[i], &bytes);
	if (rc || !m->what->fio)
		return rc;
	rc = place_prepare(place, &m->data, STATE_COLD);
	if (!rc)
		rc = fio_read(file, m->data.file_size, &m->fio[i]);
	return rc == ENOENT ? 0 : rc;
}

int measure_case(struct measured *m, const struct bench_case *what, struct place *place,
		 unsigned pairs, uint64_t seed)
{
	m->what = what;
	for (m->pairs = 0; m->pairs < pairs; m->pairs++) {
		unsigned i = m->pairs;
		enum library first = i % 2 ? LMDBIO : ORIGINAL;
		int rc = i % 2 ? plain_readers(m, place, i) : 0;

		if (!rc)
			rc = one_run(m, place, first, seed, &m->runs[first][i]);
		if (!rc)
			rc = one_run(m, place, !first, seed, &m->runs[!first][i]);
		if (!rc)
			rc = check_same(&m->runs[ORIGINAL][i], &m->runs[LMDBIO][i]);
		if (!rc && i % 2 == 0)
			rc = plain_readers(m, place, i);
		if (rc)
			return rc;
	}
	return 0;
}

int measure_instructions(struct measured *m, const struct bench_case *what, struct place *place,
			 uint64_t seed)
{
	uint64_t most = what->work == WORK_OPEN ? COUNTED_OPENS : COUNTED_GETS;
	char path[PATH_MAX + 80];
	struct bench_job job;

	m->what = what;
	m->pairs = 1;
	snprintf(path, sizeof(path), "%s/%s", place->path, m->data.name);
	job = case_job(m, path, seed);
	job.passes = 1;
	job.repeat = 0;
	job.touch = 0;
	job.hash = 0;
	if (job.count > most)
		job.count = most;
	for (int library = 0; library < LIBRARIES; library++) {
		int rc;

		job.announce = what->work == WORK_BATCH && library == LMDBIO;
		rc = run_counted(&job, library, &m->instructions[library], &m->runs[library][0]);
		if (rc)
			return rc;
	}
	return check_same(&m->runs[ORIGINAL][0], &m->runs[LMDBIO][0]);
}

double measured_field(const struct measured *m, enum library library, int run, size_t offset)
{
	const struct field field = {NULL, offset, FIELD_NUMBER};
	double all[PAIRS_MAX];

	if (run >= 0)
		return (double)field_number(&field, &m->runs[library][run]);
	for (unsigned i = 0; i < m->pairs; i++)
		all[i] = (double)field_number(&field, &m->runs[library][i]);
	return median(all, m->pairs);
}

double measured_seconds(const struct measured *m, enum library library, int run)
{
	double all[PAIRS_MAX];

	for (unsigned i = 0; i < m->pairs; i++)
		all[i] = (double)(m->runs[library][i].end - m->runs[library][i].begin) / 1e9;
	return run >= 0 ? all[run] : median(all, m->pairs);
}

double measured_direct(const struct measured *m, int run)
{
	return run >= 0 ? m->direct[run] : median(m->direct, m->pairs);
}

double measured_fio(const struct measured *m, int run)
{
	return run >= 0 ? m->fio[run] : median(m->fio, m->pairs);
}
