/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what happens to the other processes when a process of the node is killed or stopped at any
 * step of its work with the arena.
 *
 * With TESTS_LONG=1 ten thousand processes are killed at random, otherwise 1,200, or 120 with a
 * sanitizer, which makes a process's start expensive.
 */
#include "arena_workers.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef __SANITIZE_ADDRESS__
enum { KILLS = 60 };
#else
enum { KILLS = 1200 };
#endif

enum { CHUNKS = 48 };

/* --- killed --------------------------------------------------------------------------------- */

static const char *const steps[] = {
	"bound",           "listening",       "attached",     "stamped",       "settled",
	"claimed",         "reserve-counted", "reserved",     "half-read",     "read",
	"publish-counted", "published",       "releasing",    "released",      "pinning",
	"pinned",          "using",           "evict-chosen", "evict-claimed", "evict-cleared",
	"evict-punched",   "evict-counted",   "bury-claims",  "bury-pins",
};
enum { STEPS = sizeof(steps) / sizeof(steps[0]), VICTIMS = 6, SURVIVORS = 2, BUDGET = 10 };

static void use_for_ever(struct control *control, struct arena *arena)
{
	struct reader reader;

	child_reader(&reader, arena, &worker_data, control);
	reader.patience = 150;
	while (!atomic_load(&control->stop)) {
		unsigned block = (unsigned)reader_random(&reader) % 128;
		uint64_t begun = clock_now(), took;

		reader_use(&reader, reader_random(&reader) % CHUNKS, block,
			   1 + (unsigned)reader_random(&reader) % 128);
		took = clock_now() - begun;
		if (took > atomic_load(&control->slowest))
			atomic_store(&control->slowest, took);
		atomic_fetch_add(&control->uses, 1);
	}
	reader_end(&reader);
}

/* `number`: in the low byte the step to die at (STEPS: none), above it how often to pass it
 * before. */
static void be_killed(struct control *control, unsigned number)
{
	if (number % 256 < STEPS) {
		child_die_at(steps[number % 256], number / 256);
		alarm(300); /* a step that is never reached counts as a failure */
	} else {
		child_yield_at_steps();
	}
	use_for_ever(control, child_open(&worker_data, BUDGET));
}

static void survive(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);

	(void)number;
	child_yield_at_steps();
	use_for_ever(control, arena);
	arena_close(arena);
}

/* When no process works, the accounts and the memory are exact. */
static void assert_accounts_are_right(struct arena *arena)
{
	uint64_t published = 0;

	(void)arena_bury_dead(arena);
	(void)arena_recount(arena);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		published += arena_published(&arena->groups[0], chunk);
		assert_true(arena_claim(arena, chunk));
		arena_release(arena, chunk);
	}
	assert_int_equal(arena_used(arena), published * ARENA_BLOCK);
	assert_int_equal(arena_memory(arena), arena_used(arena));
	assert_int_equal(arena_members(arena), 1);
}

static void kill_at_random(struct control *control, unsigned kills)
{
	uint64_t random = clock_now();
	pid_t pids[VICTIMS] = {0};

	for (unsigned done = 0; done < kills;) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407U;
		for (unsigned i = 0; i < VICTIMS; i++)
			if (!pids[i])
				pids[i] =
					child_start(control, be_killed,
						    (unsigned)(random >> 33) % (STEPS + 6) +
							    256 * ((unsigned)(random >> 50) % 60));
		/* Kills any of the victims, at any time. */
		if (random >> 61 == 0 && pids[(random >> 40) % VICTIMS])
			kill(pids[(random >> 40) % VICTIMS], SIGKILL);
		for (unsigned i = 0; i < VICTIMS; i++)
			if (pids[i] && child_has_ended(pids[i])) {
				pids[i] = 0;
				done++;
			}
		sched_yield();
	}
	for (unsigned i = 0; i < VICTIMS; i++)
		child_kill(pids[i]);
}

