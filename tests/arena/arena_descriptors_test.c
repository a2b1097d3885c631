/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the descriptors that keep an arena alive do no harm in a program, whatever it does
 * with descriptors: it may close all, reuse their numbers, or have few. */
#include "arena_workers.h"

#include "arena/arena_private.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* --- what keeps it ---------------------------------------------------------------------------- */

static bool sockets_refused, offsets_refused;
static unsigned
	look_refused;       /* the refused look at a file, from a new pair of sockets on; 0: none */
static unsigned looks_left; /* until the refused look */
static bool is_looking;     /* the look goes on by fstat(2) */

static unsigned descriptors_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < WORKER_DESCRIPTORS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

int __real_socketpair(int domain, int type, int protocol, int ends[2]);
int __wrap_socketpair(int domain, int type, int protocol, int ends[2]);

int __wrap_socketpair(int domain, int type, int protocol, int ends[2])
{
	if (!sockets_refused) {
		looks_left = look_refused;
		return __real_socketpair(domain, type, protocol, ends);
	}
	errno = EMFILE;
	return -1;
}

int __real_statx(int fd, const char *path, int flags, unsigned mask, struct statx *st);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *st);

int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *st)
{
	if (!looks_left || --looks_left)
		return __real_statx(fd, path, flags, mask, st);
	is_looking = true;
	errno = ENOMEM;
	return -1;
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);

int __wrap_fstat(int fd, struct stat *st)
{
	if (!is_looking)
		return __real_fstat(fd, st);
	is_looking = false;
	look_refused = 0;
	errno = ENOMEM;
	return -1;
}

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	if (!offsets_refused || name != SO_PEEK_OFF)
		return __real_setsockopt(fd, level, name, value, length);
	errno = ENOPROTOOPT;
	return -1;
}

static void fork_without_sockets(struct control *control, unsigned number)
{
	uint64_t inodes[4];
	int fds[4];
	pid_t pid;

	(void)number;
	sockets_refused = true;
	errno = ERANGE;
	pid = child_start(control, worker_do_nothing, 0);
	check(errno == ERANGE);
	check(!child_wait(pid));
	check(!keeper_is_there() && !worker_sockets(fds, inodes, 4));
	check(worker_reads(control) == WORKER_BLOCKS);
	check(worker_reads(control) == WORKER_BLOCKS);
}

static void parent_when_it_can_have_no_sockets_then_keeps_nothing(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), fork_without_sockets, 0), 0);
}

static void have_a_worker_read(struct control *control, unsigned number)
{
	(void)number;
	check(worker_reads(control) == WORKER_BLOCKS);
	check(!worker_reads(control));
}

/* The kernel does not tell which file one of the two sockets is. */
static void fork_without_a_look(struct control *control, unsigned number)
{
	unsigned before = descriptors_open();
	pid_t pid;

	look_refused = number + 1;
	errno = ERANGE;
	pid = child_start(control, worker_do_nothing, 0);
	check(errno == ERANGE);
	check(!child_wait(pid));
	check(!look_refused);
	check(!keeper_is_there() && descriptors_open() == before);
	check(worker_reads(control) == WORKER_BLOCKS);
	check(worker_reads(control) == WORKER_BLOCKS);
	check(!child_wait(
		child_start(control, have_a_worker_read, 0))); /* the child makes a pair */
}

static void parent_when_a_socket_cannot_be_looked_at_then_loses_no_descriptor(void **state)
{
	(void)state;
	for (unsigned end = 0; end < 2; end++) {
		struct control *control = child_control();

		assert_int_equal(child_run_parent(control, fork_without_a_look, end), 0);
		assert_int_equal(control->wrong, 0);
		assert_int_equal(control->direct, 0);
		worker_next_file(state);
	}
}

/* As on a kernel that does not know SO_PEEK_OFF for these sockets. */
static void work_without_offsets(struct control *control, unsigned number)
{
	struct arena *arena;
	unsigned before;

	(void)number;
	offsets_refused = true;
	check(worker_reads(control) == WORKER_BLOCKS);
	check(worker_reads(control) == WORKER_BLOCKS);
	check(keeper_is_there()); /* this process has not checked the keeper yet */
	before = descriptors_open();
	arena = child_open(&worker_data, WORKER_BUDGET);
	check(!keeper_is_there());
	worker_read_all(control, arena);
	arena_close(arena);
	check(descriptors_open() == before - 2);
	offsets_refused = false;
	have_a_worker_read(control, 0);
	check(keeper_is_there());
}

