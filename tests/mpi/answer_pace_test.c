/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks when an answer counts as late, and how much of their time askers wait for a slow peer. */
#include "mpi/answer_pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
enum { PEERS = 3, WINDOW = 4, SLOW = 1 };

static struct answer_pace pace;
static uint64_t bodies_at;

static int make(void **state)
{
	(void)state;
	bodies_at = 0;
	return pace_open(&pace, PEERS, WINDOW, 1);
}

static int unmake(void **state)
{
	(void)state;
	pace_close(&pace);
	return 0;
}

static struct exchange_question ask(int peer, uint64_t now)
{
	pace_asked(&pace, peer);
	return (struct exchange_question){.to = peer, .began = now, .heard_at = now};
}

static void late(struct exchange_question *question, uint64_t now)
{
	pace_late(&pace, question, now);
	question->late = true;
}

/* Simulates an answer whose body has `bytes` bytes and takes `body_took` of the answer's time. */
static void answer_body(int peer, uint64_t began, uint64_t took, uint64_t bytes, uint64_t body_took)
{
	struct exchange_question question = ask(peer, began);

	question.body = bytes;
	question.told_at = began + took - body_took;
	question.took = body_took;
	pace_ended(&pace, &question, began + took, true);
}

static void answer(int peer, uint64_t began, uint64_t took)
{
	answer_body(peer, began, took, 0, 0);
}

static bool is_late(int peer, uint64_t heard_at, uint64_t body, uint64_t now)
{
	return pace_is_late(&pace, &(struct exchange_question){.to = peer, .began = now, .heard_at = heard_at, .body = body},
			    now);
}

static void patience_follows_the_usual_answers_within_its_bounds(void **state)
{
	(void)state;
	assert_int_equal(pace_patience(&pace), PACE_LATE_MOST);
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, 10 * MS);
	assert_int_equal(pace_patience(&pace), PACE_LATE_LEAST);
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, 50 * MS);
	assert_in_range(pace_patience(&pace), 390 * MS, 400 * MS);
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, 500 * MS);
	assert_int_equal(pace_patience(&pace), PACE_LATE_MOST);
}

static void patience_is_bounded_by_this_nodes_own_reads(void **state)
{
	(void)state;
	answer(0, 0, 900 * MS);
	assert_int_equal(pace_patience(&pace), PACE_LATE_MOST);
	pace_read(&pace, 20 * MS);
	assert_in_range(pace_patience(&pace), 320 * MS, 321 * MS);
	for (unsigned i = 0; i < 200; i++)
		pace_read(&pace, MS);
	assert_int_equal(pace_patience(&pace), PACE_LATE_LEAST);
}

static void patience_is_multiplied_with_its_bounds(void **state)
{
	(void)state;
	pace_close(&pace);
	assert_int_equal(pace_open(&pace, PEERS, WINDOW, 20), 0);
	assert_int_equal(pace_patience(&pace), 20 * PACE_LATE_MOST);
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, 10 * MS);
	assert_int_equal(pace_patience(&pace), 20 * PACE_LATE_LEAST);
	assert_false(is_late(0, 0, 0, 20 * PACE_LATE_LEAST));
	assert_true(is_late(0, 0, 0, 20 * PACE_LATE_LEAST + 1));
}

static void body_has_time_by_its_length(void **state)
{
	enum { BODY = 8 << 20 };

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, 10 * MS);
	assert_false(is_late(0, 0, 0, PACE_LATE_LEAST));
	assert_true(is_late(0, 0, 0, PACE_LATE_LEAST + 1));
	assert_int_equal(pace.byte, PEERS * WINDOW * PACE_BYTE);
	assert_false(is_late(0, 0, BODY, PACE_LATE_LEAST + BODY * pace.byte));
	assert_true(is_late(0, 0, BODY, PACE_LATE_LEAST + BODY * pace.byte + 1));
	assert_false(is_late(0, 0, UINT64_MAX, 60 * PACE_LATE_MOST));
	pace_close(&pace);
	assert_int_equal(pace_open(&pace, PEERS, UINT32_MAX, 1), 0);
	assert_int_equal(pace.byte, PACE_BYTE_MOST);
}