static void survivors_when_others_are_killed_at_every_step_then_right_bytes(void **state)
{
	unsigned kills = getenv("TESTS_LONG") ? 10000 : KILLS;
	struct arena *key = child_key(&worker_data, CHUNKS), *arena;
	struct control *control = child_control();
	uint64_t inode;

	(void)state;
	arena = child_open(&worker_data, BUDGET);
	inode = arena_inode(arena);
	for (unsigned i = 0; i < SURVIVORS; i++)
		(void)child_start(control, survive, i);
	kill_at_random(control, kills);
	atomic_store(&control->stop, 1);
	assert_int_equal(child_failures(), 0);
	print_message("%u killed, %llu uses, %llu past the arena, slowest %.0f ms\n", kills,
		      (unsigned long long)control->uses, (unsigned long long)control->direct,
		      (double)control->slowest / 1e6);
	assert_int_equal(control->wrong, 0);
	assert_true(control->uses > kills);
	assert_accounts_are_right(arena);
	arena_close(arena);
	assert_true(nothing_left(key, inode));
	free(key);
}

/* Chunks that a dead process had pinned may go. */
static void pin_all(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);
	struct reader reader;

	(void)number;
	child_reader(&reader, arena, &worker_data, control);
	for (uint64_t chunk = 0; chunk < BUDGET; chunk++) {
		reader_use(&reader, chunk, 0, ARENA_BLOCKS);
		check(arena_pin(arena, chunk));
	}
	check(!arena_reserve(arena, 1));
	kill(getpid(), SIGKILL);
}

static void pins_when_their_process_is_dead_then_no_obstacle(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&worker_data, BUDGET);

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(child_wait(child_start(control, pin_all, 0)), SIGKILL);
	assert_true(arena_reserve(arena, BUDGET * ARENA_BLOCKS));
	assert_int_equal(arena_used(arena), BUDGET * ARENA_CHUNK);
	arena_close(arena);
}

/* A process is killed at each step in turn, and a survivor goes on with the state that it leaves.
 * The survivor never waits for its full patience of a fifth of a second: then it would read past
 * the arena. */
static void survivor_when_one_is_killed_at_a_step_then_goes_on_without_a_wait(void **state)
{
	struct control *control = child_control();

	(void)state;
	for (unsigned step = 0; step < STEPS; step++) {
		struct arena *arena =
			strcmp(steps[step], "stamped") && strcmp(steps[step], "settled")
				? child_open(&worker_data, BUDGET)
				: NULL;
		struct reader reader;
		pid_t other, pid;

		memset(control, 0, sizeof(*control));
		/* The next process buries this one. */
		other = child_start(control, be_killed, 5 + 256);
		assert_true(child_wait(other) == SIGKILL || !arena);
		pid = child_start(control, be_killed, step);
		assert_int_equal(child_wait(pid), SIGKILL);
		if (!arena)
			arena = child_open(&worker_data, BUDGET);
		assert_accounts_are_right(arena);
		child_reader(&reader, arena, &worker_data, control);
		for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
			reader_use(&reader, chunk, 0, ARENA_BLOCKS);
		assert_int_equal(control->wrong, 0);
		assert_int_equal(control->direct, 0);
		assert_int_equal(arena_members(arena), 1);
		reader_end(&reader);
		arena_close(arena);
	}
}

static void last_one_when_killed_then_nothing_is_left(void **state)
{
	struct arena *key = child_key(&worker_data, CHUNKS);
	struct control *control = child_control();

	(void)state;
	for (unsigned step = 4; step < STEPS - 2; step++) {
		assert_int_equal(child_wait(child_start(control, be_killed, step)), SIGKILL);
		assert_int_equal(names_left(key, false), 0);
	}
	free(key);
}

/* --- stopped -------------------------------------------------------------------------------- */

static void stop_at_number(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);
	struct reader reader;

	child_reader(&reader, arena, &worker_data, control);
	if (!strncmp(steps[number], "evict", 5))
		for (uint64_t chunk = 10; chunk < 10 + BUDGET; chunk++)
			reader_use(&reader, chunk, 0, ARENA_BLOCKS);
	child_stop_at(steps[number]);
	reader_use(&reader, 0, 0, ARENA_BLOCKS);
	check(!atomic_load(&control->wrong));
	arena_close(arena);
}

/* A stopped process holds two chunks at most, one to bring and one to evict. Each costs a survivor
 * its patience once, a fifth of a second. */
