/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which back end each kind of file system is to get. Linked with
 * --wrap=fstatfs, --wrap=statx and --wrap=clock_gettime, so that one ordinary file can lie on any of
 * them, and reading it takes what we say. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static long pretended; /* f_type; 0: the true answer, -1: a failure */
static int file = -1;
static bool has_direct;

int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);

int __wrap_fstatfs(int fd, struct statfs *fs)
{
	if (pretended == -1) {
		errno = EIO;
		return -1;
	}
	if (__real_fstatfs(fd, fs) != 0)
		return -1;
	if (pretended)
		fs->f_type = (__typeof__(fs->f_type))pretended;
	return 0;
}

struct expectation {
	long magic; /* as statfs(2) and the kernel's linux/magic.h have it */
	const char *name;
	const char *why; /* how it begins, if O_DIRECT can be had */
};

static const struct expectation expectations[] = {
	{0x0bd00bd0, "direct", "lustre"},
	{0x47504653, "direct", "gpfs"},
	{0x19830326, "direct", "beegfs"},
	{0x20030528, "direct", "pvfs2"},
	{0x65735546, "direct", "fuse"},
	{0x00c36400, "direct", "cephfs"},
	{0x6969, "direct", "nfs"},
	{0xff534d42, "direct", "cifs"},
	{(int)0xff534d42, "direct", "cifs"}, /* sign-extended, as 32-bit systems have it */
	{0x01021997, "direct", "9p"},
	{0xef53, "pread", "ext4"},
	{0x58465342, "pread", "xfs"},
	{0x9123683e, "pread", "btrfs"},
	{0x01021994, "pread", "tmpfs"},
	{0x794c7630, "pread", "overlay"},
	{0x12345678, "pread", "file system not known, and not measured"},
	{-1, "pread", "file system unknown"},
};

static void file_system_decides_when_nothing_is_wanted(void **state)
{
	static const char *const nothing[] = {NULL, "", "auto"};
	const char *name, *why;
	struct io io;
	size_t i, w;

	(void)state;
	for (i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
		const struct expectation *e = &expectations[i];

		pretended = e->magic;
		assert_int_equal(io_open_chosen(&io, file, NULL, &name, &why), 0);
		/* A file system that is not known is taken for no local one. */
		assert_int_equal(io.local, !strcmp(e->name, "pread") &&
						   strncmp(e->why, "file system", 11) != 0);
		io_close(&io);
		for (w = 0; w < 3; w++) {
			assert_int_equal(io_choose(file, nothing[w], &name, &why), 0);
			if (!has_direct && strcmp(e->name, "direct") == 0) {
				assert_string_equal(name, "pread");
				assert_non_null(strstr(why, "refuses O_DIRECT"));
				continue;
			}
			assert_string_equal(name, e->name);
			assert_int_equal(strncmp(why, e->why, strlen(e->why)), 0);
		}
	}
}

static void descriptors_that_are_short_are_not_the_file_systems_fault(void **state)
{
	struct rlimit before, few;
	const char *name, *why;

	(void)state;
	pretended = 0x65735546;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(io_choose(file, NULL, &name, &why), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_string_equal(name, "pread");
	assert_non_null(strstr(why, "no descriptor is left"));
}

static void name_that_is_wanted_wins(void **state)
{
	static const char *const wanted[] = {"pread", "direct", "direct-threads"};
	const char *name, *why;
	size_t i, w;

	(void)state;
	for (i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
		pretended = expectations[i].magic;
		for (w = 0; w < (has_direct ? 3 : 1); w++) {
			assert_int_equal(io_choose(file, wanted[w], &name, &why), 0);
			assert_string_equal(name, wanted[w]);
			assert_string_equal(why, "asked for");
		}
	}
}

static void name_that_cannot_be_had_leaves_the_default(void **state)
{
	const char *name, *why;
	int pipe_ends[2];

	(void)state;
	pretended = 0xef53;
	assert_int_equal(io_choose(file, "fast", &name, &why), EINVAL);
	assert_string_equal(name, "pread");
	assert_int_equal(strncmp(why, "ext4", 4), 0);
	assert_int_equal(io_choose(file, "memory", &name, &why), EINVAL);
	assert_int_equal(io_choose(-1, "direct", &name, &why), EBADF);
	assert_string_equal(name, "pread");
	pretended = 0x6969;
	assert_int_equal(pipe(pipe_ends), 0);
	assert_int_equal(io_choose(pipe_ends[0], "", &name, &why), 0);
	assert_non_null(name);
	assert_non_null(why);
	(void)close(pipe_ends[0]);
	(void)close(pipe_ends[1]);
}

static unsigned alignment_wanted; /* of direct reads, bytes; 0: the true answer */

int __real_statx(int fd, const char *path, int flags, unsigned mask, struct statx *st);
int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *st);

