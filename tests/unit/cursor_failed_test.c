/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks where a failed read leaves a cursor, and where a renewed transaction with other pages
 * leaves it. */
#include "damaged_tree.h"

#include "cursor/cursor_private.h"
#include "util/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* --- reads that fail -------------------------------------------------------------------------------- */

static uint64_t fails_from, fails_before; /* reads of these pages fail */

/* Replaces the function that brings pages which are not known to be in memory. */
int __wrap_lmdbio_core_window_bring(struct window_view *view, struct store *store, uint64_t number,
				    uint64_t count, bool tree);
int __wrap_lmdbio_core_window_bring(struct window_view *view, struct store *store, uint64_t number,
				    uint64_t count, bool tree)
{
	(void)view, (void)store, (void)tree;
	assert_int_equal(count, 1);
	return number >= fails_from && number < fails_before ? EIO : 0;
}

static void reads_fail(struct fixture *f, uint64_t from, uint64_t before)
{
	static _Atomic uint64_t none[64];

	fails_from = from;
	fails_before = before;
	f->snapshot.view.sure = none;
}

static void reads_work(struct fixture *f)
{
	f->snapshot.view.sure = NULL;
}

static void cursor_when_a_read_fails_on_its_way_then_it_is_not_set(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	for (unsigned i = 0; i < 3; i++) {
		fixture_look(f, &record);
		assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
		reads_fail(f, 0, UINT64_MAX);
		assert_int_equal(i == 0   ? fixture_get(f, MDB_NEXT, NULL, NULL)
				 : i == 1 ? fixture_get(f, MDB_SET, "g", NULL)
					  : fixture_get(f, MDB_LAST, NULL, NULL),
				 EIO);
		reads_work(f);
		/* The root was not read: then the cursor has not moved. */
		assert_true(i == 0 ? gives(f, MDB_GET_CURRENT, EINVAL)
				   : moves(f, MDB_GET_CURRENT, "b", "2"));
		assert_false(f->snapshot.blocked);
	}
}

static void cursor_when_a_page_below_the_root_is_gone_then_it_is_not_set(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	store16(node_of(f, 6, 0) + ENTRY_LOW, 63);
	assert_int_equal(fixture_get(f, MDB_SET, "g", NULL), 0);
	assert_int_equal(fixture_get(f, MDB_SET, "a", NULL), MDB_PAGE_NOTFOUND);
	f->snapshot.blocked = 0;
	assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
	/* A further step does not start from the old place either: it asks for the first entry. */
	assert_true(gives(f, MDB_NEXT, MDB_PAGE_NOTFOUND));
}

/* A store may drop a page while pages below it are read, so a step asks for the branch again. Pages
 * of the file's own map stay. */
static void step_when_pages_may_go_then_asks_for_the_branch_again(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	for (unsigned i = 0; i < 3; i++) {
		fixture_look(f, &record);
		assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
		f->snapshot.view.store = i ? (struct store *)(void *)f : NULL;
		reads_fail(f, 6, i == 1 ? 6 : 7);
		assert_int_equal(fixture_get(f, MDB_NEXT, NULL, NULL), i == 2 ? EIO : 0);
		if (i < 2)
			assert_true(at(f, "c", "3"));
	}
}