static void survivors_when_one_is_stopped_then_they_go_on_and_it_may_continue(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&worker_data, BUDGET);

	(void)state;
	for (unsigned step = 5; step < STEPS - 2; step++) {
		pid_t pid = child_start(control, stop_at_number, step);
		struct reader reader;

		child_wait_stopped(pid);
		child_reader(&reader, arena, &worker_data, control);
		atomic_store(&control->direct, 0);
		for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
			reader_use(&reader, chunk, 0, ARENA_BLOCKS);
		assert_in_range(control->direct, 0, 2);
		kill(pid, SIGCONT);
		for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
			reader_use(&reader, chunk, 0, ARENA_BLOCKS);
		assert_int_equal(child_wait(pid), 0);
		/* The next process must find its chunk missing, even if this one has brought it
		 * late. */
		for (uint64_t chunk = 1; chunk < CHUNKS; chunk++)
			reader_use(&reader, chunk, 0, ARENA_BLOCKS);
		assert_false(arena_present(arena, 0, 1));
		assert_int_equal(control->wrong, 0);
		reader_end(&reader);
	}
	assert_int_equal(arena_members(arena) > 0, 1);
	arena_close(arena);
}

static void evict_and_stop(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);

	child_stop_at(number ? "evict-claimed" : "evict-chosen");
	check(arena_reserve(arena, 1));
	atomic_store(&control->arrived, 1);
	arena_close(arena);
}

/* Another process pins a chunk that is chosen for eviction and not yet evicted. */
static void pin_when_an_eviction_is_under_way_then_one_of_them_gives_up(void **state)
{
	struct control *control = child_control();

	(void)state;
	for (unsigned too_late = 0; too_late < 2; too_late++) {
		struct arena *arena = child_open(&worker_data, BUDGET);
		struct reader reader;
		pid_t pid;

		child_reader(&reader, arena, &worker_data, control);
		for (uint64_t chunk = 0; chunk < BUDGET; chunk++)
			reader_use(&reader, chunk, 0, ARENA_BLOCKS);
		pid = child_start(control, evict_and_stop, too_late);
		child_wait_stopped(pid);
		for (uint64_t chunk = 0; chunk < BUDGET; chunk++) /* it has chosen a chunk */
			assert_int_equal(arena_pin(arena, chunk), chunk > 0 || !too_late);
		if (!too_late)
			arena_unpin(arena, 1);
		kill(pid, SIGCONT);
		assert_int_equal(child_wait(pid), 0);
		for (uint64_t chunk = 0; chunk < BUDGET; chunk++)
			assert_int_equal(arena_present(arena, chunk * ARENA_BLOCKS, 1),
					 chunk != 1 - too_late);
		reader_end(&reader);
		arena_close(arena);
	}
}

static void reserve_in_steps(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);

	child_stop_at("reserve-counted");
	check(arena_reserve(arena, number));
	atomic_store(&control->arrived, 1);
	(void)pause();
}

static void count_in_steps(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);

	(void)number;
	atomic_store(&arena->head->doubt, 1);
	child_stop_at("recounting");
	(void)arena_recount(arena);
	atomic_store(&control->uses, arena_used(arena));
	arena_close(arena);
}

/* The process ends between two looks of the counting process. */
static void account_when_memory_is_reserved_during_a_count_then_it_is_not_lost(void **state)
{
	struct control *control = child_control();
	pid_t first, second;

	(void)state;
	first = child_start(control, reserve_in_steps, 7);
	child_wait_stopped(first);
	second = child_start(control, count_in_steps, 0);
	child_wait_stopped(second);
	kill(first, SIGCONT);
	while (!atomic_load(&control->arrived))
		sched_yield();
	kill(second, SIGCONT);
	assert_int_equal(child_wait(second), 0);
	child_kill(first);
	assert_int_equal(atomic_load(&control->uses), 7 * ARENA_BLOCK);
}

static void stop_and_die(const char *step)
{
	if (!strcmp(step, "evict-chosen"))
		kill(getpid(), SIGSTOP);
	if (!strcmp(step, "evict-claimed"))
		kill(getpid(), SIGKILL);
}

static void evict_and_die(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);

	(void)control;
	(void)number;
	step_taken = stop_and_die;
	(void)arena_reserve(arena, 1);
}