static void
kernel_when_it_refuses_a_look_then_nothing_is_kept_and_the_next_fork_makes_others(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, work_without_offsets, 0), 0);
	assert_int_equal(control->wrong, 0);
	assert_int_equal(control->direct, 0);
}

/* The sockets have gone by the time another arena's share has become free. */
static void close_sockets_and_fit(struct control *control, unsigned number)
{
	struct arena *arena;
	uint64_t inodes[8];
	int fds[8];

	(void)number;
	worker_run_once(control, 0);
	check(worker_sockets(fds, inodes, 8) == 2);
	worker_data.identity.inode++;
	arena = child_open(&worker_data, WORKER_BUDGET);
	close(fds[0]);
	keeper_fit(arena, 0, 0);
	check(!keeper_is_there());
	check(fcntl(fds[1], F_GETFD) < 0); /* the other end is useless */
	check(arena_budget(arena) == WORKER_BUDGET * (uint64_t)ARENA_CHUNK);
	worker_read_all(control, arena);
	arena_close(arena);
	check(!child_wait(child_start(control, worker_do_nothing, 0)));
	check(keeper_is_there() && worker_sockets(fds, inodes, 8) == 2);
}

static void
arena_when_the_sockets_are_gone_then_goes_on_and_the_next_fork_makes_others(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, close_sockets_and_fit, 0), 0);
	assert_int_equal(control->direct, 0);
}

/* The program closes descriptors that it did not open, and puts a file of its own in their
 * place. */
static void take_the_places(struct control *control, unsigned number)
{
	FILE *file = tmpfile();
	uint64_t inodes[4];
	struct stat st;
	int fds[4];

	check(file);
	worker_run_once(control, 0);
	check(worker_sockets(fds, inodes, 4) == 2);
	check(dup2(fileno(file), fds[number]) == fds[number]);
	check(worker_reads(control) == WORKER_BLOCKS);
	check(worker_reads(control) == WORKER_BLOCKS);
	check(!fstat(fds[number], &st) && st.st_size == 0 && S_ISREG(st.st_mode));
	fclose(file);
}

static void
program_when_it_takes_a_descriptor_then_nothing_is_kept_and_its_file_is_whole(void **state)
{
	(void)state;
	for (unsigned end = 0; end < 2; end++) {
		struct control *control = child_control();

		assert_int_equal(child_run_parent(control, take_the_places, end), 0);
		assert_int_equal(control->wrong, 0);
	}
}

/* As a daemon does: a child closes all that it has inherited, and forks workers of its own. */
static void close_all_and_fork(struct control *control, unsigned number)
{
	(void)number;
	for (int fd = 3; fd < WORKER_DESCRIPTORS; fd++)
		if (fd != worker_data.fd)
			close(fd);
	worker_come_and_go(control, 0);
}

static void have_a_daemon(struct control *control, unsigned number)
{
	(void)number;
	check(!child_wait(child_start(control, close_all_and_fork, 0)));
	check(atomic_load(&control->reads) == WORKER_BLOCKS);
}

static void child_when_it_has_closed_all_then_its_next_fork_makes_another(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), have_a_daemon, 0), 0);
}

/* The arena is shared or not; where even that is impossible, opening is refused. */
static void work_if_possible(struct control *control, unsigned number)
{
	struct arena_options options = worker_options(true);
	struct rlimit few = {.rlim_cur = number, .rlim_max = number};
	struct arena *arena;
	const char *why;
	int rc;

	check(!setrlimit(RLIMIT_NOFILE, &few));
	rc = arena_open(&arena, &worker_data.identity, &options, &why);
	check(!rc || rc == EMFILE);
	if (rc)
		return;
	worker_read_all(control, arena);
	arena_close(arena);
}

static void come_with_few_descriptors(struct control *control, unsigned number)
{
	(void)number;
	worker_run_once(control, 0);
	for (unsigned limit = (unsigned)worker_data.fd + 1; limit < (unsigned)worker_data.fd + 16;
	     limit++)
		check(!child_wait(child_start(control, work_if_possible, limit)));
	check(!worker_reads(control));
}

static void worker_when_descriptors_are_few_then_no_error(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_run_parent(control, come_with_few_descriptors, 0), 0);
	assert_int_equal(control->wrong, 0);
}

