/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what else may happen while a process drops arenas that others have left: its program ends,
 * it forks, or it needs even more room.
 *
 * These tests read no data set, so none has to exist. At a step of the arena, a hook of the test
 * does what another thread might do.
 */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { BUDGET = 20, SMALL = 8, LARGE = 16 /* chunks */ };

static uint64_t snapshot; /* of this test's data sets */

/* --- data sets ---------------------------------------------------------------------------------- */

static struct arena *open_set(unsigned number, unsigned chunks)
{
	struct dataset set = {.identity = {.device = 7,
					   .inode = number,
					   .size = chunks * (uint64_t)ARENA_CHUNK,
					   .snapshot = snapshot}};

	return child_open(&set, BUDGET);
}

/* Opens a data set, brings its missing chunks and closes it. Returns how many chunks were
 * missing. */
static unsigned visit(unsigned number, unsigned chunks)
{
	struct arena *arena = open_set(number, chunks);
	unsigned brought = 0;

	for (uint64_t chunk = 0; chunk < chunks; chunk++) {
		if (arena_present(arena, chunk * ARENA_BLOCKS, ARENA_BLOCKS))
			continue;
		check(arena_claim(arena, chunk) && arena_reserve(arena, ARENA_BLOCKS));
		check(arena_give_memory(arena, arena_bytes(arena) + chunk * ARENA_CHUNK,
					ARENA_CHUNK));
		arena_publish(arena, chunk * ARENA_BLOCKS, ARENA_BLOCKS);
		arena_release(arena, chunk);
		brought++;
	}
	arena_close(arena);
	return brought;
}

static void visit_in_child(struct control *control, unsigned number)
{
	atomic_store(&control->reads, visit(number / 256, number % 256));
}

/* The same in a worker. */
static unsigned brings(struct control *control, unsigned number, unsigned chunks)
{
	check(!child_wait(child_start(control, visit_in_child, number * 256 + chunks)));
	return (unsigned)atomic_load(&control->reads);
}

/* --- the end ------------------------------------------------------------------------------------ */

static unsigned met; /* how often the hook's step was reached */

static void end_keeper(const char *step)
{
	if (strcmp(step, "kept-taken"))
		return;
	met++;
	arena_keeper_end();
}

static void drop_and_end(struct control *control, unsigned number)
{
	(void)control;
	(void)number;
	step_taken = end_keeper;
	check(visit(1, SMALL) == SMALL); /* of the next snapshot: the older one's goes */
	step_taken = NULL;
	check(met == 3); /* the older snapshot's, the other set's, and this arena */
	check(keeper_is_there());
	arena_keeper_end();
	check(!keeper_is_there());
}

static void end_one_that_drops(struct control *control, unsigned number)
{
	(void)number;
	check(brings(control, 1, 2) == 2 && brings(control, 2, 2) == 2);
	snapshot++;
	check(!child_wait(child_start(control, drop_and_end, 0)));
	check(!brings(control, 1, SMALL)); /* has been put back */
	snapshot--;
	check(!brings(control, 2, 2));
	check(brings(control, 1, 2) == 2); /* has been dropped */
}

static void process_when_it_ends_while_it_drops_one_then_the_others_stay(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), end_one_that_drops, 0), 0);
}

/* --- a fork ------------------------------------------------------------------------------------- */

/* Counts this process's descriptors of the small set's arena. Only memfds have seals. */
static unsigned descriptors_of_small(void)
{
	const off_t least = SMALL * ARENA_CHUNK, most = LARGE * ARENA_CHUNK;
	unsigned count = 0;
	struct stat st;

	for (int fd = 3; fd < 2048; fd++)
		count += fcntl(fd, F_GET_SEALS) > 0 && !fstat(fd, &st) && st.st_size > least &&
			 st.st_size < most;
	return count;
}

static void fork_meanwhile(const char *step)
{
	pid_t pid;

	if (strcmp(step, "evict-claimed") || met++)
		return;
	check(descriptors_of_small() > 0);
	pid = fork();
	if (!pid) {
		/* Otherwise the shrinking process's row would live as long as this one. */
		check(!descriptors_of_small());
		_exit(0);
	}
	check(!child_wait(pid));
}

static void shrink_and_fork(struct control *control, unsigned number)
{
	(void)control;
	(void)number;
	step_taken = fork_meanwhile;
	check(visit(2, LARGE) == LARGE);
	check(met > 1);
}

static void fork_as_one_shrinks(struct control *control, unsigned number)
{
	unsigned again;

	(void)number;
	check(brings(control, 1, SMALL) == SMALL);
	check(!child_wait(child_start(control, shrink_and_fork, 0)));
	check(!brings(control, 2, LARGE));
	again = brings(control, 1, SMALL);
	check(again >= SMALL + LARGE - BUDGET && again < SMALL);
}

static void child_when_forked_while_a_part_goes_then_has_nothing_of_that_arena(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), fork_as_one_shrinks, 0), 0);
}

/* --- more room ---------------------------------------------------------------------------------- */

static struct arena *fitted;

/* Gives up what others have left until `left` chunks are kept. */
static void fit(unsigned left)
{
	keeper_fit(fitted, BUDGET * ARENA_BLOCKS, (BUDGET - left) * ARENA_BLOCKS);
}

static void fit_meanwhile(const char *step)
{
	if (!strcmp(step, "evict-claimed") && !met++)
		fit(SMALL / 2);
}

static void fit_twice(struct control *control, unsigned number)
{
	(void)control;
	(void)number;
	fitted = open_set(9, 2);
	step_taken = fit_meanwhile;
	fit(SMALL + SMALL / 2);
	step_taken = NULL;
	check(met > 1);
	arena_close(fitted);
}

/* A part of the first set's arena goes. A part of the second one's would be enough as well, but all
 * of it goes, because a process attaches to only one arena at a time in order to shrink it. */
static void fit_as_one_shrinks(struct control *control, unsigned number)
{
	unsigned again;

	(void)number;
	check(brings(control, 1, SMALL) == SMALL && brings(control, 2, SMALL) == SMALL);
	check(!child_wait(child_start(control, fit_twice, 0)));
	again = brings(control, 1, SMALL);
	check(again >= SMALL / 2 && again < SMALL);
	check(brings(control, 2, SMALL) == SMALL);
}

static void set_when_another_shrinks_meanwhile_then_goes_as_a_whole(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), fit_as_one_shrinks, 0), 0);
}

/* Uses other data sets than the previous test and than any other run of the tests. */
static int set_begin(void **state)
{
	(void)state;
	snapshot += 2;
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(process_when_it_ends_while_it_drops_one_then_the_others_stay,
				       set_begin),
		cmocka_unit_test_setup(
			child_when_forked_while_a_part_goes_then_has_nothing_of_that_arena,
			set_begin),
		cmocka_unit_test_setup(set_when_another_shrinks_meanwhile_then_goes_as_a_whole,
				       set_begin),
	};

	snapshot = (uint64_t)getpid() << 16;
	alarm(300); /* a hang is a failure */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
