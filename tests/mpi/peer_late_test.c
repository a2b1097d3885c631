/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which rank readers of a job's batch loader ask, how long they wait for a rank with a slow
 * network, and how many of their questions it gets.
 *
 * Rank 0 is real, without threads: the test makes its service's calls, in simulated time. Rank 1 is
 * this test.
 */
#include "config.h"
#include "mpi/peer_private.h"

#include "mpi_simulated.h"

#include "util/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 2, RECORDS = 64, UNIT = 8, SLOW = 1, QUESTIONS = 3, STEP = 10 /* ms */ };
#define MS UINT64_C(1000000)

static const struct exchange_rules rules = {
	.silent_ns = 60 * CLOCK_SECOND, .owed_ns = 60 * CLOCK_SECOND, .beat_ns = CLOCK_SECOND / 10};

static struct {
	struct peer_job *job;
	struct peer_wait wait;
	struct tier_fetch fetches[QUESTIONS];
	uint64_t now; /* ms */
} test;

static int make(void **state)
{
	struct peer_job *job = job_new("late");

	(void)state;
	memset(&test, 0, sizeof(test));
	sim_begin(RANKS);
	assert_non_null(job);
	job->rank = 0;
	job->ranks = RANKS;
	job->peers = calloc(RANKS, sizeof(*job->peers));
	job->plan.homes = malloc(RECORDS / UNIT * sizeof(*job->plan.homes));
	job->plan.copies = malloc(RECORDS / UNIT * PEER_COPIES * sizeof(*job->plan.copies));
	assert_true(job->peers && job->plan.homes && job->plan.copies);
	for (unsigned unit = 0; unit < RECORDS / UNIT; unit++) {
		job->plan.homes[unit] = SLOW;
		for (unsigned i = 0; i < PEER_COPIES; i++)
			job->plan.copies[unit * PEER_COPIES + i] = PEER_NOBODY;
	}
	assert_int_equal(peer_store_open_units(&job->store, RECORDS, UNIT), 0);
	assert_int_equal(wire_open(&job->wire, sim_comm(0), &rules, &peer_payload, job), 0);
	assert_int_equal(pace_open(&job->pace, RANKS, UINT32_MAX, 1), 0);
	pthread_cond_init(&test.wait.done, NULL);
	test.job = job;
	test.now = 1000;
	return 0;
}

static int unmake(void **state)
{
	(void)state;
	pthread_cond_destroy(&test.wait.done);
	job_free(test.job);
	sim_end();
	return 0;
}

static void step(void)
{
	test.now += STEP;
	(void)wire_step(&test.job->wire, test.now * MS);
	asks_step(test.job, test.now * MS);
	(void)asks_late(test.job, test.now * MS);
}

/* A reader asks for a record; its error is EINPROGRESS until the answer sets it. */
static void ask(unsigned which)
{
	struct peer_ask *asked = ask_new(test.job, SLOW, &test.wait);

	assert_non_null(asked);
	test.fetches[which] = (struct tier_fetch){.record = which * UNIT, .error = EINPROGRESS};
	ask_add(asked, &test.fetches[which]);
	test.wait.left++;
	pthread_mutex_lock(&test.job->lock);
	asks_put(test.job, asked);
	pthread_mutex_unlock(&test.job->lock);
	step();
}

/* Sends a word of the slow rank without a text. */
static void say(enum exchange_kind kind, uint64_t number)
{
	struct exchange_head word = {0};
	MPI_Request request;
	int there;

	exchange_seal(&word, kind, number, 0);
	MPI_Isend(&word, sizeof(word), MPI_BYTE, 0, SIM_WORDS, sim_comm(SLOW), &request);
	MPI_Test(&request, &there, MPI_STATUS_IGNORE);
}

/* Sends the slow rank's answer, without bytes: it has no such record. */
static void answer(uint64_t number)
{
	struct peer_ask *asked = (struct peer_ask *)test.job->wire.exchange.questions;
	struct {
		struct exchange_head head;
		struct peer_told told;
	} word;
	MPI_Request request;
	int there;

	while (asked->question.number != number)
		asked = (struct peer_ask *)asked->question.next;
	memset(&word, 0, sizeof(word));
	word.head.sum = asked->question.what;
	word.told.each[0].error = ENOENT;
	exchange_seal(&word.head, WORD_ANSWER, number, told_length(1));
	MPI_Isend(&word, (int)(sizeof(word.head) + told_length(1)), MPI_BYTE, 0, SIM_WORDS, sim_comm(SLOW), &request);
	MPI_Test(&request, &there, MPI_STATUS_IGNORE);
	step();
}

static uint64_t newest(void)
{
	return test.job->wire.exchange.serial;
}

