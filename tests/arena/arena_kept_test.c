/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how much stays when an arena's processes have gone, and which arena is dropped.
 *
 * These tests read no data set, so none has to exist.
 */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { BUDGET = 20 };

static uint64_t snapshot; /* of this test's data sets */

/* Opens a data set that no process reads, and brings its missing blocks. Returns how many chunks it
 * has brought. */
static uint64_t visit_at(struct control *control, struct identity identity, uint64_t changed_ns)
{
	struct arena_options options = {.budget = BUDGET * ARENA_CHUNK,
					.share = true,
					.node = test_node()};
	static const uint8_t block[ARENA_BLOCK] = {1};
	uint64_t brought = 0, used;
	struct arena *arena;
	const char *why;

	identity.ctime_ns = (int64_t)changed_ns;
	check(!arena_open(&arena, &identity, &options, &why) && !why);
	for (uint64_t i = 0; i < arena_chunks(arena) * ARENA_BLOCKS; i++) {
		if (arena_present(arena, i, 1))
			continue;
		check(arena_claim(arena, i / ARENA_BLOCKS) && arena_reserve(arena, 1));
		check(!arena_fill(arena, i * ARENA_BLOCK, block, ARENA_BLOCK));
		arena_publish(arena, i, 1);
		arena_release(arena, i / ARENA_BLOCKS);
		brought++;
	}
	used = arena_used(arena);
	check(used == arena_chunks(arena) * ARENA_CHUNK);
	arena_close(arena);
	atomic_fetch_add(&control->reads, brought);
	return brought / ARENA_BLOCKS;
}

static void visit_in_child(struct control *control, unsigned number)
{
	struct identity identity = {.device = 7,
					  .inode = number / 256,
					  .size = number % 256 * (uint64_t)ARENA_CHUNK,
					  .snapshot = snapshot + number % 2};

	(void)visit_at(control, identity, 0);
}

/* Returns how many chunks a worker brings of data set `number` of `chunks` chunks. */
static uint64_t brings(struct control *control, unsigned number, unsigned chunks)
{
	uint64_t before = atomic_load(&control->reads);

	check(!child_wait(child_start(control, visit_in_child, number * 256 + chunks)));
	return (atomic_load(&control->reads) - before) / ARENA_BLOCKS;
}

/* --- budget ----------------------------------------------------------------------------------- */

static void visit_three(struct control *control, unsigned number)
{
	(void)number;
	check(brings(control, 1, 11) == 11 && brings(control, 2, 8) == 8);
	check(!brings(control, 1, 11) && !brings(control, 2, 8)); /* both fit */
	check(brings(control, 3, 6) == 6); /* six of the first set's go: it is the oldest */
	check(!brings(control, 2, 8) && !brings(control, 3, 6));
	check(brings(control, 1, 11) == 6);
	check(!brings(control, 3, 6)); /* was used later than the second set */
	check(brings(control, 2, 8) == 6);
}

static void sets_when_they_do_not_fit_together_then_the_oldest_goes(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), visit_three, 0), 0);
}

/* An open arena's needs come first, including those of chunks that it does not have yet. */
static void visit_beside_one(struct control *control, unsigned number)
{
	struct identity identity = {
		.device = 7, .inode = 9, .size = BUDGET / 2 * (uint64_t)ARENA_CHUNK};
	struct arena_options options = {
		.budget = BUDGET * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;

	(void)number;
	check(brings(control, 1, 5) == 5 && brings(control, 2, 4) == 4);
	check(!arena_open(&arena, &identity, &options, &why) && !why);
	check(!brings(control, 2, 4) && !brings(control, 1, 5));
	check(brings(control, 3, 2) == 2); /* too many: two of the second set's go, the oldest */
	check(!brings(control, 1, 5) && !brings(control, 3, 2));
	check(brings(control, 2, 4) == 2);
	arena_close(arena);
}

static void sets_when_another_is_open_then_have_what_it_does_not_want(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), visit_beside_one, 0), 0);
}

