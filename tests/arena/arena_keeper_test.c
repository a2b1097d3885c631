/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what stays of an arena when its processes have gone, for which processes, and for how
 * long.
 *
 * The parent of each test is a process of its own, with a keeper that ends with it. Other files
 * check what is dropped when there is too much, and what the parent does with descriptors.
 */
#include "arena_workers.h"

#include <err.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool is_in_kernel(uint64_t inode)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512], *word;
	bool found = false;

	if (!file)
		err(1, "/proc/net/unix");
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		word = strrchr(line, ' ');
		found |= word && strtoull(word + 1, NULL, 10) == inode;
	}
	fclose(file);
	return found;
}

/* --- coming and going ------------------------------------------------------------------------- */

/* Whatever the parent's workers do, no process gets wrong bytes or reads past the arena. */
static void assert_right_after(child_work *parent)
{
	struct control *control = child_control();

	assert_int_equal(child_run_parent(control, parent, 0), 0);
	assert_int_equal(control->wrong, 0);
	assert_int_equal(control->direct, 0);
}

static void workers_when_they_come_and_go_then_they_read_once(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, worker_come_and_go, 0), 0);
	assert_int_equal(control->wrong, 0);
	assert_int_equal(control->direct, 0);
	assert_int_equal(control->reads, WORKER_BLOCKS);
}

static void come_again(struct control *control, unsigned number)
{
	check(child_wait(child_start_in_child(control, worker_run, number)) == 0);
}

/* Grandchildren and children share the arena. */
static void have_grandchildren(struct control *control, unsigned number)
{
	(void)number;
	check(!child_wait(child_start(control, come_again, 0)));
	check(!worker_reads(control));
	check(!child_wait(child_start(control, come_again, 2)));
}

static void grandchildren_when_they_come_and_go_then_they_read_once(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, have_grandchildren, 0), 0);
	assert_int_equal(control->reads, WORKER_BLOCKS);
}

enum { TOGETHER = 6, ROUNDS = 40 };

static void meet(struct control *control, unsigned number)
{
	child_meet(control, number, TOGETHER, &worker_data, WORKER_BUDGET);
}

static void meet_often(struct control *control, unsigned number)
{
	uint64_t inode;

	(void)number;
	worker_run_once(control, 0);
	inode = control->inodes[0];
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < TOGETHER; i++)
			(void)child_start(control, meet, i);
		check(!child_failures());
		for (unsigned i = 0; i < TOGETHER; i++)
			check(control->inodes[i] == inode);
	}
}

static void workers_when_they_come_at_once_then_all_find_what_is_kept(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), meet_often, 0), 0);
}

static void remember_sockets(struct control *control, unsigned number)
{
	int fds[4];

	(void)number;
	check(!worker_sockets(fds, control->inodes, 2)); /* there is none before the first fork */
	worker_run_once(control, 8);
	check(worker_sockets(fds, control->inodes, 4) == 2);
	check(is_in_kernel(control->inodes[0]) && is_in_kernel(control->inodes[1]));
	check(!worker_reads(control));
	check(worker_sockets(fds, control->inodes, 4) == 2); /* the second fork adds none */
}

static void parent_when_it_has_ended_then_nothing_is_left(void **state)
{
	struct control *control = child_control();
	struct arena *arena;

	(void)state;
	assert_int_equal(child_run_parent(control, remember_sockets, 0), 0);
	assert_false(is_in_kernel(control->inodes[0]));
	assert_false(is_in_kernel(control->inodes[1]));
	assert_int_equal(holders_left(control->inodes[8]), 0);
	arena = child_open(&worker_data, WORKER_BUDGET); /* the arena is not found */
	assert_int_equal(arena_used(arena), 0);
	arena_close(arena);
}

/* --- putting in, looking for what is kept ----------------------------------------------------- */

static void read_what_workers_have_read(struct control *control, unsigned number)
{
	struct arena *arena;

	(void)number;
	worker_run_once(control, 1);
	arena = child_open(&worker_data, WORKER_BUDGET);
	check(arena_inode(arena) == control->inodes[1]);
	check(arena_members(arena) == 1);
	worker_read_all(control, arena);
	check(atomic_load(&control->reads) == WORKER_BLOCKS);
	arena_close(arena);
	check(!worker_reads(control));
}

static void parent_when_it_opens_later_then_finds_what_its_workers_have_read(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), read_what_workers_have_read, 0), 0);
}

