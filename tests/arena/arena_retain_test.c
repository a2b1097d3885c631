/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which chunks stay in memory: of other nodes' chunks those that a served node finds again when
 * it reads more than it has room for, and chunks that are expected to be used.
 *
 * The data set need not exist, because no process reads it.
 */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	CHUNKS = 80, /* of the file; the node's own chunks are the first ones */
	KEEPS = 8,   /* the number of the node's own chunks */
	BUDGET = 40,
	WINDOW = 20, /* for one reader; the rest retains chunks: */
	STAYS = BUDGET - KEEPS - WINDOW,
	ROUNDS = 8,
};

static struct identity identity;

static int teardown(void **state)
{
	arena_close(*state);
	return 0;
}

static bool is_there(struct arena *arena, uint64_t chunk)
{
	return arena_present(arena, chunk * ARENA_BLOCKS, ARENA_BLOCKS);
}

static void bring(struct arena *arena, uint64_t chunk)
{
	assert_true(arena_claim(arena, chunk));
	assert_true(arena_reserve(arena, ARENA_BLOCKS));
	assert_true(
		arena_give_memory(arena, arena_bytes(arena) + chunk * ARENA_CHUNK, ARENA_CHUNK));
	arena_publish(arena, chunk * ARENA_BLOCKS, ARENA_BLOCKS);
	if (chunk < KEEPS)
		arena_keep(arena, chunk);
	arena_release(arena, chunk);
}

/* Goes over chunks. Returns how many were present. */
static unsigned go_over(struct arena *arena, uint64_t first, uint64_t end)
{
	unsigned found = 0;

	for (uint64_t chunk = first; chunk < end; chunk++) {
		found += is_there(arena, chunk);
		if (!is_there(arena, chunk))
			bring(arena, chunk);
		assert_true(arena_pin(arena, chunk));
		arena_touch(arena, chunk);
		arena_unpin(arena, chunk);
		assert_true(arena_used(arena) <= BUDGET * (uint64_t)ARENA_CHUNK);
	}
	return found;
}