/* No descriptor is left for a program when half of them are in use. */
static void fork_with_half_in_use(struct control *control, unsigned number)
{
	struct rlimit few = {.rlim_cur = 32, .rlim_max = 4096};
	uint64_t inodes[4];
	int fds[4];

	(void)number;
	check(!setrlimit(RLIMIT_NOFILE, &few));
	while (dup(worker_data.fd) < 15)
		;
	check(!child_wait(child_start(control, worker_do_nothing, 0)));
	check(!worker_sockets(fds, inodes, 4));
}

static void parent_when_half_of_its_descriptors_are_in_use_then_keeps_nothing(void **state)
{
	(void)state;
	assert_int_equal(child_run_parent(child_control(), fork_with_half_in_use, 0), 0);
}

/* --- what a member keeps --------------------------------------------------------------------- */

/* Two members: the first pins a chunk and calls `act`, then the second wants all memory. */
static void (*act)(struct arena *arena);

static void close_everything(struct arena *arena)
{
	(void)arena;
	closefrom(3);
}

static void replace_the_life(struct arena *arena)
{
	FILE *file = tmpfile();

	check(file && dup2(fileno(file), arena->life.fd) == arena->life.fd);
}

static void pin_and_act(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_CHUNKS);
	struct reader reader;

	(void)number;
	child_reader(&reader, arena, &worker_data, control);
	check(arena_claim(arena, 1) && reader_load(&reader, ARENA_BLOCKS, ARENA_BLOCKS));
	arena_release(arena, 1);
	check(arena_pin(arena, 1));
	child_barrier(control, 2);
	act(arena);
	child_barrier(control, 2); /* the other member's turn */
	child_barrier(control, 2);
	check(!reader_wrong(&reader, ARENA_BLOCKS, ARENA_BLOCKS));
	(void)arena_bury_dead(arena);
	child_barrier(control, 2);
	_exit(0);
}

static void bury_and_evict(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_CHUNKS);
	struct reader reader;

	(void)number;
	child_reader(&reader, arena, &worker_data, control);
	check(arena_claim(arena, 2) && reader_load(&reader, 2 * ARENA_BLOCKS, ARENA_BLOCKS));
	arena_release(arena, 2);
	check(arena_pin(arena, 2));
	child_barrier(control, 2);
	child_barrier(control, 2);
	check(!arena_bury_dead(arena));
	(void)arena_evict(arena, WORKER_CHUNKS * ARENA_BLOCKS);
	child_barrier(control, 2);
	child_barrier(control, 2); /* the other member has looked for dead members */
	check(arena_pinned_by(arena, 2));
	check(!reader_wrong(&reader, 2 * ARENA_BLOCKS, ARENA_BLOCKS));
	_exit(0);
}

static void member_when_its_descriptors_are_gone_then_it_lives_and_so_do_others(void **state)
{
	void (*const acts[])(struct arena * arena) = {close_everything, replace_the_life};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct control *control = child_control();
		pid_t first, second;

		act = acts[i];
		first = child_start(control, pin_and_act, 0);
		second = child_start(control, bury_and_evict, 0);
		assert_int_equal(child_wait(first), 0);
		assert_int_equal(child_wait(second), 0);
	}
}

/* The descriptor that another thread of the program closes once the kernel has told a row's owner;
 * -1: none. */
static int closed_after_look = -1;

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);

int __wrap_fcntl(int fd, int command, ...)
{
	va_list arguments;
	void *argument;
	int rc;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	rc = __real_fcntl(fd, command, argument);
	if (command == F_OFD_GETLK && fd == closed_after_look) {
		close(fd);
		closed_after_look = -1;
	}
	return rc;
}

static void claim_and_be_killed(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_BUDGET);

	(void)control;
	check(arena_claim(arena, number));
	kill(getpid(), SIGKILL);
}

/* A dead process has claimed chunk `number`. */
static void lose_the_life_at_a_look(struct control *control, unsigned number)
{
	unsigned before = descriptors_open();
	struct arena *arena = child_open(&worker_data, WORKER_BUDGET);
	struct reader reader;

	child_barrier(control, 2);
	child_barrier(control, 2); /* the other process has been killed */
	closed_after_look = arena->life.fd;
	check(!arena_claim(arena, number));
	check(closed_after_look == -1);
	check(!arena_bury_dead(arena) && !arena_claim(arena, number));
	child_reader(&reader, arena, &worker_data, control);
	for (unsigned chunk = 0; chunk < WORKER_CHUNKS; chunk++)
		reader_use(&reader, chunk, 0, ARENA_BLOCKS);
	check(atomic_load(&control->direct) == 1); /* that chunk came from the file */
	reader_end(&reader);
	child_barrier(control, 2);
	child_barrier(control, 2); /* a third process has brought that chunk */
	worker_read_all(control, arena);
	check(atomic_load(&control->direct) == 1);
	arena_close(arena);
	check(descriptors_open() == before);
}