/* Opens a set for the first time with a small budget, and leaves that budget with it. */
static void visit_with_little(struct control *control, unsigned number)
{
	struct identity identity = {
		.device = 7, .inode = number, .size = 12 * (uint64_t)ARENA_CHUNK, .snapshot = snapshot};
	struct arena_options options = {
		.budget = 3 * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;

	(void)control;
	check(!arena_open(&arena, &identity, &options, &why) && !why);
	arena_close(arena);
}

static void visit_with_little_and_more(struct control *control, unsigned number)
{
	(void)number;
	check(!child_wait(child_start(control, visit_with_little, 1)));
	check(brings(control, 1, 12) == 12 && brings(control, 2, 11) == 11);
	check(brings(control, 1, 12) == 4); /* the arena's table counts as well */
}

static void sets_when_one_was_met_with_little_then_all_of_it_counts(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), visit_with_little_and_more, 0), 0);
}

/* Opens a set with a part of the node's budget, as a batch loader that copies its samples does. */
static void visit_with_part(struct control *control, unsigned number)
{
	struct identity identity = {.device = 7,
				    .inode = number,
				    .size = 12 * (uint64_t)ARENA_CHUNK,
				    .snapshot = snapshot};
	struct arena_options options = {.budget = 3 * ARENA_CHUNK,
					.node_budget = BUDGET * ARENA_CHUNK,
					.share = true,
					.node = test_node()};
	struct arena *arena;
	const char *why;

	(void)control;
	check(!arena_open(&arena, &identity, &options, &why) && !why);
	check(arena_budget(arena) == options.budget);
	arena_close(arena);
}

static void visit_with_part_of_it(struct control *control, unsigned number)
{
	(void)number;
	check(brings(control, 1, 12) == 12);
	check(!child_wait(child_start(control, visit_with_part, 1)));
	check(!brings(control, 1, 12)); /* nothing had to go yet */
}

static void set_when_met_with_a_part_of_the_budget_then_has_no_more(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), visit_with_part_of_it, 0), 0);
}

enum { SHARED = 60, WANTS = 45 }; /* chunks; an arena always has 16 */

static struct arena *open_one_of_two(unsigned number)
{
	struct identity identity = {.device = 7,
					  .inode = 20 + number,
					  .size = WANTS * (uint64_t)ARENA_CHUNK,
					  .snapshot = snapshot};
	struct arena_options options = {
		.budget = SHARED * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;

	check(!arena_open(&arena, &identity, &options, &why) && !why);
	return arena;
}

/* Brings these chunks; the limit must allow them. */
static void bring_chunks(struct arena *arena, unsigned from, unsigned to)
{
	for (; from < to; from++) {
		check(arena_claim(arena, from) && arena_reserve(arena, ARENA_BLOCKS));
		check(arena_give_memory(arena, arena_bytes(arena) + from * ARENA_CHUNK, ARENA_CHUNK));
		arena_publish(arena, from * (uint64_t)ARENA_BLOCKS, ARENA_BLOCKS);
		arena_release(arena, from);
	}
}

static void share_and_end(struct control *control, unsigned number)
{
	struct arena *arena = open_one_of_two(0);

	child_barrier(control, 2);
	bring_chunks(arena, 0, SHARED / 2);
	child_barrier(control, 2);
	if (number)
		kill(getpid(), SIGKILL);
	arena_close(arena);
}

static void share_and_grow(struct control *control, unsigned number)
{
	struct arena *arena = open_one_of_two(1), *other;

	(void)number;
	child_barrier(control, 2);
	bring_chunks(arena, 0, SHARED / 2);
	check(arena_budget(arena) == SHARED / 2 * (uint64_t)ARENA_CHUNK);
	child_barrier(control, 2);
	while (!atomic_load(&control->stop))
		sched_yield();
	/* Until the arena notices that the other one has gone, a chunk goes for each that comes. */
	while (arena_used(arena) < WANTS * (uint64_t)ARENA_CHUNK)
		for (unsigned chunk = 0; chunk < WANTS; chunk++)
			if (!arena_present(arena, chunk * (uint64_t)ARENA_BLOCKS, ARENA_BLOCKS))
				bring_chunks(arena, chunk, chunk + 1);
	other = open_one_of_two(0);
	check(arena_used(other) <= (SHARED - WANTS) * (uint64_t)ARENA_CHUNK);
	arena_close(other);
	arena_close(arena);
}

/* number: not 0, the process is killed in place of ending. */
static void have_one_that_stays(struct control *control, unsigned number)
{
	pid_t ends = child_start(control, share_and_end, number);
	pid_t stays = child_start(control, share_and_grow, 0);

	check(child_wait(ends) == (number ? SIGKILL : 0));
	atomic_store(&control->stop, 1);
	check(!child_wait(stays));
}

static void sets_when_a_living_one_gets_the_share_of_one_that_ended_then_they_fit(void **state)
{
	(void)state;
	for (unsigned way = 0; way < 2; way++)
		assert_int_equal(child_run_parent(child_control(), have_one_that_stays, way), 0);
}

/* Asserts how many chunks a worker brings of a file with this time of change. */
static void visit_changed(struct control *control, uint64_t changed_ns, unsigned brings)
{
	pid_t pid = fork();

	if (!pid) {
		struct identity identity = {
			.device = 7, .inode = 30, .size = ARENA_CHUNK, .snapshot = snapshot};

		check(visit_at(control, identity, changed_ns) == brings);
		_exit(0);
	}
	check(!child_wait(pid));
}

/* Only the time of change differs, as when another file's bytes have replaced the file's. */
static void visit_replaced(struct control *control, unsigned number)
{
	uint64_t now = clock_of(CLOCK_REALTIME), old = now - UINT64_C(3600000000000);

	(void)number;
	visit_changed(control, old, 1);
	visit_changed(control, old, 0);
	visit_changed(control, old + 1, 1);
	visit_changed(control, old + 1, 0);
	visit_changed(control, old, 1);  /* has been dropped */
	for (unsigned i = 0; i < 2; i++) /* a further change might leave no trace */
		visit_changed(control, now + UINT64_C(3600000000000), 1);
}

static void set_when_its_file_was_replaced_then_is_not_found(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), visit_replaced, 0), 0);
}

