/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the library answers to each kind of damage of values, duplicates and named
 * databases. */
#include "damaged_tree.h"

#include "util/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tree_record one_entry(struct fixture *f, const struct made_entry *entry,
				    unsigned flags)
{
	struct tree_record record = {.flags = (uint16_t)flags};

	builder_tree(&f->builder, entry, 1, 1, 2, &record);
	fixture_look(f, &record);
	return record;
}

/* Whether each way to read the value returns rc. */
static bool value_breaks(struct fixture *f, const struct tree_record *record, int rc)
{
	static const MDB_cursor_op ops[] = {MDB_SET, MDB_SET_KEY, MDB_SET_RANGE};
	MDB_val key = {1, (char[]){"k"}};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		fixture_look(f, record);
		if (fixture_get(f, ops[i], "k", NULL) != rc || !f->snapshot.blocked)
			return false;
	}
	fixture_look(f, record);
	if (!breaks(f, MDB_FIRST, rc))
		return false;
	fixture_look(f, record);
	if (!breaks(f, MDB_LAST, rc))
		return false;
	fixture_look(f, record);
	return tree_get(&f->snapshot, &f->tree, &f->order, &key, &f->data) == rc &&
	       f->snapshot.blocked;
}

static void overflow_when_its_pages_are_not_there_then_an_error(void **state)
{
	static const struct {
		uint64_t number;
		uint32_t size;
		int rc;
	} cases[] = {
		{0, 10, MDB_CORRUPTED},
		{1, 10, MDB_CORRUPTED},
		{20, 10, MDB_PAGE_NOTFOUND},
		{1ull << 40, 10, MDB_PAGE_NOTFOUND},
		{UINT64_MAX, 10, MDB_PAGE_NOTFOUND},
		{UINT64_MAX, 0xffffffff, MDB_PAGE_NOTFOUND},
		{19, SIZE - PAGE_HEADER + 1, MDB_PAGE_NOTFOUND},
		{2, 18 * SIZE - PAGE_HEADER + 1, MDB_PAGE_NOTFOUND},
		{2, 0xffffffff, MDB_PAGE_NOTFOUND},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made_entry entry = {"k", &cases[i].number, 1, cases[i].size, ENTRY_BIG};
		struct tree_record record;

		f->builder.next = 19;
		record = one_entry(f, &entry, 0); /* page 19 is the last one */
		assert_true(value_breaks(f, &record, cases[i].rc));
	}
}

static void overflow_when_it_ends_with_the_snapshot_then_read(void **state)
{
	uint64_t number = 2;
	struct made_entry entry = {"k", &number, 1, 18 * SIZE - PAGE_HEADER, ENTRY_BIG};
	struct fixture *f = *state;

	f->builder.next = 19;
	one_entry(f, &entry, 0);
	assert_true(gives(f, MDB_FIRST, 0));
	assert_int_equal(f->data.mv_size, 18 * SIZE - PAGE_HEADER);
	assert_ptr_equal((uint8_t *)f->data.mv_data + f->data.mv_size, page_of(f, 20));
}

static void pages_when_the_file_is_shorter_than_the_snapshot_then_corrupted(void **state)
{
	uint64_t number = 3;
	struct made_entry entry = {"k", &number, 1, 600, ENTRY_BIG};
	struct fixture *f = *state;
	struct tree_record record = one_entry(f, &entry, 0);

	builder_take(&f->builder, 3); /* 3, 4, 5 */
	fixture_look(f, &record);
	assert_int_equal(window_look(&f->window, 6, 5 * SIZE + 255, &f->snapshot.view), 0);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
	fixture_look(f, &record);
	assert_int_equal(window_look(&f->window, 6, 2 * SIZE, &f->snapshot.view), 0);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
}

