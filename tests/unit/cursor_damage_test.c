/* What only this file knows: every kind of damage that a tree can have, and the answer to each. */
#include "tree_fixture.h"

#include "util/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 256, KEYS = 8 };

static const struct entry letters[KEYS] = {
	{"a", "1", 1, 1, 0}, {"b", "2", 1, 1, 0}, {"c", "3", 1, 1, 0}, {"d", "4", 1, 1, 0},
	{"e", "5", 1, 1, 0}, {"f", "6", 1, 1, 0}, {"g", "7", 1, 1, 0}, {"h", "8", 1, 1, 0},
};

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	if (*state)
		fixture_open(*state, SIZE, 64);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

/* Leaves of 2 under branches of 2: pages 2 ... 5 are leaves, 6 and 7 branches, 8 the root. */
static struct tree_record tree_of_letters(struct fixture *f)
{
	struct tree_record record = {0};

	builder_tree(&f->builder, letters, KEYS, 2, 2, &record);
	assert_int_equal(record.root, 8);
	return record;
}

static uint8_t *page_of(struct fixture *f, uint64_t number)
{
	return builder_page(&f->builder, number);
}

/* What node `i` of a page begins with. */
static uint8_t *node_of(struct fixture *f, uint64_t number, unsigned i)
{
	uint8_t *page = page_of(f, number);

	return page + load16(page + PAGE_HEADER + 2 * i);
}

/* Every way into the tree meets it: FIRST, LAST, a search, tree_get(). */
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
	} headers[] = {{16, SIZE},  {17, SIZE},	    {0, SIZE},		 {15, SIZE},
		       {20, 19},    {20, 0},	    {20, SIZE + 1},	 {SIZE + 2, SIZE},
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

	store16(node + NODE_LOW, 9);
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_LAST, MDB_PAGE_NOTFOUND));
	store16(node + NODE_FLAGS, 0xffff); /* the upper 16 of the number's 48 bits */
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
		store16(node_of(f, 7, 1) + NODE_LOW, (uint16_t)to);
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
	store16(node_of(f, record.root, 1) + NODE_LOW, 4);
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
	store16(node + NODE_KEY_SIZE, 2); /* the key ends with the page, the value is behind it */
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
	store16(node + NODE_KEY_SIZE, 3);
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	store16(node + NODE_KEY_SIZE, 65535);
	assert_true(root_breaks(f, &record, MDB_CORRUPTED));
	store16(node + NODE_KEY_SIZE, 1);
	store16(node + NODE_LOW, 2);
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
	store16(node + NODE_LOW, 1);
	store16(node + NODE_HIGH, 1);
	fixture_look(f, &record);
	assert_true(breaks(f, MDB_FIRST, MDB_CORRUPTED));
	store16(node + NODE_HIGH, 0);
	fixture_look(f, &record);
	assert_true(moves(f, MDB_FIRST, "a", "1"));
}

/* Whatever the offset of a node: an answer from the table, and values inside of the page. */
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

static struct tree_record one_entry(struct fixture *f, const struct entry *entry, unsigned flags)
{
	struct tree_record record = {.flags = (uint16_t)flags};

	builder_tree(&f->builder, entry, 1, 1, 2, &record);
	fixture_look(f, &record);
	return record;
}

/* Looks at the value in every way that there is: rc each time. */
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
		struct entry entry = {"k", &cases[i].number, 1, cases[i].size, NODE_BIG};
		struct tree_record record;

		f->builder.next = 19;
		record = one_entry(f, &entry, 0); /* page 19 is the last one */
		assert_true(value_breaks(f, &record, cases[i].rc));
	}
}

static void overflow_when_it_ends_with_the_snapshot_then_read(void **state)
{
	uint64_t number = 2;
	struct entry entry = {"k", &number, 1, 18 * SIZE - PAGE_HEADER, NODE_BIG};
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
	struct entry entry = {"k", &number, 1, 600, NODE_BIG};
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
	struct entry entry = {"k", page, 1, sizeof(page), NODE_DUPS};
	struct fixture *f = *state;
	struct tree_record record;

	page_format(page, sizeof(page), 0, PAGE_LEAF | PAGE_SUB);
	page_add_entry(page, &(struct entry){"v", NULL, 1, 0, 0});
	record = one_entry(f, &entry, 0);
	assert_true(value_breaks(f, &record, MDB_CORRUPTED));
	/* The same, met by what was placed there by its key alone. */
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
		struct entry entry = {"k", bytes, 1, sizes[i], NODE_DUPS | NODE_SUBTREE};
		struct tree_record record = one_entry(f, &entry, MDB_DUPSORT);

		assert_true(value_breaks(f, &record, MDB_CORRUPTED));
	}
}

