/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that counters outlive their process, and which table a process accepts as its own. */
#include "util/stats.h"
#include "util/clock.h"
#include "util/stats_private.h"
#include "util/stats_table.h"

#include "child_said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 4096, NOBODY = 65534 };

/* Runs body(table) in a child; returns waitpid()'s status. */
static int in_child(void (*body)(struct stats_table *table), struct stats_table *table)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		body(table);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Runs body() with a table of its own in a child that ends well; returns the table's sums. */
static struct stats_sum sum_after(void (*body)(struct stats_table *table))
{
	struct stats_table table;
	struct stats_sum sum;

	assert_int_equal(stats_table_make(&table), 0);
	assert_int_equal(in_child(body, &table), 0);
	stats_sum_table(&table, &sum);
	stats_table_close(&table);
	return sum;
}

/* A process that joins `table`, as a program of lmdbio-run does. */
static void join(struct stats_table *table)
{
	char where[STATS_WHERE];

	snprintf(where, sizeof(where), "%ld/%d/%llu", (long)getppid(), table->fd,
		 (unsigned long long)table->inode);
	setenv("LMDBIO_STATS_AT", where, 1);
	stats_opened();
	if (!stats_own_table() || stats_own_table()->inode != table->inode)
		_exit(1);
}

static void count_and_exit(struct stats_table *table)
{
	join(table);
	stats_add(STATS_EVICTIONS, 7);
	_exit(0);
}

static void count_and_be_killed(struct stats_table *table)
{
	join(table);
	stats_add(STATS_EVICTIONS, 11);
	raise(SIGKILL);
}

static void counters_of_processes_that_are_killed_stay(void **state)
{
	struct stats_table table;
	struct stats_sum sum;

	(void)state;
	assert_int_equal(stats_table_make(&table), 0);
	assert_int_equal(in_child(count_and_exit, &table), 0);
	assert_int_equal(in_child(count_and_be_killed, &table), SIGKILL);
	stats_sum_table(&table, &sum);
	assert_int_equal(sum.counters[STATS_EVICTIONS], 18);
	assert_int_equal(sum.processes, 2);
	assert_int_equal(sum.living, 0);
	assert_false(stats_any());
	stats_table_close(&table);
}

