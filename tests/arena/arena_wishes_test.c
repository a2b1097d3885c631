/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how members' wishes reach the server, and what happens to them when there are too many, or
 * when the server refuses, sleeps, or dies. */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHUNKS = 4 * ARENA_WISHES, BUDGET = 8, HANG = 300000 /* ms */ };

static struct identity identity;

static struct arena *member(bool share)
{
	struct arena_options options = {
		.budget = BUDGET * ARENA_CHUNK, .share = share, .node = test_node()};
	struct arena *arena;
	const char *why;

	check(!arena_open(&arena, &identity, &options, &why));
	return arena;
}

struct node {
	struct arena *server, *one, *two;
};

static int setup(void **state)
{
	static struct node node;

	identity = (struct identity){
		.device = 7,
		.inode = (uint64_t)getpid(),
		.size = CHUNKS * (uint64_t)ARENA_CHUNK,
		.snapshot = identity.snapshot + 1,
	};
	node = (struct node){member(true), member(true), member(true)};
	*state = &node;
	return arena_serve(node.server, 0, false);
}

static int teardown(void **state)
{
	struct node *node = *state;

	arena_close(node->one);
	arena_close(node->two);
	arena_close(node->server);
	return 0;
}

static void assert_next(struct arena *server, uint64_t chunk, bool urgent)
{
	uint64_t found = UINT64_MAX;
	bool found_urgent = !urgent;

	assert_true(arena_wish_next(server, &found, &found_urgent));
	assert_int_equal(found, chunk);
	assert_int_equal(found_urgent, urgent);
}

static void assert_none(struct arena *server)
{
	uint64_t chunk;
	bool urgent;

	assert_false(arena_wish_next(server, &chunk, &urgent));
}

static bool is_served(const struct arena *arena, uint64_t chunk)
{
	bool whole;

	return arena_is_served(arena, chunk, &whole);
}

static void wishes_when_of_several_members_then_taken_in_turn(void **state)
{
	struct node *node = *state;

	assert_none(node->server);
	(void)arena_wish(node->one, 3, false);
	(void)arena_wish(node->one, 4, true);
	(void)arena_wish(node->two, 9, true);
	assert_next(node->server, 3, false);
	assert_next(node->server, 9, true);
	assert_next(node->server, 4, true);
	assert_none(node->server);
	/* A wish that becomes urgent is reported again. */
	(void)arena_wish(node->one, 5, false);
	(void)arena_wish(node->one, 5, true);
	assert_next(node->server, 5, false);
	assert_next(node->server, 5, true);
}

static void wishes_when_there_are_too_many_then_some_are_lost_and_no_more(void **state)
{
	struct node *node = *state;

	for (uint64_t chunk = 0; chunk < ARENA_WISHES + 10; chunk++)
		(void)arena_wish(node->one, chunk, false);
	(void)arena_wish(node->two, 1, true);
	for (uint64_t chunk = 0; chunk < ARENA_WISHES; chunk++) {
		if (chunk == 1)
			assert_next(node->server, 1, true);
		assert_next(node->server, chunk, false);
	}
	assert_none(node->server);
	(void)arena_wish(node->one, CHUNKS - 1, false);
	assert_next(node->server, CHUNKS - 1, false);
}

/* The program has put a file of its own in the descriptor's place. */
static void member_when_it_cannot_wish_then_it_reads_for_itself(void **state)
{
	struct node *node = *state;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), kept = dup(node->one->file.fd);

	assert_true(is_served(node->one, 3));
	assert_int_equal(dup2(fd, node->one->file.fd), node->one->file.fd);
	assert_false(arena_wish(node->one, 3, true));
	assert_false(is_served(node->one, 3));
	assert_int_equal(dup2(kept, node->one->file.fd), node->one->file.fd);
	close(fd);
	close(kept);
}

/* Whatever a member has written into its wishes, the server goes on. */
static void wishes_when_they_make_no_sense_then_passed_over(void **state)
{
	struct node *node = *state;
	struct arena_wishes *ring = &node->one->wishes[node->one->row];

	(void)arena_wish(node->one, CHUNKS, false);
	(void)arena_wish(node->one, 6, false);
	assert_next(node->server, 6, false);
	assert_none(node->server);
	atomic_store(&ring->in, atomic_load(&ring->out) + 5 * ARENA_WISHES);
	for (unsigned i = 0; i < ARENA_WISHES; i++)
		atomic_store(&ring->wishes[i], UINT64_MAX);
	assert_none(node->server);
	(void)arena_wish(node->one, 8, false);
	assert_next(node->server, 8, false);
}

