/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs emulated accelerators, more or fewer, to find how many are fed. */
#include "train.h"

#include "bench_steps.h"
#include "bench_train.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* KEYS_MAX: keys of a run; drawing more would take longer than the runs. RULED: the rules require
 * this many times the memory as data. MEMORY_LEAST: bytes that processes need for themselves. */
enum { ACCELERATORS_MAX = 64, KEYS_MAX = 1 << 20, RULED = 5, MEMORY_LEAST = 64 << 20 };

/* Runs of a search that doubles, guesses and halves. */
enum { RUNS_EXPECTED = 7 };

static const struct train_way ways[TRAIN_WAYS_MAX] = {
	{.library = ORIGINAL},
	{.library = ORIGINAL, .nordahead = true},
	{.library = LMDBIO},
	{.library = LMDBIO, .nordahead = true},
	{.library = LMDBIO, .nordahead = true, .hints = true},
};

void train_title(const struct train_way *way, char title[TRAIN_TITLE])
{
	snprintf(title, TRAIN_TITLE, "%s%s%s", library_names[way->library],
		 way->nordahead ? ", NORDAHEAD" : "", way->hints ? ", hints" : "");
}

const struct train_run *train_run_of(const struct train_way *way, unsigned accelerators)
{
	for (unsigned i = 0; i < way->runs; i++)
		if (way->run[i].accelerators == accelerators)
			return &way->run[i];
	return NULL;
}

/* Readers of a training data set take no slots of its lock file: there are too few. */
static struct bench_job train_job(const struct train *train, const struct train_way *way,
				  unsigned accelerators, int meeting)
{
	const struct given_set *set = &train->bench->sets[way->library];

	return (struct bench_job){
		.work = WORK_TRAIN,
		.path = set->path,
		.flags = set->flags | MDB_NOLOCK | MDB_NOTLS,
		.database = set->database,
		.records = 1,
		.keys = (uint64_t)train->bench->keys,
		.batch = train->batch,
		.announce = way->hints,
		.step = accelerators,
		.touch = GIVEN_TOUCH,
		.nordahead = way->nordahead,
		/* Each run has an order that no cache can know. */
		.seed = train->bench->options.seed * TRAIN_RUNS_MAX + way->runs,
		.deadline = (uint64_t)(1e9 * train->run_seconds),
		.readers = train->readers,
		.compute = train->compute,
		.meeting = (uint64_t)meeting,
	};
}

static int one_run(struct train *train, struct train_way *way, unsigned accelerators)
{
	struct train_run *run = &way->run[way->runs];
	struct bench_job job;
	int meeting, rc = steps_make(accelerators, &meeting);

	if (rc) {
		tool_complain(train->bench->tool, "accelerators cannot meet: %s", strerror(rc));
		return rc;
	}
	job = train_job(train, way, accelerators, meeting);
	given_make_cold(train->bench, &train->bench->sets[way->library]);
	rc = run_group(&job, way->library, accelerators, given_own_node(), &run->result);
	close(meeting);
	if (rc && !tool_signal)
		tool_complain(train->bench->tool, "%s: a reader has failed: %s",
			      train->bench->sets[way->library].named, strerror(rc));
	if (rc || tool_signal)
		return tool_signal ? EINTR : rc;
	run->accelerators = accelerators;
	run->utilisation = train_utilisation(&run->result, train->compute, accelerators);
	way->runs++;
	train_search_take(&way->search, accelerators, run->utilisation, train->model->wanted);
	return 0;
}

static void progress_show(const struct train_way *way, unsigned accelerators)
{
	char title[TRAIN_TITLE];

	if (!isatty(STDERR_FILENO))
		return;
	train_title(way, title);
	fprintf(stderr, "\r%-60.60s%4u", title, accelerators);
	fflush(stderr);
}

static int measure_way(struct train *train, struct train_way *way)
{
	unsigned accelerators;
	int rc = 0;

	while (!rc && way->runs < TRAIN_RUNS_MAX &&
	       (accelerators = train_search_next(&way->search))) {
		progress_show(way, accelerators);
		rc = one_run(train, way, accelerators);
	}
	return rc;
}