static void duplicates_when_in_a_tree_without_them_then_corrupted(void **state)
{
	uint8_t page[64];
	struct made_entry entry = {"k", page, 1, sizeof(page), ENTRY_DUPS};
	struct fixture *f = *state;
	struct tree_record record;

	page_format(page, sizeof(page), 0, PAGE_LEAF | PAGE_SUB);
	page_add_entry(page, &(struct made_entry){"v", NULL, 1, 0, 0});
	record = one_entry(f, &entry, 0);
	assert_true(value_breaks(f, &record, MDB_CORRUPTED));
	/* The same, met by a cursor that was placed by its key alone. */
	fixture_look(f, &record);
	assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_FIRST), 0);
	assert_true(breaks(f, MDB_GET_CURRENT, MDB_CORRUPTED));
	record.flags = MDB_DUPSORT;
	fixture_look(f, &record);
	assert_true(moves(f, MDB_FIRST, "k", "v"));
}

static void sub_record_when_of_another_size_then_corrupted(void **state)
{
	static const size_t sizes[] = {0, 1, 47, 49, 96};
	static const uint8_t bytes[96];
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct made_entry entry = {"k", bytes, 1, sizes[i], ENTRY_DUPS | ENTRY_SUBTREE};
		struct tree_record record = one_entry(f, &entry, MDB_DUPSORT);

		assert_true(value_breaks(f, &record, MDB_CORRUPTED));
	}
}

static void sub_record_when_in_an_overflow_run_then_corrupted(void **state)
{
	static const unsigned flags[] = {ENTRY_DUPS | ENTRY_BIG,
					 ENTRY_DUPS | ENTRY_SUBTREE | ENTRY_BIG};
	uint64_t number = 2;
	struct fixture *f = *state;

	for (size_t i = 0; i < 2; i++) {
		struct made_entry entry = {"k", &number, 1, TREE_SIZE, flags[i]};
		struct tree_record record = one_entry(f, &entry, MDB_DUPSORT);

		assert_true(value_breaks(f, &record, MDB_CORRUPTED));
	}
}

static void sub_tree_when_its_root_is_bad_then_an_error(void **state)
{
	static const struct {
		uint64_t root;
		int rc;
	} cases[] = {
		{0, MDB_CORRUPTED},
		{1, MDB_CORRUPTED},
		{60, MDB_PAGE_NOTFOUND},
		{UINT64_MAX - 1, MDB_PAGE_NOTFOUND},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tree_record inner = {.depth = 1, .entries = 2, .root = cases[i].root},
				   record;
		uint8_t bytes[TREE_SIZE];
		struct made_entry entry = {"k", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};

		record_write(bytes, &inner);
		record = one_entry(f, &entry, MDB_DUPSORT);
		assert_true(value_breaks(f, &record, cases[i].rc));
	}
}

static void sub_tree_when_items_do_not_fit_the_page_then_corrupted(void **state)
{
	static const uint32_t pads[] = {0, 61, 240, 65536, 0xffffffff};
	static const uint8_t items[] = "aaaabbbbccccdddd";
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(pads) / sizeof(pads[0]); i++) {
		struct tree_record inner = {.pad = 4, .flags = MDB_DUPFIXED}, record;
		uint8_t bytes[TREE_SIZE];
		struct made_entry entry = {"k", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};

		builder_items(&f->builder, items, 4, 4, 2, &inner);
		inner.pad = pads[i];
		record_write(bytes, &inner);
		record = one_entry(f, &entry, MDB_DUPSORT | MDB_DUPFIXED);
		assert_true(value_breaks(f, &record, MDB_CORRUPTED));
	}
}

/* Duplicates cannot have duplicates. */
static void sub_tree_when_it_has_duplicates_itself_then_corrupted(void **state)
{
	static const struct made_entry nested[] = {{"v", NULL, 1, 0, ENTRY_DUPS},
						   {"w", NULL, 1, 0, ENTRY_DUPS | ENTRY_SUBTREE}};
	struct tree_record inner = {0};
	uint8_t bytes[TREE_SIZE];
	struct made_entry entry = {"k", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};
	struct fixture *f = *state;

	builder_tree(&f->builder, nested, 2, 2, 2, &inner);
	record_write(bytes, &inner);
	one_entry(f, &entry, MDB_DUPSORT);
	assert_true(gives(f, MDB_FIRST, 0));
	assert_true(breaks(f, MDB_NEXT, MDB_CORRUPTED));
}

