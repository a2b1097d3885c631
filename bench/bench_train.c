/* SPDX-License-Identifier: OLDAP-2.8 */
/* Emulates an accelerator: reader threads fetch its batches, and a timer stands for its computing.
 *
 * Follows the rules of MLPerf Storage as its program, DLIO, applies them. Each reader holds one
 * batch: reader r reads the batches r, r + readers, ..., and begins its next one when the
 * accelerator has taken the last one. The accelerator takes a batch, waits for as long as the
 * computing would take, and meets the others of the node. No processor works meanwhile, so the
 * readers have all of them. A reader touches each value that it gets, and copies nothing.
 */
#include "bench_steps.h"
#include "bench_train.h"
#include "bench_workloads_private.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* A run is given up if its readers need this many times its time for a batch. */
enum { PATIENCE = 4 };

struct train_reader {
	struct accelerator *of;
	uint64_t number;
	pthread_t thread;
	sem_t go, ready;  /* a batch may be read; a batch has been read */
	MDB_txn *txns[2]; /* of the batch being read, and of the announced one */
	MDB_val *keys;    /* of the announced batch */
	struct bench_result result; /* what the reader has read */
};

struct accelerator {
	struct bench_state *state;
	struct train_order order;
	struct train_reader *readers;
	uint64_t limit;      /* CLOCK_MONOTONIC, nanoseconds: when a reader gives up */
	atomic_int over;     /* the readers shall end */
	atomic_int error;    /* of a failed reader */
	atomic_int given_up; /* a reader has passed the limit */
};

static void sleep_until(uint64_t when)
{
	struct timespec time = clock_spec(when);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR)
		;
}

static MDB_val key_of(const struct accelerator *accelerator, uint64_t step, uint64_t i)
{
	const struct bench_state *state = accelerator->state;

	return key_list_get(state->list,
			    train_record(&accelerator->order, state->job->first, step, i));
}

/* Tells lmdbio the keys of a batch; the original has no hints. */
static int announce_batch(struct train_reader *reader, MDB_txn *txn, uint64_t step)
{
	const struct accelerator *accelerator = reader->of;
	struct bench_state *state = accelerator->state;

	if (!state->prefetch_keys)
		return 0;
	for (uint64_t i = 0; i < state->job->batch; i++)
		reader->keys[i] = key_of(accelerator, step, i);
	return state->prefetch_keys(txn, state->dbi, reader->keys, state->job->batch);
}

static int batch_read(struct train_reader *reader, MDB_txn *txn, uint64_t step)
{
	struct accelerator *accelerator = reader->of;
	const struct bench_state *state = accelerator->state;
	int rc = 0;

	for (uint64_t i = 0; i < state->job->batch && !rc; i++) {
		MDB_val key = key_of(accelerator, step, i), value;

		rc = mdb_get(txn, state->dbi, &key, &value);
		if (!rc)
			value_use(state->job, &value, &reader->result);
		if (clock_now() > accelerator->limit)
			atomic_store(&accelerator->given_up, 1);
		if (atomic_load(&accelerator->over) || atomic_load(&accelerator->given_up))
			break;
	}
	return rc;
}

/* Reads the reader's batches in turn. Two transactions alternate: each ends with its batch, as a
 * program's transactions do, and an announcement in the other one stays valid. */
static int reader_batches(struct train_reader *reader)
{
	struct accelerator *accelerator = reader->of;
	uint64_t readers = accelerator->state->job->readers, step = reader->number;
	int rc = announce_batch(reader, reader->txns[0], step);

	for (unsigned turn = 0; !rc; turn = !turn, step += readers) {
		MDB_txn *next = reader->txns[!turn];

		wait_for(&reader->go);
		if (atomic_load(&accelerator->over))
			return 0;
		mdb_txn_reset(next);
		rc = mdb_txn_renew(next);
		if (!rc)
			rc = announce_batch(reader, next, step + readers);
		if (!rc)
			rc = batch_read(reader, reader->txns[turn], step);
		if (!rc)
			sem_post(&reader->ready);
	}
	return rc;
}

static void *reader_run(void *argument)
{
	struct train_reader *reader = argument;
	struct accelerator *accelerator = reader->of;
	MDB_env *env = accelerator->state->env;
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &reader->txns[0]);

	if (!rc)
		rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &reader->txns[1]);
	if (!rc)
		rc = reader_batches(reader);
	if (rc) {
		atomic_store(&accelerator->error, rc);
		sem_post(&reader->ready);
	}
	for (unsigned i = 0; i < 2; i++)
		if (reader->txns[i])
			mdb_txn_abort(reader->txns[i]);
	return NULL;
}

