/* SPDX-License-Identifier: OLDAP-2.8 */
/* The state of a worker, for the files that hold its loops. */
#ifndef BENCH_WORKLOADS_PRIVATE_H
#define BENCH_WORKLOADS_PRIVATE_H

#include "bench_keys.h"
#include "bench_workloads.h"

#include "util/clock.h"

#include <stdbool.h>

typedef int prefetch_keys_fn(MDB_txn *txn, MDB_dbi dbi, const MDB_val *keys, size_t n);

struct bench_state {
	const struct bench_job *job;
	struct bench_key key;
	uint32_t *order;              /* of random reads */
	uint64_t count;               /* of them */
	MDB_val *kept;                /* of WORK_KEEP */
	struct bench_key *batch_text; /* of WORK_BATCH */
	MDB_val *batch_keys;
	prefetch_keys_fn *prefetch_keys;
	const struct key_list *list; /* of WORK_GIVEN and WORK_TRAIN */
	size_t list_size;
	struct bench_steps *steps; /* of WORK_TRAIN */
	uint64_t until;          /* CLOCK_MONOTONIC, nanoseconds: the deadline */
	uint64_t looked;         /* the same: the last look at it */
	unsigned look, unlooked; /* records between two looks, and since the last */
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
};

static inline uint64_t value_hash(const MDB_val *value)
{
	const unsigned char *at = value->mv_data;
	size_t left = value->mv_size;
	uint64_t sum = 0, word;

	for (; left >= sizeof(word); at += sizeof(word), left -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
	}
	while (left--)
		sum = (sum ^ *at++) * 0x9e3779b97f4a7c15u;
	return sum;
}

static inline void value_use(const struct bench_job *job, const MDB_val *value,
			     struct bench_result *result)
{
	const unsigned char *at = value->mv_data;
	uint64_t sum = 0;

	if (job->hash)
		sum = value_hash(value);
	else if (job->touch)
		for (size_t i = 0; i < value->mv_size; i += job->touch)
			sum += at[i];
	result->sum += sum;
	result->bytes += value->mv_size;
	result->records++;
}

/* Finds lmdbio_prefetch_keys() if the job announces. Returns 0, or EINVAL after a line on standard
 * error. */
int prefetch_find(struct bench_state *state);

/* bench_given.c: data sets that the benchmark did not make. batch_keys has room for so many batches. */
int given_prepare(struct bench_state *state, uint64_t batches);
void given_free(struct bench_state *state);
int work_part(struct bench_state *state, struct bench_result *result);
int work_given(struct bench_state *state, struct bench_result *result);

/* bench_train.c: emulated accelerators. */
int train_prepare(struct bench_state *state);
void train_free(struct bench_state *state);
int work_train(struct bench_state *state, struct bench_result *result);

#endif
