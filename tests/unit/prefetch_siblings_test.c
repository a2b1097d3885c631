/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks when the other children of a branch page are read after random lookups have waited for
 * some of them. */
#include "prefetch_fixture.h"

#include "format/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WAITS = 4, CHILDREN_MAX = 300, PAGE = 4096 };

static unsigned begun; /* pages that the kernel was asked to begin to read */

ssize_t __wrap_readahead(int fd, off_t offset, size_t count);

ssize_t __wrap_readahead(int fd, off_t offset, size_t count)
{
	assert_int_equal(fd, f.fd);
	assert_int_equal(offset % PAGE, 0);
	assert_int_equal(count, PAGE);
	begun++;
	return 0;
}

static int setup_values(void **state)
{
	int rc = setup_longer(state);

	watch_lookups();
	return rc;
}

static int setup_leaves(void **state)
{
	int rc = setup_small(state);

	watch_lookups();
	return rc;
}

/* Reads through the page cache, as an environment's transactions do with MDB_NORDAHEAD. */
static int setup_page_cache(void **state)
{
	int rc = setup_cached_longer(state);

	begun = 0;
	store_read_singly(&f.store);
	f.snapshot.view.store = NULL;
	f.snapshot.view.sure = f.store.granted.sure;
	watch_lookups();
	return rc;
}

static bool is_there(uint64_t number)
{
	return store_covers(&f.store, number * PAGE, PAGE);
}

static unsigned children(uint64_t parent, uint64_t *numbers)
{
	const uint8_t *page;
	unsigned count;

	assert_true(is_there(parent));
	assert_int_equal(tree_page(&f.snapshot, parent, &page, &count), 0);
	assert_in_range(count, WAITS + 1, CHILDREN_MAX);
	for (unsigned i = 0; i < count; i++)
		assert_true(page_child(LAYOUT_0_9, page, PAGE, i, &numbers[i]));
	return count;
}

static unsigned children_there(uint64_t parent)
{
	uint64_t numbers[CHILDREN_MAX];
	unsigned n = 0, count = children(parent, numbers);

	for (unsigned i = 0; i < count; i++)
		n += is_there(numbers[i]);
	return n;
}

static bool has_thread(void)
{
	bool has;

	pthread_mutex_lock(&f.prefetch->lock);
	has = f.prefetch->crew.count > 0;
	pthread_mutex_unlock(&f.prefetch->lock);
	return has;
}

/* One in each part of the data set, the last one first. */
static void look_up_apart(unsigned records, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		look_up((WAITS - 1 - i) * (records / WAITS) + i);
}

static void leaves_when_some_were_waited_for_then_the_others_are_read(void **state)
{
	uint64_t root = f.tree.record.root, numbers[CHILDREN_MAX];

	(void)state;
	look_up_apart(RECORDS_LONGER, 0, WAITS - 1);
	assert_int_equal(children_there(root), WAITS - 1);
	assert_false(has_thread());
	look_up_apart(RECORDS_LONGER, WAITS - 1, WAITS);
	assert_comes_to_rest();
	assert_int_equal(children_there(root), children(root, numbers));
}

static void leaves_when_one_is_looked_at_again_then_that_is_no_wait(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4 * WAITS; i++)
		look_up(i % 2 ? 1 : RECORDS_LONGER / 2);
	assert_int_equal(children_there(f.tree.record.root), 2);
	assert_false(has_thread());
}

static void leaves_when_neighbours_are_read_along_then_not_read(void **state)
{
	(void)state;
	store_guess(&f.store, GUESS_AROUND);
	look_up_apart(RECORDS_LONGER, 0, WAITS);
	assert_false(has_thread());
}

static void branches_when_some_were_waited_for_then_the_others_are_read(void **state)
{
	uint64_t root = f.tree.record.root, numbers[CHILDREN_MAX];

	(void)state;
	look_up_apart(RECORDS_SMALL, 0, WAITS);
	assert_comes_to_rest();
	assert_int_equal(children_there(root), children(root, numbers));
}

static void leaves_when_they_hold_the_values_then_not_read(void **state)
{
	enum { LEAVES = 60, RECORDS_BETWEEN = 100 }; /* more than a leaf has */
	uint64_t numbers[CHILDREN_MAX];

	(void)state;
	for (unsigned i = 0; i < LEAVES; i++)
		look_up((LEAVES - 1 - i) * RECORDS_BETWEEN);
	assert_false(has_thread());
	(void)children(f.tree.record.root, numbers);
	assert_int_equal(children_there(numbers[0]), LEAVES);
}

/* A cached page causes no wait, so this function reports the miss itself. */
static void miss(unsigned record, uint64_t page)
{
	char text[16];
	MDB_val key;

	key_make(text, &key, record);
	f.snapshot.view.missed[0] = page;
	f.snapshot.view.misses = 1;
	f.snapshot.watch->missed(f.snapshot.watch, &f.snapshot, &f.tree, &f.order.key, &key);
	f.snapshot.view.misses = 0;
}

static void leaves_when_the_page_cache_has_them_then_the_kernel_reads_the_others_once(void **state)
{
	uint64_t numbers[CHILDREN_MAX];
	const uint8_t *page;
	unsigned count;

	(void)state;
	assert_int_equal(tree_page(&f.snapshot, f.tree.record.root, &page, &count), 0);
	for (unsigned i = 0; i < count; i++)
		assert_true(page_child(LAYOUT_0_9, page, PAGE, i, &numbers[i]));
	for (unsigned i = 1; i < WAITS; i++)
		miss(0, numbers[0]);
	assert_int_equal(begun, 0);
	miss(0, numbers[0]);
	assert_int_equal(begun, count - 1); /* the first child was looked up */
	/* The others are not asked for again as long as they may still be in memory. */
	for (unsigned i = 1; i < count + WAITS; i++)
		miss(0, numbers[0]);
	assert_int_equal(begun, count - 1);
	miss(0, numbers[0]);
	assert_int_equal(begun, 2 * (count - 1));
	assert_false(has_thread());
}

#define CASE(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(leaves_when_some_were_waited_for_then_the_others_are_read, setup_values),
		CASE(leaves_when_one_is_looked_at_again_then_that_is_no_wait, setup_values),
		CASE(leaves_when_neighbours_are_read_along_then_not_read, setup_values),
		CASE(branches_when_some_were_waited_for_then_the_others_are_read, setup_leaves),
		CASE(leaves_when_the_page_cache_has_them_then_the_kernel_reads_the_others_once,
		     setup_page_cache),
		CASE(leaves_when_they_hold_the_values_then_not_read, setup_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
