/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks when an answer counts as late, and how much of their time askers wait for a peer that is slow. */
#include "mpi/answer_pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
enum { PEERS = 3, WINDOW = 4, SLOW = 1 };

static struct answer_pace pace;

static int make(void **state)
{
	(void)state;
	return pace_open(&pace, PEERS, WINDOW);
}

static int unmake(void **state)
{
	(void)state;
	pace_close(&pace);
	return 0;
}

static void answer(int peer, uint64_t began, uint64_t took)
{
	pace_asked(&pace, peer);
	pace_ended(&pace, peer, began, began + took, false, true);
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

static void body_has_time_by_its_length(void **state)
{
	enum { BODY = 8 << 20 };

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, 10 * MS);
	assert_false(pace_is_late(&pace, 0, 0, 0, PACE_LATE_LEAST));
	assert_true(pace_is_late(&pace, 0, 0, 0, PACE_LATE_LEAST + 1));
	assert_int_equal(pace.byte, PEERS * WINDOW * PACE_BYTE);
	assert_false(pace_is_late(&pace, 0, 0, BODY, PACE_LATE_LEAST + BODY * pace.byte));
	assert_true(pace_is_late(&pace, 0, 0, BODY, PACE_LATE_LEAST + BODY * pace.byte + 1));
	assert_false(pace_is_late(&pace, 0, 0, UINT64_MAX, 60 * PACE_LATE_MOST));
	pace_close(&pace);
	assert_int_equal(pace_open(&pace, PEERS, UINT32_MAX), 0);
	assert_int_equal(pace.byte, PACE_BYTE_MOST);
}

static void body_has_four_times_as_long_as_bodies_usually_take(void **state)
{
	enum { BODY = 3 << 20, MEBIBYTES = 4 };

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		answer(0, i * MS, 10 * MS);
		pace_body(&pace, 1 << 19, 5 * MS);
	}
	assert_false(pace_is_late(&pace, 0, 0, BODY, PACE_LATE_LEAST + MEBIBYTES * PACE_BODIES * 5 * MS));
	assert_true(pace_is_late(&pace, 0, 0, BODY, PACE_LATE_LEAST + MEBIBYTES * PACE_BODIES * 5 * MS + MS));
	pace_body(&pace, 1 << 19, 600 * PACE_LATE_MOST);
	assert_true(pace.body < 100 * MS);
	for (unsigned i = 0; i < 200; i++)
		pace_body(&pace, 1 << 19, PACE_LATE_MOST);
	assert_true(pace_is_late(&pace, 0, 0, BODY, PACE_LATE_LEAST + BODY * pace.byte + MS));
}

/* After a fast time all answers take half a second: the first ones are late, and the others are not. */
static void patience_learns_of_late_answers(void **state)
{
	unsigned late = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++)
		answer(0, i * MS, MS);
	for (uint64_t began = 1000 * MS; began < 1000 * PACE_LATE_MOST; began += PACE_LATE_MOST) {
		bool is_late = pace_is_late(&pace, 0, began, 0, began + 500 * MS);

		if (pace_turn(&pace, 0, began) != PACE_ASK)
			continue;
		pace_asked(&pace, 0);
		if (is_late)
			pace_late(&pace, 0, began, began + pace_patience(&pace) + 1);
		pace_ended(&pace, 0, began, began + 500 * MS, is_late, true);
		late += is_late;
	}
	assert_in_range(late, 1, 6);
	assert_false(pace_is_probe(&pace, 0));
	/* One that came after minutes counts as long as it was waited for. */
	pace_asked(&pace, SLOW);
	pace_late(&pace, SLOW, 0, PACE_LATE_MOST);
	pace_ended(&pace, SLOW, 0, 600 * PACE_LATE_MOST, true, true);
	assert_true(pace.usual < PACE_LATE_MOST);
}

static void peer_has_a_window_of_questions(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WINDOW; i++) {
		assert_int_equal(pace_turn(&pace, SLOW, 0), PACE_ASK);
		pace_asked(&pace, SLOW);
	}
	assert_int_equal(pace_turn(&pace, SLOW, 0), PACE_WAIT);
	assert_int_equal(pace_turn(&pace, 0, 0), PACE_ASK);
	pace_ended(&pace, SLOW, 0, 1, false, true);
	assert_int_equal(pace_turn(&pace, SLOW, 1), PACE_ASK);
}

static void peer_when_late_once_then_it_is_asked_again_at_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WINDOW; i++)
		pace_asked(&pace, SLOW);
	for (unsigned i = 0; i < WINDOW; i++)
		pace_late(&pace, SLOW, 0, 300 * MS);
	assert_int_equal(pace_turn(&pace, SLOW, 300 * MS), PACE_PASS);
	for (unsigned i = 0; i < WINDOW; i++)
		pace_ended(&pace, SLOW, 0, 400 * MS, true, true);
	assert_int_equal(pace_turn(&pace, SLOW, 400 * MS), PACE_ASK);
	pace_asked(&pace, SLOW);
	assert_int_equal(pace_turn(&pace, SLOW, 400 * MS), PACE_PASS);
	pace_ended(&pace, SLOW, 400 * MS, 410 * MS, false, true);
	pace_asked(&pace, SLOW);
	assert_int_equal(pace_turn(&pace, SLOW, 410 * MS), PACE_ASK);
}