/* The killed process has marked the chunk for eviction, but has not yet looked for pins: chunks
 * pinned meanwhile stay. */
static void pin_when_who_evicts_is_killed_before_it_looks_then_bytes_stay(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&worker_data, BUDGET);
	struct reader reader;
	pid_t pid;

	(void)state;
	child_reader(&reader, arena, &worker_data, control);
	for (uint64_t chunk = 0; chunk < BUDGET; chunk++)
		reader_use(&reader, chunk, 0, ARENA_BLOCKS);
	pid = child_start(control, evict_and_die, 0);
	child_wait_stopped(pid);
	assert_true(arena_pin(arena, 0)); /* it has chosen a chunk */
	kill(pid, SIGCONT);
	assert_int_equal(child_wait(pid), SIGKILL);
	assert_int_equal(arena_bury_dead(arena), 1);
	assert_true(arena_present(arena, 0, ARENA_BLOCKS));
	assert_int_equal(reader_wrong(&reader, 0, ARENA_BLOCKS), 0);
	arena_unpin(arena, 0);
	assert_accounts_are_right(arena);
	reader_end(&reader);
	arena_close(arena);
}

static void hold_claim(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, BUDGET);

	(void)number;
	check(arena_claim(arena, 7) && arena_pin(arena, 8));
	atomic_store(&control->arrived, 1);
	while (!atomic_load(&control->stop))
		sched_yield();
	_exit(0); /* without leaving */
}

static void waiter_when_the_holder_is_alive_then_false_after_the_bound(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&worker_data, BUDGET);
	pid_t pid = child_start(control, hold_claim, 0);
	uint64_t begun;

	(void)state;
	while (!atomic_load(&control->arrived))
		sched_yield();
	assert_false(arena_claim(arena, 7));
	begun = clock_now();
	assert_false(arena_wait(arena, 7, 120));
	assert_true(clock_now() - begun >= UINT64_C(120000000));
	kill(pid, SIGKILL);
	assert_true(arena_wait(arena, 7, 5000));
	assert_true(arena_claim(arena, 7));
	assert_int_equal(child_wait(pid), SIGKILL);
	arena_close(arena);
}

/* A row has its process's number, but only the lock tells whether the process lives. */
static void row_when_the_dead_ones_pid_is_used_again_then_still_dead(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&worker_data, BUDGET);
	pid_t pid = child_start(control, hold_claim, 0);

	(void)state;
	while (!atomic_load(&control->arrived))
		sched_yield();
	for (unsigned row = 1; row <= arena_rows_high(arena); row++)
		if (row != arena->row)
			arena->rows[row].pid = (uint32_t)getppid();
	kill(pid, SIGKILL);
	assert_int_equal(child_wait(pid), SIGKILL);
	assert_true(arena_claim(arena, 7));
	arena_close(arena);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(pins_when_their_process_is_dead_then_no_obstacle, worker_next_file),
		cmocka_unit_test_setup(pin_when_an_eviction_is_under_way_then_one_of_them_gives_up,
				       worker_next_file),
		cmocka_unit_test_setup(
			account_when_memory_is_reserved_during_a_count_then_it_is_not_lost,
			worker_next_file),
		cmocka_unit_test_setup(
			pin_when_who_evicts_is_killed_before_it_looks_then_bytes_stay, worker_next_file),
		cmocka_unit_test_setup(
			survivor_when_one_is_killed_at_a_step_then_goes_on_without_a_wait,
			worker_next_file),
		cmocka_unit_test_setup(last_one_when_killed_then_nothing_is_left, worker_next_file),
		cmocka_unit_test_setup(
			survivors_when_others_are_killed_at_every_step_then_right_bytes, worker_next_file),
		cmocka_unit_test_setup(
			survivors_when_one_is_stopped_then_they_go_on_and_it_may_continue,
			worker_next_file),
		cmocka_unit_test_setup(waiter_when_the_holder_is_alive_then_false_after_the_bound,
				       worker_next_file),
		cmocka_unit_test_setup(row_when_the_dead_ones_pid_is_used_again_then_still_dead,
				       worker_next_file),
	};
	int failed;

	worker_data = dataset_make(CHUNKS);
	alarm(1200); /* a hang counts as a failure; children die with this process */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&worker_data);
	return failed;
}
