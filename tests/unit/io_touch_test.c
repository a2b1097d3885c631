/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests page faults that a system call takes for the program. They leave the same state as the
 * program's own faults, return an errno in place of a signal, and need no madvise(), which submits
 * reads late. */
#include "io/io_page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGE = 4096, PAGES = 300 };

static unsigned populates;
static bool refused;  /* a sandbox refuses the call */
static bool outdated; /* the kernel is older than the advice */
static uint64_t touch_ns; /* of a touch, by a clock that nothing else moves; 0: the real clock */
static uint64_t moved;

int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);
long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!touch_ns)
		return __real_clock_gettime(clock, time);
	*time = (struct timespec){.tv_nsec = (long)moved};
	return 0;
}

int __wrap_madvise(void *address, size_t length, int advice)
{
	populates++;
	if (outdated) {
		errno = EINVAL;
		return -1;
	}
	return __real_madvise(address, length, advice);
}

long __wrap_syscall(long number, ...)
{
	va_list rest;
	long which;
	const void *page;
	void *old;

	va_start(rest, number);
	which = va_arg(rest, int);
	page = va_arg(rest, const void *);
	old = va_arg(rest, void *);
	va_end(rest);
	assert_int_equal(number, SYS_setitimer);
	moved += touch_ns;
	if (refused) {
		errno = EPERM;
		return -1;
	}
	return __real_syscall(number, which, page, old);
}

struct file {
	int fd;
	uint8_t *map; /* one page longer than the file */
};

static int setup(void **state)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file || (file->fd = memfd_create("io-touch-test", MFD_CLOEXEC)) < 0 ||
	    ftruncate(file->fd, PAGES * PAGE) ||
	    fallocate(file->fd, 0, 0, PAGES * PAGE))
		return -1;
	file->map = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ, MAP_SHARED, file->fd, 0);
	*state = file;
	populates = 0;
	return file->map == MAP_FAILED;
}

static int teardown(void **state)
{
	struct file *file = *state;

	munmap(file->map, (PAGES + 1) * PAGE);
	close(file->fd);
	free(file);
	return 0;
}

static long faults(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_minflt + usage.ru_majflt;
}

/* A sanitizer would read the address itself, and take the fault. */
__attribute__((no_sanitize_address, no_sanitize_thread, noinline)) static uint8_t
byte_at(const volatile uint8_t *byte)
{
	return *byte;
}

static void page_when_touched_then_the_program_takes_no_fault_for_it(void **state)
{
	const struct file *file = *state;
	long before;

	assert_int_equal(io_touch(file->map + 7 * PAGE), 0);
	before = faults();
	assert_int_equal(byte_at(file->map + 7 * PAGE), 0);
	assert_int_equal(faults(), before);
	assert_int_equal(populates, 0);
}

static void page_when_there_is_none_then_eio(void **state)
{
	const struct file *file = *state;
	void *hidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(hidden, MAP_FAILED);
	assert_int_equal(io_touch(file->map + PAGES * PAGE), EIO); /* behind the file's end */
	assert_int_equal(io_touch(hidden), EIO);
	munmap(hidden, PAGE);
	assert_int_equal(io_touch(file->map + (PAGES - 1) * PAGE), 0);
	assert_int_equal(populates, 0);
}

/* Whether a process whose sandbox refuses the call gets the same answers. */
static int touches_refused(const struct file *file)
{
	long before;

	refused = true;
	if (io_touch(file->map + 9 * PAGE))
		return 1;
	/* A forked process takes faults for the program's code, too. */
	(void)byte_at((const uint8_t *)&refused);
	(void)faults();
	before = faults();
	(void)byte_at(file->map + 9 * PAGE);
	if (faults() != before)
		return 2;
	if (io_touch(file->map + PAGES * PAGE) != EIO)
		return 3;
	if (populates != 2)
		return 4;
	outdated = true;
	return io_touch(file->map + 9 * PAGE) == ENOSYS ? 0 : 5;
}

/* Must be the first test: the process keeps the result. */
static void page_when_the_call_is_refused_then_madvise_answers(void **state)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(touches_refused(*state));
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Asks in a child, because a process measures once. Returns io_touch_is_dear(), or -1: its second
 * answer is another one. */
static int is_dear(uint64_t ns)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		bool dear;

		touch_ns = ns;
		dear = io_touch_is_dear();
		touch_ns = dear ? 1 : 1000000;
		_exit(io_touch_is_dear() == dear ? dear : 2);
	}
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == 2 ? -1 : WEXITSTATUS(status);
}

static void touch_when_it_takes_far_longer_than_a_fault_then_dear(void **state)
{
	(void)state;
	assert_int_equal(is_dear(250), false);
	assert_int_equal(is_dear(5000), true);
}

static void bytes_when_passed_then_all_are_asked_for(void **state)
{
	const struct file *file = *state;

	assert_int_equal(io_pass(file->fd, 0, PAGES * PAGE), 0);
	assert_int_equal(io_pass(file->fd, 5 * PAGE + 100, 200), 0);
	assert_int_equal(io_pass(file->fd, 5 * PAGE, (PAGES - 5) * PAGE), 0);
	assert_int_equal(io_pass(file->fd, 5 * PAGE, (PAGES - 4) * PAGE), EIO);
	assert_int_equal(io_pass(file->fd, PAGES * PAGE, 1), EIO);
	assert_int_equal(io_pass(-1, 0, PAGE), EBADF);
}

static void range_when_its_read_is_begun_then_an_errno_tells_of_a_bad_descriptor(void **state)
{
	const struct file *file = *state;

	assert_int_equal(io_begin(file->fd, 0, PAGES * PAGE), 0);
	assert_int_equal(io_begin(-1, 0, PAGE), EBADF);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(page_when_the_call_is_refused_then_madvise_answers),
		CASE(page_when_touched_then_the_program_takes_no_fault_for_it),
		CASE(page_when_there_is_none_then_eio),
		CASE(touch_when_it_takes_far_longer_than_a_fault_then_dear),
		CASE(bytes_when_passed_then_all_are_asked_for),
		CASE(range_when_its_read_is_begun_then_an_errno_tells_of_a_bad_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