static void server_when_another_lives_then_ebusy(void **state)
{
	struct node *node = *state;
	struct arena *alone = member(false);

	assert_int_equal(arena_serve(node->one, 0, false), EBUSY);
	assert_true(is_served(node->one, 0));
	assert_false(is_served(node->server, 0));
	arena_close(node->server);
	assert_false(is_served(node->one, 0));
	assert_int_equal(arena_serve(node->one, 0, true), 0);
	assert_int_equal(arena_serve(node->one, 0, true), 0);
	assert_true(is_served(node->two, 0));
	node->server = member(true);
	assert_int_equal(arena_serve(alone, 0, false), ENOTSUP);
	arena_close(alone);
}

static void chunk_when_refused_then_the_next_claim_uses_that_up(void **state)
{
	struct node *node = *state;

	(void)arena_wish(node->one, 7, true);
	arena_answer(node->server, 7, true);
	assert_false(is_served(node->one, 7));
	assert_true(is_served(node->one, 8));
	assert_true(arena_wish_wait(node->one, 7, HANG));
	assert_true(arena_claim(node->one, 7));
	assert_true(is_served(node->two, 7));
	arena_release(node->one, 7);
}

static void waiter_when_it_has_not_wished_or_all_is_there_then_goes_on(void **state)
{
	static const uint8_t block[ARENA_BLOCK] = {1};
	struct node *node = *state;

	assert_true(arena_wish_wait(node->one, 2, HANG));
	(void)arena_wish(node->one, 2, true);
	assert_false(arena_wish_wait(node->one, 2, 1));
	assert_true(arena_claim(node->server, 2));
	assert_true(arena_reserve(node->server, ARENA_BLOCKS));
	for (uint64_t i = 0; i < ARENA_BLOCKS; i++)
		assert_int_equal(arena_fill(node->server, 2 * ARENA_CHUNK + i * ARENA_BLOCK, block,
					    sizeof(block)),
				 0);
	arena_publish(node->server, 2 * ARENA_BLOCKS, ARENA_BLOCKS - 1);
	assert_false(arena_wish_wait(node->one, 2, 1));
	arena_publish(node->server, 3 * ARENA_BLOCKS - 1, 1);
	arena_release(node->server, 2);
	assert_true(arena_wish_wait(node->one, 2, HANG));
}

static void server_when_asleep_then_one_wish_wakes_it(void **state)
{
	struct node *node = *state;

	(void)arena_wish(node->one, 3, false);
	assert_false(arena_serve_sleeps(node->server, true));
	assert_next(node->server, 3, false);
	assert_true(arena_serve_sleeps(node->server, true));
	assert_true(arena_wish(node->one, 4, false));
	assert_false(arena_wish(node->two, 5, false));
	assert_true(arena_serve_sleeps(node->server, false));
	assert_false(arena_wish(node->one, 6, false));
}

static void serve(struct control *control, unsigned number)
{
	struct arena *arena = member(true);

	(void)number;
	check(!arena_serve(arena, 0, false));
	atomic_store(&control->arrived, 1);
	for (;;)
		pause();
}

static void waiter_when_the_server_is_killed_then_goes_on(void **state)
{
	struct node *node = *state;
	struct control *control = child_control();
	pid_t pid;

	arena_close(node->server);
	pid = child_start(control, serve, 0);
	while (!atomic_load(&control->arrived))
		sched_yield();
	(void)arena_wish(node->one, 9, true);
	assert_false(arena_wish_wait(node->one, 9, 1));
	kill(pid, SIGKILL);
	assert_true(arena_wish_wait(node->one, 9, HANG));
	assert_int_equal(child_wait(pid), SIGKILL);
	assert_int_equal(arena_serve(node->two, 0, false), 0);
	node->server = member(true);
}

/* Only a stray store can leave such a server. */
static void server_that_is_no_row_is_replaced(void **state)
{
	static const uint32_t words[] = {ARENA_ROWS - 2, SERVER_WHOLE, 0xff00 << 8};
	struct node *node = *state;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		atomic_store(&node->server->head->server, words[i]);
		assert_int_equal(arena_serve(node->one, 0, false), 0);
		assert_int_equal(atomic_load(&node->server->head->server), node->one->row);
	}
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		SERVED(server_that_is_no_row_is_replaced),
		SERVED(wishes_when_of_several_members_then_taken_in_turn),
		SERVED(wishes_when_there_are_too_many_then_some_are_lost_and_no_more),
		SERVED(member_when_it_cannot_wish_then_it_reads_for_itself),
		SERVED(wishes_when_they_make_no_sense_then_passed_over),
		SERVED(server_when_another_lives_then_ebusy),
		SERVED(chunk_when_refused_then_the_next_claim_uses_that_up),
		SERVED(waiter_when_it_has_not_wished_or_all_is_there_then_goes_on),
		SERVED(server_when_asleep_then_one_wish_wakes_it),
		SERVED(waiter_when_the_server_is_killed_then_goes_on),
	};

	alarm(300); /* a hang counts as a failure */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