static void read_alone_and_close(struct control *control, unsigned number)
{
	struct arena *arena;

	(void)number;
	check(!child_wait(child_start(control, worker_do_nothing, 0)));
	arena = child_open(&worker_data, WORKER_BUDGET);
	worker_read_all(control, arena);
	arena_close(arena);
	check(worker_reads(control) == WORKER_BLOCKS);
}

static void parent_when_it_closes_what_it_alone_has_read_then_memory_is_free(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), read_alone_and_close, 0), 0);
}

static void read_alone(struct control *control, unsigned number)
{
	struct arena_options options = worker_options(false);
	struct arena *arena;
	const char *why;

	(void)number;
	check(!arena_open(&arena, &worker_data.identity, &options, &why));
	worker_read_all(control, arena);
	arena_close(arena);
}

static void have_unsharing_workers(struct control *control, unsigned number)
{
	(void)number;
	check(!child_wait(child_start(control, read_alone, 0)));
	check(worker_reads(control) == WORKER_BLOCKS);
}

static void worker_when_it_shares_with_nobody_then_leaves_nothing(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), have_unsharing_workers, 0), 0);
}

static void *open_often(void *control)
{
	while (!atomic_load(&((struct control *)control)->stop))
		arena_close(child_open(&worker_data, WORKER_BUDGET));
	return NULL;
}

static void fork_among_threads(struct control *control, unsigned number)
{
	pthread_t threads[2];

	(void)number;
	worker_run_once(control, 1);
	for (unsigned i = 0; i < 2; i++)
		check(!pthread_create(&threads[i], NULL, open_often, control));
	for (unsigned i = 0; i < 20; i++)
		worker_run_once(control, i);
	atomic_store(&control->stop, 1);
	for (unsigned i = 0; i < 2; i++)
		check(!pthread_join(threads[i], NULL));
	check(!worker_reads(control));
}

/* The sanitizers' own locks do not survive a fork of a process with threads. */
static void workers_when_forked_while_threads_open_then_nobody_hangs(void **state)
{
	struct control *control = child_control();

	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	skip();
#endif
	assert_int_equal(child_run_parent(control, fork_among_threads, 0), 0);
	assert_int_equal(control->wrong, 0);
	assert_int_equal(control->reads, WORKER_BLOCKS);
}

static void come_with_little(struct control *control, unsigned number)
{
	(void)control;
	arena_close(child_open(&worker_data, number));
}

static void come_with_more(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_BUDGET);

	check(arena_budget(arena) == WORKER_BUDGET * (uint64_t)ARENA_CHUNK);
	check(arena_used(arena) == number * (uint64_t)ARENA_CHUNK);
	worker_read_all(control, arena);
	arena_close(arena);
}

static void have_more_and_more(struct control *control, unsigned number)
{
	(void)number;
	check(!child_wait(child_start(control, come_with_little, 3)));
	check(!child_wait(child_start(control, come_with_more, 0)));
	check(!child_wait(child_start(control, come_with_little, 3)));
	check(!child_wait(child_start(control, come_with_more, WORKER_CHUNKS)));
}

static void worker_when_it_has_more_than_who_left_then_that_counts(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, have_more_and_more, 0), 0);
	assert_int_equal(control->reads, WORKER_BLOCKS);
}

static void make_late(struct control *control, unsigned number)
{
	child_stop_at("unmet");
	worker_run(control, number);
}

/* A worker has looked for other processes and for kept arenas. Then another worker comes, reads and
 * goes. */
static void be_passed(struct control *control, unsigned number)
{
	pid_t late;

	(void)number;
	late = child_start(control, make_late, 0);
	child_wait_stopped(late);
	worker_run_once(control, 2);
	check(!kill(late, SIGCONT) && !child_wait(late));
	check(control->inodes[0] == control->inodes[2]);
}

static void
worker_when_another_comes_and_goes_before_it_makes_its_own_then_has_that_ones(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, be_passed, 0), 0);
	assert_int_equal(control->reads, WORKER_BLOCKS);
}

/* --- killed ----------------------------------------------------------------------------------- */