static void body_has_as_long_as_one_that_is_slow(void **state)
{
	enum { MEBIBYTES = 3, BODY = MEBIBYTES << 20 };

	(void)state;
	pace_read(&pace, MS);
	for (unsigned i = 0; i < 200; i++)
		answer_body(0, i * 10 * MS, 10 * MS, 1 << 19, 5 * MS);
	assert_false(is_late(0, 0, BODY, PACE_LATE_LEAST + MEBIBYTES * PACE_BODY_SLOW));
	assert_true(is_late(0, 0, BODY, PACE_LATE_LEAST + MEBIBYTES * PACE_BODY_SLOW + MS));
	answer_body(0, 600 * PACE_LATE_MOST, 600 * PACE_LATE_MOST, 1 << 19, 600 * PACE_LATE_MOST);
	assert_true(pace.body < PACE_LATE_MOST / 3);
	for (unsigned i = 0; i < 200; i++)
		answer_body(0, (2000 + i) * PACE_LATE_MOST, PACE_LATE_MOST, 1 << 19, PACE_LATE_MOST);
	assert_true(is_late(0, 0, BODY, PACE_LATE_LEAST + BODY * pace.byte + MS));
}

/* After a fast time all answers take half a second: the first ones are late, and the others are not. */
static void patience_learns_of_late_answers(void **state)
{
	struct exchange_question question;
	unsigned are_late = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, MS);
	for (uint64_t began = 1000 * MS; began < 1000 * PACE_LATE_MOST; began += PACE_LATE_MOST) {
		if (pace_turn(&pace, 0, began) != PACE_ASK)
			continue;
		question = ask(0, began);
		if (pace_is_late(&pace, &question, began + 500 * MS))
			late(&question, began + pace_patience(&pace) + 1);
		pace_ended(&pace, &question, began + 500 * MS, true);
		are_late += question.late;
	}
	assert_in_range(are_late, 1, 6);
	assert_false(pace_is_probe(&pace, 0));
	/* An answer that came after minutes counts with the time that the asker waited for it. */
	question = ask(SLOW, 0);
	late(&question, PACE_LATE_MOST);
	pace_ended(&pace, &question, 600 * PACE_LATE_MOST, true);
	assert_true(pace.usual < PACE_LATE_MOST);
}

static void peer_has_a_window_that_grows_with_its_answers(void **state)
{
	struct exchange_question open[WINDOW];

	(void)state;
	for (unsigned i = 0; i < WINDOW; i++) {
		assert_int_equal(pace_turn(&pace, SLOW, 0), i < PACE_FIRST ? PACE_ASK : PACE_WAIT);
		if (i >= PACE_FIRST)
			answer(SLOW, 0, MS);
		open[i] = ask(SLOW, 0);
	}
	for (unsigned i = 0; i < PACE_GOOD; i++)
		answer(SLOW, 0, MS);
	assert_int_equal(pace_turn(&pace, SLOW, 0), PACE_WAIT);
	assert_int_equal(pace_turn(&pace, 0, 0), PACE_ASK);
	pace_ended(&pace, &open[0], 1, true);
	assert_int_equal(pace_turn(&pace, SLOW, 1), PACE_ASK);
}

static void peer_when_late_once_then_it_is_asked_again_at_once(void **state)
{
	struct exchange_question open[WINDOW], probe;

	(void)state;
	for (unsigned i = 0; i < WINDOW; i++)
		open[i] = ask(SLOW, 0);
	for (unsigned i = 0; i < WINDOW; i++)
		late(&open[i], 300 * MS);
	assert_int_equal(pace_turn(&pace, SLOW, 300 * MS), PACE_PASS);
	for (unsigned i = 0; i < WINDOW; i++)
		pace_ended(&pace, &open[i], 400 * MS, true);
	assert_int_equal(pace_turn(&pace, SLOW, 400 * MS), PACE_ASK);
	probe = ask(SLOW, 400 * MS);
	assert_int_equal(pace_turn(&pace, SLOW, 400 * MS), PACE_PASS);
	pace_ended(&pace, &probe, 410 * MS, true);
	(void)ask(SLOW, 410 * MS);
	assert_int_equal(pace_turn(&pace, SLOW, 410 * MS), PACE_ASK);
}

static void bodies_come(unsigned n, uint64_t fast, uint64_t slow)
{
	if (!pace.read)
		pace_read(&pace, MS);
	for (unsigned i = 0; i < n; i++) {
		answer_body(0, bodies_at, fast, 1 << 20, fast);
		answer_body(SLOW, bodies_at, slow, 1 << 20, slow);
		bodies_at += fast + slow;
	}
}

