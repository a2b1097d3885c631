/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a part of a data set whose keys the benchmark did not make, until a deadline at the latest.
 */
#include "bench_workloads_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* While looks at the clock are less than LOOK_NANOSECONDS apart they become rarer, up to one in
 * about LOOK_RECORDS records: a look takes as long as a quarter of a small record. */
enum { LOOK_RECORDS = 64, LOOK_NANOSECONDS = 1000000 };

static bool time_is_over(struct bench_state *state, struct bench_result *result)
{
	uint64_t now;

	if (state->until == UINT64_MAX || state->unlooked++ < state->look)
		return false;
	now = clock_now();
	if (now - state->looked < LOOK_NANOSECONDS && state->look < LOOK_RECORDS)
		state->look = 2 * state->look + 1;
	state->looked = now;
	state->unlooked = 0;
	if (!result->settled && now >= state->until - state->job->deadline / 4 * 3) {
		result->settled = now - result->closing; /* on the same scale as the run's end */
		result->early_records = result->records;
		result->early_bytes = result->bytes;
	}
	if (now >= state->until)
		result->stopped = 1;
	return result->stopped;
}

int work_part(struct bench_state *state, struct bench_result *result)
{
	uint64_t left = state->job->count;
	MDB_cursor *cursor;
	MDB_val key, value;
	int rc = mdb_cursor_open(state->txn, state->dbi, &cursor);

	if (rc)
		return rc;
	for (rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST); !rc;
	     rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
		value_use(state->job, &value, result);
		if (!--left || time_is_over(state, result))
			break;
	}
	mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Announces the worker's own keys from the i-th of the list on. */
static int announce(struct bench_state *state, uint64_t i)
{
	const struct bench_job *job = state->job;
	size_t n = 0;

	if (!state->prefetch_keys)
		return 0;
	for (; n < job->batch && i < state->list->n; i += job->step)
		state->batch_keys[n++] = key_list_get(state->list, i);
	return state->prefetch_keys(state->txn, state->dbi, state->batch_keys, n);
}

int work_given(struct bench_state *state, struct bench_result *result)
{
	const struct bench_job *job = state->job;
	uint64_t batch = job->announce ? job->batch : 1, done = 0;
	int rc = announce(state, job->first);

	for (uint64_t i = job->first; i < state->list->n && !rc; i += job->step, done++) {
		MDB_val key = key_list_get(state->list, i), value;

		if (done % batch == 0)
			rc = announce(state, i + batch * job->step);
		if (!rc)
			rc = mdb_get(state->txn, state->dbi, &key, &value);
		if (!rc)
			value_use(job, &value, result);
		/* A program that writes at the same time may have removed the key. */
		if (rc == MDB_NOTFOUND) {
			result->missing++;
			rc = 0;
		}
		if (time_is_over(state, result))
			break;
	}
	return rc;
}

int given_prepare(struct bench_state *state, uint64_t batches)
{
	const struct bench_job *job = state->job;
	struct stat st;
	void *at;

	if (fstat((int)job->keys, &st) || st.st_size < (off_t)sizeof(struct key_list) ||
	    (job->announce && !job->batch)) {
		fprintf(stderr, "bench_worker: no list of keys\n");
		return EINVAL;
	}
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, (int)job->keys, 0);
	if (at == MAP_FAILED)
		return errno;
	state->list = at;
	state->list_size = (size_t)st.st_size;
	if (!job->announce)
		return 0;
	state->batch_keys = calloc(batches * job->batch, sizeof(*state->batch_keys));
	return state->batch_keys ? prefetch_find(state) : ENOMEM;
}

void given_free(struct bench_state *state)
{
	if (state->list)
		munmap((void *)(uintptr_t)state->list, state->list_size);
}