/* All steps of a reader from the claim on, and the steps by which it joins. */
static const char *const steps[] = {
	"bound",         "listening",       "taken-up",        "attached",     "stamped",
	"settled",       "claimed",         "reserve-counted", "reserved",     "half-read",
	"read",          "publish-counted", "published",       "releasing",    "released",
	"pinning",       "pinned",          "using",           "evict-chosen", "evict-claimed",
	"evict-cleared", "evict-punched",   "evict-counted",   "bury-claims",  "bury-pins",
};
enum {
	STEPS = sizeof(steps) / sizeof(steps[0]),
	CLAIMED = 6,
	BURIED = STEPS - 2,
	EVICTING = STEPS - 7,
	LITTLE = 5
};

/* Reads with memory for only a part of the set, so that chunks come and go. */
static void be_killed(struct control *control, unsigned number)
{
	struct arena *arena;

	/* Some steps happen once in a process. */
	child_die_at(steps[number], number >= CLAIMED && number < BURIED ? number % 3 : 0);
	alarm(300); /* a step that is never reached counts as a failure */
	arena = child_open(&worker_data, LITTLE);
	arena_scanning(arena, 3, 1);
	for (;;)
		worker_read_all(control, arena);
}

/* Checks that the state left by dead processes does not count, and that the bytes are right. */
static void follow(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, LITTLE);
	uint64_t published = 0;
	unsigned steppers;

	(void)number;
	check(arena_members(arena) == 1 && !arena_scanners(arena, &steppers) && !steppers);
	(void)arena_bury_dead(arena);
	(void)arena_recount(arena);
	for (uint64_t chunk = 0; chunk < WORKER_CHUNKS; chunk++) {
		struct arena_group *group = arena_group_need(arena, chunk, arena->row);

		check(group);
		published += arena_published(group, chunk);
		check(arena_claim(arena, chunk));
		arena_release(arena, chunk);
	}
	check(arena_used(arena) == published * ARENA_BLOCK);
	check(arena_memory(arena) == arena_used(arena));
	check(arena_reserve(arena, LITTLE * ARENA_BLOCKS)); /* nothing is pinned */
	arena_unreserve(arena, LITTLE * ARENA_BLOCKS);
	worker_read_all(control, arena);
	arena_close(arena);
}

static void be_killed_at_each_step(struct control *control, unsigned number)
{
	(void)number;
	for (unsigned step = 0; step < STEPS; step++) {
		pid_t pid;

		/* The previous process leaves a row for this one to bury. */
		pid = child_start(control, be_killed, 6 + step % 4);
		check(child_wait(pid) == SIGKILL);
		pid = child_start(control, be_killed, step);
		check(child_wait(pid) == SIGKILL);
		check(!child_wait(child_start(control, follow, 0)));
	}
}

static void worker_when_others_were_killed_at_a_step_then_takes_up_what_is_right(void **state)
{
	(void)state;
	assert_right_after(be_killed_at_each_step);
}

static void serve_and_be_killed(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_BUDGET);

	(void)number;
	worker_read_all(control, arena);
	check(!arena_serve(arena, WORKER_CHUNKS, true));
	arena_keep(arena, 3);
	arena_answer(arena, 4, true);
	(void)arena_wish(arena, 5, true);
	check(arena_pin(arena, 6) && arena_claim(arena, 7) && arena_reserve(arena, ARENA_BLOCKS));
	kill(getpid(), SIGKILL);
}

static void expect_no_server(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_BUDGET);
	uint64_t wish;
	bool whole;

	(void)number;
	check(arena_used(arena) == WORKER_CHUNKS * (uint64_t)ARENA_CHUNK);
	check(!arena_is_served(arena, 4, &whole) && !whole);
	check(arena_share(arena) == UINT64_MAX);
	check(arena_reserve(arena,
			    WORKER_BUDGET * ARENA_BLOCKS)); /* kept and pinned chunks go too */
	arena_unreserve(arena, WORKER_BUDGET * ARENA_BLOCKS);
	check(!arena_serve(arena, 0, false));
	check(!arena_wish_next(arena, &wish, &whole));
	worker_read_all(control, arena);
	arena_close(arena);
}

static void have_a_server_killed(struct control *control, unsigned number)
{
	(void)number;
	check(child_wait(child_start(control, serve_and_be_killed, 0)) == SIGKILL);
	check(!child_wait(child_start(control, expect_no_server, 0)));
}

static void worker_when_a_server_was_killed_then_nobody_serves(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, have_a_server_killed, 0), 0);
	assert_int_equal(control->wrong, 0);
}

/* --- another user ----------------------------------------------------------------------------- */

