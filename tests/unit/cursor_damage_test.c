/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the library answers to each kind of damage of pages, branches and nodes. */
#include "damaged_tree.h"

#include "cursor/cursor_private.h"

#include "util/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Whether FIRST, LAST, NEXT, PREV, a search and tree_get() all report the damage with rc. */
static bool root_breaks(struct fixture *f, const struct tree_record *record, int rc)
{
	static const MDB_cursor_op ops[] = {MDB_FIRST, MDB_LAST, MDB_NEXT, MDB_PREV};
	MDB_val key = {1, (char[]){"d"}};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		fixture_look(f, record);
		if (!breaks(f, ops[i], rc))
			return false;
	}
	fixture_look(f, record);
	if (fixture_get(f, MDB_SET, "d", NULL) != rc || !f->snapshot.blocked)
		return false;
	fixture_look(f, record);
	return tree_get(&f->snapshot, &f->tree, &f->order, &key, &f->data) == rc &&
	       f->snapshot.blocked;
}

static void root_when_outside_the_snapshot_then_page_notfound(void **state)
{
	static const uint64_t numbers[] = {9, 10, 63, 1ull << 40, 1ull << 56, UINT64_MAX - 1};
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		record.root = numbers[i];
		assert_true(root_breaks(f, &record, MDB_PAGE_NOTFOUND));
	}
}

static void root_when_a_meta_page_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f), nothing = {.root = PAGE_NONE};

	builder_meta(&f->builder, 0, 1, &nothing, &record);
	builder_meta(&f->builder, 1, 2, &nothing, &record);
	for (record.root = 0; record.root < 2; record.root++)
		assert_true(root_breaks(f, &record, MDB_CORRUPTED));
}

static void page_when_it_has_another_number_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	for (uint64_t bit = 0; bit < 64; bit++) {
		store64(page_of(f, record.root), record.root ^ 1ull << bit);
		assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	}
	store64(page_of(f, record.root), record.root);
	store64(page_of(f, 3), 4); /* the second leaf */
	fixture_look(f, &record);
	assert_true(moves(f, MDB_FIRST, "a", "1"));
	assert_true(moves(f, MDB_NEXT, "b", "2"));
	assert_true(breaks(f, MDB_NEXT, MDB_CORRUPTED));
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "e", NULL), 0);
	assert_true(breaks(f, MDB_PREV, MDB_CORRUPTED));
}

static void page_when_of_another_kind_then_corrupted(void **state)
{
	static const uint16_t flags[] = {0,
					 PAGE_OVERFLOW,
					 PAGE_META,
					 PAGE_LEAF | PAGE_BRANCH,
					 PAGE_LEAF | PAGE_META,
					 PAGE_LEAF2,
					 0xffff};
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		store16(page_of(f, record.root) + PAGE_FLAGS, flags[i]);
		assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	}
}

static void page_when_it_counts_nothing_then_corrupted(void **state)
{
	static const struct {
		uint16_t lower, upper;
	} headers[] = {{16, SIZE},  {17, SIZE},     {0, SIZE},           {15, SIZE},
		       {20, 19},    {20, 0},        {20, SIZE + 1},      {SIZE + 2, SIZE},
		       {20, 65535}, {65535, 65535}, {SIZE + 2, SIZE + 2}};
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	for (uint64_t number = record.root; number >= 7; number--) /* root, then a branch */
		for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
			uint32_t saved = load32(page_of(f, number) + PAGE_LOWER);

			store16(page_of(f, number) + PAGE_LOWER, headers[i].lower);
			store16(page_of(f, number) + PAGE_UPPER, headers[i].upper);
			fixture_look(f, &record);
			assert_true(breaks(f, MDB_LAST, MDB_CORRUPTED));
			store32(page_of(f, number) + PAGE_LOWER, saved);
		}
}

static void leaf_when_leaf2_in_a_main_tree_then_corrupted(void **state)
{
	static const uint8_t items[] = "aabbccdd";
	struct fixture *f = *state;
	struct tree_record record = {.pad = 2};

	builder_items(&f->builder, items, 4, 4, 2, &record);
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	record.flags = MDB_DUPSORT | MDB_DUPFIXED;
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
}

static void branch_when_child_is_outside_then_page_notfound(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);
	uint8_t *node = node_of(f, record.root, 1);

	store16(node + ENTRY_LOW, 9);
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_LAST, MDB_PAGE_NOTFOUND));
	store16(node + ENTRY_FLAGS, 0xffff); /* the upper 16 of the number's 48 bits */
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_LAST, MDB_PAGE_NOTFOUND));
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "d", NULL), 0);
	assert_true(breaks(f, MDB_NEXT, MDB_PAGE_NOTFOUND));
}

