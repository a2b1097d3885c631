/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the plan: prepares the page cache, starts the readers, and compares the data they read. */
#include "given_bench.h"

#include "bench_cache.h"
#include "bench_ceiling.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* SURE: seconds after which reading ahead has settled on any storage. */
enum { HINTED_BATCH = 64, SURE = 2 };

/* The part of a file that may stay in memory for a cold run. */
static const double cold_rest = 0.01;

void given_note(struct given_bench *bench, const char *format, ...)
{
	char note[NOTE_ROOM];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(note, sizeof(note), format, arguments);
	va_end(arguments);
	for (unsigned i = 0; i < bench->n_notes; i++)
		if (!strcmp(bench->notes[i], note))
			return;
	if (bench->n_notes < NOTES_MAX)
		memcpy(bench->notes[bench->n_notes++], note, sizeof(note));
}

/* Finds how much of a set's file is in the page cache. Returns false if that is unknown. */
static bool in_cache(const struct given_set *set, uint64_t *bytes)
{
	int fd = open(set->file, O_RDONLY | O_CLOEXEC);
	bool known = fd >= 0 && !bench_cache_resident(fd, bytes);

	if (fd >= 0)
		close(fd);
	return known;
}

/* The note does not name the bytes left in memory: all rows share one note. */
void given_make_cold(struct given_bench *bench, const struct given_set *set)
{
	int fd = open(set->file, O_RDONLY | O_CLOEXEC), rc = 0;
	uint64_t left;

	if (fd < 0)
		return;
	bench_cache_forget(fd);
	if (bench->options.drop_caches)
		rc = bench_cache_drop_all();
	if (rc)
		given_note(bench, "--drop-caches has no effect: %s; root may empty the caches.",
			   strerror(rc));
	if (bench_cache_resident(fd, &left))
		given_note(bench,
			   "Whether cold runs are cold could not be checked: %s is another user's.",
			   set->file);
	else if ((double)left > cold_rest * (double)set->file_size)
		given_note(bench,
			   "Cold runs are not cold: more than 1 %% of %s stays in memory. End the "
			   "program that has it mapped%s.",
			   set->file,
			   bench->options.drop_caches
				   ? ""
				   : "; if there is none, root can try --drop-caches");
	close(fd);
}

static struct bench_job row_job(const struct given_bench *bench, const struct given_row *row,
				enum library library)
{
	const struct given_set *set = &bench->sets[library];
	uint64_t count = bench->options.bytes / given_record_size(&bench->sets[ORIGINAL]);
	uint64_t records = bench->sets[ORIGINAL].records;

	if (count > records)
		count = records;
	return (struct bench_job){
		.work = row->work,
		.path = set->path,
		.flags = set->flags,
		.database = set->database,
		.records = 1,
		.count = count ? count : 1,
		.keys = (uint64_t)bench->keys,
		.batch = HINTED_BATCH,
		.announce = row->hints && library == LMDBIO,
		.nordahead = row->nordahead,
		.touch = GIVEN_TOUCH,
		.deadline =
			(uint64_t)(1e9 * (row->cold ? bench->cold_seconds : bench->warm_seconds)),
	};
}

const char *given_own_node(void)
{
	static char variable[64];

	snprintf(variable, sizeof(variable), "LMDBIO_NODE=lmdbio-bench-%d", (int)getpid());
	return variable;
}

static int one_run(struct given_bench *bench, const struct given_row *row, enum library library,
		   uint64_t repeat, struct bench_result *result)
{
	const struct given_set *set = &bench->sets[library];
	struct bench_job job = row_job(bench, row, library);
	uint64_t before = 0, after = 0;
	bool known;
	int rc;

	job.repeat = repeat;
	if (row->cold)
		given_make_cold(bench, set);
	known = in_cache(set, &before);
	rc = run_group(&job, library, row->processes, given_own_node(), result);
	if (rc || tool_signal)
		return tool_signal ? EINTR : rc;
	/* A kernel, a file system or a library may miss some bytes in each of these three
	 * counts. */
	result->asked = result->fetched;
	if (known && in_cache(set, &after) && after > before && after - before > result->asked)
		result->asked = after - before;
	/* For a container, lmdbio counts its decompressed data. */
	if (row->cold && !set->container && result->lmdbio_bytes > result->asked)
		result->asked = result->lmdbio_bytes;
	return 0;
}

/* Brings a warm row's data into memory, and finds how often a run must repeat its work: a single
 * pass through memory is too short to time. */
static int warm_up(struct given_bench *bench, const struct given_row *row, uint64_t *repeat)
{
	enum library library = bench->compared ? ORIGINAL : LMDBIO;
	struct bench_result result;
	double seconds;
	int rc = 0;

	for (int i = bench->compared ? ORIGINAL : LMDBIO; i < LIBRARIES && !rc; i++)
		if (bench->sets[i].file_size <= bench->options.bytes)
			rc = bench_cache_fill(bench->sets[i].file, 0);
	if (rc)
		return rc;
	rc = one_run(bench, row, library, 0, &result);
	if (!rc && bench->sets[library].file_size > bench->options.bytes) {
		if (result.stopped)
			given_note(bench,
				   "Warm rows read what could be brought into memory in their "
				   "part of the time: more --seconds bring more.");
		rc = one_run(bench, row, library, 0, &result);
	}
	if (rc)
		return rc;
	seconds = (double)(result.end - result.begin) / 1e9;
	*repeat = seconds > 0 ? (uint64_t)(0.7 * bench->warm_seconds / seconds) : 0;
	*repeat = *repeat > WARM_REPEATS ? WARM_REPEATS : *repeat ? *repeat - 1 : 0;
	return 0;
}