static void work_as_nobody(struct control *control, unsigned number)
{
	check(child_be_nobody());
	worker_run(control, number);
}

/* The child has inherited the sockets and may have the other user's bytes in memory, but must not
 * look at the sockets' files. */
static void have_a_worker_without_privileges(struct control *control, unsigned number)
{
	(void)number;
	worker_run_once(control, 0);
	check(!child_wait(child_start(control, work_as_nobody, 2)));
	check(atomic_load(&control->reads) == 2 * WORKER_BLOCKS);
	check(control->inodes[2] != control->inodes[0]);
	check(!worker_reads(control));
}

static void worker_when_it_is_another_user_then_has_nothing_of_the_first_ones(void **state)
{
	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(child_run_parent(child_control(), have_a_worker_without_privileges, 0), 0);
}

/* --- a part goes ------------------------------------------------------------------------------ */

static void read_another(struct control *control, unsigned number)
{
	(void)number;
	worker_data.identity.inode++;
	worker_run(control, 2);
}

static void read_both(struct control *control, unsigned number)
{
	uint64_t again;

	(void)number;
	worker_run_once(control, 1);
	check(!child_wait(child_start(control, read_another, 0)));
	again = worker_reads(control);
	check(again > 0 &&
	      again <= (2 * WORKER_CHUNKS - WORKER_BUDGET + 1) * (uint64_t)ARENA_BLOCKS);
	check(control->inodes[0] == control->inodes[1]);
	check(!child_wait(child_start(control, follow, 0)));
}

static void be_killed_as_a_part_goes(struct control *control, unsigned number)
{
	child_die_at(steps[number], number % 3);
	read_another(control, 0);
}

static void kill_who_gives_up_a_part(struct control *control, unsigned number)
{
	for (number = EVICTING; number < BURIED; number++) {
		worker_run_once(control, 1);
		check(child_wait(child_start(control, be_killed_as_a_part_goes, number)) ==
		      SIGKILL);
		check(!child_wait(child_start(control, follow, 0)));
	}
}

static void set_when_who_gives_up_a_part_is_killed_then_the_rest_is_right(void **state)
{
	(void)state;
	assert_right_after(kill_who_gives_up_a_part);
}

static void set_when_a_part_of_it_has_gone_then_the_rest_is_right(void **state)
{
	(void)state;
	assert_right_after(read_both);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(workers_when_they_come_and_go_then_they_read_once,
				       worker_next_file),
		cmocka_unit_test_setup(grandchildren_when_they_come_and_go_then_they_read_once,
				       worker_next_file),
		cmocka_unit_test_setup(workers_when_they_come_at_once_then_all_find_what_is_kept,
				       worker_next_file),
		cmocka_unit_test_setup(parent_when_it_has_ended_then_nothing_is_left,
				       worker_next_file),
		cmocka_unit_test_setup(
			parent_when_it_opens_later_then_finds_what_its_workers_have_read,
			worker_next_file),
		cmocka_unit_test_setup(
			parent_when_it_closes_what_it_alone_has_read_then_memory_is_free,
			worker_next_file),
		cmocka_unit_test_setup(worker_when_it_shares_with_nobody_then_leaves_nothing,
				       worker_next_file),
		cmocka_unit_test_setup(worker_when_it_has_more_than_who_left_then_that_counts,
				       worker_next_file),
		cmocka_unit_test_setup(
			worker_when_another_comes_and_goes_before_it_makes_its_own_then_has_that_ones,
			worker_next_file),
		cmocka_unit_test_setup(workers_when_forked_while_threads_open_then_nobody_hangs,
				       worker_next_file),
		cmocka_unit_test_setup(
			worker_when_others_were_killed_at_a_step_then_takes_up_what_is_right,
			worker_next_file),
		cmocka_unit_test_setup(worker_when_a_server_was_killed_then_nobody_serves,
				       worker_next_file),
		cmocka_unit_test_setup(
			worker_when_it_is_another_user_then_has_nothing_of_the_first_ones,
			worker_next_file),
		cmocka_unit_test_setup(
			set_when_who_gives_up_a_part_is_killed_then_the_rest_is_right,
			worker_next_file),
		cmocka_unit_test_setup(set_when_a_part_of_it_has_gone_then_the_rest_is_right,
				       worker_next_file),
	};
	int failed;

	worker_data = dataset_make(WORKER_CHUNKS);
	alarm(1200);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&worker_data);
	return failed;
}