static void sub_page_when_bad_then_corrupted(void **state)
{
	static const struct {
		const char *what;
		uint16_t size, flags, lower, upper, pad;
	} cases[] = {
		{"no header", 15, PAGE_LEAF, 18, 15, 0},
		{"no room", 16, PAGE_LEAF, 18, 16, 0},
		{"empty", 64, PAGE_LEAF, 16, 64, 0},
		{"lower before the header", 64, PAGE_LEAF, 14, 64, 0},
		{"lower behind upper", 64, PAGE_LEAF, 20, 18, 0},
		{"upper behind the end", 64, PAGE_LEAF, 18, 66, 0},
		{"lower behind the end", 64, PAGE_LEAF, 80, 80, 0},
		{"a branch", 64, PAGE_BRANCH, 18, 60, 0},
		{"a branch and a leaf", 64, PAGE_BRANCH | PAGE_LEAF, 18, 60, 0},
		{"no kind", 64, 0, 18, 60, 0},
		{"offset 0", 64, PAGE_LEAF, 18, 60, 0},
		{"items of no size", 64, PAGE_LEAF | PAGE_LEAF2, 18, 64, 0},
		{"items behind the end", 64, PAGE_LEAF | PAGE_LEAF2, 18, 64, 49},
		{"many items behind the end", 64, PAGE_LEAF | PAGE_LEAF2, 24, 64, 13},
		{"items of the largest size", 64, PAGE_LEAF | PAGE_LEAF2, 18, 64, 65535},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t page[80] = {0};
		struct made_entry entry = {"k", page, 1, cases[i].size, ENTRY_DUPS};
		struct tree_record record;

		store16(page + PAGE_PAD, cases[i].pad);
		store16(page + PAGE_FLAGS, cases[i].flags | PAGE_SUB);
		store16(page + PAGE_LOWER, cases[i].lower);
		store16(page + PAGE_UPPER, cases[i].upper);
		record = one_entry(f, &entry, MDB_DUPSORT | MDB_DUPFIXED);
		if (!value_breaks(f, &record, MDB_CORRUPTED))
			fail_msg("%s", cases[i].what);
	}
}

/* A LEAF2 page in a database without MDB_DUPFIXED: the size of its items is unknown. */
static void sub_page_when_leaf2_without_dupfixed_then_corrupted(void **state)
{
	uint8_t page[64];
	struct made_entry entry = {"k", page, 1, sizeof(page), ENTRY_DUPS};
	struct fixture *f = *state;
	struct tree_record record;

	page_format(page, sizeof(page), 0, PAGE_LEAF | PAGE_LEAF2 | PAGE_SUB);
	page_add_item(page, "1000", 4);
	record = one_entry(f, &entry, MDB_DUPSORT);
	assert_true(value_breaks(f, &record, MDB_CORRUPTED));
}

static void named_when_record_is_sound_then_read(void **state)
{
	struct tree_record inner = {.pad = 4, .flags = MDB_DUPSORT, .entries = 77, .root = 2}, got;
	uint8_t bytes[TREE_SIZE];
	struct made_entry entry = {"name", bytes, 4, TREE_SIZE, ENTRY_SUBTREE};
	MDB_val name = {4, (char[]){"name"}}, other = {4, (char[]){"nam3"}}, none = {0, NULL};
	struct fixture *f = *state;

	record_write(bytes, &inner);
	one_entry(f, &entry, 0);
	assert_int_equal(tree_find_named(&f->snapshot, &f->tree, &f->order.key, &name, &got), 0);
	assert_memory_equal(&got, &inner, sizeof(got));
	assert_int_equal(tree_find_named(&f->snapshot, &f->tree, &f->order.key, &other, &got),
			 MDB_NOTFOUND);
	assert_int_equal(tree_find_named(&f->snapshot, &f->tree, &f->order.key, &none, &got),
			 MDB_BAD_VALSIZE);
}

