/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the page cache keeps a file in huge folios on request, and that nothing else depends
 * on it. */
#include "io/io.h"
#include "io/io_page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

enum {
	PAGE = 4096,
	MIB = 1 << 20,
	SIZE = 16 * MIB,
	AROUND = 16,  /* a fault maps at most this many single pages */
	IN_VAIN = 40, /* more tries than the library makes */
	NOBODY = 65534,
};

static char path[] = "io_huge_test.XXXXXX";
static int file = -1;

static bool possible;
static int unknown = -1; /* the advice that the simulated kernel does not know */
static _Atomic unsigned huge_wishes;

int __real_madvise(void *from, size_t length, int advice);
int __wrap_madvise(void *from, size_t length, int advice);

int __wrap_madvise(void *from, size_t length, int advice)
{
	huge_wishes += advice == MADV_HUGEPAGE;
	if (advice != unknown)
		return __real_madvise(from, length, advice);
	errno = EINVAL;
	return -1;
}

/* Needs a file system on a disk, pages of 4 KiB, and Linux 5.14 or later. */
static bool is_possible(void)
{
	struct statfs fs;
	void *page;
	bool known;

	if (sysconf(_SC_PAGESIZE) != PAGE || fstatfs(file, &fs) || fs.f_type == TMPFS_MAGIC)
		return false;
	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
	if (page == MAP_FAILED)
		return false;
	known = !madvise(page, PAGE, MADV_HUGEPAGE) && !madvise(page, PAGE, MADV_POPULATE_READ);
	munmap(page, PAGE);
	return known;
}

static int setup(void **state)
{
	uint64_t *bytes = malloc(SIZE);
	bool written;

	(void)state;
	file = mkstemp(path); /* in the build tree: /tmp may be memory */
	if (file < 0 || !bytes)
		return -1;
	unlink(path);
	for (size_t i = 0; i < SIZE / sizeof(*bytes); i++)
		bytes[i] = i;
	written = write(file, bytes, SIZE) == SIZE;
	free(bytes);
	possible = is_possible();
	return written ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	close(file);
	return 0;
}

static int forget(void **state)
{
	(void)state;
	return fsync(file) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
}

/* Counts the pages with the right content. A sanitizer would take page faults of its own. */
__attribute__((no_sanitize("address,thread"))) static size_t right_pages(const uint64_t *bytes)
{
	size_t right = 0;

	for (size_t at = 0; at < SIZE; at += PAGE)
		right += bytes[at / sizeof(*bytes)] == at / sizeof(*bytes);
	return right;
}

/* Maps the file, reads each of its pages, and returns how many faults that took. */
static long faults_of_a_look(void)
{
	struct rusage before, after;
	const uint64_t *bytes = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
	size_t right;

	assert_ptr_not_equal(bytes, MAP_FAILED);
	getrusage(RUSAGE_SELF, &before);
	right = right_pages(bytes);
	getrusage(RUSAGE_SELF, &after);
	munmap((void *)bytes, SIZE);
	assert_int_equal(right, SIZE / PAGE);
	return after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
}

/* DAMON's schemes may have reclaimed some pages that were not used for a while. The test is about
 * folios of 2 MiB. */
static bool is_cached(void)
{
	unsigned char there[SIZE / PAGE];
	void *range = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
	size_t found = 0;

	assert_ptr_not_equal(range, MAP_FAILED);
	assert_int_equal(mincore(range, SIZE, there), 0);
	munmap(range, SIZE);
	for (size_t i = 0; i < SIZE / PAGE; i++)
		found += there[i] & 1;
	return found >= SIZE / PAGE * 15 / 16;
}

/* ext4 since Linux 6.16, xfs since 5.18. */
static bool is_known_here(void)
{
	struct utsname name;
	struct statfs fs;
	int major = 0, minor = 0;

	assert_int_equal(uname(&name), 0);
	assert_int_equal(sscanf(name.release, "%d.%d", &major, &minor), 2);
	assert_int_equal(fstatfs(file, &fs), 0);
	major = major * 100 + minor;
	return (fs.f_type == 0xef53 && major >= 616) || (fs.f_type == 0x58465342 && major >= 518);
}

static void file_when_kept_then_all_of_it_is_there(void **state)
{
	(void)state;
	if (!possible)
		skip();
	for (size_t at = 0; at < SIZE; at += MIB)
		assert_true(io_huge_keep(file, at, MIB));
	assert_true(is_cached());
	/* One for each 2 MiB; memory may not have such a large piece every time. */
	assert_in_range(faults_of_a_look(), 1,
			is_known_here() ? SIZE / PAGE / AROUND * 3 / 4 : SIZE / PAGE);
}

static void file_when_a_page_was_there_then_the_others_come(void **state)
{
	char byte;

	(void)state;
	if (!possible)
		skip();
	assert_int_equal(posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM), 0);
	for (off_t at = 0; at < SIZE; at += MIB)
		assert_int_equal(pread(file, &byte, 1, at + 5 * PAGE), 1);
	assert_int_equal(posix_fadvise(file, 0, 0, POSIX_FADV_NORMAL), 0);
	for (size_t at = 0; at < SIZE; at += MIB)
		assert_true(io_huge_keep(file, at, MIB));
	assert_true(is_cached());
}

