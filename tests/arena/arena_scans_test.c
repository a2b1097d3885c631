/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests what scans of one file learn of each other. No process reads the data set, so it does not
 * exist. */
#include "arena_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHUNKS = 64, BUDGET = 8, AT = 20 };

static struct node {
	struct identity identity;
	struct arena *leader, *middle, *last;
} node;

static struct arena *scan_begin(void)
{
	struct arena_options options = {
		.budget = BUDGET * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;

	assert_int_equal(arena_open(&arena, &node.identity, &options, &why), 0);
	assert_null(why);
	arena_scanning(arena, 1, 0);
	return arena;
}

static int setup(void **state)
{
	(void)state;
	node.identity = (struct identity){
		.device = 7,
		.inode = (uint64_t)getpid(),
		.size = CHUNKS * (uint64_t)ARENA_CHUNK,
		.snapshot = node.identity.snapshot + 1,
	};
	node.leader = scan_begin();
	node.middle = scan_begin();
	node.last = scan_begin();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_close(node.leader);
	arena_close(node.middle);
	arena_close(node.last);
	return 0;
}

/* Claims and releases a chunk `chunks` times, as if processes had brought that many chunks. */
static void pass(unsigned chunks)
{
	for (unsigned i = 0; i < chunks; i++) {
		assert_true(arena_claim(node.middle, CHUNKS - 1));
		arena_release(node.middle, CHUNKS - 1);
	}
}

static void scan_when_none_is_behind_then_none_follows(void **state)
{
	(void)state;
	assert_int_equal(arena_front(node.leader, AT, true), 0);
	assert_int_equal(arena_front(node.last, AT, true), 0);
	assert_int_equal(arena_front(node.middle, AT + 1, true), 1);
	assert_int_equal(arena_front(node.leader, AT, true), 0);
}

static void scan_when_two_are_behind_then_the_last_of_them_counts(void **state)
{
	(void)state;
	for (unsigned forward = 0; forward < 2; forward++) {
		uint64_t behind = forward ? AT - 3 : AT + 3,
			 last = forward ? AT - BUDGET : AT + BUDGET;

		(void)arena_front(node.last, last, forward);
		(void)arena_front(node.middle, behind, forward);
		assert_int_equal(arena_front(node.leader, AT, forward), BUDGET);
		assert_int_equal(arena_front(node.middle, behind, forward), BUDGET - 3);
		assert_int_equal(arena_front(node.last, last, forward), 0);
	}
}

static void
scan_when_another_is_farther_behind_than_memory_holds_then_it_does_not_count(void **state)
{
	(void)state;
	(void)arena_front(node.last, AT - BUDGET - 1, true);
	assert_int_equal(arena_front(node.leader, AT, true), 0);
	(void)arena_front(node.middle, AT - 1, true);
	assert_int_equal(arena_front(node.leader, AT, true), 1);
}

static void scan_when_another_goes_the_other_way_then_it_does_not_count(void **state)
{
	(void)state;
	(void)arena_front(node.last, AT - 2, false);
	(void)arena_front(node.middle, AT + 2, true);
	assert_int_equal(arena_front(node.leader, AT, true), 0);
	assert_int_equal(arena_front(node.leader, AT, false), 0);
}

static void scans_when_one_goes_the_other_way_then_they_meet_until_it_stands_still(void **state)
{
	(void)state;
	(void)arena_front(node.last, AT - 2, true);
	(void)arena_front(node.leader, AT, true);
	assert_false(arena_scans_meet(node.leader, true));
	(void)arena_front(node.middle, AT + 9, false);
	assert_true(arena_scans_meet(node.leader, true));
	assert_true(arena_scans_meet(node.middle, false));
	pass(BUDGET);
	(void)arena_front(node.leader, AT + 1, true);
	assert_true(arena_scans_meet(node.leader, true));
	pass(1);
	assert_false(arena_scans_meet(node.leader, true));
}

/* A process that is stopped, or dead and not yet buried, reports nothing more. */
static void
scan_when_another_has_not_moved_for_long_then_it_does_not_count_until_it_does(void **state)
{
	(void)state;
	(void)arena_front(node.last, AT - 2, true);
	pass(BUDGET);
	assert_int_equal(arena_front(node.leader, AT, true), 2);
	pass(1);
	(void)arena_front(node.last, AT - 2, true);
	assert_int_equal(arena_front(node.leader, AT, true), 0);
	(void)arena_front(node.last, AT - 1, true);
	assert_int_equal(arena_front(node.leader, AT, true), 1);
}

static void scan_when_another_ends_or_its_process_leaves_then_it_does_not_count(void **state)
{
	(void)state;
	(void)arena_front(node.last, AT - 2, true);
	(void)arena_front(node.middle, AT - 1, true);
	arena_scanning(node.last, 0, 0);
	assert_int_equal(arena_front(node.leader, AT, true), 1);
	arena_close(node.middle);
	assert_int_equal(arena_front(node.leader, AT, true), 0);
	node.middle = scan_begin();
	assert_int_equal(arena_front(node.leader, AT, true), 0);
}

#define SCANS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCANS(scan_when_none_is_behind_then_none_follows),
		SCANS(scan_when_two_are_behind_then_the_last_of_them_counts),
		SCANS(scan_when_another_is_farther_behind_than_memory_holds_then_it_does_not_count),
		SCANS(scan_when_another_goes_the_other_way_then_it_does_not_count),
		SCANS(scans_when_one_goes_the_other_way_then_they_meet_until_it_stands_still),
		SCANS(scan_when_another_has_not_moved_for_long_then_it_does_not_count_until_it_does),
		SCANS(scan_when_another_ends_or_its_process_leaves_then_it_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
