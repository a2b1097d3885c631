/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how the arenas of a node divide its memory. */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { BUDGET = 100, LEAST = 16 }; /* chunks */

static const uint64_t patience = UINT64_C(20000000000); /* ns */
static const uint8_t block[ARENA_BLOCK] = {1};

/* Opens an arena of a data set that need not exist, because no process reads it. */
static struct arena *open_with(uint64_t number, uint64_t chunks, struct arena_options options)
{
	struct identity identity = {.device = 7, .inode = number, .size = chunks * ARENA_CHUNK};
	struct arena *arena;
	const char *why;

	options.share = true;
	assert_int_equal(arena_open(&arena, &identity, &options, &why), 0);
	assert_null(why);
	return arena;
}

static struct arena *open_sized(uint64_t number, uint64_t chunks, uint64_t budget, const char *node)
{
	return open_with(number, chunks,
			 (struct arena_options){.budget = budget * ARENA_CHUNK, .node = node});
}

static struct arena *open_set(uint64_t number, uint64_t chunks)
{
	return open_sized(number, chunks, BUDGET, test_node());
}

static uint64_t used(const struct arena *arena)
{
	return arena_used(arena) / ARENA_CHUNK;
}

/* Brings one chunk. Returns false if there is no room for it. */
static bool bring(struct arena *arena, uint64_t chunk)
{
	bool room;

	assert_true(arena_claim(arena, chunk));
	room = arena_reserve(arena, ARENA_BLOCKS);
	if (room) {
		for (uint64_t i = 0; i < ARENA_BLOCKS; i++)
			assert_int_equal(arena_fill(arena, chunk * ARENA_CHUNK + i * ARENA_BLOCK,
						    block, ARENA_BLOCK),
					 0);
		arena_publish(arena, chunk * ARENA_BLOCKS, ARENA_BLOCKS);
	}
	arena_release(arena, chunk);
	return room;
}

static void bring_all(struct arena *arena)
{
	for (uint64_t chunk = 0; chunk < arena_chunks(arena); chunk++)
		assert_true(bring(arena, chunk));
}

/* Waits until the limit is this one: an arena looks at the others' use four times a second. */
static void limit_becomes(struct arena *arena, uint64_t chunks)
{
	uint64_t end = clock_now() + patience;

	do {
		purse_refresh(arena);
	} while (arena_budget(arena) / ARENA_CHUNK != chunks && clock_now() < end);
	assert_int_equal(arena_budget(arena) / ARENA_CHUNK, chunks);
}

/* Two arenas want more than there is, so each gets half. */
static void halve_and_close(struct arena *one, struct arena *two)
{
	limit_becomes(one, BUDGET / 2);
	limit_becomes(two, BUDGET / 2);
	arena_close(one);
	arena_close(two);
}

static void limit_when_alone_then_the_budget(void **state)
{
	struct arena *arena = open_set(1, 1000);

	(void)state;
	assert_int_equal(arena_budget(arena), BUDGET * (uint64_t)ARENA_CHUNK);
	arena_close(arena);
}

static void limit_when_two_want_more_then_half_each(void **state)
{
	struct arena *one = open_set(1, 1000), *two = open_set(2, 1000);

	(void)state;
	limit_becomes(one, BUDGET / 2);
	limit_becomes(two, BUDGET / 2);
	arena_close(one);
	limit_becomes(two, BUDGET);
	arena_close(two);
}

static void limit_when_one_needs_little_then_the_rest_is_the_others(void **state)
{
	struct arena *small = open_set(1, 10), *two = open_set(2, 1000), *three = open_set(3, 1000);

	(void)state;
	limit_becomes(two, (BUDGET - 10) / 2);
	limit_becomes(three, (BUDGET - 10) / 2);
	limit_becomes(small, (BUDGET - 10) / 2); /* more than it can use */
	arena_close(small);
	arena_close(two);
	arena_close(three);
}