static int setup(void **state)
{
	struct arena_options options = {
		.budget = BUDGET * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;

	identity = (struct identity){
		.device = 7,
		.inode = (uint64_t)getpid(),
		.size = CHUNKS * (uint64_t)ARENA_CHUNK,
		.snapshot = identity.snapshot + 1,
	};
	check(!arena_open(&arena, &identity, &options, &why));
	*state = arena;
	check(!arena_serve(arena, KEEPS, true));
	(void)go_over(arena, 0, KEEPS);
	return 0;
}

static void rounds_when_there_is_not_room_for_all_then_a_part_is_found(void **state)
{
	struct arena *arena = *state;

	assert_int_equal(go_over(arena, 0, CHUNKS), KEEPS);
	for (unsigned round = 1; round < ROUNDS; round++)
		assert_in_range(go_over(arena, 0, CHUNKS), KEEPS + STAYS, BUDGET);
	for (uint64_t chunk = 0; chunk < KEEPS; chunk++)
		assert_true(is_there(arena, chunk));
}

/* Half of the rounds go backwards: then the chunks used last are found as well. */
static void rounds_when_they_turn_then_no_less_is_found(void **state)
{
	struct arena *arena = *state;
	unsigned found;

	for (unsigned round = 0; round < ROUNDS; round++) {
		found = 0;
		(void)go_over(arena, KEEPS, CHUNKS);
		for (uint64_t chunk = CHUNKS; chunk-- > KEEPS;)
			found += go_over(arena, chunk, chunk + 1);
		assert_in_range(found, STAYS + WINDOW / 2, BUDGET);
	}
}

static void rounds_when_they_are_elsewhere_then_what_stayed_goes(void **state)
{
	const uint64_t half = CHUNKS / 2;
	struct arena *arena = *state;
	unsigned found = 0;

	for (unsigned round = 0; round < 3; round++)
		(void)go_over(arena, KEEPS, half);
	for (unsigned round = 0; round < 2 * ROUNDS; round++)
		found = go_over(arena, half, CHUNKS);
	assert_in_range(found, STAYS, half);
	for (uint64_t chunk = KEEPS; chunk < half; chunk++)
		assert_false(is_there(arena, chunk));
}

/* Pinned chunks cannot go. Retained chunks go before memory is refused. */
static void reserve_when_all_else_is_pinned_then_what_stayed_goes(void **state)
{
	struct arena *arena = *state;

	for (unsigned round = 0; round < 3; round++)
		(void)go_over(arena, KEEPS, CHUNKS);
	for (uint64_t chunk = 0, pinned = 0; pinned < BUDGET - KEEPS - 1;
	     chunk = (chunk + 1) % CHUNKS) {
		if (is_there(arena, chunk))
			continue;
		bring(arena, chunk);
		assert_true(arena_pin(arena, chunk));
		pinned++;
	}
	assert_true(arena_reserve(arena, ARENA_BLOCKS));
	arena_unreserve(arena, ARENA_BLOCKS);
}

static void share_when_served_then_leaves_what_stays_its_room(void **state)
{
	struct arena *arena = *state;

	assert_in_range(arena_share(arena), WINDOW / 2 * ARENA_CHUNK, WINDOW * ARENA_CHUNK);
}

/* If there is more room than one reader uses at a time, a quarter of it is for passing chunks. */
static void share_when_there_is_much_room_then_a_quarter_of_it(void **state)
{
	enum { MUCH = 1000, FILE_CHUNKS = 2000 };
	struct identity large = {
		.device = 7, .inode = identity.inode, .size = FILE_CHUNKS * (uint64_t)ARENA_CHUNK};
	struct arena_options options = {
		.budget = MUCH * (uint64_t)ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;

	arena_close(*state);
	assert_int_equal(arena_open(&arena, &large, &options, &why), 0);
	*state = arena;
	assert_int_equal(arena_serve(arena, KEEPS, true), 0);
	/* Four chunks of that quarter are for what the server has on its way. */
	assert_int_equal(arena_share(arena), ((MUCH - KEEPS) / 4 - 4) * (uint64_t)ARENA_CHUNK);
}

static void reserve_when_a_chunk_is_expected_then_what_was_used_goes(void **state)
{
	enum { ROOM = 4, FIRST = 20 };
	struct identity other = {
		.device = 7, .inode = identity.inode + 1, .size = CHUNKS * (uint64_t)ARENA_CHUNK};
	struct arena_options options = {
		.budget = ROOM * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;
	uint64_t chunk;

	(void)state;
	assert_int_equal(arena_open(&arena, &other, &options, &why), 0);
	arena_expect(arena, UINT64_MAX, 1);
	for (chunk = FIRST; chunk < FIRST + ROOM; chunk++)
		bring(arena, chunk);
	arena_expect(arena, FIRST, ARENA_CHUNK);
	for (chunk = FIRST + 1; chunk < FIRST + ROOM; chunk++)
		arena_touch(arena, chunk);
	for (; chunk < FIRST + 2 * ROOM - 1; chunk++) {
		bring(arena, chunk);
		assert_true(is_there(arena, FIRST));
	}
	for (unsigned i = 1; i < ROOM; i++)
		assert_false(is_there(arena, FIRST + i));
	/* Nothing has used the chunk: it goes when as much has come as memory holds. */
	for (; chunk < FIRST + 4 * ROOM; chunk++)
		bring(arena, chunk);
	assert_false(is_there(arena, FIRST));
	arena_close(arena);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		SERVED(rounds_when_there_is_not_room_for_all_then_a_part_is_found),
		SERVED(rounds_when_they_turn_then_no_less_is_found),
		SERVED(rounds_when_they_are_elsewhere_then_what_stayed_goes),
		SERVED(reserve_when_all_else_is_pinned_then_what_stayed_goes),
		SERVED(share_when_served_then_leaves_what_stays_its_room),
		SERVED(share_when_there_is_much_room_then_a_quarter_of_it),
		cmocka_unit_test(reserve_when_a_chunk_is_expected_then_what_was_used_goes),
	};

	alarm(300); /* a hang counts as a failure */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