/* Returns the milliseconds until a reader gets its answer. */
static uint64_t told(unsigned which)
{
	uint64_t began = test.now;

	while (test.fetches[which].error == EINPROGRESS)
		step();
	return test.now - began;
}

static bool is_to_be_asked(void)
{
	return peer_tier_others.has(test.job, 0);
}

/* Asks a question for whose answer the reader does not wait. */
static void probe(unsigned which)
{
	uint64_t before = newest();

	ask(which);
	assert_int_equal(newest(), before + 1);
	assert_int_equal(test.fetches[which].error, ETIMEDOUT);
}

static void answers_come_usually(void)
{
	for (unsigned i = 0; i < 100; i++) {
		ask(0);
		answer(newest());
		assert_int_equal(test.fetches[0].error, ENOENT);
	}
}

static void readers_wait_for_an_answer_no_longer_than_for_a_late_one(void **state)
{
	(void)state;
	ask(0);
	assert_in_range(told(0), 980, 1020);
	assert_int_equal(test.fetches[0].error, ETIMEDOUT);
	answer(newest());
	assert_true(is_to_be_asked());
	probe(0);
	answer(newest());
	answers_come_usually();
	ask(0);
	assert_in_range(told(0), 230, 270);
	answer(newest());
}

static void rank_when_late_then_it_is_asked_nothing_until_its_answer_comes(void **state)
{
	uint64_t late;

	(void)state;
	answers_come_usually();
	ask(0);
	late = newest();
	(void)told(0);
	assert_false(is_to_be_asked());
	assert_int_equal(peer_tier_others.health(test.job), TIER_FAILED);
	ask(1);
	assert_int_equal(test.fetches[1].error, ESHUTDOWN);
	assert_int_equal(newest(), late);
	answer(late);
	assert_true(is_to_be_asked());
	assert_int_equal(peer_tier_others.health(test.job), TIER_GOOD);
	/* The slow rank gets one question at a time until it answers one in time. */
	probe(0);
	ask(1);
	assert_int_equal(test.fetches[1].error, ESHUTDOWN);
	answer(newest());
	ask(0);
	ask(1);
	assert_int_equal(test.fetches[1].error, EINPROGRESS);
	answer(newest() - 1);
	answer(newest());
}

static void readers_wait_for_no_answer_of_a_rank_while_one_is_late(void **state)
{
	(void)state;
	answers_come_usually();
	ask(0);
	for (unsigned ms = 0; ms < 200; ms += STEP)
		step();
	ask(1);
	(void)told(0);
	assert_in_range(told(1), 0, STEP);
	assert_int_equal(test.fetches[1].error, ETIMEDOUT);
	answer(newest() - 1);
	answer(newest());
	assert_true(is_to_be_asked());
}

static void rank_when_late_again_then_it_rests(void **state)
{
	(void)state;
	answers_come_usually();
	ask(0);
	(void)told(0);
	answer(newest());
	probe(0);
	while (!test.job->late)
		step();
	answer(newest());
	assert_true(test.job->peers[SLOW].rests_until > (test.now + 3000) * MS);
	ask(1);
	assert_int_equal(test.fetches[1].error, ESHUTDOWN);
	while (test.now * MS < test.job->peers[SLOW].rests_until)
		step();
	probe(1);
	answer(newest());
}

static void rank_that_reads_storage_for_long_is_waited_for(void **state)
{
	(void)state;
	answers_come_usually();
	ask(0);
	for (unsigned ms = 0; ms < 3000; ms += 100) {
		say(WORD_BEAT, newest());
		for (unsigned i = 0; i < 100 / STEP; i++)
			step();
	}
	assert_int_equal(test.fetches[0].error, EINPROGRESS);
	answer(newest());
	assert_int_equal(test.fetches[0].error, ENOENT);
}

/* The slow rank's words wait behind more words of other ranks than one step reads. */
static void rank_is_not_late_while_words_that_have_come_are_not_read(void **state)
{
	enum { OTHERS = 300, STEPS = 3 };

	(void)state;
	answers_come_usually();
	ask(0);
	while (test.now * MS - test.job->wire.exchange.questions->heard_at < PACE_LATE_LEAST)
		step();
	for (unsigned i = 0; i < OTHERS; i++)
		say(WORD_BEAT, 0);
	for (unsigned i = 0; i < STEPS; i++)
		step();
	assert_true(test.now * MS - test.job->wire.exchange.questions->heard_at > PACE_LATE_LEAST);
	assert_int_equal(test.fetches[0].error, EINPROGRESS);
	answer(newest());
	for (unsigned i = 0; i < STEPS; i++)
		step();
	assert_int_equal(test.fetches[0].error, ENOENT);
	assert_int_equal(test.job->counts.given_up, 0);
}

