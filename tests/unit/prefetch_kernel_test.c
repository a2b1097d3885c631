/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which reads are left to a kernel that itself reads far ahead, and how the test finds out
 * how far. */
#include "prefetch_fixture.h"

#include "io/io_page_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

enum { FAR = 8 << 20, DEFAULT = 128 << 10, ENOUGH = 3 + CURSOR_PACE_FIRST, ROUNDS = 4 };

static struct comparators order;
static struct lookups lookups;

/* Simulates a kernel that reads so far ahead, with an empty page cache. */
static void kernel_is(uint64_t bytes)
{
	f.prefetch->options.kernel = true;
	atomic_store(&f.prefetch->kernel_ahead, bytes + 1);
	order = f.order;
}

/* Returns whether a cursor that has gone some steps has a look-ahead. */
static bool is_looked_ahead_of(MDB_cursor_op first, MDB_cursor_op next)
{
	struct cursor cursor;
	MDB_val key, data;
	bool ahead = false;

	cursor_init(&cursor, &f.snapshot, &f.tree, &order, NULL);
	assert_int_equal(cursor_get(&cursor, &key, &data, first), 0);
	for (int i = 0; i < ROUNDS * CURSOR_PACE_FIRST && !ahead; i++) {
		assert_int_equal(cursor_get(&cursor, &key, &data, next), 0);
		ahead = cursor.ahead;
	}
	cursor_leave(&cursor);
	return ahead;
}

static void scan_when_the_kernel_reads_far_ahead_then_it_is_left_to_it(void **state)
{
	(void)state;
	kernel_is(FAR);
	assert_false(is_looked_ahead_of(MDB_FIRST, MDB_NEXT));
	assert_int_equal(f.prefetch->crew.count, 0);
}

static void scan_when_the_kernel_reads_little_ahead_then_we_do(void **state)
{
	(void)state;
	kernel_is(DEFAULT);
	assert_true(is_looked_ahead_of(MDB_FIRST, MDB_NEXT));
}

/* With MDB_NORDAHEAD, or where the file is not read by page faults. */
static void scan_when_the_kernel_was_told_not_to_then_we_do(void **state)
{
	(void)state;
	kernel_is(FAR);
	f.prefetch->options.kernel = false;
	assert_true(is_looked_ahead_of(MDB_FIRST, MDB_NEXT));
}

static void scan_when_backwards_then_we_do(void **state)
{
	(void)state;
	kernel_is(FAR);
	assert_true(is_looked_ahead_of(MDB_LAST, MDB_PREV));
}

/* The next value lies farther away than the kernel reads ahead. */
static void scan_when_places_are_far_apart_then_we_do(void **state)
{
	(void)state;
	kernel_is(FAR);
	assert_true(is_looked_ahead_of(MDB_FIRST, MDB_NEXT));
}

/* Returns whether lookups with this step have a look-ahead. */
static bool is_looked_up_ahead(unsigned step)
{
	char text[16];
	MDB_val key, data;
	unsigned n = 0;

	memset(&lookups, 0, sizeof(lookups));
	f.snapshot.lookups = &lookups;
	for (unsigned i = 0; i < ROUNDS * ENOUGH; i++) {
		key_make(text, &key, i * step);
		assert_int_equal(tree_get(&f.snapshot, &f.tree, &f.order, &key, &data), 0);
	}
	for (unsigned i = 0; i < LOOKUPS; i++)
		n += lookups.each[i].ahead != NULL;
	lookups_end(&lookups, f.snapshot.watch);
	return n > 0;
}

static void lookups_when_in_order_then_they_are_left_to_it(void **state)
{
	(void)state;
	kernel_is(FAR);
	assert_false(is_looked_up_ahead(1));
	assert_int_equal(f.prefetch->crew.count, 0);
}

/* The kernel would also read the records between. */
static void lookups_when_of_each_third_then_we_do(void **state)
{
	(void)state;
	kernel_is(FAR);
	assert_true(is_looked_up_ahead(3));
}

/* Compares the answer with sysfs as a shell reads it, for a file on any device. */
static void ahead_when_asked_then_what_sysfs_says(void **state)
{
	char command[256], said[32] = "";
	FILE *file = tmpfile(), *shell;
	struct stat st;

	(void)state;
	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	snprintf(command, sizeof(command),
		 "cd /sys/class/bdi/%u:%u 2>/dev/null || cd -P /sys/dev/block/%u:%u/../queue "
		 "2>/dev/null && cat read_ahead_kb",
		 major(st.st_dev), minor(st.st_dev), major(st.st_dev), minor(st.st_dev));
	shell = popen(command, "r");
	assert_non_null(shell);
	(void)!fgets(said, sizeof(said), shell);
	pclose(shell);
	assert_int_equal(io_kernel_ahead(fileno(file)), strtoul(said, NULL, 10) * 1024);
	fclose(file);
}

static void ahead_when_no_device_tells_then_nothing(void **state)
{
	int fd = memfd_create("ahead", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(io_kernel_ahead(-1), 0);
	assert_true(fd >= 0);
	/* A file of the kernel's own mounts has no such entry. */
	assert_in_range(io_kernel_ahead(fd), 0, DEFAULT);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			scan_when_the_kernel_reads_far_ahead_then_it_is_left_to_it, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(scan_when_the_kernel_reads_little_ahead_then_we_do,
						setup_big, teardown),
		cmocka_unit_test_setup_teardown(scan_when_the_kernel_was_told_not_to_then_we_do,
						setup_big, teardown),
		cmocka_unit_test_setup_teardown(scan_when_backwards_then_we_do, setup_big,
						teardown),
		cmocka_unit_test_setup_teardown(scan_when_places_are_far_apart_then_we_do,
						setup_large, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_the_kernel_reads_far_ahead_then_it_is_left_to_it, setup_small,
			teardown),
		cmocka_unit_test_setup_teardown(lookups_when_in_order_then_they_are_left_to_it,
						setup_big, teardown),
		cmocka_unit_test_setup_teardown(lookups_when_of_each_third_then_we_do, setup_big,
						teardown),
		cmocka_unit_test(ahead_when_asked_then_what_sysfs_says),
		cmocka_unit_test(ahead_when_no_device_tells_then_nothing),
	};

	return cmocka_run_group_tests_name("prefetch_kernel", tests, NULL, NULL);
}
