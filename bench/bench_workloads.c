/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the loops that are timed.
 *
 * They use <lmdb.h> alone, so the same program runs on the original and on lmdbio. The job says
 * what is read of a value: each `touch`-th byte from the first on, or all of them.
 */
#include "bench_workloads_private.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { OPEN_TRIES = 10 };

static int walk(struct bench_state *state, struct bench_result *result, MDB_cursor_op first,
		MDB_cursor_op next)
{
	bool keys_alone = state->job->work == WORK_KEYS;
	MDB_cursor *cursor;
	MDB_val key, value;
	int rc = mdb_cursor_open(state->txn, state->dbi, &cursor);

	if (rc)
		return rc;
	for (rc = mdb_cursor_get(cursor, &key, &value, first); !rc;
	     rc = mdb_cursor_get(cursor, &key, &value, next)) {
		if (keys_alone) {
			result->sum += ((const unsigned char *)key.mv_data)[key.mv_size - 1];
			result->records++;
		} else {
			value_use(state->job, &value, result);
		}
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int work_scan(struct bench_state *state, struct bench_result *result)
{
	return walk(state, result, MDB_FIRST, MDB_NEXT);
}

static int work_backward(struct bench_state *state, struct bench_result *result)
{
	return walk(state, result, MDB_LAST, MDB_PREV);
}

static int work_stride(struct bench_state *state, struct bench_result *result)
{
	const struct bench_job *job = state->job;
	uint64_t skip = job->first;
	MDB_cursor *cursor;
	MDB_val key, value;
	int rc = mdb_cursor_open(state->txn, state->dbi, &cursor);

	if (rc)
		return rc;
	rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
	while (!rc) {
		while (!rc && skip--)
			rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
		if (!rc)
			value_use(job, &value, result);
		skip = job->step;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int work_get(struct bench_state *state, struct bench_result *result)
{
	for (uint64_t i = 0; i < state->count; i++) {
		MDB_val key = bench_key_set(&state->key, state->order[i]), value;
		int rc = mdb_get(state->txn, state->dbi, &key, &value);

		if (rc)
			return rc;
		value_use(state->job, &value, result);
	}
	return 0;
}

static int work_lookup(struct bench_state *state, struct bench_result *result)
{
	const struct bench_job *job = state->job;

	for (uint64_t i = job->first; i < job->records; i += job->step) {
		MDB_val key = bench_key_set(&state->key, i), value;
		int rc = mdb_get(state->txn, state->dbi, &key, &value);

		if (rc)
			return rc;
		value_use(job, &value, result);
	}
	return 0;
}

static int work_begin(struct bench_state *state, struct bench_result *result)
{
	int rc = 0;

	for (uint64_t i = 0; i < state->count && !rc; i++) {
		MDB_val key = bench_key_set(&state->key, state->order[i]), value;

		mdb_txn_abort(state->txn);
		state->txn = NULL;
		rc = mdb_txn_begin(state->env, NULL, MDB_RDONLY, &state->txn);
		if (!rc)
			rc = mdb_get(state->txn, state->dbi, &key, &value);
		if (!rc)
			value_use(state->job, &value, result);
	}
	return rc;
}

static int work_batch(struct bench_state *state, struct bench_result *result)
{
	const struct bench_job *job = state->job;

	for (uint64_t done = 0; done < state->count; done += job->batch) {
		uint64_t left = state->count - done, n = left < job->batch ? left : job->batch;
		int rc = 0;

		for (uint64_t i = 0; i < n; i++)
			state->batch_keys[i] =
				bench_key_set(&state->batch_text[i], state->order[done + i]);
		if (state->prefetch_keys)
			rc = state->prefetch_keys(state->txn, state->dbi, state->batch_keys, n);
		for (uint64_t i = 0; i < n && !rc; i++) {
			MDB_val value;

			rc = mdb_get(state->txn, state->dbi, &state->batch_keys[i], &value);
			if (!rc)
				value_use(job, &value, result);
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* Records the process's peak memory (getrusage() would include its parent's), and its memory that
 * belongs to no file: what a library has allocated, and this program's own few pages. */
static void memory_note(struct bench_result *result)
{
	FILE *status = fopen("/proc/self/status", "re");
	uint64_t own = 0;
	unsigned long kib;
	char line[256];

	while (status && fgets(line, sizeof(line), status)) {
		if (sscanf(line, "VmHWM: %lu", &kib) == 1)
			result->rss = kib;
		if (sscanf(line, "RssAnon: %lu", &kib) == 1 ||
		    sscanf(line, "RssShmem: %lu", &kib) == 1)
			own += kib;
	}
	if (status)
		fclose(status);
	if (own > result->own)
		result->own = own;
}

static int work_keep(struct bench_state *state, struct bench_result *result)
{
	uint64_t first_sum, n = 0;
	MDB_cursor *cursor;
	MDB_val key;
	int rc = mdb_cursor_open(state->txn, state->dbi, &cursor);

	if (rc)
		return rc;
	rc = mdb_cursor_get(cursor, &key, &state->kept[0], MDB_FIRST);
	while (!rc) {
		value_use(state->job, &state->kept[n], result);
		if (n++ % 64 == 0)
			memory_note(result);
		if (n == state->job->records)
			break;
		rc = mdb_cursor_get(cursor, &key, &state->kept[n], MDB_NEXT);
	}
	mdb_cursor_close(cursor);
	if (rc && rc != MDB_NOTFOUND)
		return rc;
	first_sum = result->sum;
	for (uint64_t i = 0; i < n; i++) {
		value_use(state->job, &state->kept[i], result);
		if (i % 64 == 0)
			memory_note(result);
	}
	return result->sum == 2 * first_sum ? 0 : EBADMSG;
}

static int environment_try(struct bench_state *state)
{
	const struct bench_job *job = state->job;
	const char *database = job->database && *job->database ? job->database : NULL;
	unsigned flags = MDB_RDONLY | (job->nordahead ? MDB_NORDAHEAD : 0) | (unsigned)job->flags;
	int rc = mdb_env_create(&state->env);

	if (!rc && database)
		rc = mdb_env_set_maxdbs(state->env, 1);
	if (rc)
		return rc;
	rc = mdb_env_open(state->env, job->path, flags, 0644);
	if (!rc)
		rc = mdb_txn_begin(state->env, NULL, MDB_RDONLY, &state->txn);
	if (!rc)
		rc = mdb_dbi_open(state->txn, database, 0, &state->dbi);
	return rc;
}

static void environment_close(struct bench_state *state)
{
	if (state->txn)
		mdb_txn_abort(state->txn);
	if (state->env)
		mdb_env_close(state->env);
	state->txn = NULL;
	state->env = NULL;
}

/* Opens again after EINVAL. LMDB 0.9.26 to 0.9.31 destroys the readers' mutex in the last close
 * (ITS#9278), so that mdb_txn_begin() fails in a process that has opened meanwhile: in one of
 * 12,000 opens where four processes open and close all the time. */
static int environment_open(struct bench_state *state)
{
	int rc = environment_try(state);

	for (unsigned tries = 1; rc == EINVAL && tries < OPEN_TRIES; tries++) {
		environment_close(state);
		rc = environment_try(state);
	}
	return rc;
}

static int work_open(struct bench_state *state, struct bench_result *result)
{
	for (uint64_t i = 0; i < state->job->count; i++) {
		MDB_val key = bench_key_set(&state->key, 0), value;
		int rc = environment_open(state);

		if (!rc)
			rc = mdb_get(state->txn, state->dbi, &key, &value);
		if (!rc)
			value_use(state->job, &value, result);
		environment_close(state);
		if (rc)
			return rc;
	}
	return 0;
}

static const struct {
	int (*run)(struct bench_state *state, struct bench_result *result);
	bool random; /* needs the random order */
	bool opens_for_itself;
} workloads[WORKS] = {
	[WORK_SCAN] = {.run = work_scan},
	[WORK_BACKWARD] = {.run = work_backward},
	[WORK_STRIDE] = {.run = work_stride},
	[WORK_KEYS] = {.run = work_scan},
	[WORK_GET] = {.run = work_get, .random = true},
	[WORK_LOOKUP] = {.run = work_lookup},
	[WORK_BEGIN] = {.run = work_begin, .random = true},
	[WORK_BATCH] = {.run = work_batch, .random = true},
	[WORK_KEEP] = {.run = work_keep},
	[WORK_OPEN] = {.run = work_open, .opens_for_itself = true},
	[WORK_PART] = {.run = work_part},
	[WORK_GIVEN] = {.run = work_given},
	[WORK_TRAIN] = {.run = work_train},
};

int prefetch_find(struct bench_state *state)
{
	void *symbol;

	if (!state->job->announce)
		return 0;
	symbol = dlsym(RTLD_DEFAULT, "lmdbio_prefetch_keys");
	if (!symbol) {
		fprintf(stderr, "bench_worker: this library has no lmdbio_prefetch_keys\n");
		return EINVAL;
	}
	memcpy(&state->prefetch_keys, &symbol, sizeof(symbol));
	return 0;
}

/* Makes the worker's share of all random reads. */
static int prepare_order(struct bench_state *state)
{
	const struct bench_job *job = state->job;

	state->order = calloc(job->count / job->step + 1, sizeof(*state->order));
	if (!state->order)
		return ENOMEM;
	for (uint64_t i = job->first; i < job->count; i += job->step)
		state->order[state->count++] =
			(uint32_t)bench_permute(i, job->records, job->seed);
	return 0;
}

static int prepare_batch(struct bench_state *state)
{
	const struct bench_job *job = state->job;

	state->batch_keys = calloc(job->batch, sizeof(*state->batch_keys));
	state->batch_text = calloc(job->batch, sizeof(*state->batch_text));
	if (!job->batch || !state->batch_keys || !state->batch_text)
		return job->batch ? ENOMEM : EINVAL;
	for (uint64_t i = 0; i < job->batch; i++)
		state->batch_text[i] = state->key;
	return prefetch_find(state);
}

int workload_prepare(const struct bench_job *job, struct bench_state **ret)
{
	struct bench_state *state;
	int rc = 0;

	if (job->work >= WORKS || !workloads[job->work].run || !job->path ||
	    job->records > UINT32_MAX ||
	    ((job->work == WORK_STRIDE || job->work == WORK_LOOKUP || job->work == WORK_GIVEN ||
	      workloads[job->work].random || job->work == WORK_TRAIN) &&
	     !job->step) ||
	    (workloads[job->work].random && job->count > job->records)) {
		fprintf(stderr, "bench_worker: the job makes no sense\n");
		return EINVAL;
	}
	state = calloc(1, sizeof(*state));
	if (!state)
		return ENOMEM;
	state->job = job;
	bench_key_init(&state->key, job->suffix ? job->suffix : "");
	if (workloads[job->work].random && job->count)
		rc = prepare_order(state);
	if (!rc && job->work == WORK_KEEP) {
		state->kept = calloc(job->records + 1, sizeof(*state->kept));
		rc = state->kept ? 0 : ENOMEM;
	}
	if (!rc && job->work == WORK_BATCH)
		rc = prepare_batch(state);
	if (!rc && job->work == WORK_GIVEN)
		rc = given_prepare(state, 1);
	if (!rc && job->work == WORK_TRAIN)
		rc = train_prepare(state);
	if (rc)
		workload_free(state);
	else
		*ret = state;
	return rc;
}

void workload_free(struct bench_state *state)
{
	free(state->order);
	free(state->kept);
	free(state->batch_text);
	free(state->batch_keys);
	given_free(state);
	train_free(state);
	free(state);
}

static uint64_t microseconds(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

/* The clock and the counters, as differences once `begin` holds the first reading. */
static void counters_read(struct bench_result *begin, struct bench_result *result)
{
	uint64_t now = clock_now();
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	result->begin = begin->end;
	result->end = now - result->closing;
	result->user = microseconds(&usage.ru_utime) - begin->user;
	result->system = microseconds(&usage.ru_stime) - begin->system;
	result->major = (uint64_t)usage.ru_majflt - begin->major;
	result->minor = (uint64_t)usage.ru_minflt - begin->minor;
	result->switches = (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw) - begin->switches;
}

/* Returns what the kernel has read from storage for this process; 0 where it does not count. */
static uint64_t fetched_bytes(void)
{
	FILE *io = fopen("/proc/self/io", "re");
	unsigned long bytes = 0;
	char line[64];

	while (io && fgets(line, sizeof(line), io))
		if (sscanf(line, "read_bytes: %lu", &bytes) == 1)
			break;
	if (io)
		fclose(io);
	return bytes;
}

static void environment_close_timed(struct bench_state *state, struct bench_result *result)
{
	uint64_t begin = clock_now();

	environment_close(state);
	result->closing += clock_now() - begin;
}

__attribute__((noinline)) int bench_measured(struct bench_state *state, struct bench_result *result)
{
	bool opens = !state->job->passes && !workloads[state->job->work].opens_for_itself;
	int rc = 0;

	for (uint64_t i = 0; i <= state->job->repeat && !rc && !result->stopped; i++) {
		if (opens)
			rc = environment_open(state);
		if (!rc)
			rc = workloads[state->job->work].run(state, result);
		if (opens)
			environment_close_timed(state, result);
	}
	return rc;
}

int workload_run(struct bench_state *state, struct bench_result *result)
{
	const struct bench_job *job = state->job;
	bool opened = job->passes && !workloads[job->work].opens_for_itself;
	struct bench_result none = {0}, begin = {0}, untimed;
	int rc = opened ? environment_open(state) : 0;

	for (uint64_t i = 0; i < job->passes && !rc; i++) {
		untimed = none;
		rc = workloads[job->work].run(state, &untimed);
	}
	if (!rc) {
		begin.fetched = fetched_bytes();
		counters_read(&none, &begin);
		state->until = job->deadline ? begin.end + job->deadline : UINT64_MAX;
		rc = bench_measured(state, result);
		counters_read(&begin, result);
		result->fetched = fetched_bytes() - begin.fetched;
		memory_note(result);
	}
	environment_close(state);
	return rc;
}