/* Checks that two complete runs have read the same data, or tells the user. */
static void compare_pair(struct given_bench *bench, struct given_row *row, unsigned pair)
{
	const struct bench_result *a = &row->runs[ORIGINAL][pair], *b = &row->runs[LMDBIO][pair];

	if (a->stopped || b->stopped)
		return;
	if (a->records != b->records || a->bytes != b->bytes || a->sum != b->sum ||
	    a->missing != b->missing)
		bench->differ = true;
}

static int measure_row(struct given_bench *bench, struct given_row *row)
{
	uint64_t repeat = 0;
	int rc = row->cold ? 0 : warm_up(bench, row, &repeat);

	for (unsigned i = 0; i < bench->options.pairs && !rc; i++) {
		enum library first = i % 2 || !bench->compared ? LMDBIO : ORIGINAL;

		rc = one_run(bench, row, first, repeat, &row->runs[first][i]);
		if (!rc && bench->compared)
			rc = one_run(bench, row, !first, repeat, &row->runs[!first][i]);
		if (!rc && bench->compared)
			compare_pair(bench, row, i);
		if (!rc)
			row->pairs = i + 1;
		if (!rc && row->cold && row->runs[LMDBIO][i].stopped && bench->cold_seconds < SURE)
			given_note(bench,
				   "Cold runs were stopped after %.2g s: more --seconds, or fewer "
				   "rows by --only, make their ratios surer.",
				   bench->cold_seconds);
	}
	return rc;
}

static void measure_machine(struct given_bench *bench)
{
	struct given_machine *machine = &bench->machine;
	const struct given_set *set = &bench->sets[LMDBIO];
	const struct ceiling_limit limit = {.bytes = bench->options.bytes,
					    .seconds = 0.05 * (double)bench->options.seconds};
	double seconds;
	int rc;

	machine->processors = sysconf(_SC_NPROCESSORS_ONLN);
	(void)ceiling_memory(&machine->memory);
	if (set->in_memory)
		return;
	given_make_cold(bench, set);
	rc = ceiling_direct(set->file, &limit, &seconds, &machine->direct_bytes);
	if (rc)
		given_note(bench, "How fast storage is was not measured: direct reads of %s: %s.",
			   set->file, strerror(rc));
	else if (seconds > 0)
		machine->direct = (double)machine->direct_bytes / seconds;
}

static void progress_show(const struct given_bench *bench, unsigned i)
{
	char title[ROW_TITLE];

	if (!isatty(STDERR_FILENO))
		return;
	if (i < bench->n_rows) {
		given_title(&bench->rows[i], title);
		fprintf(stderr, "\r%-78.78s", title);
	} else {
		fprintf(stderr, "\r%78s\r", "");
	}
	fflush(stderr);
}

/* Notes writers: they may write during the runs, and the two libraries then read different data. */
static void look_for_writers(struct given_bench *bench)
{
	const struct given_set *set = &bench->sets[ORIGINAL];

	if (!bench->compared)
		return;
	if (given_snapshot(set) == set->snapshot)
		return;
	bench->differ = false;
	given_note(bench,
		   "A program has written to %s meanwhile: what both have read was not "
		   "compared.",
		   set->named);
}

static int draw_keys(struct given_bench *bench)
{
	const struct given_draw draw = {.wanted = bench->n_keys,
					.seed = bench->options.seed,
					.seconds = 0.1 * (double)bench->options.seconds};
	bool wanted = false;

	for (unsigned i = 0; i < bench->n_rows; i++)
		wanted = wanted || bench->rows[i].work == WORK_GIVEN;
	bench->keys = -1;
	bench->n_keys = 0;
	return wanted ? given_draw_keys(bench->tool,
					&bench->sets[bench->compared ? ORIGINAL : LMDBIO], &draw,
					&bench->keys, &bench->n_keys)
		      : 0;
}

int given_measure(struct given_bench *bench)
{
	int rc = draw_keys(bench);

	if (rc)
		return rc;
	measure_machine(bench);
	for (unsigned i = 0; i < bench->n_rows && !rc; i++) {
		progress_show(bench, i);
		rc = measure_row(bench, &bench->rows[i]);
	}
	progress_show(bench, bench->n_rows);
	if (bench->keys >= 0)
		close(bench->keys);
	if (tool_signal)
		return EINTR;
	if (rc)
		tool_complain(bench->tool, "%s: a reader has failed: %s", bench->sets[LMDBIO].named,
			      strerror(rc));
	else
		look_for_writers(bench);
	return rc;
}