static void rank_is_not_late_by_the_time_in_which_its_asker_did_not_run(void **state)
{
	(void)state;
	answers_come_usually();
	ask(0);
	test.now += 5000;
	step();
	assert_int_equal(test.fetches[0].error, EINPROGRESS);
	assert_in_range(told(0), 220, 270);
	answer(newest());
}

static void rank_when_it_is_lost_then_the_tier_has_failed(void **state)
{
	uint64_t end = test.now + 2 * rules.silent_ns / MS;

	(void)state;
	answers_come_usually();
	ask(0);
	(void)told(0);
	while (test.now < end && !test.job->wire.exchange.questions->lost)
		step();
	answer(newest());
	assert_int_equal(peer_tier_others.health(test.job), TIER_FAILED);
}

/* A job in which rank 1 is the home of unit 0, and ranks 2 and 3 have copies. */
enum { CHOICES = 3, CHOOSERS = 4000 };

static void choice_begin(struct peer_job *job, struct peer *peers, uint32_t *homes,
			 _Atomic uint32_t *copies, uint64_t *bits)
{
	*job = (struct peer_job){
		.ranks = CHOICES + 2, .peers = peers, .plan = {.homes = homes, .copies = copies}};
	homes[0] = 1;
	copies[0] = 2;
	copies[1] = 3;
	bits[0] = 1;
	for (unsigned rank = 1; rank <= CHOICES; rank++) {
		peers[rank].pace = 1000;
		peers[rank].ready = bits;
	}
}

static void rank_when_queues_differ_then_the_first_to_finish_is_asked(void **state)
{
	struct peer peers[CHOICES + 2] = {{0}};
	struct peer_job job;
	uint64_t bits[1], none[1] = {0};
	_Atomic uint32_t copies[PEER_COPIES];
	uint32_t homes[1];

	(void)state;
	choice_begin(&job, peers, homes, copies, bits);
	peers[1].pace = 10000;
	peers[2].queued = 5;
	peers[3].load = 4;
	assert_int_equal(peer_choose(&job, 0), 3);
	peers[3].load = 6;
	assert_int_equal(peer_choose(&job, 0), 2);
	peers[2].ready = none;
	assert_int_equal(peer_choose(&job, 0), 3);
	peers[3].silent = true;
	assert_int_equal(peer_choose(&job, 0), 1);
	peers[1].rests_until = UINT64_MAX;
	assert_int_equal(peer_choose(&job, 0), PEER_NOBODY);
}

static void ranks_when_all_are_equal_then_readers_spread_over_them(void **state)
{
	struct peer peers[CHOICES + 2] = {{0}};
	unsigned times[CHOICES + 2] = {0};
	struct peer_job job;
	uint64_t bits[1];
	_Atomic uint32_t copies[PEER_COPIES];
	uint32_t homes[1];

	(void)state;
	choice_begin(&job, peers, homes, copies, bits);
	for (job.rank = CHOICES + 1; job.rank < CHOICES + 1 + CHOOSERS; job.rank++) {
		uint32_t chosen = peer_choose(&job, 0);

		assert_int_equal(peer_choose(&job, 0), chosen);
		times[chosen]++;
	}
	for (unsigned rank = 1; rank <= CHOICES; rank++)
		assert_in_range(times[rank], CHOOSERS / CHOICES - 150, CHOOSERS / CHOICES + 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rank_when_queues_differ_then_the_first_to_finish_is_asked),
		cmocka_unit_test(ranks_when_all_are_equal_then_readers_spread_over_them),
		cmocka_unit_test_setup_teardown(
			readers_wait_for_an_answer_no_longer_than_for_a_late_one, make, unmake),
		cmocka_unit_test_setup_teardown(
			rank_when_late_then_it_is_asked_nothing_until_its_answer_comes, make,
			unmake),
		cmocka_unit_test_setup_teardown(
			readers_wait_for_no_answer_of_a_rank_while_one_is_late, make, unmake),
		cmocka_unit_test_setup_teardown(rank_when_late_again_then_it_rests, make, unmake),
		cmocka_unit_test_setup_teardown(rank_that_reads_storage_for_long_is_waited_for,
						make, unmake),
		cmocka_unit_test_setup_teardown(
			rank_is_not_late_while_words_that_have_come_are_not_read, make, unmake),
		cmocka_unit_test_setup_teardown(
			rank_is_not_late_by_the_time_in_which_its_asker_did_not_run, make, unmake),
		cmocka_unit_test_setup_teardown(rank_when_it_is_lost_then_the_tier_has_failed, make,
						unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