/* The kernel does not tell what the page cache holds of another user's file. */
static void file_of_another_when_a_page_was_there_then_the_others_come(void **state)
{
	unsigned kept = 0;
	char byte;

	(void)state;
	if (!possible || geteuid())
		skip();
	assert_int_equal(posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM), 0);
	for (off_t at = 0; at < SIZE; at += 2 * MIB)
		assert_int_equal(pread(file, &byte, 1, at), 1);
	assert_int_equal(posix_fadvise(file, 0, 0, POSIX_FADV_NORMAL), 0);
	assert_int_equal(seteuid(NOBODY), 0);
	for (size_t at = 0; at < SIZE; at += MIB)
		kept += io_huge_keep(file, at, MIB);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(kept, SIZE / MIB);
	assert_true(is_cached());
}

static void file_when_the_kernel_knows_no_such_advice_then_what_was_there_stays(void **state)
{
	static const int advices[] = {MADV_HUGEPAGE, MADV_POPULATE_READ};
	char *bytes = malloc(SIZE);

	(void)state;
	assert_non_null(bytes);
	assert_int_equal(pread(file, bytes, SIZE, 0), SIZE);
	free(bytes);
	for (size_t i = 0; i < sizeof(advices) / sizeof(*advices); i++) {
		unknown = advices[i];
		for (size_t at = 0; at < SIZE; at += 2 * MIB)
			(void)io_huge_keep(file, at, MIB);
		unknown = -1;
		assert_true(is_cached());
	}
}

static void requests_when_for_the_cache_then_as_if_read(void **state)
{
	struct io_request requests[SIZE / MIB], *list[SIZE / MIB], *done[SIZE / MIB];
	struct io io;

	(void)state;
	assert_int_equal(io_open_file(&io, "pread", file), 0);
	for (size_t i = 0; i < SIZE / MIB; i++) {
		/* The last request ends behind the file's end. */
		requests[i] = (struct io_request){
			.offset = i * MIB + MIB / 2, .length = MIB, .cache_only = true};
		requests[i].buffer = io_buffer_new(MIB);
		assert_non_null(requests[i].buffer);
		list[i] = &requests[i];
	}
	assert_int_equal(io_submit(&io, list, SIZE / MIB), 0);
	assert_int_equal(io_wait(&io, done, SIZE / MIB, SIZE / MIB), SIZE / MIB);
	for (size_t i = 0; i < SIZE / MIB; i++) {
		assert_int_equal(requests[i].error, 0);
		assert_int_equal(requests[i].done, i + 1 < SIZE / MIB ? MIB : MIB / 2);
		io_buffer_free(requests[i].buffer, MIB);
	}
	io_close(&io);
	if (!possible)
		return;
	assert_int_equal(io_huge_keep(file, 0, MIB / 2), true);
	assert_true(is_cached());
}

/* Returns KiB of address space. */
static long address_space(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmSize: %ld", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib;
}

static void buffer_when_as_long_as_a_huge_page_then_it_may_be_one(void **state)
{
	long before = address_space();

	(void)state;
	assert_true(before > 0);
	huge_wishes = 0;
	for (size_t i = 0; i < 100; i++) {
		uint8_t *buffer = io_buffer_new(2 * MIB);

		assert_non_null(buffer);
		assert_int_equal((uintptr_t)buffer % (2 * MIB), 0);
		io_buffer_huge(buffer, 2 * MIB);
		buffer[0] = buffer[2 * MIB - 1] = 1;
		io_buffer_free(buffer, 2 * MIB);
	}
	assert_int_equal(huge_wishes, 100);
	assert_in_range(address_space(), 1, before + 64 * 1024);
}

static void range_when_it_is_not_one_of_large_pages_then_left_alone(void **state)
{
	(void)state;
	if (!possible)
		skip();
	assert_false(io_huge_keep(file, 100, MIB));
	assert_false(io_huge_keep(file, 0, PAGE));
	assert_false(io_huge_keep(file, 0, 2 * SIZE));
	assert_false(io_huge_keep(-1, 0, MIB));
	assert_false(io_huge_keep(file, SIZE, MIB));
	assert_false(is_cached());
}

/* Must be the last test: its result holds for the rest of the program. */
static void kernel_when_it_brings_nothing_then_is_seldom_asked(void **state)
{
	bool kept = false;

	(void)state;
	if (!possible)
		skip();
	assert_true(io_huge_keep(file, 0, MIB));
	for (unsigned i = 0; i < IN_VAIN; i++)
		assert_false(io_huge_keep(file, SIZE, MIB));
	assert_false(io_huge_keep(file, 0, MIB));
	/* The library still asks now and then, because the failures may have been due to the
	 * file. */
	for (unsigned i = 0; i < 2 * IN_VAIN && !kept; i++)
		kept = io_huge_keep(file, 0, MIB);
	assert_true(kept);
	assert_true(io_huge_keep(file, MIB, MIB));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(file_when_kept_then_all_of_it_is_there, forget),
		cmocka_unit_test_setup(file_when_a_page_was_there_then_the_others_come, forget),
		cmocka_unit_test_setup(file_of_another_when_a_page_was_there_then_the_others_come,
				       forget),
		cmocka_unit_test_setup(
			file_when_the_kernel_knows_no_such_advice_then_what_was_there_stays,
			forget),
		cmocka_unit_test_setup(requests_when_for_the_cache_then_as_if_read, forget),
		cmocka_unit_test(buffer_when_as_long_as_a_huge_page_then_it_may_be_one),
		cmocka_unit_test_setup(range_when_it_is_not_one_of_large_pages_then_left_alone,
				       forget),
		cmocka_unit_test_setup(kernel_when_it_brings_nothing_then_is_seldom_asked, forget),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
