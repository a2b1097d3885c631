/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a rank of a job's batch loader still does for others while it ends: it answers each
 * question, and sleeps between two looks.
 *
 * Rank 0 is real, over simulated MPI. Rank 1 is this test.
 */
#include "config.h"
#include "mpi/peer_private.h"

#include "job_records.h"
#include "mpi_simulated.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "env_fixture.h"

#include "loader/batch_loader.h"
#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RANKS = 2,
	RECORDS = 64,
	UNIT = 8,
	ASKER = 1,
	STEPS = 8,
	LOOKS = 1000,
	HANG = 600 /* seconds */
};
#define MS UINT64_C(1000000)

static const struct exchange_rules rules = {
	.silent_ns = 60 * CLOCK_SECOND, .owed_ns = 60 * CLOCK_SECOND, .beat_ns = CLOCK_SECOND / 10};

static struct {
	struct peer_job *job;
	uint64_t now; /* ms */
	struct place place;
} test;

/* Makes a rank that has all units, without threads: the test makes its service's calls, in
 * simulated time. */
static int make(void **state)
{
	struct peer_job *job = job_new("end");

	(void)state;
	sim_begin(RANKS);
	assert_non_null(job);
	job->ranks = RANKS;
	job->peers = calloc(RANKS, sizeof(*job->peers));
	assert_non_null(job->peers);
	assert_int_equal(peer_store_open_units(&job->store, RECORDS, UNIT), 0);
	job->store.limit = 1 << 20;
	for (uint64_t unit = 0; unit < job->store.units; unit++)
		job->store.at[unit].role = ROLE_HOME;
	assert_int_equal(wire_open(&job->wire, sim_comm(0), &rules, &peer_payload, job), 0);
	assert_int_equal(pace_open(&job->pace, RANKS, UINT32_MAX, 1), 0);
	test.job = job;
	test.now = 1000;
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	job_free(test.job);
	sim_end();
	return 0;
}

/* Does a step of the service and of a filling thread. */
static void step(void)
{
	(void)wire_step(&test.job->wire, ++test.now * MS);
	(void)answers_step(test.job);
	pthread_mutex_lock(&test.job->lock);
	(void)filler_work.step(test.job);
	pthread_mutex_unlock(&test.job->lock);
}

/* The other rank asks for a record. */
static void ask(uint64_t number, uint64_t record)
{
	struct {
		struct exchange_head head;
		struct peer_talk talk;
	} word;
	MPI_Request request;
	int there;

	memset(&word, 0, sizeof(word));
	word.talk = (struct peer_talk){.n = 1, .records = {record}};
	exchange_seal(&word.head, WORD_ASK, number, talk_length(1));
	MPI_Isend(&word, (int)(sizeof(word.head) + talk_length(1)), MPI_BYTE, 0, SIM_WORDS,
		  sim_comm(ASKER), &request);
	MPI_Test(&request, &there, MPI_STATUS_IGNORE);
}

/* The loader exists until its last batch is given back, but reads nothing more. */
static void question_when_the_loader_is_closed_and_a_batch_is_out_then_it_is_answered(void **state)
{
	struct lmdbio_loader_options options = {.size = sizeof(options), .batch = 4};
	struct loader_place at = {.path = test.place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_batch *batch;

	(void)state;
	assert_int_equal(loader_open(&test.job->loader, &at, &options, NULL), 0);
	assert_int_equal(loader_epoch(test.job->loader, 0), 0);
	assert_int_equal(loader_next(test.job->loader, &batch), 0);
	loader_close(test.job->loader);
	for (uint64_t number = 1; number <= 2; number++) {
		ask(number, 9);
		(void)wire_step(&test.job->wire, ++test.now * MS);
		assert_non_null(test.job->answers);
		for (unsigned i = 0; i < STEPS; i++)
			step();
		assert_null(test.job->answers);
	}
	test.job->loader = NULL;
	loader_done(batch);
}

/* The memory that is to be freed, and whether it was. */
static _Atomic(void *) watched;
static atomic_bool watched_goes;

void __real_free(void *memory);
void __wrap_free(void *memory);

void __wrap_free(void *memory)
{
	if (memory && memory == atomic_load(&watched))
		atomic_store(&watched_goes, true);
	__real_free(memory);
}

static void job_when_freed_with_an_open_answer_then_the_answer_goes(void **state)
{
	(void)make(state);
	ask(1, 9);
	(void)wire_step(&test.job->wire, ++test.now * MS);
	atomic_store(&watched, test.job->answers);
	assert_non_null(test.job->answers);
	(void)unmake(state);
	assert_true(watched_goes);
	atomic_store(&watched, NULL);
}

/* Counts the service's waits, which take no time here. */
static atomic_uint waits;

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
				  const struct timespec *at);

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
				  const struct timespec *at)
{
	(void)condition, (void)at;
	pthread_mutex_unlock(lock);
	sched_yield();
	pthread_mutex_lock(lock);
	atomic_fetch_add(&waits, 1);
	return ETIMEDOUT;
}

static struct peer_job *jobs[RANKS];

/* Rank 0 has a service, and its loader is closed. */
static void rank_joins(void *context, int rank)
{
	struct peer_job *job = jobs[rank] = job_new("end");

	(void)context;
	if (!job || job_join(job, sim_comm(rank)) != MPI_SUCCESS)
		abort();
	job->closed = true;
	if (!rank && service_start(job))
		abort();
}

static unsigned naps_of(struct peer_job *job)
{
	unsigned naps;

	pthread_mutex_lock(&job->lock);
	naps = (unsigned)job->counts.naps;
	pthread_mutex_unlock(&job->lock);
	return naps;
}

/* The program has ended MPI while the other rank's loader is still open. */
static void service_when_mpi_has_ended_and_another_rank_has_not_closed_then_it_sleeps(void **state)
{
	unsigned threads = job_threads();

	(void)state;
	sim_begin(RANKS);
	assert_true(sim_run(RANKS, rank_joins, NULL));
	sim_program_ends();
	service_go(jobs[0]);
	while (naps_of(jobs[0]) < LOOKS)
		sched_yield();
	assert_in_range(atomic_load(&waits), LOOKS / 2, UINT_MAX);
	exchange_stop(&jobs[ASKER]->wire.exchange);
	while (!wire_is_over(&jobs[ASKER]->wire))
		(void)wire_step(&jobs[ASKER]->wire, clock_now());
	while (job_threads() > threads)
		sched_yield();
	job_free(jobs[ASKER]);
	sim_end();
}

static int set_begin(void **state)
{
	(void)state;
	place_make(&test.place);
	place_put_records(&test.place, RECORDS, JOB_VALUE, job_value_make);
	return 0;
}

static int set_end(void **state)
{
	(void)state;
	place_remove(&test.place);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			question_when_the_loader_is_closed_and_a_batch_is_out_then_it_is_answered,
			make, unmake),
		cmocka_unit_test(job_when_freed_with_an_open_answer_then_the_answer_goes),
		cmocka_unit_test(
			service_when_mpi_has_ended_and_another_rank_has_not_closed_then_it_sleeps),
	};

	(void)alarm(HANG);
	return cmocka_run_group_tests(tests, set_begin, set_end);
}
