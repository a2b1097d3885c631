/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how processes of a node get on when they come at once, pass the arena on, or fork. */
#include "arena_workers.h"
#include "../unit/thread_asleep.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define ARENA_SITES_OF_OTHERS
#include "arena_sites.h"

#ifdef __SANITIZE_ADDRESS__
enum { ROUNDS = 50 };
#else
enum { ROUNDS = 200 };
#endif

enum { CHUNKS = 48, BUDGET = 10 };

/* --- coming together ------------------------------------------------------------------------ */

enum { TOGETHER = 8 };

static void meet(struct control *control, unsigned number)
{
	child_meet(control, number, TOGETHER, &worker_data, CHUNKS);
}

static void processes_when_they_come_at_once_then_one_arena(void **state)
{
	struct arena *key = child_key(&worker_data, CHUNKS);
	struct control *control = child_control();

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		memset(control, 0, sizeof(*control));
		for (unsigned i = 0; i < TOGETHER; i++)
			(void)child_start(control, meet, i);
		assert_int_equal(child_failures(), 0);
		for (unsigned i = 1; i < TOGETHER; i++)
			assert_int_equal(control->inodes[i], control->inodes[0]);
		if (round % 20 == 0)
			assert_true(nothing_left(key, control->inodes[0]));
	}
	free(key);
}

static void read_all(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, CHUNKS);
	struct reader reader;

	child_reader(&reader, arena, &worker_data, control);
	reader.patience = 20000; /* ms; no reader goes on without the arena */
	child_barrier(control, 4);
	for (unsigned i = 0; i < CHUNKS; i++)
		reader_use(&reader, number % 2 ? CHUNKS - 1 - i : i, 0, ARENA_BLOCKS);
	child_barrier(control, 4);
	check(arena_used(arena) == CHUNKS * ARENA_CHUNK);
	child_barrier(control, 4);
	arena_close(arena);
}

static void processes_when_they_read_the_same_then_each_block_is_read_once(void **state)
{
	struct control *control = child_control();

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		(void)child_start(control, read_all, i);
	assert_int_equal(child_failures(), 0);
	assert_int_equal(control->wrong, 0);
	assert_int_equal(control->direct, 0);
	assert_int_equal(control->reads, CHUNKS * ARENA_BLOCKS);
}

/* The processes overlap: each comes while the previous one is there, which then ends. */
static void pass_on(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, CHUNKS);

	check(number == 0 || arena_inode(arena) == control->inodes[number - 1]);
	control->inodes[number] = arena_inode(arena);
	atomic_store(&control->arrived, number + 1);
	while (number < 30 && atomic_load(&control->arrived) == number + 1)
		sched_yield();
	arena_close(arena);
}

static void arena_when_its_members_change_all_the_time_then_it_lasts(void **state)
{
	struct arena *key = child_key(&worker_data, CHUNKS);
	struct control *control = child_control();

	(void)state;
	for (unsigned number = 0; number <= 30; number++) {
		(void)child_start(control, pass_on, number);
		while (atomic_load(&control->arrived) == number && !child_reap())
			sched_yield();
	}
	assert_int_equal(child_failures(), 0);
	assert_true(nothing_left(key, control->inodes[0]));
	free(key);
}

/* --- forked --------------------------------------------------------------------------------- */

static struct arena *inherited;

static void use_after_fork(struct control *control, unsigned number)
{
	struct reader reader;
	uint64_t inode = control->inodes[0];

	arena_forked(inherited);
	alarm(300);
	if (number == 1) { /* the parent is killed before the child reads */
		atomic_store(&control->arrived, 1);
		while (!atomic_load(&control->stop))
			sched_yield();
	}
	arena_close(inherited);
	inherited = child_open(&worker_data, BUDGET);
	check(number == 1 || arena_inode(inherited) == inode);
	child_reader(&reader, inherited, &worker_data, control);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		reader_use(&reader, chunk, 0, ARENA_BLOCKS);
	check(!atomic_load(&control->wrong) && !atomic_load(&control->direct));
	arena_close(inherited);
}

static void child_when_forked_then_it_has_a_row_of_its_own(void **state)
{
	struct control *control = child_control();
	pid_t pid;

	(void)state;
	inherited = child_open(&worker_data, BUDGET);
	control->inodes[0] = arena_inode(inherited);
	assert_true(arena_claim(inherited, 40));
	assert_true(arena_pin(inherited, 41));
	assert_true(arena_reserve(inherited, 1));
	arena_release(inherited, 40);
	pid = child_start(control, use_after_fork, 0);
	assert_int_equal(child_wait(pid), 0);
	assert_int_equal(arena_bury_dead(inherited), 0);
	assert_int_equal(arena_members(inherited), 1);
	assert_true(arena_pinned_by(inherited, 41));
	arena_close(inherited);
}

static void fork_and_wait(struct control *control, unsigned number)
{
	(void)number;
	inherited = child_open(&worker_data, BUDGET);
	control->inodes[0] = arena_inode(inherited);
	check(arena_claim(inherited, 7) && arena_pin(inherited, 8));
	control->pids[0] = child_start_in_child(control, use_after_fork, 1);
	for (;;)
		pause();
}