static void branch_when_it_leads_to_itself_or_up_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);
	MDB_val key = {1, (char[]){"h"}};

	for (uint64_t to = 7; to <= 8; to++) { /* the branch itself, then the root */
		store16(node_of(f, 7, 1) + ENTRY_LOW, (uint16_t)to);
		fixture_look(f, &record);
		assert_true(breaks(f, MDB_LAST, MDB_CORRUPTED));
		fixture_look(f, &record);
		assert_int_equal(fixture_get(f, MDB_SET, "h", NULL), MDB_CORRUPTED);
		fixture_look(f, &record);
		assert_int_equal(tree_get(&f->snapshot, &f->tree, &f->order, &key, &f->data),
				 MDB_CORRUPTED);
		fixture_look(f, &record);
		for (unsigned i = 0; i < 6; i++)
			assert_true(gives(f, MDB_NEXT, 0));
		/* A branch where a leaf belongs. */
		assert_true(breaks(f, MDB_NEXT, MDB_CORRUPTED));
	}
}

static void branch_when_below_it_depths_differ_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	/* Root's second child is a leaf, the first one a branch. */
	store16(node_of(f, record.root, 1) + ENTRY_LOW, 4);
	fixture_look(f, &record);
	for (unsigned i = 0; i < 4; i++)
		assert_true(gives(f, MDB_NEXT, 0));
	assert_true(breaks(f, MDB_NEXT, MDB_CORRUPTED));
	fixture_look(f, &record);
	assert_true(moves(f, MDB_LAST, "f", "6"));
	assert_true(moves(f, MDB_PREV, "e", "5"));
	assert_true(breaks(f, MDB_PREV, MDB_CORRUPTED));
}

/* Branches with one child each, `depth` levels in all. */
static struct tree_record chain(struct fixture *f, unsigned depth)
{
	struct tree_record record = {.depth = (uint16_t)depth};
	uint64_t below = builder_new(&f->builder, PAGE_LEAF);

	page_add_entry(page_of(f, below), &letters[3]);
	while (--depth) {
		uint64_t number = builder_new(&f->builder, PAGE_BRANCH);

		page_add_child(page_of(f, number), NULL, 0, below);
		below = number;
	}
	record.root = below;
	return record;
}

static void tree_when_32_levels_then_read_and_33_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = chain(f, FORMAT_DEPTH_MAX);
	MDB_val key = {1, (char[]){"d"}};

	fixture_look(f, &record);
	assert_true(moves(f, MDB_FIRST, "d", "4"));
	assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
	assert_int_equal(tree_get(&f->snapshot, &f->tree, &f->order, &key, &f->data), 0);
	f->builder.next = FORMAT_METAS;
	record = chain(f, FORMAT_DEPTH_MAX + 1);
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
}

static void node_when_its_offset_leaves_the_page_then_corrupted(void **state)
{
	static const uint16_t offsets[] = {
		0, 1, 15, 16, 17, SIZE - 7, SIZE - 1, SIZE, SIZE + 8, 32768, 65535,
	};
	struct fixture *f = *state;
	struct tree_record record = {0};

	builder_tree(&f->builder, letters, 1, 1, 2, &record);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		store16(page_of(f, record.root) + PAGE_HEADER, offsets[i]);
		assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	}
}

static void branch_node_when_its_offset_leaves_the_page_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	store16(page_of(f, record.root) + PAGE_HEADER, SIZE - 1);
	store16(page_of(f, record.root) + PAGE_HEADER + 2, SIZE);
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
}

static void node_when_key_or_value_leave_the_page_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = {0};
	uint8_t *node;

	builder_tree(&f->builder, letters, 1, 1, 2, &record);
	node = node_of(f, record.root, 0);
	assert_ptr_equal(node, page_of(f, record.root) + SIZE - 10);
	store16(node + ENTRY_KEY_SIZE, 2); /* the key ends with the page, the value is behind it */
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
	store16(node + ENTRY_KEY_SIZE, 3);
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	store16(node + ENTRY_KEY_SIZE, 65535);
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	store16(node + ENTRY_KEY_SIZE, 1);
	store16(node + ENTRY_LOW, 2);
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
	store16(node + ENTRY_LOW, 1);
	store16(node + ENTRY_HIGH, 1);
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
	store16(node + ENTRY_HIGH, 0);
	fixture_look(f, &record);
	assert_true(moves(f, MDB_FIRST, "a", "1"));
}

/* With any offset of a node the answer is one of those allowed, and a value lies inside the
 * page. */