/* Sets with odd numbers of chunks have the next snapshot's id. */
static void visit_a_newer_snapshot(struct control *control, unsigned number)
{
	(void)number;
	check(brings(control, 1, 2) == 2 && brings(control, 2, 2) == 2);
	check(brings(control, 1, 3) == 3);
	check(brings(control, 1, 2) == 2); /* the older snapshot's arena has been dropped */
	check(!brings(control, 1, 3) && !brings(control, 2, 2)); /* nothing else has been dropped */
}

static void snapshot_when_there_is_a_newer_one_then_goes(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), visit_a_newer_snapshot, 0), 0);
}

/* Checks where an arena is found, while a process has it open and afterwards. */
static void find_one(struct control *control, unsigned number)
{
	struct identity identity = {
		.device = 7, .inode = number, .size = 2 * ARENA_CHUNK, .snapshot = snapshot};
	struct arena_options options = {.budget = ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena_options alone = options, elsewhere = options;
	struct arena *arena;
	const char *why;

	alone.share = false;
	elsewhere.node = "another";
	check(!arena_found(&identity, &options));
	check(!arena_open(&arena, &identity, &options, &why) && !why);
	check(arena_found(&identity, &options) == ARENA_CHUNK);
	arena_close(arena);
	check(!arena_found(&identity, &options));
	check(brings(control, number, 2) == 2);
	check(arena_found(&identity, &options) == BUDGET * ARENA_CHUNK);
	check(!arena_found(&identity, &alone) && !arena_found(&identity, &elsewhere));
	identity.snapshot++;
	check(!arena_found(&identity, &options));
}

static void arena_when_open_or_kept_then_found_with_its_budget(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), find_one, 5), 0);
}

/* Leaves more arenas than the socket has room for. */
static void visit_many(struct control *control, unsigned number)
{
	for (unsigned i = 0; i < number; i++) {
		struct identity identity = {.device = 7, .inode = 1000 + i, .size = ARENA_BLOCK};
		struct arena_options options = {
			.budget = 1000 * ARENA_CHUNK, .share = true, .node = test_node()};
		struct arena *arena;
		const char *why;

		check(!arena_open(&arena, &identity, &options, &why) && !why);
		arena_close(arena);
	}
	(void)control;
}