/* As the files of writers with MDB_WRITEMAP, which are as long as the map. */
static void limit_when_a_long_file_has_few_data_then_the_rest_is_the_others(void **state)
{
	struct arena_options options = {.budget = BUDGET * (uint64_t)ARENA_CHUNK,
					.data = 9 * (uint64_t)ARENA_CHUNK + 1,
					.node = test_node()};
	struct arena *sparse = open_with(1, 1000000, options), *two = open_set(2, 1000);

	(void)state;
	limit_becomes(two, BUDGET - 10);
	arena_close(sparse);
	arena_close(two);
}

static void limit_when_others_have_all_then_a_little(void **state)
{
	struct arena *one = open_set(1, BUDGET), *two;

	(void)state;
	bring_all(one);
	two = open_set(2, 1000);
	limit_becomes(two, LEAST);
	for (uint64_t chunk = 0; chunk < 2 * LEAST; chunk++)
		assert_true(bring(two, chunk));
	assert_int_equal(used(two), LEAST);
	assert_int_equal(used(one), BUDGET);
	arena_close(one);
	arena_close(two);
}

static void limit_when_others_are_many_then_an_even_part(void **state)
{
	enum { SETS = 8 };
	struct arena *one = open_set(1, BUDGET), *others[SETS - 1];

	(void)state;
	bring_all(one);
	for (unsigned i = 0; i < SETS - 1; i++)
		others[i] = open_set(2 + i, 1000);
	for (unsigned i = 0; i < SETS - 1; i++)
		limit_becomes(others[i], BUDGET / SETS);
	for (unsigned i = 0; i < SETS - 1; i++)
		arena_close(others[i]);
	arena_close(one);
}

static void arena_when_it_is_above_its_share_then_shrinks_as_it_reads(void **state)
{
	struct arena *one = open_set(1, 300), *two;
	uint64_t chunk = 0;

	(void)state;
	for (; chunk < BUDGET; chunk++)
		assert_true(bring(one, chunk));
	two = open_set(2, 1000);
	limit_becomes(one, BUDGET / 2);
	assert_true(bring(one, chunk++));
	assert_int_equal(used(one), BUDGET - 1);
	for (; chunk < 2 * BUDGET; chunk++)
		assert_true(bring(one, chunk));
	assert_int_equal(used(one), BUDGET / 2);
	limit_becomes(two, BUDGET / 2);
	arena_close(one);
	arena_close(two);
}

static void budget_when_they_differ_then_the_largest_is_divided(void **state)
{
	struct arena *one = open_sized(1, 1000, BUDGET, test_node());
	struct arena *two = open_sized(2, 1000, 4 * BUDGET, test_node());

	(void)state;
	limit_becomes(one, BUDGET);
	limit_becomes(two, 3 * BUDGET);
	arena_close(one);
	arena_close(two);
}

static void node_when_it_is_another_then_another_budget(void **state)
{
	struct arena *one = open_set(1, 1000), *two = open_sized(2, 1000, BUDGET, "another");

	(void)state;
	limit_becomes(one, BUDGET);
	limit_becomes(two, BUDGET);
	arena_close(one);
	arena_close(two);
}

static void arena_when_opened_twice_then_counts_once(void **state)
{
	struct arena *one = open_set(1, 1000), *again = open_set(1, 1000), *two = open_set(2, 1000);

	(void)state;
	limit_becomes(one, BUDGET / 2);
	arena_close(again);
	halve_and_close(one, two);
}

