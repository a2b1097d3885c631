/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that reading goes on when the process forks, loses a thread or is
 * interrupted, and that nothing of it is left behind. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io_contract.h"

#include "util/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
static const size_t sanitizer_threads = 1;
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
#else
static const size_t sanitizer_threads;
#endif

/* The arena is shared with the parent; a child that reads needs one of its own. */
pid_t start_child(struct subject *subject, child_body body, const void *arg)
{
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS };
	pid_t pid = fork();
	size_t i;

	if (pid != 0)
		return pid;
	(void)alarm(300);
	for (i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		(void)signal(deadly[i], SIG_DFL); /* cmocka would run the other tests in here */
	arena = mmap(NULL, ARENA_SLOTS * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	_exit(arena == MAP_FAILED ? 30 : body(subject, arg));
}

int end_child(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 31;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* In a child that was forked beside other threads, GCC 12's AddressSanitizer may hold its own lock
 * for ever as a thread starts, and ThreadSanitizer takes a new thread for an old one. */
static void skip_if_sanitizer_cannot_fork(const struct row *row)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	if (strcmp(row->name, "pread") == 0 || strcmp(row->name, "direct-threads") == 0 ||
	    strstr(row->name, "container")) {
		print_message("the sanitizer cannot start threads in the child\n");
		skip();
	}
#endif
	(void)row;
}

int read_as_child(struct subject *subject, const void *arg)
{
	struct io_request *out[1];
	size_t done;
	int rc;

	(void)arg;
	/* What was in flight is the parent's. */
	if (io_wait(&subject->io, out, 1, 1) != 0)
		return 20;
	if (io_read(&subject->io, arena, MIB, 5 * MIB, &done) || !has_pattern(arena, MIB, 5 * MIB))
		return 32;
	rc = read_in_flight(&subject->io, big_file.size, MIB, 16);
	if (rc)
		return rc;
	/* And closing with requests under way is the child's own affair. */
	if (submit_some(&subject->io, 16, MIB, 0, 0))
		return 33;
	close_subject(subject);
	return 0;
}

static int read_as_child_with_child(struct subject *subject, const void *arg)
{
	pid_t pid;
	int rc;

	if (submit_some(&subject->io, 8, MIB, 0, 0))
		return 34;
	pid = start_child(subject, read_as_child, arg);
	rc = finish_in_flight(&subject->io, 8 * MIB, MIB, 8 * MIB, 8);
	return rc ? rc : end_child(pid);
}

static void fork_with_requests_in_flight_leaves_both_reading(void **state)
{
	static const child_body bodies[] = { read_as_child, read_as_child_with_child };
	struct subject s;
	size_t i;
	pid_t pid;

	skip_if_sanitizer_cannot_fork(*state);
	open_subject(&s, *state, &big_file);
	for (i = 0; i < 2; i++) {
		assert_int_equal(submit_some(&s.io, 16, MIB, 0, 0), 0);
		pid = start_child(&s, bodies[i], NULL);
		assert_int_equal(finish_in_flight(&s.io, big_file.size, MIB, 16 * MIB, 16), 0);
		assert_int_equal(end_child(pid), 0);
		assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	}
	close_subject(&s);
}

struct other_thread {
	struct io *io;
	bool started, stop;
	int rc;
};

static void *keep_reading(void *arg)
{
	struct other_thread *other = arg;

	__atomic_store_n(&other->started, true, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&other->stop, __ATOMIC_RELAXED) && other->rc == 0)
		other->rc = read_in_flight(other->io, big_file.size, 65536, 16);
	return NULL;
}