static void renewed_cursor_when_a_read_fails_then_each_call_fails_until_it_works(void **state)
{
	struct fixture *f = *state;
	size_t count = 0;

	for (unsigned counts = 0; counts < 2; counts++) {
		tree_of_duplicates(f);
		assert_int_equal(fixture_get(f, MDB_SET, "c", NULL), 0);
		f->snapshot.serial++;
		reads_fail(f, 0, UINT64_MAX);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(counts ? cursor_count(&f->cursor, &count)
						: fixture_get(f, MDB_NEXT_DUP, NULL, NULL),
					 EIO);
		reads_work(f);
		assert_true(moves(f, MDB_NEXT_DUP, "c", "4"));
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

/* --- renewed transactions ----------------------------------------------------------------------------- */

/* Copies a page to the end of the file and makes the entry lead to the copy. Returns the copy's
 * number. */
static uint64_t move_behind(struct fixture *f, uint64_t from, uint8_t *entry)
{
	uint64_t number = builder_take(&f->builder, 1);

	memcpy(page_of(f, number), page_of(f, from), SIZE);
	store64(page_of(f, number) + PAGE_NUMBER, number);
	store16(entry + ENTRY_LOW, (uint16_t)number);
	return number;
}

/* Renews the snapshot with `pages` pages, `in_file` of which are in the file. */
static void renew_with(struct fixture *f, uint64_t pages, uint64_t in_file)
{
	assert_int_equal(window_look(&f->window, pages, in_file * SIZE, &f->snapshot.view), 0);
	f->snapshot.serial++;
}

static void renewed_cursor_when_its_leaf_is_gone_then_it_is_not_set(void **state)
{
	struct fixture *f = *state;

	for (unsigned in_snapshot = 0; in_snapshot < 2; in_snapshot++) {
		struct tree_record record = tree_of_letters(f);
		uint64_t leaf = move_behind(f, 2, node_of(f, 6, 0));

		fixture_look(f, &record);
		assert_true(moves(f, MDB_FIRST, "a", "1"));
		renew_with(f, leaf + in_snapshot, leaf);
		assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
		assert_false(f->snapshot.blocked);
		assert_true(gives(f, MDB_LAST, 0) && at(f, "h", "8"));
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

static void renewed_cursor_when_its_leaf_is_gone_then_no_step_stays_in_it(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);
	uint64_t leaf = move_behind(f, 2, node_of(f, 6, 0));

	fixture_look(f, &record);
	assert_true(moves(f, MDB_FIRST, "a", "1"));
	renew_with(f, leaf, leaf);
	assert_true(gives(f, MDB_NEXT, MDB_PAGE_NOTFOUND));
}

static void renewed_cursor_when_its_duplicates_are_gone_then_they_are_not_set(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_duplicates(f), inner;
	size_t count;
	uint64_t root;

	tree_record_parse(&inner, node_of(f, record.root, 2) + ENTRY_KEY + 1);
	root = move_behind(f, inner.root, page_of(f, builder_take(&f->builder, 1)));
	inner.root = root;
	record_write(node_of(f, record.root, 2) + ENTRY_KEY + 1, &inner);
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "c", NULL), 0);
	renew_with(f, root, root);
	assert_int_equal(cursor_count(&f->cursor, &count), EINVAL);
	assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
	assert_true(moves(f, MDB_PREV_NODUP, "b", "2"));
}

/* After a miss the duplicates of a cursor are not set, and their pages are not read. */
static void
renewed_cursor_when_its_duplicates_are_not_set_then_their_pages_are_not_read(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_duplicates(f);

	assert_int_equal(fixture_get(f, MDB_SET, "c", NULL), 0);
	assert_int_equal(fixture_get(f, MDB_SET, "ab", NULL), MDB_NOTFOUND);
	f->snapshot.serial++;
	reads_fail(f, 0, record.root);
	assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
	f->snapshot.serial++;
	reads_fail(f, record.root, record.root + 1);
	assert_true(gives(f, MDB_GET_CURRENT, EIO));
}

/* A cursor on a tree of one page finds the first and the last entry and searched keys on that page,
 * even if the tree has another root by now. */
static void renewed_cursor_when_its_tree_has_another_root_then_it_stays(void **state)
{
	static const char *const looked_for[][2] = {{"a", "a"}, {"c", "c"}, {"b", "b"},
						    {"b", "b"}, {"A", "a"}, {"bb", "c"}};
	static const struct made_entry others[] = {{"x", "8", 1, 1, 0}, {"y", "9", 1, 1, 0}};
	struct fixture *f = *state;
	struct tree_record record = {0}, other = {0};

	builder_tree(&f->builder, letters, 3, 3, 2, &record);
	builder_tree(&f->builder, others, 2, 2, 2, &other);
	fixture_look(f, &record);
	assert_true(moves(f, MDB_NEXT, "a", "1"));
	f->tree.record = other;
	f->snapshot.serial++;
	assert_true(moves(f, MDB_LAST, "c", "3") && moves(f, MDB_FIRST, "a", "1"));
	for (size_t i = 0; i < sizeof(looked_for) / sizeof(looked_for[0]); i++) {
		assert_int_equal(fixture_get(f, MDB_SET_RANGE, looked_for[i][0], NULL), 0);
		assert_true(at(f, looked_for[i][1], NULL));
	}
	fixture_rewind(f);
	assert_true(moves(f, MDB_FIRST, "x", "8"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, damaged_setup, damaged_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(cursor_when_a_read_fails_on_its_way_then_it_is_not_set),
		CASE(cursor_when_a_page_below_the_root_is_gone_then_it_is_not_set),
		CASE(step_when_pages_may_go_then_asks_for_the_branch_again),
		CASE(renewed_cursor_when_a_read_fails_then_each_call_fails_until_it_works),
		CASE(renewed_cursor_when_its_leaf_is_gone_then_it_is_not_set),
		CASE(renewed_cursor_when_its_leaf_is_gone_then_no_step_stays_in_it),
		CASE(renewed_cursor_when_its_duplicates_are_gone_then_they_are_not_set),
		CASE(renewed_cursor_when_its_duplicates_are_not_set_then_their_pages_are_not_read),
		CASE(renewed_cursor_when_its_tree_has_another_root_then_it_stays),
	};

	return cmocka_run_group_tests_name("cursors after failed reads", tests, NULL, NULL);
}