static void read_the_claimed_chunk(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_BUDGET);

	check(arena_used(arena) == (WORKER_CHUNKS - 1) * (uint64_t)ARENA_CHUNK);
	check(arena_claim(arena, number));
	arena_release(arena, number);
	worker_read_all(control, arena);
	arena_close(arena);
}

static void member_when_it_loses_a_descriptor_at_a_look_then_another_buries_the_dead(void **state)
{
	enum { CLAIMED = 1 };
	struct control *control = child_control();
	pid_t member = child_start(control, lose_the_life_at_a_look, CLAIMED);

	(void)state;
	child_barrier(control, 2);
	assert_int_equal(child_wait(child_start(control, claim_and_be_killed, CLAIMED)), SIGKILL);
	child_barrier(control, 2);
	child_barrier(control, 2);
	assert_int_equal(child_wait(child_start(control, read_the_claimed_chunk, CLAIMED)), 0);
	child_barrier(control, 2);
	assert_int_equal(child_wait(member), 0);
	assert_int_equal(control->wrong, 0);
	assert_int_equal(control->reads, WORKER_BLOCKS);
}

/* Puts the program's own files in place of the arena's descriptors. */
static void put_files_in_place(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_CHUNKS);
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fds[] = {arena->file.fd, arena->life.fd, arena->listener.fd}, server, client, taken;
	socklen_t length = sizeof(name.sun_family); /* the kernel chooses the name */

	(void)control;
	(void)number;
	for (unsigned i = 0; i < 3; i++)
		check(fds[i] >= 1000);
	closefrom(3);
	server = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	check(!bind(server, (struct sockaddr *)&name, length) && !listen(server, 1));
	length = sizeof(name);
	check(!getsockname(server, (struct sockaddr *)&name, &length));
	for (unsigned i = 0; i < 3; i++)
		check(dup2(server, fds[i]) == fds[i]);
	check(!connect(client, (struct sockaddr *)&name, length));
	arena_drain(arena);
	taken = accept(server, NULL, NULL);
	check(taken >= 0);
	arena_close(arena);
	for (unsigned i = 0; i < 3; i++)
		check(fcntl(fds[i], F_GETFD) >= 0);
}

static void arena_when_the_program_has_files_in_its_places_then_they_stay(void **state)
{
	(void)state;
	assert_int_equal(child_wait(child_start(child_control(), put_files_in_place, 0)), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			program_when_it_takes_a_descriptor_then_nothing_is_kept_and_its_file_is_whole,
			worker_next_file),
		cmocka_unit_test_setup(
			child_when_it_has_closed_all_then_its_next_fork_makes_another,
			worker_next_file),
		cmocka_unit_test_setup(parent_when_it_can_have_no_sockets_then_keeps_nothing,
				       worker_next_file),
		cmocka_unit_test_setup(
			parent_when_a_socket_cannot_be_looked_at_then_loses_no_descriptor,
			worker_next_file),
		cmocka_unit_test_setup(
			kernel_when_it_refuses_a_look_then_nothing_is_kept_and_the_next_fork_makes_others,
			worker_next_file),
		cmocka_unit_test_setup(
			arena_when_the_sockets_are_gone_then_goes_on_and_the_next_fork_makes_others,
			worker_next_file),
		cmocka_unit_test_setup(worker_when_descriptors_are_few_then_no_error,
				       worker_next_file),
		cmocka_unit_test_setup(
			parent_when_half_of_its_descriptors_are_in_use_then_keeps_nothing,
			worker_next_file),
		cmocka_unit_test_setup(
			member_when_its_descriptors_are_gone_then_it_lives_and_so_do_others,
			worker_next_file),
		cmocka_unit_test_setup(
			member_when_it_loses_a_descriptor_at_a_look_then_another_buries_the_dead,
			worker_next_file),
		cmocka_unit_test_setup(
			arena_when_the_program_has_files_in_its_places_then_they_stay,
			worker_next_file),
	};
	int failed;

	worker_data = dataset_make(WORKER_CHUNKS);
	alarm(300);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&worker_data);
	return failed;
}
