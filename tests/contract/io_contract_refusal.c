/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that reading goes on when the system refuses threads or io_uring, from
 * the start or in the middle. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "io_contract.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A child's answers beyond those of read_as_child(). */
enum { CANNOT = 77, RING_THERE = 21 };

/* A child that changes itself for good, on a subject of its own. */
static void run_alone(const struct row *row, child_body body, const void *arg)
{
	struct subject s;
	int rc;

	open_subject(&s, row, &big_file);
	rc = end_child(start_child(&s, body, arg));
	close_subject(&s);
	if (rc == CANNOT)
		skip();
	assert_int_equal(rc, 0);
}

bool has_ring(void)
{
	DIR *list = opendir("/proc/self/fd");
	struct dirent *entry;
	bool found = false;

	while (list && (entry = readdir(list)) != NULL) {
		char to[64] = "";

		if (readlinkat(dirfd(list), entry->d_name, to, sizeof(to) - 1) > 0)
			found = found || strstr(to, "io_uring") != NULL;
	}
	if (list)
		(void)closedir(list);
	return found;
}

struct refusal {
	int calls[2]; /* system call numbers; the same twice for one */
	int error;
};

/* Makes the kernel refuse, from now on and for this thread and those it starts. */
static int refuse(const struct refusal *refusal)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refusal->calls[0], 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refusal->calls[1], 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refusal->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int read_without_threads(struct subject *subject, const void *arg)
{
	if (refuse(arg) != 0)
		return CANNOT;
	return read_as_child(subject, arg);
}

static void threads_refused_means_reading_without(void **state)
{
	const struct refusal refusal = { { SYS_clone, SYS_clone3 }, EAGAIN };

	run_alone(*state, read_without_threads, &refusal);
}

static int read_at_process_limit(struct subject *subject, const void *arg)
{
	const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_NPROC, &none) != 0)
		return CANNOT;
	if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) /* root has no limit */
		return CANNOT;
	return read_as_child(subject, arg);
}

static void process_limit_reached_means_reading_without(void **state)
{
	run_alone(*state, read_at_process_limit, NULL);
}

static int read_without_ring(struct subject *subject, const void *arg)
{
	int rc;

	if (refuse(arg) != 0)
		return CANNOT;
	rc = read_in_flight(&subject->io, big_file.size, MIB, 16);
	if (rc == 0 && has_ring())
		return RING_THERE;
	return rc ? rc : read_as_child(subject, arg);
}

static void ring_refused_means_reading_by_threads(void **state)
{
	static const int errors[] = { EPERM, ENOSYS, ENOMEM, EACCES };
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		const struct refusal refusal = {
			{ SYS_io_uring_setup, SYS_io_uring_setup }, errors[i]
		};

		run_alone(*state, read_without_ring, &refusal);
	}
}

/* Some are in the kernel, some in the ring, and some wait outside when it stops. */
static int read_past_end_of_ring(struct subject *subject, const void *arg)
{
	int rc;

	if (submit_some(&subject->io, 48, MIB, 0, 0))
		return 35;
	if (!has_ring() || refuse(arg) != 0)
		return CANNOT;
	if (submit_some(&subject->io, 16, MIB, 48 * MIB, 48))
		return 36;
	rc = finish_in_flight(&subject->io, big_file.size, MIB, 64 * MIB, 64);
	if (rc == 0 && has_ring())
		return RING_THERE;
	return rc ? rc : read_as_child(subject, arg);
}

static int close_past_end_of_ring(struct subject *subject, const void *arg)
{
	size_t i;

	if (submit_some(&subject->io, 40, MIB, 0, 0))
		return 37;
	if (!has_ring() || refuse(arg) != 0)
		return CANNOT;
	close_subject(subject);
	for (i = 0; i < 40; i++) {
		if (!has_pattern(arena + i * MIB, MIB, i * MIB))
			return 38;
	}
	return has_ring() ? RING_THERE : 0;
}

static void ring_that_stops_under_way_loses_no_request(void **state)
{
	static const int errors[] = { EPERM, ENOSYS, EAGAIN, EBUSY, EBADF };
	const struct row *row = *state;
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		const struct refusal refusal = {
			{ SYS_io_uring_enter, SYS_io_uring_enter }, errors[i]
		};

		run_alone(row, read_past_end_of_ring, &refusal);
		run_alone(row, close_past_end_of_ring, &refusal);
	}
}

/* A ring is used where the kernel has one, is not before it is needed, and goes with its io. */
static void ring_comes_with_the_first_request_and_goes_with_the_io(void **state)
{
	const struct row *row = *state;
	struct subject s;
	size_t done;
	long ring;

#ifndef HAVE_LIBURING
	print_message("built without liburing\n");
	skip();
#endif
	/* No entries: EINVAL or EFAULT, or else what stands against it. */
	ring = syscall(SYS_io_uring_setup, 0, NULL);
	assert_int_equal(ring, -1);
	if (errno != EINVAL && errno != EFAULT)
		skip();
	open_subject(&s, row, &big_file);
	assert_int_equal(io_read(&s.io, arena, MIB, 0, &done), 0);
	assert_false(has_ring());
	assert_int_equal(read_in_flight(&s.io, big_file.size, MIB, 16), 0);
	assert_true(has_ring());
	close_subject(&s);
	assert_false(has_ring());
}

const struct contract_test refusal_tests[] = {
	TEST(ALL_ROWS, threads_refused_means_reading_without),
	TEST(ALL_ROWS, process_limit_reached_means_reading_without),
	TEST(ALL_ROWS, ring_refused_means_reading_by_threads),
	TEST(DIRECT_ROW, ring_that_stops_under_way_loses_no_request),
	TEST(DIRECT_ROW, ring_comes_with_the_first_request_and_goes_with_the_io),
};
const size_t n_refusal_tests = sizeof(refusal_tests) / sizeof(refusal_tests[0]);