/* What askers wait for a peer whose answers take so long, beside one that is fast, in ten minutes. They ask
 * whenever they may, a window at a time. */
static struct waited {
	unsigned asked;
	uint64_t ms;
} wait_for_peer(uint64_t first_ms, uint64_t each_ms)
{
	enum { STEP = 10, MINUTES = 10 * 60 * 1000 };
	struct waited waited = {0};
	uint64_t began[WINDOW];
	bool open[WINDOW] = {0}, late[WINDOW], probe[WINDOW];

	for (uint64_t ms = 2000; ms < MINUTES; ms += STEP) {
		bool waits = false;

		answer(0, ms * MS, 10 * MS);
		for (unsigned i = 0, rank = 0; i < WINDOW; i++) {
			if (!open[i] && pace_turn(&pace, SLOW, ms * MS) == PACE_ASK) {
				probe[i] = pace_is_probe(&pace, SLOW);
				pace_asked(&pace, SLOW);
				open[i] = true;
				late[i] = false;
				began[i] = ms;
				waited.asked++;
			}
			if (!open[i])
				continue;
			waits |= !probe[i] && !late[i];
			if (!late[i] && pace_is_late(&pace, SLOW, began[i] * MS, 0, ms * MS)) {
				pace_late(&pace, SLOW, began[i] * MS, ms * MS);
				late[i] = true;
			}
			if (ms - began[i] >= first_ms + each_ms * rank++) {
				pace_ended(&pace, SLOW, began[i] * MS, ms * MS, late[i], true);
				open[i] = false;
			}
		}
		waited.ms += waits ? STEP : 0;
	}
	return waited;
}

static void peer_when_slow_for_ever_then_readers_wait_for_it_once(void **state)
{
	struct waited waited = wait_for_peer(1000, 0);

	(void)state;
	print_message("-- %u questions, %u ms\n", waited.asked, (unsigned)waited.ms);
	assert_in_range(waited.asked, WINDOW + 8, WINDOW + 20);
	assert_in_range(waited.ms, 1, PACE_LATE_LEAST / MS + 20);
}

/* Its probes are answered fast, and its windows are not. */
static void peer_when_slow_under_load_then_readers_wait_for_it_seldom(void **state)
{
	struct waited waited = wait_for_peer(50, 300);

	(void)state;
	print_message("-- %u questions, %u ms\n", waited.asked, (unsigned)waited.ms);
	assert_in_range(waited.ms, 1, 10 * 60 * 1000 / 60);
}

static void peer_when_it_is_fast_again_then_it_has_its_window_again(void **state)
{
	uint64_t now = 0;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		pace_asked(&pace, SLOW);
		pace_late(&pace, SLOW, now, now + 1000 * MS);
		pace_ended(&pace, SLOW, now, now + 1000 * MS, true, true);
		now += PACE_REST_MOST + 1000 * MS;
	}
	assert_int_equal(pace_turn(&pace, SLOW, now), PACE_ASK);
	pace_asked(&pace, SLOW);
	assert_int_equal(pace_turn(&pace, SLOW, now), PACE_PASS);
	pace_ended(&pace, SLOW, now, now + MS, false, true);
	pace_asked(&pace, SLOW);
	assert_int_equal(pace_turn(&pace, SLOW, now + MS), PACE_ASK);
}

static void answer_without_bytes_says_nothing_of_the_pace(void **state)
{
	(void)state;
	pace_asked(&pace, 0);
	pace_ended(&pace, 0, 0, 10 * MS, false, false);
	assert_int_equal(pace_patience(&pace), PACE_LATE_MOST);
	assert_int_equal(pace.peers[0].open, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(patience_follows_the_usual_answers_within_its_bounds, make, unmake),
		cmocka_unit_test_setup_teardown(patience_is_bounded_by_this_nodes_own_reads, make, unmake),
		cmocka_unit_test_setup_teardown(body_has_time_by_its_length, make, unmake),
		cmocka_unit_test_setup_teardown(patience_learns_of_late_answers, make, unmake),
		cmocka_unit_test_setup_teardown(peer_has_a_window_of_questions, make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_late_once_then_it_is_asked_again_at_once, make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_slow_for_ever_then_readers_wait_for_it_once, make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_slow_under_load_then_readers_wait_for_it_seldom, make, unmake),
		cmocka_unit_test_setup_teardown(body_has_four_times_as_long_as_bodies_usually_take, make, unmake),
		cmocka_unit_test_setup_teardown(peer_when_it_is_fast_again_then_it_has_its_window_again, make, unmake),
		cmocka_unit_test_setup_teardown(answer_without_bytes_says_nothing_of_the_pace, make, unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