/* The peer's bodies are slow, but none of its answers is late. */
static void peer_when_its_bodies_are_slow_then_it_is_on_probation(void **state)
{
	struct exchange_question open, probe;

	(void)state;
	bodies_come(PACE_BODIES_LEAST - 1, 5 * MS, 85 * MS);
	assert_false(pace_is_probe(&pace, SLOW));
	open = ask(SLOW, 0);
	assert_false(pace_is_late(&pace, &open, 90 * MS));
	answer_body(SLOW, 90 * MS, 85 * MS, 1 << 20, 85 * MS);
	assert_true(pace_is_probe(&pace, SLOW));
	assert_false(pace_is_probe(&pace, 0));
	/* Askers no longer wait for a question of before the probation. Its lateness does not count
	 * against the peer again. */
	assert_true(pace_is_late(&pace, &open, 175 * MS));
	late(&open, 175 * MS);
	assert_int_equal(pace_turn(&pace, SLOW, 175 * MS), PACE_PASS);
	pace_ended(&pace, &open, 180 * MS, true);
	assert_int_equal(pace_turn(&pace, SLOW, 180 * MS), PACE_ASK);
	probe = ask(SLOW, 200 * MS);
	assert_false(pace_is_late(&pace, &probe, 285 * MS));
	probe.body = 1 << 20;
	probe.told_at = 200 * MS;
	probe.took = 85 * MS;
	pace_ended(&pace, &probe, 285 * MS, true);
	assert_true(pace_is_probe(&pace, SLOW));
	assert_int_equal(pace_turn(&pace, SLOW, 285 * MS), PACE_PASS);
	assert_int_equal(pace_turn(&pace, SLOW, 285 * MS + PACE_RESTS * 85 * MS), PACE_ASK);
}

static void peer_when_all_bodies_are_as_slow_then_it_is_asked(void **state)
{
	(void)state;
	bodies_come(100, 85 * MS / 2, 85 * MS);
	assert_false(pace_is_probe(&pace, SLOW));
}

static void peer_when_storage_is_as_slow_then_it_is_asked(void **state)
{
	(void)state;
	pace_read(&pace, 85 * MS / PACE_BODIES + MS);
	bodies_come(100, 5 * MS, 85 * MS);
	assert_false(pace_is_probe(&pace, SLOW));
}

static void peer_when_storage_is_not_known_then_it_is_asked(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		answer_body(i % 2 ? SLOW : 0, i * 1000 * MS, 200 * MS, 1 << 20, i % 2 ? 200 * MS : 5 * MS);
	assert_false(pace_is_probe(&pace, SLOW));
}

/* As from a peer that waits for a processor now and then. */
static void peer_when_few_bodies_are_slow_then_it_is_asked(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		bodies_come(4, 5 * MS, 5 * MS);
		bodies_come(1, 5 * MS, 200 * MS);
		assert_false(pace_is_probe(&pace, SLOW));
	}
}

static void peer_when_bodies_are_slow_together_then_it_is_asked(void **state)
{
	(void)state;
	bodies_come(4, 5 * MS, 5 * MS);
	for (unsigned i = 0; i < 100; i++)
		answer_body(SLOW, 5000 * MS, 200 * MS, 1 << 20, 200 * MS);
	assert_false(pace_is_probe(&pace, SLOW));
}

static void peer_when_it_waits_for_storage_then_it_is_asked(void **state)
{
	(void)state;
	pace_read(&pace, MS);
	for (unsigned i = 0; i < 100; i++) {
		answer_body(0, i * 1000 * MS, 5 * MS, 1 << 20, 5 * MS);
		answer_body(SLOW, i * 1000 * MS, 200 * MS, 1 << 20, 5 * MS);
	}
	assert_false(pace_is_probe(&pace, SLOW));
}

/* Returns how long askers wait for a slow peer in ten minutes, beside a fast one. They ask whenever
 * they may, `window` questions at a time. */
static struct waited {
	unsigned asked;
	uint64_t ms;
} wait_for_peer(unsigned window, uint64_t first_ms, uint64_t each_ms)
{
	enum { STEP = 10, MINUTES = 10 * 60 * 1000 };
	struct waited waited = {0};
	struct exchange_question questions[WINDOW];
	bool open[WINDOW] = {0}, probe[WINDOW];

	for (uint64_t now = 2000 * MS; now < MINUTES * MS; now += STEP * MS) {
		bool waits = false;

		answer_body(0, now, 10 * MS, 1 << 20, 5 * MS);
		for (unsigned i = 0, rank = 0; i < window; i++) {
			struct exchange_question *question = &questions[i];

			if (!open[i] && pace_turn(&pace, SLOW, now) == PACE_ASK) {
				probe[i] = pace_is_probe(&pace, SLOW);
				*question = ask(SLOW, now);
				question->told_at = now;
				open[i] = true;
				waited.asked++;
			}
			if (!open[i])
				continue;
			waits |= !probe[i] && !question->late;
			if (!question->late && pace_is_late(&pace, question, now))
				late(question, now);
			if (now - question->began >= (first_ms + each_ms * rank++) * MS) {
				question->body = 1 << 20;
				question->took = now - question->told_at;
				pace_ended(&pace, question, now, true);
				open[i] = false;
			}
		}
		waited.ms += waits ? STEP : 0;
	}
	print_message("-- %u questions, %u ms\n", waited.asked, (unsigned)waited.ms);
	return waited;
}