static void sub_record_when_in_an_overflow_run_then_corrupted(void **state)
{
	static const unsigned flags[] = {NODE_DUPS | NODE_BIG, NODE_DUPS | NODE_SUBTREE | NODE_BIG};
	uint64_t number = 2;
	struct fixture *f = *state;

	for (size_t i = 0; i < 2; i++) {
		struct entry entry = {"k", &number, 1, TREE_SIZE, flags[i]};
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
		struct entry entry = {"k", bytes, 1, TREE_SIZE, NODE_DUPS | NODE_SUBTREE};

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
		struct entry entry = {"k", bytes, 1, TREE_SIZE, NODE_DUPS | NODE_SUBTREE};

		builder_items(&f->builder, items, 4, 4, 2, &inner);
		inner.pad = pads[i];
		record_write(bytes, &inner);
		record = one_entry(f, &entry, MDB_DUPSORT | MDB_DUPFIXED);
		assert_true(value_breaks(f, &record, MDB_CORRUPTED));
	}
}

/* A duplicate cannot have duplicates. */
static void sub_tree_when_it_has_duplicates_itself_then_corrupted(void **state)
{
	static const struct entry nested[] = {{"v", NULL, 1, 0, NODE_DUPS},
					      {"w", NULL, 1, 0, NODE_DUPS | NODE_SUBTREE}};
	struct tree_record inner = {0};
	uint8_t bytes[TREE_SIZE];
	struct entry entry = {"k", bytes, 1, TREE_SIZE, NODE_DUPS | NODE_SUBTREE};
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
		struct entry entry = {"k", page, 1, cases[i].size, NODE_DUPS};
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

/* LEAF2 where the database has no DUPFIXED: there is no item size to read it by. */
static void sub_page_when_leaf2_without_dupfixed_then_corrupted(void **state)
{
	uint8_t page[64];
	struct entry entry = {"k", page, 1, sizeof(page), NODE_DUPS};
	struct fixture *f = *state;
	struct tree_record record;

	page_format(page, sizeof(page), 0, PAGE_LEAF | PAGE_LEAF2 | PAGE_SUB);
	page_add_item(page, "1000", 4);
	record = one_entry(f, &entry, MDB_DUPSORT);
	assert_true(value_breaks(f, &record, MDB_CORRUPTED));
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

static void named_when_record_is_sound_then_read(void **state)
{
	struct tree_record inner = {.pad = 4, .flags = MDB_DUPSORT, .entries = 77, .root = 2}, got;
	uint8_t bytes[TREE_SIZE];
	struct entry entry = {"name", bytes, 4, TREE_SIZE, NODE_SUBTREE};
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
		{NODE_DUPS, TREE_SIZE, MDB_INCOMPATIBLE},
		{NODE_DUPS | NODE_SUBTREE, TREE_SIZE, MDB_INCOMPATIBLE},
		{NODE_SUBTREE, TREE_SIZE - 1, MDB_CORRUPTED},
		{NODE_SUBTREE, TREE_SIZE + 1, MDB_CORRUPTED},
		{NODE_SUBTREE, 0, MDB_CORRUPTED},
		{NODE_SUBTREE | NODE_BIG, TREE_SIZE, MDB_CORRUPTED},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct entry entry = {"k", bytes, 1, cases[i].size, cases[i].flags};
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
	struct entry entry = {"k", bytes, 1, TREE_SIZE, NODE_SUBTREE};
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

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		TEST(page_when_it_changes_under_a_cursor_then_still_no_look_outside),
		TEST(named_when_record_is_sound_then_read),
		TEST(named_when_no_database_or_damaged_then_an_error),
		TEST(stale_tree_when_flags_have_changed_then_incompatible),
	};

	return cmocka_run_group_tests_name("cursor over damage", tests, NULL, NULL);
}