static void node_when_any_offset_then_inside_or_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = {0};
	const uint8_t *page;

	builder_tree(&f->builder, letters, 3, 3, 2, &record);
	page = page_of(f, record.root);
	for (unsigned offset = 0; offset < 65536; offset++) {
		int rc;

		store16(page_of(f, record.root) + PAGE_HEADER + 2, (uint16_t)offset);
		fixture_look(f, &record);
		assert_true(gives(f, MDB_FIRST, 0));
		rc = fixture_get(f, MDB_NEXT, NULL, NULL);
		if (rc) {
			assert_true(rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND);
			continue;
		}
		assert_true((uint8_t *)f->key.mv_data >= page &&
			    (uint8_t *)f->key.mv_data + f->key.mv_size <= page + SIZE);
		assert_true((uint8_t *)f->data.mv_data >= page &&
			    (uint8_t *)f->data.mv_data + f->data.mv_size <= page + SIZE);
	}
}

static void page_when_it_changes_under_a_cursor_then_still_no_look_outside(void **state)
{
	static const MDB_cursor_op ops[] = {MDB_NEXT, MDB_PREV, MDB_GET_CURRENT};
	struct fixture *f = *state;
	struct tree_record record = {0};
	uint8_t saved[SIZE];

	builder_tree(&f->builder, letters, 3, 3, 2, &record);
	memcpy(saved, page_of(f, record.root), SIZE);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		for (unsigned fill = 0; fill < 256; fill++) {
			int rc;

			memcpy(page_of(f, record.root), saved, SIZE);
			fixture_look(f, &record);
			assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
			memset(page_of(f, record.root), (int)fill, SIZE);
			rc = fixture_get(f, ops[i], NULL, NULL);
			assert_true(!rc || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ||
				    rc == MDB_NOTFOUND);
		}
}

static void snapshot_fail_when_damage_then_blocked_else_not(void **state)
{
	static const struct {
		int rc;
		bool blocks;
	} cases[] = {
		{MDB_CORRUPTED, true},    {MDB_PAGE_NOTFOUND, true},
		{MDB_BAD_CHECKSUM, true}, {EIO, false},
		{ENOMEM, false},          {EAGAIN, false},
		{MDB_NOTFOUND, false},    {0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct snapshot snapshot = {.blocked = SNAPSHOT_FINISHED};

		assert_int_equal(snapshot_fail(&snapshot, cases[i].rc), cases[i].rc);
		assert_int_equal(snapshot.blocked, cases[i].blocks
							   ? SNAPSHOT_FINISHED | SNAPSHOT_DAMAGED
							   : SNAPSHOT_FINISHED);
	}
	assert_true(SNAPSHOT_FINISHED && SNAPSHOT_DAMAGED &&
		    !(SNAPSHOT_FINISHED & SNAPSHOT_DAMAGED));
}

static void answers_when_any_release_then_its_changes(void **state)
{
	(void)state;
	for (unsigned patch = 0; patch < 50; patch++) {
		unsigned answers = answers_of_release(patch);

		assert_true(!(answers & ANSWERS_ENTER_WITHOUT_DATA) == (patch < 27));
		assert_true(!(answers & ANSWERS_BACK_FROM_BEHIND) == (patch < 27));
		assert_true(!(answers & ANSWERS_EDGE_ENDS_END) == (patch < 30));
		assert_true(!(answers & ANSWERS_GONE_IS_BAD_DBI) == (patch < 33));
		assert_int_equal(answers & ~15u, 0);
	}
	assert_int_equal(ANSWERS_OF_1_0, answers_of_release(99) & ~(unsigned)ANSWERS_EDGE_ENDS_END);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, damaged_setup, damaged_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(snapshot_fail_when_damage_then_blocked_else_not),
		cmocka_unit_test(answers_when_any_release_then_its_changes),
		TEST(root_when_outside_the_snapshot_then_page_notfound),
		TEST(root_when_a_meta_page_then_corrupted),
		TEST(page_when_it_has_another_number_then_corrupted),
		TEST(page_when_of_another_kind_then_corrupted),
		TEST(page_when_it_counts_nothing_then_corrupted),
		TEST(leaf_when_leaf2_in_a_main_tree_then_corrupted),
		TEST(branch_when_child_is_outside_then_page_notfound),
		TEST(branch_when_it_leads_to_itself_or_up_then_corrupted),
		TEST(branch_when_below_it_depths_differ_then_corrupted),
		TEST(tree_when_32_levels_then_read_and_33_corrupted),
		TEST(node_when_its_offset_leaves_the_page_then_corrupted),
		TEST(branch_node_when_its_offset_leaves_the_page_then_corrupted),
		TEST(node_when_key_or_value_leave_the_page_then_corrupted),
		TEST(node_when_any_offset_then_inside_or_corrupted),
		TEST(page_when_it_changes_under_a_cursor_then_still_no_look_outside),
	};

	return cmocka_run_group_tests_name("cursor over damage", tests, NULL, NULL);
}