/* Sets the readers' memory: the user's value, or a part of the data as the rules require. */
static void hold_memory(struct train *train)
{
	struct given_bench *bench = train->bench;
	uint64_t data = bench->sets[LMDBIO].container ? bench->sets[LMDBIO].file_size
						      : bench->sets[ORIGINAL].tree_size;
	char size[TOOL_SIZE_TEXT];
	int rc;

	train->machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (!train->memory && data / RULED < train->machine)
		train->memory = data / RULED > MEMORY_LEAST ? data / RULED : MEMORY_LEAST;
	rc = train->memory ? train_group_make(train->memory, train->group) : 0;
	if (rc) {
		given_note(
			bench,
			"Readers had all memory: no control group could be made here for %s (%s).",
			tool_size_text(train->memory, size), strerror(rc));
		train->memory = 0;
	}
	if (data / RULED < (train->memory ? train->memory : train->machine))
		given_note(
			bench,
			"The data are %.2g times the memory; the rules ask for %d times: repeated "
			"records may have come from memory.",
			(double)data / (double)(train->memory ? train->memory : train->machine),
			RULED);
}

static int draw(struct train *train)
{
	struct given_bench *bench = train->bench;
	const struct given_set *set = &bench->sets[bench->compared ? ORIGINAL : LMDBIO];
	const struct given_draw draw = {.wanted = set->records < KEYS_MAX ? set->records : KEYS_MAX,
					.seed = bench->options.seed,
					.seconds = 0.1 * (double)bench->options.seconds};
	int rc = given_draw_keys(bench->tool, set, &draw, &bench->keys, &bench->n_keys);

	if (!rc && bench->n_keys < train->batch) {
		tool_complain(bench->tool, "%s: it has %u records: a batch wants %u (--batch)",
			      set->named, (unsigned)bench->n_keys, (unsigned)train->batch);
		close(bench->keys);
		rc = ENODATA;
	}
	return rc;
}

static int choose_ways(struct train *train)
{
	struct given_bench *bench = train->bench;
	uint64_t most = bench->n_keys / train->batch;

	for (size_t i = 0; i < TRAIN_WAYS_MAX; i++) {
		struct train_way *way = &train->ways[train->n_ways];
		char title[TRAIN_TITLE];

		*way = ways[i];
		way->search.most = most < ACCELERATORS_MAX ? (unsigned)most : ACCELERATORS_MAX;
		train_title(way, title);
		if ((way->library == ORIGINAL && !bench->compared) ||
		    (bench->options.only && !strstr(title, bench->options.only)))
			continue;
		train->n_ways++;
	}
	if (!train->n_ways) {
		tool_usage_error(bench->tool,
				 "no way of reading is called '%s', such as "
				 "\"lmdbio, NORDAHEAD, hints\"",
				 bench->options.only);
		return EINVAL;
	}
	train->run_seconds =
		fmax(0.9 * (double)bench->options.seconds / (RUNS_EXPECTED * (double)train->n_ways),
		     1e-9 * (double)(TRAIN_ROUNDS * train->readers * train->compute));
	return 0;
}

static int measure_ways(struct train *train)
{
	char group[PATH_MAX + 16];
	int rc = choose_ways(train);

	if (rc)
		return rc;
	hold_memory(train);
	snprintf(group, sizeof(group), "%s/cgroup.procs", train->group);
	run_confine(*train->group ? group : NULL);
	for (unsigned i = 0; i < train->n_ways && !rc; i++)
		rc = measure_way(train, &train->ways[i]);
	run_confine(NULL);
	train_group_remove(train->group);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%64s\r", "");
	return tool_signal ? EINTR : rc;
}

int train_measure(struct train *train)
{
	struct given_bench *bench = train->bench;
	int rc;

	if (bench->sets[LMDBIO].in_memory || bench->sets[ORIGINAL].in_memory) {
		tool_complain(bench->tool,
			      "%s: it lies in memory (tmpfs): no storage feeds anything",
			      bench->sets[LMDBIO].file);
		return EINVAL;
	}
	rc = draw(train);
	if (!rc) {
		rc = measure_ways(train);
		close(bench->keys);
	}
	return rc;
}
