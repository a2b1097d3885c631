/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a forked child's window shows. */
#include "store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Whether `holds` returns true in a forked child, with the store prepared as an environment's fork
 * does. */
static bool holds_in_a_child(struct store *store, bool (*holds)(struct store *store))
{
	pid_t child;
	int status;

	store_hold(store);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		store_forked(store);
		store_release(store);
		_exit(!holds(store));
	}
	store_release(store);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return !WEXITSTATUS(status);
}

static bool counts_the_parent_alone(struct store *store)
{
	return !store_bring(store, ARENA_CHUNK, ARENA_BLOCK) && store->arena &&
	       store_scanners(store) == 1;
}

static void child_when_its_parent_goes_in_steps_then_it_does_not(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
	store_step(store, 1);
	assert_int_equal(store_scanners(store), 1);
	assert_true(holds_in_a_child(store, counts_the_parent_alone));
	store_step(store, -1);
}

static bool has_an_arena(struct store *store)
{
	return !store_bring(store, ARENA_CHUNK, ARENA_BLOCK) && store->arena &&
	       store_shows(store, ARENA_CHUNK, ARENA_CHUNK) &&
	       store->file.base[ARENA_CHUNK] == byte_at(ARENA_CHUNK);
}

static void child_when_its_parent_makes_a_copy_then_it_has_an_arena(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_CHUNK), 0);
	assert_int_equal(store_pause(store), 0);
	assert_true(holds_in_a_child(store, has_an_arena));
	assert_false(store_knows(store));
	store_resume(store);
	assert_true(store_knows(store));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			child_when_its_parent_goes_in_steps_then_it_does_not, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			child_when_its_parent_makes_a_copy_then_it_has_an_arena, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