static void peer_when_slow_for_ever_then_readers_wait_for_it_once(void **state)
{
	struct waited waited = wait_for_peer(WINDOW, 1000, 0);

	(void)state;
	assert_in_range(waited.asked, WINDOW + 8, WINDOW + 20);
	assert_in_range(waited.ms, 1, PACE_LATE_LEAST / MS + 20);
}

/* Its probes are answered fast, and its windows are not. */
static void peer_when_slow_under_load_then_readers_wait_for_it_seldom(void **state)
{
	struct waited waited = wait_for_peer(WINDOW, 50, 300);

	(void)state;
	assert_in_range(waited.ms, 1, 10 * 60 * 1000 / 60);
}

/* Each of its answers is in time. */
static void peer_when_slow_by_less_than_late_then_readers_wait_for_it_once(void **state)
{
	struct waited waited;

	(void)state;
	pace_read(&pace, 5 * MS);
	waited = wait_for_peer(1, 120, 0);
	assert_in_range(waited.ms, 1, (PACE_BODIES_LEAST + 1) * 130);
}

static void peer_when_it_is_fast_again_then_it_has_its_window_again(void **state)
{
	struct exchange_question question;
	uint64_t now = 0;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		question = ask(SLOW, now);
		late(&question, now + 1000 * MS);
		pace_ended(&pace, &question, now + 1000 * MS, true);
		now += PACE_REST_MOST + 1000 * MS;
	}
	assert_int_equal(pace_turn(&pace, SLOW, now), PACE_ASK);
	question = ask(SLOW, now);
	assert_int_equal(pace_turn(&pace, SLOW, now), PACE_PASS);
	pace_ended(&pace, &question, now + MS, true);
	(void)ask(SLOW, now + MS);
	assert_int_equal(pace_turn(&pace, SLOW, now + MS), PACE_ASK);
}

static void answer_without_bytes_says_nothing_of_the_pace(void **state)
{
	struct exchange_question question = ask(0, 0);

	(void)state;
	pace_ended(&pace, &question, 10 * MS, false);
	assert_int_equal(pace_patience(&pace), PACE_LATE_MOST);
	assert_int_equal(pace.peers[0].open, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			patience_follows_the_usual_answers_within_its_bounds, make, unmake),
		cmocka_unit_test_setup_teardown(patience_is_bounded_by_this_nodes_own_reads, make,
						unmake),
		cmocka_unit_test_setup_teardown(patience_is_multiplied_with_its_bounds, make,
						unmake),
		cmocka_unit_test_setup_teardown(body_has_time_by_its_length, make, unmake),
		cmocka_unit_test_setup_teardown(patience_learns_of_late_answers, make, unmake),
		cmocka_unit_test_setup_teardown(peer_has_a_window_that_grows_with_its_answers, make,
						unmake),
		cmocka_unit_test_setup_teardown(peer_when_late_once_then_it_is_asked_again_at_once,
						make, unmake),
		cmocka_unit_test_setup_teardown(
			peer_when_its_bodies_are_slow_then_it_is_on_probation, make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_all_bodies_are_as_slow_then_it_is_asked,
						make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_storage_is_as_slow_then_it_is_asked, make,
						unmake),
		cmocka_unit_test_setup_teardown(peer_when_storage_is_not_known_then_it_is_asked,
						make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_few_bodies_are_slow_then_it_is_asked,
						make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_bodies_are_slow_together_then_it_is_asked,
						make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_it_waits_for_storage_then_it_is_asked,
						make, unmake),
		cmocka_unit_test_setup_teardown(
			peer_when_slow_by_less_than_late_then_readers_wait_for_it_once, make,
			unmake),
		cmocka_unit_test_setup_teardown(
			peer_when_slow_for_ever_then_readers_wait_for_it_once, make, unmake),
		cmocka_unit_test_setup_teardown(
			peer_when_slow_under_load_then_readers_wait_for_it_seldom, make, unmake),
		cmocka_unit_test_setup_teardown(body_has_as_long_as_one_that_is_slow, make, unmake),
		cmocka_unit_test_setup_teardown(
			peer_when_it_is_fast_again_then_it_has_its_window_again, make, unmake),
		cmocka_unit_test_setup_teardown(answer_without_bytes_says_nothing_of_the_pace, make,
						unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