/* Starts a child that has a data set of its own and all of the memory, until it is told to end. */
static pid_t start_child(int *told)
{
	int ready[2], end[2];
	struct arena *arena;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready) | pipe(end), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(end[1]);
		arena = open_set(9, BUDGET);
		bring_all(arena);
		purse_refresh(arena);
		if (write(ready[1], "r", 1) != 1 || read(end[0], &byte, 1) < 0)
			_exit(1);
		arena_close(arena);
		_exit(0);
	}
	close(ready[1]);
	close(end[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*told = end[1];
	return pid;
}

static void process_when_it_has_all_then_others_have_a_little_until_it_ends(void **state)
{
	int told, status;
	pid_t child = start_child(&told);
	struct arena *arena = open_set(1, 1000);

	(void)state;
	limit_becomes(arena, LEAST);
	close(told);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	limit_becomes(arena, BUDGET);
	arena_close(arena);
}

static void process_when_it_is_killed_then_its_part_is_free(void **state)
{
	int told;
	pid_t child = start_child(&told);
	struct arena *arena = open_set(1, 1000);

	(void)state;
	limit_becomes(arena, LEAST);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(told);
	limit_becomes(arena, BUDGET);
	arena_close(arena);
}

/* Dies at its first claim, which is the claim under which lines are given out. */
static void killed_at_its_claim(struct control *control, unsigned number)
{
	(void)control;
	child_die_at("claimed", 0);
	arena_close(open_set(number, 1000));
}

static void lines_when_who_gives_them_out_is_killed_then_stay(void **state)
{
	struct arena *one = open_set(1, 1000), *two;

	(void)state;
	assert_int_equal(child_wait(child_start(child_control(), killed_at_its_claim, 9)), SIGKILL);
	two = open_set(2, 1000);
	halve_and_close(one, two);
}

static void purse_when_its_maker_is_killed_then_is_there(void **state)
{
	pid_t child = child_start(child_control(), killed_at_its_claim, 9);
	struct arena *one, *two;

	(void)state;
	assert_int_equal(child_wait(child), SIGKILL);
	one = open_set(1, 1000);
	two = open_set(2, 1000);
	halve_and_close(one, two);
}

static void stopped_at_its_claim(struct control *control, unsigned number)
{
	(void)control;
	child_stop_at("claimed");
	arena_close(open_set(number, 1000));
}

/* Asserts the limit of an arena without a line: no more than an even part if there were only
 * `arenas`. */
static void assert_even_part(const struct arena *arena, unsigned arenas)
{
	assert_int_equal(arena->line, -1);
	assert_in_range(arena_budget(arena), ARENA_PAIR * ARENA_CHUNK,
			BUDGET / arenas * (uint64_t)ARENA_CHUNK);
}

static void lines_when_who_gives_them_out_is_stopped_then_an_arena_has_none(void **state)
{
	struct arena *one = open_set(1, 1000), *two, *three;
	pid_t child = child_start(child_control(), stopped_at_its_claim, 9);

	(void)state;
	child_wait_stopped(child);
	two = open_set(2, 1000);
	assert_even_part(two, 2);
	kill(child, SIGKILL);
	assert_int_equal(child_wait(child), SIGKILL);
	three = open_set(3, 1000);
	assert_int_not_equal(three->line, -1);
	arena_close(two);
	halve_and_close(one, three);
}

/* With more arenas than lines, the last arena has no line until another is closed. */
static void lines_when_all_are_taken_then_the_next_arena_has_none(void **state)
{
	enum { LINES = 512 };
	struct identity identity = {.device = 7, .inode = 1, .size = ARENA_CHUNK};
	struct arena_options options = {.budget = BUDGET * ARENA_CHUNK, .node = test_node()};
	struct arena *arenas[LINES], *last;
	struct rlimit descriptors;
	bool taken[LINES] = {false};
	const char *why;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
	descriptors.rlim_cur = descriptors.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
	if (descriptors.rlim_cur < 2 * LINES)
		skip();
	for (unsigned i = 0; i < LINES; i++) {
		assert_int_equal(arena_open(&arenas[i], &identity, &options, &why), 0);
		assert_in_range(arenas[i]->line, 0, LINES - 1);
		assert_false(taken[arenas[i]->line]);
		taken[arenas[i]->line] = true;
	}
	assert_int_equal(arena_open(&last, &identity, &options, &why), 0);
	assert_even_part(last, LINES < BUDGET / ARENA_PAIR ? LINES : BUDGET / ARENA_PAIR);
	arena_close(last);
	arena_close(arenas[7]);
	assert_int_equal(arena_open(&arenas[7], &identity, &options, &why), 0);
	assert_int_not_equal(arenas[7]->line, -1);
	for (unsigned i = 0; i < LINES; i++)
		arena_close(arenas[i]);
}

/* Each thread opens its own data set again and again: the purse comes and goes with the arenas. */
static void *open_often(void *number)
{
	for (int i = 0; i < 20; i++)
		arena_close(open_set((uint64_t)(uintptr_t)number, 1000));
	return NULL;
}

static void arenas_when_threads_open_them_at_once_then_each_has_its_part(void **state)
{
	struct arena *one, *two;
	pthread_t threads[4];

	(void)state;
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_often, (void *)(20 + i)),
				 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	one = open_set(1, 1000);
	two = open_set(2, 1000);
	halve_and_close(one, two);
}