/* At any moment of the other thread: in the middle of a submit, a wait, with a lock held. */
static void fork_beside_a_reading_thread_leaves_both_reading(void **state)
{
	struct other_thread other = { 0 };
	struct subject s;
	pthread_t thread;
	int i;

	skip_if_sanitizer_cannot_fork(*state);
	open_subject(&s, *state, &big_file);
	other.io = &s.io;
	assert_int_equal(pthread_create(&thread, NULL, keep_reading, &other), 0);
	while (!__atomic_load_n(&other.started, __ATOMIC_RELAXED))
		(void)sched_yield();
	for (i = 0; i < 5; i++)
		assert_int_equal(end_child(start_child(&s, read_as_child, NULL)), 0);
	__atomic_store_n(&other.stop, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(other.rc, 0);
	close_subject(&s);
}

static void *submit_and_end(void *arg)
{
	struct other_thread *other = arg;

	other->rc = submit_some(other->io, 32, MIB, 0, 0);
	return NULL;
}

/* The kernel cancels an ended thread's requests in a ring. */
static void requests_of_an_ended_thread_come_back(void **state)
{
	struct other_thread other = { 0 };
	struct subject s;
	pthread_t thread;
	int i;

	open_subject(&s, *state, &big_file);
	other.io = &s.io;
	for (i = 0; i < 5; i++) {
		assert_int_equal(pthread_create(&thread, NULL, submit_and_end, &other), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(other.rc, 0);
		assert_int_equal(finish_in_flight(&s.io, big_file.size, MIB, 32 * MIB, 32), 0);
	}
	close_subject(&s);
}

/* Entries of a folder of /proc, but not what the kernel itself runs for io_uring. */
static size_t count_entries(const char *folder)
{
	DIR *list = opendir(folder);
	struct dirent *entry;
	size_t n = 0;

	assert_non_null(list);
	while ((entry = readdir(list)) != NULL) {
		char path[512], name[32] = "";
		FILE *comm;

		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s/comm", folder, entry->d_name);
		comm = fopen(path, "r");
		if (comm) {
			(void)!fgets(name, sizeof(name), comm);
			(void)fclose(comm);
		}
		n += strncmp(name, "iou-", 4) != 0;
	}
	(void)closedir(list);
	return n;
}

/* A joined thread leaves /proc, and a closed ring frees itself, a little later. */
static void wait_for_count(const char *folder, size_t most)
{
	uint64_t until = clock_now() + 20 * CLOCK_SECOND;

	while (count_entries(folder) > most && clock_now() < until)
		(void)sched_yield();
	assert_in_range(count_entries(folder), 0, most);
}

static void rounds_of_open_and_close_leave_nothing(void **state)
{
	const size_t threads = 1 + sanitizer_threads;
	size_t fds = count_entries("/proc/self/fd");
	struct subject s;
	int i;

	wait_for_count("/proc/self/task", threads);
	for (i = 0; i < 100; i++) {
		open_subject(&s, *state, &big_file);
		assert_int_equal(read_in_flight(&s.io, MIB, 65536, 16), 0);
		close_subject(&s);
	}
	wait_for_count("/proc/self/fd", fds);
	wait_for_count("/proc/self/task", threads);
}

static void rest_when_nothing_is_in_flight_then_no_thread_stays(void **state)
{
	struct subject s;

	open_subject(&s, *state, &big_file);
	assert_int_equal(submit_some(&s.io, 16, MIB, 0, 0), 0);
	io_rest(&s.io);
	assert_int_equal(finish_in_flight(&s.io, big_file.size, MIB, 16 * MIB, 16), 0);
	io_rest(&s.io);
	wait_for_count("/proc/self/task", 1 + sanitizer_threads);
	io_rest(&s.io);
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	close_subject(&s);
}

static volatile sig_atomic_t signals_seen;

static void count_signal(int number)
{
	(void)number;
	signals_seen++;
}

struct pest {
	pthread_t thread, victim;
	bool stop;
};

static void *keep_signalling(void *arg)
{
	struct pest *pest = arg;

	while (!__atomic_load_n(&pest->stop, __ATOMIC_RELAXED)) {
		(void)pthread_kill(pest->victim, SIGUSR1);
		(void)sched_yield();
	}
	return NULL;
}

static void signals_under_way_do_no_harm(void **state)
{
	struct sigaction action = { .sa_handler = count_signal }, before; /* no SA_RESTART */
	struct pest pest = { .victim = pthread_self() };
	/* ThreadSanitizer lets them in only here and there. */
	const int enough = sanitizer_threads ? 50 : 1000;
	struct subject s;
	bool ring;

	open_subject(&s, *state, &big_file);
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	ring = has_ring();
	signals_seen = 0;
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_create(&pest.thread, NULL, keep_signalling, &pest), 0);
	do
		assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	while (signals_seen < enough);
	__atomic_store_n(&pest.stop, true, __ATOMIC_RELAXED);
	assert_int_equal(pthread_join(pest.thread, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	assert_int_equal(has_ring(), ring); /* an interruption is no reason to give it up */
	close_subject(&s);
}

/* A signal that the program keeps blocked must not find a thread of ours that takes it. */
static void signal_of_the_program_runs_on_no_helper(void **state)
{
	struct sigaction action = { .sa_handler = count_signal }, before;
	sigset_t user, old, pending;
	struct subject s;

	open_subject(&s, *state, &big_file);
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	signals_seen = 0;
	sigemptyset(&user);
	sigaddset(&user, SIGUSR1);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &user, &old), 0);
	assert_int_equal(kill(getpid(), SIGUSR1), 0);
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	assert_int_equal(signals_seen, 0);
	assert_int_equal(sigpending(&pending), 0);
	assert_int_equal(sigismember(&pending, SIGUSR1), 1);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	assert_int_equal(signals_seen, 1);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	close_subject(&s);
}

/* All that it did not open: the data file's, and those that a back end has opened since. */
static void take_all_places(int fd)
{
	for (int place = 3; place < 4096; place++)
		if (place != fd)
			(void)dup2(fd, place);
}

static int read_taken(struct subject *subject, const void *arg)
{
	struct io_request *back[8];
	size_t done, n;

	(void)arg;
	/* What a back end makes at its first requests is there. */
	if (submit_some(&subject->io, 8, MIB, 0, 0) || io_wait(&subject->io, back, 8, 8) != 8)
		return 1;
	take_all_places(small_file.fd);
	if (io_read(&subject->io, arena, 4096, 0, &done) != EBADF || done)
		return 2;
	if (submit_some(&subject->io, 8, MIB, 0, 0))
		return 3;
	n = io_wait(&subject->io, back, 8, 8);
	for (size_t i = 0; i < n; i++)
		if (back[i]->error != EBADF || back[i]->done)
			return 4;
	close_subject(subject);
	return n == 8 && fcntl(3, F_GETFD) >= 0 ? 0 : 5;
}

static void descriptors_taken_by_another_file_give_none_of_its_bytes(void **state)
{
	struct subject s;
	int rc;

	open_subject(&s, *state, &big_file);
	rc = end_child(start_child(&s, read_taken, NULL));
	close_subject(&s);
	assert_int_equal(rc, 0);
}

const struct contract_test process_tests[] = {
	TEST(ALL_ROWS, fork_with_requests_in_flight_leaves_both_reading),
	TEST(ALL_ROWS, fork_beside_a_reading_thread_leaves_both_reading),
	TEST(ALL_ROWS, requests_of_an_ended_thread_come_back),
	TEST(ALL_ROWS, rounds_of_open_and_close_leave_nothing),
	TEST(ALL_ROWS, rest_when_nothing_is_in_flight_then_no_thread_stays),
	TEST(ALL_ROWS, signals_under_way_do_no_harm),
	TEST(ALL_ROWS, signal_of_the_program_runs_on_no_helper),
	TEST(FILE_ROWS, descriptors_taken_by_another_file_give_none_of_its_bytes),
};
const size_t n_process_tests = sizeof(process_tests) / sizeof(process_tests[0]);