static void parent_when_killed_then_a_forked_child_does_not_keep_its_claims(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&worker_data, BUDGET);
	pid_t pid = child_start(control, fork_and_wait, 0);

	(void)state;
	while (!atomic_load(&control->arrived))
		sched_yield();
	assert_false(arena_claim(arena, 7));
	kill(pid, SIGKILL);
	assert_int_equal(child_wait(pid), SIGKILL);
	assert_true(arena_wait(arena, 7, 1000));
	assert_true(arena_claim(arena, 7));
	arena_release(arena, 7);
	atomic_store(&control->stop, 1);
	while (holders_left(arena_inode(arena)) > 1) /* the grandchild, which init reaps */
		sched_yield();
	assert_int_equal(control->wrong, 0);
	arena_close(arena);
}

/* Knows nothing of the parent's arena, as a child of a program whose server has it. */
static void wait_for_the_end(struct control *control, unsigned number)
{
	(void)number;
	atomic_store(&control->arrived, 1);
	while (!atomic_load(&control->stop))
		sched_yield();
}

static struct {
	struct control *control;
	_Atomic pid_t thread; /* its number */
	int ended;
} forker;

/* The child dies with the thread that has forked it. */
static void *fork_and_stay(void *unused)
{
	pid_t pid;

	atomic_store(&forker.thread, (pid_t)syscall(SYS_gettid));
	pid = child_start(forker.control, wait_for_the_end, 0);
	while (!atomic_load(&forker.control->stop))
		sched_yield();
	forker.ended = child_wait(pid);
	return unused;
}

static pthread_t forking;

/* Lasts until the other thread waits for this one, or has forked, which it must not: its child could
 * have descriptors of which its memory does not tell any more. */
static void fork_amid(const struct arena_site *site)
{
	if (strcmp(site->function, "arena_drop") || strcmp(site->call, "munmap"))
		return;
	site_taken = NULL;
	assert_int_equal(pthread_create(&forking, NULL, fork_and_stay, NULL), 0);
	while (!atomic_load(&forker.control->arrived) &&
	       !(atomic_load(&forker.thread) && thread_is_asleep(atomic_load(&forker.thread))))
		sched_yield();
	assert_int_equal(atomic_load(&forker.control->arrived), 0);
}

static void child_when_its_parent_closes_an_arena_then_it_keeps_nothing_of_it(void **state)
{
	uint64_t inode;

	(void)state;
	for (unsigned amid = 0; amid < 2; amid++) {
		forker.control = child_control();
		atomic_store(&forker.thread, 0);
		inherited = child_open(&worker_data, BUDGET);
		inode = arena_inode(inherited);
		if (amid)
			site_taken = fork_amid;
		else
			assert_int_equal(pthread_create(&forking, NULL, fork_and_stay, NULL), 0);
		while (!amid && !atomic_load(&forker.control->arrived))
			sched_yield();
		arena_close(inherited);
		assert_null(site_taken);
		while (!atomic_load(&forker.control->arrived))
			sched_yield();
		assert_int_equal(holders_left(inode), 0);
		atomic_store(&forker.control->stop, 1);
		assert_int_equal(pthread_join(forking, NULL), 0);
		assert_int_equal(forker.ended, 0);
	}
}

/* A child made without the fork handlers keeps the listening socket; the process that the socket
 * names has gone. New processes must get past it. */
static void leave_a_stray(struct control *control, unsigned number)
{
	pid_t pid;

	(void)number;
	inherited = child_open(&worker_data, BUDGET);
	pid = (pid_t)syscall(SYS_fork);
	if (pid == 0) {
		alarm(300); /* the test kills it; the limit is for a test that has failed before */
		for (;;)
			pause();
	}
	control->pids[0] = pid;
	_exit(0);
}

static void newcomer_when_a_name_leads_to_a_process_that_is_gone_then_passes_it(void **state)
{
	struct control *control = child_control();
	struct arena *one, *two;

	(void)state;
	assert_int_equal(child_wait(child_start(control, leave_a_stray, 0)), 0);
	one = child_open(&worker_data, BUDGET);
	two = child_open(&worker_data, BUDGET);
	assert_int_equal(arena_inode(one), arena_inode(two));
	assert_int_equal(names_left(one, true), 3);
	kill(control->pids[0], SIGKILL);
	arena_close(one);
	arena_close(two);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(processes_when_they_come_at_once_then_one_arena,
				       worker_next_file),
		cmocka_unit_test_setup(
			processes_when_they_read_the_same_then_each_block_is_read_once,
			worker_next_file),
		cmocka_unit_test_setup(arena_when_its_members_change_all_the_time_then_it_lasts,
				       worker_next_file),
		cmocka_unit_test_setup(child_when_forked_then_it_has_a_row_of_its_own,
				       worker_next_file),
		cmocka_unit_test_setup(
			parent_when_killed_then_a_forked_child_does_not_keep_its_claims,
			worker_next_file),
		cmocka_unit_test_setup(
			child_when_its_parent_closes_an_arena_then_it_keeps_nothing_of_it,
			worker_next_file),
		cmocka_unit_test_setup(
			newcomer_when_a_name_leads_to_a_process_that_is_gone_then_passes_it,
			worker_next_file),
	};
	int failed;

	worker_data = dataset_make(CHUNKS);
	alarm(1200); /* a hang counts as a failure; children die with this process */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&worker_data);
	return failed;
}