int __wrap_statx(int fd, const char *path, int flags, unsigned mask, struct statx *st)
{
	int rc = __real_statx(fd, path, flags, mask, st);

#ifdef STATX_DIOALIGN
	if (!rc && alignment_wanted && mask & STATX_DIOALIGN) {
		st->stx_mask |= STATX_DIOALIGN;
		st->stx_dio_offset_align = st->stx_dio_mem_align = alignment_wanted;
	}
#endif
	return rc;
}

/* The stores read blocks of 4 KiB, wherever they begin. */
static void direct_reads_that_must_be_long_are_not_made(void **state)
{
#ifdef STATX_DIOALIGN
	static const char *const wanted[] = {"direct", "direct-threads", NULL};
	const char *name, *why;
	struct io io;

	(void)state;
	if (!has_direct)
		skip();
	pretended = 0x65735546;
	alignment_wanted = 4096;
	assert_int_equal(io_open_chosen(&io, file, "direct", &name, &why), 0);
	assert_string_equal(name, "direct");
	io_close(&io);
	alignment_wanted = 16384;
	assert_int_equal(io_open_file(&io, "direct", file), EOPNOTSUPP);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		assert_int_equal(io_open_chosen(&io, file, wanted[i], &name, &why), 0);
		assert_string_equal(name, "pread");
		assert_string_equal(why, "this file system wants direct reads of more than 4 KiB");
		assert_int_equal(io_alignment(&io), 1);
		io_close(&io);
	}
	alignment_wanted = 0;
#else
	(void)state;
	skip();
#endif
}

/* A clock that only we move: on by so much with each look. */
static uint64_t ticks, tick_small, tick_large;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	static uint64_t looks;
	uint64_t time;

	if (!tick_small)
		return __real_clock_gettime(clock, now);
	/* Two looks a read: the first two reads are small, the next two are large. */
	if (looks++ % 2)
		ticks += looks % 8 <= 4 && looks % 8 ? tick_small : tick_large;
	time = ticks;
	now->tv_sec = (time_t)(time / 1000000000);
	now->tv_nsec = (long)(time % 1000000000);
	return 0;
}

static void unknown_file_system_is_measured(void **state)
{
	static const struct {
		uint64_t small, large; /* nanoseconds */
		const char *name;
	} costs[] = {
		{500000, 1200000, "direct"}, /* a parallel one */
		{20000, 700000, "pread"},    /* a local one */
		{300000, 80000000, "pread"}, /* a slow line: bytes are what is dear there */
	};
	const char *name, *why;

	(void)state;
	if (!has_direct)
		skip();
	pretended = 0x12345678;
	assert_int_equal(ftruncate(file, 64 << 20), 0);
	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
		tick_small = costs[i].small;
		tick_large = costs[i].large;
		assert_int_equal(io_choose(file, NULL, &name, &why), 0);
		assert_string_equal(name, costs[i].name);
		assert_int_equal(strncmp(why, "measured", 8), 0);
	}
	tick_small = 0;
	assert_int_equal(ftruncate(file, 10), 0);
}

static int make_unnamed_file(void **state)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];
	struct io io;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/io_choice.XXXXXX", folder ? folder : "/tmp");
	file = mkstemp(path);
	if (file < 0 || unlink(path) != 0 || pwrite(file, path, 10, 0) != 10)
		return -1;
	has_direct = io_open_file(&io, "direct", file) == 0;
	io_close(&io);
	return 0;
}

static int close_file(void **state)
{
	(void)state;
	return close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_system_decides_when_nothing_is_wanted),
		cmocka_unit_test(descriptors_that_are_short_are_not_the_file_systems_fault),
		cmocka_unit_test(name_that_is_wanted_wins),
		cmocka_unit_test(direct_reads_that_must_be_long_are_not_made),
		cmocka_unit_test(unknown_file_system_is_measured),
		cmocka_unit_test(name_that_cannot_be_had_leaves_the_default),
	};

	return cmocka_run_group_tests(tests, make_unnamed_file, close_file);
}