static void have_very_many(struct control *control, unsigned number)
{
	(void)number;
	check(!child_wait(child_start(control, visit_many, 140)));
	check(brings(control, 1, 5) == 5);
	check(!brings(control, 1, 5)); /* the oldest sets have made room */
}

static void sets_when_they_are_very_many_then_the_newest_stay(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), have_very_many, 0), 0);
}

/* The kernel limits the descriptors that a user has sent and no process has received to the number
 * that a process may have. */
static void visit_as_nobody(struct control *control, unsigned number)
{
	struct rlimit few = {.rlim_cur = 40, .rlim_max = 40};

	(void)child_be_nobody();
	check(!setrlimit(RLIMIT_NOFILE, &few));
	visit_many(control, number);
}

static void have_nobody_as_worker(struct control *control, unsigned number)
{
	check(!child_wait(child_start(control, visit_as_nobody, number)));
}

static void sets_when_the_kernel_takes_no_more_of_them_then_no_error(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), have_nobody_as_worker, 60), 0);
}

/* --- dropping --------------------------------------------------------------------------------- */

static void drop_and_be_killed(struct control *control, unsigned number)
{
	child_die_at("kept-taken", number);
	visit_in_child(control, 4 * 256 + 16);
}

/* Two of the three sets are dropped, and the dying process may hold one of them. */
static void kill_who_drops(struct control *control, unsigned number)
{
	for (number = 0; number < 3; number++) {
		uint64_t brought = 0;

		for (unsigned set = 1; set <= 3; set++)
			(void)brings(control, set, 4);
		check(child_wait(child_start(control, drop_and_be_killed, number)) == SIGKILL);
		for (unsigned set = 1; set <= 3; set++)
			brought += brings(control, set, 4);
		check(brought >= 4 && brought <= 12);
		for (unsigned set = 1; set <= 3; set++)
			check(!brings(control, set, 4));
	}
}

static void sets_when_who_drops_one_is_killed_then_they_can_be_kept_again(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), kill_who_drops, 0), 0);
}

static void drop_and_stop(struct control *control, unsigned number)
{
	(void)number;
	child_stop_at("kept-taken");
	visit_in_child(control, 4 * 256 + 16);
}

static void stop_who_drops(struct control *control, unsigned number)
{
	pid_t pid;

	(void)number;
	check(brings(control, 1, 4) == 4 && brings(control, 2, 4) == 4);
	pid = child_start(control, drop_and_stop, 0);
	child_wait_stopped(pid);
	check(brings(control, 3, 5) == 5); /* no process waits for it for ever */
	kill(pid, SIGCONT);
	check(!child_wait(pid));
	check(!brings(control, 4, 16));
}

static void worker_when_another_is_stopped_while_it_drops_then_reads_without(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), stop_who_drops, 0), 0);
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
		cmocka_unit_test_setup(sets_when_they_do_not_fit_together_then_the_oldest_goes,
				       set_begin),
		cmocka_unit_test_setup(sets_when_another_is_open_then_have_what_it_does_not_want,
				       set_begin),
		cmocka_unit_test_setup(sets_when_one_was_met_with_little_then_all_of_it_counts,
				       set_begin),
		cmocka_unit_test_setup(set_when_met_with_a_part_of_the_budget_then_has_no_more,
				       set_begin),
		cmocka_unit_test_setup(
			sets_when_a_living_one_gets_the_share_of_one_that_ended_then_they_fit,
			set_begin),
		cmocka_unit_test_setup(set_when_its_file_was_replaced_then_is_not_found, set_begin),
		cmocka_unit_test_setup(snapshot_when_there_is_a_newer_one_then_goes, set_begin),
		cmocka_unit_test_setup(arena_when_open_or_kept_then_found_with_its_budget,
				       set_begin),
		cmocka_unit_test_setup(sets_when_they_are_very_many_then_the_newest_stay,
				       set_begin),
		cmocka_unit_test_setup(sets_when_the_kernel_takes_no_more_of_them_then_no_error,
				       set_begin),
		cmocka_unit_test_setup(
			sets_when_who_drops_one_is_killed_then_they_can_be_kept_again, set_begin),
		cmocka_unit_test_setup(
			worker_when_another_is_stopped_while_it_drops_then_reads_without,
			set_begin),
	};

	snapshot = (uint64_t)getpid() << 16;
	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