static void named_when_no_database_or_damaged_then_an_error(void **state)
{
	static const uint8_t bytes[TREE_SIZE + 1];
	static const struct {
		unsigned flags;
		size_t size;
		int rc;
	} cases[] = {
		{0, TREE_SIZE, MDB_INCOMPATIBLE},
		{ENTRY_DUPS, TREE_SIZE, MDB_INCOMPATIBLE},
		{ENTRY_DUPS | ENTRY_SUBTREE, TREE_SIZE, MDB_INCOMPATIBLE},
		{ENTRY_SUBTREE, TREE_SIZE - 1, MDB_CORRUPTED},
		{ENTRY_SUBTREE, TREE_SIZE + 1, MDB_CORRUPTED},
		{ENTRY_SUBTREE, 0, MDB_CORRUPTED},
		{ENTRY_SUBTREE | ENTRY_BIG, TREE_SIZE, MDB_CORRUPTED},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made_entry entry = {"k", bytes, 1, cases[i].size, cases[i].flags};
		MDB_val name = {1, (char[]){"k"}};
		struct tree_record got;

		one_entry(f, &entry, 0);
		assert_int_equal(
			tree_find_named(&f->snapshot, &f->tree, &f->order.key, &name, &got),
			cases[i].rc);
		assert_int_equal(!!f->snapshot.blocked, cases[i].rc == MDB_CORRUPTED);
	}
}

static void stale_tree_when_flags_have_changed_then_incompatible(void **state)
{
	struct tree_record inner = {.flags = MDB_REVERSEKEY, .entries = 5, .root = PAGE_NONE};
	uint8_t bytes[TREE_SIZE];
	struct made_entry entry = {"k", bytes, 1, TREE_SIZE, ENTRY_SUBTREE};
	MDB_val name = {1, (char[]){"k"}};
	struct fixture *f = *state;
	struct tree tree;

	record_write(bytes, &inner);
	one_entry(f, &entry, 0);
	tree = (struct tree){
		.record.flags = MDB_DUPSORT,
		.stale = true,
		.name = &name,
		.home = &f->tree,
		.home_order = &f->order.key,
	};
	assert_int_equal(tree_refresh(&f->snapshot, &tree), MDB_INCOMPATIBLE);
	assert_true(tree.stale);
	tree.record.flags = MDB_REVERSEKEY;
	assert_int_equal(tree_refresh(&f->snapshot, &tree), 0);
	assert_false(tree.stale);
	assert_int_equal(tree.record.entries, 5);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, damaged_setup, damaged_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(overflow_when_its_pages_are_not_there_then_an_error),
		TEST(overflow_when_it_ends_with_the_snapshot_then_read),
		TEST(pages_when_the_file_is_shorter_than_the_snapshot_then_corrupted),
		TEST(duplicates_when_in_a_tree_without_them_then_corrupted),
		TEST(sub_record_when_of_another_size_then_corrupted),
		TEST(sub_record_when_in_an_overflow_run_then_corrupted),
		TEST(sub_tree_when_its_root_is_bad_then_an_error),
		TEST(sub_tree_when_items_do_not_fit_the_page_then_corrupted),
		TEST(sub_tree_when_it_has_duplicates_itself_then_corrupted),
		TEST(sub_page_when_bad_then_corrupted),
		TEST(sub_page_when_leaf2_without_dupfixed_then_corrupted),
		TEST(named_when_record_is_sound_then_read),
		TEST(named_when_no_database_or_damaged_then_an_error),
		TEST(stale_tree_when_flags_have_changed_then_incompatible),
	};

	return cmocka_run_group_tests_name("values that are damaged", tests, NULL, NULL);
}