/* Ends and joins the first `started` readers, and adds up what they have read. */
static void readers_end(struct accelerator *accelerator, uint64_t started,
			struct bench_result *result)
{
	atomic_store(&accelerator->over, 1);
	for (uint64_t i = 0; i < started; i++)
		sem_post(&accelerator->readers[i].go);
	for (uint64_t i = 0; i < started; i++) {
		struct train_reader *reader = &accelerator->readers[i];

		pthread_join(reader->thread, NULL);
		result->records += reader->result.records;
		result->bytes += reader->result.bytes;
		result->sum += reader->result.sum;
		sem_destroy(&reader->go);
		sem_destroy(&reader->ready);
	}
}

static int readers_start(struct accelerator *accelerator, uint64_t *started)
{
	const struct bench_job *job = accelerator->state->job;

	for (; *started < job->readers; ++*started) {
		struct train_reader *reader = &accelerator->readers[*started];
		int rc;

		*reader = (struct train_reader){.of = accelerator, .number = *started};
		if (job->announce)
			reader->keys = accelerator->state->batch_keys + *started * job->batch;
		sem_init(&reader->go, 0, 1);
		sem_init(&reader->ready, 0, 0);
		rc = pthread_create(&reader->thread, NULL, reader_run, reader);
		if (rc)
			return rc;
	}
	return 0;
}

/* Runs the accelerator's steps until the run's time is over, and at least TRAIN_ROUNDS for each
 * reader. The first ones do not count in the figures: while the accelerator waits for its first
 * batch, each of the readers reads one. */
static void steps_run(struct accelerator *accelerator, struct bench_result *result)
{
	const struct bench_state *state = accelerator->state;
	uint64_t readers = state->job->readers;
	bool another = true;

	for (uint64_t step = 0; another; step++) {
		struct train_reader *reader = &accelerator->readers[step % readers];
		uint64_t begin = clock_now(), taken;

		wait_for(&reader->ready);
		if (atomic_load(&accelerator->error) || atomic_load(&accelerator->given_up)) {
			result->stopped = 1;
			result->last_step = clock_now(); /* the abandoned wait counts */
			steps_end(state->steps);
			return;
		}
		sem_post(&reader->go);
		taken = clock_now();
		sleep_until(taken + state->job->compute);
		another = steps_wait(state->steps, step + 1 >= TRAIN_ROUNDS * readers &&
							   clock_now() >= state->until);
		result->last_step = clock_now();
		if (step >= readers) {
			result->steps++;
			result->waited += taken - begin;
		} else {
			result->first_step = result->last_step;
		}
	}
}

int work_train(struct bench_state *state, struct bench_result *result)
{
	const struct bench_job *job = state->job;
	struct accelerator accelerator = {
		.state = state,
		.order = {.records = state->list->n,
			  .batch = job->batch,
			  .accelerators = job->step,
			  .seed = job->seed},
		.limit = clock_now() + PATIENCE * job->deadline,
	};
	uint64_t started = 0;
	int rc;

	accelerator.readers = calloc(job->readers, sizeof(*accelerator.readers));
	if (!accelerator.readers)
		return ENOMEM;
	/* By default the kernel may end a sleep 50 us late: 1.4 % of the shortest model's computing. */
	prctl(PR_SET_TIMERSLACK, 1);
	rc = readers_start(&accelerator, &started);
	if (!rc)
		steps_run(&accelerator, result);
	else
		steps_end(state->steps);
	readers_end(&accelerator, started, result);
	free(accelerator.readers);
	return rc ? rc : atomic_load(&accelerator.error);
}

int train_prepare(struct bench_state *state)
{
	const struct bench_job *job = state->job;
	struct train_order order = {.batch = job->batch, .accelerators = job->step};
	int rc = EINVAL;

	if (job->readers && job->batch && job->deadline)
		rc = given_prepare(state, job->readers);
	if (!rc)
		order.records = state->list->n;
	if (rc == EINVAL || (!rc && !train_steps(&order))) {
		fprintf(stderr, "bench_worker: too few records for a step\n");
		return EINVAL;
	}
	return rc ? rc : steps_map((int)job->meeting, &state->steps);
}

void train_free(struct bench_state *state)
{
	if (state->steps)
		steps_unmap(state->steps);
}