static void child_when_forked_then_counts_for_itself(void **state)
{
	struct arena *one = open_set(1, 1000), *two;
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		arena_forked(one);
		arena_close(one);
		one = open_set(1, 1000);
		two = open_set(2, 1000);
		halve_and_close(one, two);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	limit_becomes(one, BUDGET);
	arena_close(one);
}

static void memory_when_one_shares_with_nobody_then_counts_all_the_same(void **state)
{
	struct identity identity = {
		.device = 7, .inode = 2, .size = UINT64_C(1000) * ARENA_CHUNK};
	struct arena_options options = {.budget = BUDGET * ARENA_CHUNK, .node = test_node()};
	struct arena *one = open_set(1, 1000), *two;
	const char *why;

	(void)state;
	assert_int_equal(arena_open(&two, &identity, &options, &why), 0);
	halve_and_close(one, two);
}

/* Another user's memory that was passed to a process of this user is not an arena. */
static void memory_of_another_user_when_it_has_our_name_then_does_not_count(void **state)
{
	enum { FILES = 100, NOBODY = 65534 };
	unsigned before = arena_count();
	int files[FILES];

	(void)state;
	if (geteuid())
		skip();
	for (unsigned i = 0; i < FILES; i++) {
		files[i] = memfd_create("lmdbio", MFD_CLOEXEC);
		assert_true(files[i] >= 0);
		assert_int_equal(fchown(files[i], NOBODY, NOBODY), 0);
	}
	/* The range is wide because processes of other tests come and go. */
	assert_true(arena_count() < before + FILES / 2);
	for (unsigned i = 0; i < FILES; i++)
		close(files[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limit_when_alone_then_the_budget),
		cmocka_unit_test(limit_when_two_want_more_then_half_each),
		cmocka_unit_test(limit_when_one_needs_little_then_the_rest_is_the_others),
		cmocka_unit_test(limit_when_a_long_file_has_few_data_then_the_rest_is_the_others),
		cmocka_unit_test(limit_when_others_have_all_then_a_little),
		cmocka_unit_test(limit_when_others_are_many_then_an_even_part),
		cmocka_unit_test(arena_when_it_is_above_its_share_then_shrinks_as_it_reads),
		cmocka_unit_test(budget_when_they_differ_then_the_largest_is_divided),
		cmocka_unit_test(node_when_it_is_another_then_another_budget),
		cmocka_unit_test(arena_when_opened_twice_then_counts_once),
		cmocka_unit_test(process_when_it_has_all_then_others_have_a_little_until_it_ends),
		cmocka_unit_test(process_when_it_is_killed_then_its_part_is_free),
		cmocka_unit_test(lines_when_who_gives_them_out_is_killed_then_stay),
		cmocka_unit_test(purse_when_its_maker_is_killed_then_is_there),
		cmocka_unit_test(lines_when_who_gives_them_out_is_stopped_then_an_arena_has_none),
		cmocka_unit_test(lines_when_all_are_taken_then_the_next_arena_has_none),
		cmocka_unit_test(arenas_when_threads_open_them_at_once_then_each_has_its_part),
		cmocka_unit_test(child_when_forked_then_counts_for_itself),
		cmocka_unit_test(memory_when_one_shares_with_nobody_then_counts_all_the_same),
		cmocka_unit_test(memory_of_another_user_when_it_has_our_name_then_does_not_count),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