static void fork_and_count(struct stats_table *table)
{
	int status;
	pid_t pid;

	join(table);
	stats_add(STATS_EVICTIONS, 1);
	for (int i = 0; i < 3; i++) {
		pid = fork();
		if (!pid) {
			if (stats_any())
				_exit(2);
			if (i == 0)
				_exit(0); /* a child that reads nothing has no slot */
			stats_opened();
			stats_add(STATS_EVICTIONS, 10);
			raise(SIGKILL);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			_exit(3);
		if (WIFEXITED(status) && WEXITSTATUS(status))
			_exit(WEXITSTATUS(status));
	}
	if (stats_get(STATS_EVICTIONS) != 1)
		_exit(4);
}

static void forked_children_have_slots_of_their_own(void **state)
{
	struct stats_sum sum = sum_after(fork_and_count);

	(void)state;
	assert_int_equal(sum.counters[STATS_EVICTIONS], 21);
	assert_int_equal(sum.processes, 3);
}

static void close_and_fork(struct stats_table *table)
{
	int status;
	pid_t pid;

	join(table);
	close(stats_own_table()->fd);
	pid = fork();
	if (!pid) {
		stats_opened();
		stats_add(STATS_EVICTIONS, 5);
		_exit(!stats_own_table());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(3);
}

static void child_of_a_program_that_closed_the_descriptor_is_counted(void **state)
{
	struct stats_sum sum = sum_after(close_and_fork);

	(void)state;
	assert_int_equal(sum.counters[STATS_EVICTIONS], 5);
	assert_int_equal(sum.processes, 2);
}

/* --- which table is joined -------------------------------------------------------------------- */

static int join_answer(const struct stats_table *table, int64_t inode)
{
	struct stats_table joined;
	char where[STATS_WHERE];
	int rc;

	snprintf(where, sizeof(where), "%ld/%d/%llu", (long)getpid(), table->fd,
		 (unsigned long long)(inode ? (uint64_t)inode : table->inode));
	rc = stats_table_join(&joined, where);
	if (!rc)
		stats_table_close(&joined);
	assert_null(joined.head);
	return rc;
}

static bool lacks_memory; /* private memory cannot be mapped */

void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (lacks_memory && flags & MAP_PRIVATE) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(address, length, protection, flags, fd, offset);
}

static void fork_without_memory(struct stats_table *table)
{
	int status;
	pid_t pid;

	join(table);
	stats_add(STATS_EVICTIONS, 1);
	lacks_memory = true;
	pid = fork();
	if (!pid) {
		stats_opened();
		stats_add(STATS_EVICTIONS, 5);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		_exit(3);
	if (stats_get(STATS_EVICTIONS) < 1 || stats_owner_pid(stats_own.owner) != getpid() ||
	    stats_own.ended_ns)
		_exit(4);
}

static void child_without_memory_for_its_counters_leaves_its_parent_s(void **state)
{
	struct stats_sum sum = sum_after(fork_without_memory);

	(void)state;
	assert_int_equal(sum.counters[STATS_EVICTIONS], 6);
	assert_int_equal(sum.processes, 1);
}

static void table_of_another_version_is_not_joined(void **state)
{
	struct stats_table table;

	(void)state;
	assert_int_equal(stats_table_make(&table), 0);
	assert_int_equal(join_answer(&table, 0), 0);
	table.head->version++;
	assert_int_equal(join_answer(&table, 0), EPROTO);
	table.head->version--;
	table.head->counters++;
	assert_int_equal(join_answer(&table, 0), EPROTO);
	table.head->counters--;
	table.head->slot_size++;
	assert_int_equal(join_answer(&table, 0), EPROTO);
	table.head->slot_size--;
	table.head->magic++;
	assert_int_equal(join_answer(&table, 0), ENOENT);
	stats_table_close(&table);
}

static void file_that_is_no_table_is_not_joined(void **state)
{
	struct stats_table table;
	struct stats_table other = {.fd = memfd_create(STATS_MEMFD, MFD_ALLOW_SEALING)};

	(void)state;
	assert_int_equal(stats_table_make(&table), 0);
	assert_int_equal(join_answer(&table, (int64_t)table.inode + 1), ENOENT);
	fchmod(table.fd, 0644); /* other users could open it */
	assert_int_equal(join_answer(&table, 0), ENOENT);
	stats_table_close(&table);
	assert_true(other.fd >= 0);
	fchmod(other.fd, 0600);
	assert_int_equal(join_answer(&other, 1), ENOENT); /* can be cut */
	assert_int_equal(fcntl(other.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(join_answer(&other, 1), EPROTO); /* is too short */
	close(other.fd);
	assert_int_equal(stats_table_join(&table, "1/2"), ENOENT);
	assert_int_equal(stats_table_join(&table, "-1/2/3"), ENOENT);
}

static void join_as_another_user(struct stats_table *table)
{
	struct stats_table joined;
	char where[STATS_WHERE];
	int rc;

	if (geteuid())
		return;
	snprintf(where, sizeof(where), "%ld/%d/%llu", (long)getppid(), table->fd,
		 (unsigned long long)table->inode);
	if (setgid(NOBODY) || setuid(NOBODY))
		_exit(2);
	rc = stats_table_join(&joined, where);
	/* The process is refused even with a descriptor of its own that it has inherited: what
	 * counts is the owner. */
	snprintf(where, sizeof(where), "%ld/%d/%llu", (long)getpid(), table->fd,
		 (unsigned long long)table->inode);
	_exit(!rc || !stats_table_join(&joined, where));
}

static void table_of_another_user_is_not_joined(void **state)
{
	struct stats_table table;

	(void)state;
	assert_int_equal(stats_table_make(&table), 0);
	assert_int_equal(in_child(join_as_another_user, &table), 0);
	stats_table_close(&table);
}

/* --- all slots given out ---------------------------------------------------------------------- */

static pid_t dead_pid(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void slots_of_dead_processes_are_given_again(void **state)
{
	uint64_t own = stats_owner_of(getpid()), dead = (uint64_t)dead_pid();
	struct stats_table table;
	struct stats_slot *slot;
	struct stats_sum sum;

	(void)state;
	assert_true(stats_owner_lives(own));
	assert_false(stats_owner_lives(dead));
	assert_false(stats_owner_lives(own + (UINT64_C(1) << STATS_PID_BITS)));
	assert_int_equal(stats_table_make(&table), 0);
	for (int i = 0; i < STATS_SLOTS; i++) {
		slot = stats_table_take(&table, own);
		assert_ptr_equal(slot, &table.slots[i]);
		slot->opened_ns = 100;
		slot->seen_ns = 400;
		slot->ended_ns = 0;
		slot->counters[STATS_WAITS].value = 1;
		slot->counters[STATS_WAIT_NS].value = 10;
	}
	/* A server's life is no time that a program could have waited. */
	table.slots[9].owner = dead;
	table.slots[9].kind = STATS_SERVER_KIND;
	assert_ptr_equal(stats_table_take(&table, own), &table.slots[9]);
	assert_int_equal(table.slots[9].past_elapsed_ns, 0);
	table.slots[5].owner = dead;
	slot = stats_table_take(&table, own);
	assert_ptr_equal(slot, &table.slots[5]);
	slot->opened_ns = slot->ended_ns = 500;
	slot->counters[STATS_WAIT_NS].value += 3;
	assert_null(stats_table_take(&table, own));
	stats_sum_table(&table, &sum);
	assert_int_equal(sum.processes, STATS_SLOTS + 1);
	assert_int_equal(sum.counters[STATS_WAIT_NS], STATS_SLOTS * 10 + 3);
	sum = (struct stats_sum){.processes = 0};
	stats_sum_slot(slot, true, &sum);
	assert_int_equal(sum.counters[STATS_WAIT_NS], 3);
	assert_int_equal(slot->past_elapsed_ns, 300);
	assert_int_equal(slot->past_of_ns, 300);
	stats_table_close(&table);
}

/* A program that forks workers all its life: its table does not grow, and no wait is lost. */
static void table_of_many_dead_processes_stays_small(void **state)
{
	const uint64_t second = UINT64_C(1000000000), first = clock_now() - 50 * second;
	uint64_t dead = (uint64_t)dead_pid(), waits = 0;
	struct stats_table table;
	struct stats_sum sum;
	struct stat st;

	(void)state;
	assert_int_equal(stats_table_make(&table), 0);
	for (unsigned i = 0; i < 10 * STATS_KEPT; i++) {
		struct stats_slot *slot = stats_table_take(&table, dead);

		assert_non_null(slot);
		assert_int_equal(slot->opened_ns, 0);
		slot->opened_ns = first + i % 10 * second;
		slot->seen_ns = slot->opened_ns + second;
		slot->counters[STATS_WAIT_NS].value += i;
		stats_spans_add(slot, slot->opened_ns + second / 2, i);
		waits += i;
	}
	assert_int_equal(fstat(table.fd, &st), 0);
	assert_true((uint64_t)st.st_blocks * 512 <=
		    sizeof(struct stats_head) + STATS_KEPT * sizeof(struct stats_slot));
	stats_sum_table(&table, &sum);
	assert_int_equal(sum.processes, 10 * STATS_KEPT);
	assert_int_equal(sum.counters[STATS_WAIT_NS], waits);
	assert_int_equal(sum.opened_ns, first);
	for (unsigned i = 0; i < STATS_SPANS; i++) {
		assert_true(sum.scale > 0 || i < 10 || !sum.spans[i]);
		waits -= sum.spans[i];
	}
	assert_int_equal(waits, 0);
	stats_table_close(&table);
}

static struct stats_table *full;

static void open_in_a_full_table(void)
{
	char where[STATS_WHERE];

	for (int i = 0; i < STATS_SLOTS; i++)
		(void)stats_table_take(full, stats_owner_of(getppid()));
	snprintf(where, sizeof(where), "%ld/%d/%llu", (long)getppid(), full->fd,
		 (unsigned long long)full->inode);
	setenv("LMDBIO_STATS_AT", where, 1);
	setenv("LMDBIO_STATS", "json", 1);
	stats_opened();
	stats_add(STATS_EVICTIONS, 3);
}

static void process_in_a_full_table_counts_for_itself_and_says_so(void **state)
{
	char said[2 * STATS_REPORT];
	struct stats_table table;

	(void)state;
	assert_int_equal(stats_table_make(&table), 0);
	table.head->reporter = stats_owner_of(getpid());
	full = &table;
	child_run(open_in_a_full_table, said, sizeof(said));
	assert_int_equal(child_lines(said), 2);
	assert_non_null(strstr(said, "count for themselves"));
	assert_non_null(strstr(said, "\"evictions\": 3,"));
	assert_int_equal(table.head->told_full, 1);
	stats_table_close(&table);
}

/* --- what others see -------------------------------------------------------------------------- */

static const struct stats_process *row_of(const struct stats_process *rows, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (stats_owner_pid(rows[i].owner) == pid)
			return &rows[i];
	return NULL;
}

/* A process with a table of its own, which runs until the pipe's other end closes. */
static pid_t alone_start(int ready[2], int hold[2])
{
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (pid)
		return pid;
	close(hold[1]);
	unsetenv("LMDBIO_STATS_AT");
	stats_opened();
	stats_budget(12345);
	stats_queue(2);
	stats_add(STATS_EVICTIONS, 21);
	(void)!write(ready[1], "", 1);
	(void)!read(hold[0], &byte, 1);
	raise(SIGKILL);
	return -1;
}

static void processes_of_the_node_are_found(void **state)
{
	struct stats_process *rows = calloc(ROWS, sizeof(*rows));
	const struct stats_process *row;
	int ready[2], hold[2], status;
	unsigned others;
	pid_t pid = alone_start(ready, hold);
	char byte;

	(void)state;
	assert_non_null(rows);
	assert_true(pid > 0);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	row = row_of(rows, stats_node_read(rows, ROWS, &others), pid);
	assert_non_null(row);
	assert_int_equal(row->owner, stats_owner_of(pid));
	assert_true(row->lives && row->opened_ns);
	assert_int_equal(row->counters[STATS_EVICTIONS], 21);
	assert_int_equal(row->budget, 12345);
	assert_int_equal(row->queue, 2);
	assert_int_equal(row->environments, 1);
	assert_string_equal(row->program, program_invocation_short_name);
	close(hold[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, SIGKILL);
	assert_null(row_of(rows, stats_node_read(rows, ROWS, &others), pid));
	close(ready[0]);
	close(ready[1]);
	close(hold[0]);
	free(rows);
}

/* Checks whether this process has a table of its own, before it reads and after one of the ways to
 * get a table. */
static void read_and_exit(void (*read_some)(void))
{
	int answer;

	unsetenv("LMDBIO_STATS_AT");
	stats_opened();
	stats_budget(99);
	answer = stats_own_table() ? 1 : 0;
	read_some();
	answer |= stats_own_table() ? 2 : 0;
	if (atomic_load(&stats_own.budget) != 99 || atomic_load(&stats_own.environments) != 1)
		answer |= 4;
	stats_closed();
	if (atomic_load(&stats_own.environments))
		answer |= 8;
	_exit(answer);
}

static void nothing(void)
{
	stats_add(STATS_HITS_CACHE, 1);
}

static void stay_young(void)
{
	stats_own.opened_ns += UINT64_C(1000000000000);
	stats_lasts();
}

static void wait_once(void)
{
	stats_waited(clock_now() - 5);
}

static void ask_storage(void)
{
	stats_requests(1, 4096);
}

static void ask_ahead(void)
{
	stats_queue(1);
	stats_queue(-1);
}

static void grow_old(void)
{
	stats_own.opened_ns -= UINT64_C(1000000000);
	stats_lasts();
}

static void process_has_a_table_from_its_first_read_on(void **state)
{
	static const struct {
		void (*read_some)(void);
		int answer;
	} cases[] = {
		{nothing, 0},     {stay_young, 0}, {wait_once, 2},
		{ask_storage, 2}, {ask_ahead, 2},  {grow_old, 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status;
		pid_t pid = fork();

		if (!pid)
			read_and_exit(cases[i].read_some);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), cases[i].answer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_of_processes_that_are_killed_stay),
		cmocka_unit_test(forked_children_have_slots_of_their_own),
		cmocka_unit_test(child_of_a_program_that_closed_the_descriptor_is_counted),
		cmocka_unit_test(child_without_memory_for_its_counters_leaves_its_parent_s),
		cmocka_unit_test(table_of_another_version_is_not_joined),
		cmocka_unit_test(file_that_is_no_table_is_not_joined),
		cmocka_unit_test(table_of_another_user_is_not_joined),
		cmocka_unit_test(slots_of_dead_processes_are_given_again),
		cmocka_unit_test(table_of_many_dead_processes_stays_small),
		cmocka_unit_test(process_in_a_full_table_counts_for_itself_and_says_so),
		cmocka_unit_test(processes_of_the_node_are_found),
		cmocka_unit_test(process_has_a_table_from_its_first_read_on),
	};

	return cmocka_run_group_tests(tests, child_environment_clear, NULL);
}
