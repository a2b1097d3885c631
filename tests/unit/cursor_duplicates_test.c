/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks where each MDB_cursor_op leaves a cursor among duplicates. */
#include "tree_fixture.h"

#include "util/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SUB_FLAGS = PAGE_LEAF | PAGE_SUB | 0x10, SUB_SIZE = 100, TREE_VALUES = 18 };

/* The nodes of keys a, b, c, d: one value, a sub-page, a sub-tree, one value. */
struct parts {
	uint8_t page[SUB_SIZE], record[TREE_SIZE];
	struct made_entry entries[4];
};

static void build(struct fixture *f, struct parts *parts, unsigned flags)
{
	struct tree_record record = {.flags = (uint16_t)(MDB_DUPSORT | flags)};

	parts->entries[1] = (struct made_entry){"b", parts->page, 1, SUB_SIZE, ENTRY_DUPS};
	parts->entries[2] =
		(struct made_entry){"c", parts->record, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};
	builder_tree(&f->builder, parts->entries, 4, 4, 2, &record);
	fixture_look(f, &record);
}

/* b has 1, 3, 5; c has 10 ... 27 in leaves of 3. */
static void build_sorted(struct fixture *f)
{
	struct tree_record inner = {0};
	char values[TREE_VALUES][3];
	struct made_entry duplicates[TREE_VALUES];
	struct parts parts = {.entries = {{"a", "1", 1, 1, 0}, [3] = {"d", "9", 1, 1, 0}}};

	fixture_open(f, 512, 32);
	page_format(parts.page, SUB_SIZE, 7, SUB_FLAGS);
	page_add_entry(parts.page, &(struct made_entry){"1", NULL, 1, 0, 0});
	page_add_entry(parts.page, &(struct made_entry){"3", NULL, 1, 0, 0});
	page_add_entry(parts.page, &(struct made_entry){"5", NULL, 1, 0, 0});
	for (unsigned i = 0; i < TREE_VALUES; i++) {
		snprintf(values[i], 3, "%02u", (10 + i) % 100);
		duplicates[i] = (struct made_entry){values[i], NULL, 2, 0, 0};
	}
	builder_tree(&f->builder, duplicates, TREE_VALUES, 3, 2, &inner);
	record_write(parts.record, &inner);
	build(f, &parts, 0);
}

/* The same with values of 4 bytes: b has 1000 ... 1002, c has 2000 ... 2017 in leaves of 4. */
static void build_fixed(struct fixture *f)
{
	struct tree_record inner = {.pad = 4, .flags = MDB_DUPFIXED};
	char values[TREE_VALUES * 4 + 1];
	struct parts parts = {.entries = {{"a", "0001", 1, 4, 0}, [3] = {"d", "9000", 1, 4, 0}}};

	fixture_open(f, 512, 32);
	page_format(parts.page, SUB_SIZE, 7, SUB_FLAGS | PAGE_LEAF2);
	page_add_item(parts.page, "1000", 4);
	page_add_item(parts.page, "1001", 4);
	page_add_item(parts.page, "1002", 4);
	for (unsigned i = 0; i < TREE_VALUES; i++)
		snprintf(values + (size_t)i * 4, 5, "%04u", (2000 + i) % 10000);
	builder_items(&f->builder, (const uint8_t *)values, TREE_VALUES, 4, 2, &inner);
	record_write(parts.record, &inner);
	build(f, &parts, MDB_DUPFIXED);
}

static int setup_sorted(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	if (*state)
		build_sorted(*state);
	return *state ? 0 : -1;
}

static int setup_fixed(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	if (*state)
		build_fixed(*state);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

static const char *sorted_value(unsigned i, char text[8])
{
	snprintf(text, 8, "%u", i == 0 ? 1 : i < 4 ? 2 * i - 1 : i < 22 ? 6 + i : 9);
	return text;
}

static const char *sorted_key(unsigned i)
{
	return i == 0 ? "a" : i < 4 ? "b" : i < 22 ? "c" : "d";
}

static void walk_when_forward_then_every_value_of_every_key(void **state)
{
	char text[8];

	for (unsigned i = 0; i < 23; i++)
		assert_true(moves(*state, MDB_NEXT, sorted_key(i), sorted_value(i, text)));
	assert_true(gives(*state, MDB_NEXT, MDB_NOTFOUND));
	assert_true(moves(*state, MDB_GET_CURRENT, "d", "9"));
}

static void walk_when_backward_then_every_value_of_every_key(void **state)
{
	char text[8];

	for (unsigned i = 23; i-- > 0;)
		assert_true(moves(*state, MDB_PREV, sorted_key(i), sorted_value(i, text)));
	assert_true(gives(*state, MDB_PREV, MDB_NOTFOUND));
}

static void walk_when_turned_anywhere_then_the_neighbour(void **state)
{
	struct fixture *f = *state;
	char text[8];

	for (unsigned turn = 1; turn < 22; turn++) {
		fixture_rewind(f);
		for (unsigned i = 0; i <= turn; i++)
			assert_true(gives(f, MDB_NEXT, 0));
		assert_true(moves(f, MDB_PREV, sorted_key(turn - 1), sorted_value(turn - 1, text)));
		assert_true(moves(f, MDB_NEXT, sorted_key(turn), sorted_value(turn, text)));
		assert_true(moves(f, MDB_GET_CURRENT, sorted_key(turn), sorted_value(turn, text)));
	}
}

static void walk_when_over_keys_alone_then_first_or_last_values(void **state)
{
	assert_true(moves(*state, MDB_NEXT_NODUP, "a", "1"));
	assert_true(moves(*state, MDB_NEXT_NODUP, "b", "1"));
	assert_true(moves(*state, MDB_NEXT_NODUP, "c", "10"));
	assert_true(moves(*state, MDB_NEXT_NODUP, "d", "9"));
	assert_true(gives(*state, MDB_NEXT_NODUP, MDB_NOTFOUND));
	fixture_rewind(*state);
	assert_true(moves(*state, MDB_PREV_NODUP, "d", "9"));
	assert_true(moves(*state, MDB_PREV_NODUP, "c", "27"));
	assert_true(moves(*state, MDB_PREV_NODUP, "b", "5"));
	assert_true(moves(*state, MDB_PREV_NODUP, "a", "1"));
	assert_true(gives(*state, MDB_PREV_NODUP, MDB_NOTFOUND));
}

static void walk_when_within_a_key_then_stops_at_its_edges(void **state)
{
	assert_true(moves(*state, MDB_NEXT_DUP, "a", "1")); /* a fresh cursor: the first */
	assert_true(gives(*state, MDB_NEXT_DUP, MDB_NOTFOUND));
	assert_true(gives(*state, MDB_PREV_DUP, MDB_NOTFOUND));
	assert_true(moves(*state, MDB_NEXT, "b", "1"));
	assert_true(gives(*state, MDB_PREV_DUP, MDB_NOTFOUND));
	assert_true(moves(*state, MDB_NEXT_DUP, "b", "3"));
	assert_true(moves(*state, MDB_NEXT_DUP, "b", "5"));
	assert_true(gives(*state, MDB_NEXT_DUP, MDB_NOTFOUND));
	assert_true(moves(*state, MDB_GET_CURRENT, "b", "5"));
	assert_true(moves(*state, MDB_PREV_DUP, "b", "3"));
	assert_true(moves(*state, MDB_NEXT_NODUP, "c", "10"));
	assert_true(moves(*state, MDB_NEXT_DUP, "c", "11"));
}

static void edges_when_of_a_key_then_value_and_key_of_singles_alone(void **state)
{
	struct fixture *f = *state;

	assert_true(gives(f, MDB_FIRST_DUP, EINVAL));
	assert_int_equal(fixture_get(f, MDB_SET, "c", NULL), 0);
	assert_true(moves(f, MDB_LAST_DUP, NULL, "27"));
	assert_int_equal(f->key.mv_size, 0); /* LMDB does not fill it in here */
	assert_true(moves(f, MDB_FIRST_DUP, NULL, "10"));
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	assert_true(moves(f, MDB_LAST_DUP, NULL, "5"));
	assert_true(moves(f, MDB_GET_CURRENT, "b", "5"));
	assert_int_equal(fixture_get(f, MDB_SET, "a", NULL), 0);
	assert_true(moves(f, MDB_LAST_DUP, "a", "1"));
	assert_true(moves(f, MDB_FIRST_DUP, "a", "1"));
	assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_FIRST_DUP), EINVAL);
	assert_int_equal(fixture_get(f, MDB_SET, "e", NULL), MDB_NOTFOUND);
	assert_true(gives(f, MDB_FIRST_DUP, MDB_NOTFOUND));
}

static void set_when_key_has_duplicates_then_first_value(void **state)
{
	static const MDB_cursor_op ops[] = {MDB_SET, MDB_SET_KEY, MDB_SET_RANGE};
	struct fixture *f = *state;

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fixture_get(f, ops[i], "b", NULL), 0);
		assert_true(at(f, "b", "1"));
		assert_int_equal(fixture_get(f, ops[i], "c", NULL), 0);
		assert_true(at(f, "c", "10"));
		assert_int_equal(fixture_get(f, ops[i], "d", NULL), 0);
		assert_true(at(f, "d", "9"));
	}
	assert_int_equal(fixture_get(f, MDB_SET_RANGE, "bb", NULL), 0);
	assert_true(at(f, "c", "10"));
	assert_int_equal(fixture_get(f, MDB_SET, "bb", NULL), MDB_NOTFOUND);
	assert_true(moves(f, MDB_NEXT, "c", "10"));
}

static void get_both_when_present_then_placed_there(void **state)
{
	struct fixture *f = *state;
	char text[8], value[8];

	for (unsigned i = 0; i < 23; i++) {
		assert_int_equal(fixture_get(f, MDB_GET_BOTH, sorted_key(i), sorted_value(i, text)),
				 0);
		assert_true(at(f, sorted_key(i), text));
		if (i < 22)
			assert_true(
				moves(f, MDB_NEXT, sorted_key(i + 1), sorted_value(i + 1, value)));
	}
}

static void get_both_when_missed_then_current_is_the_next_or_nothing(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "b", "2"), MDB_NOTFOUND);
	assert_true(moves(f, MDB_GET_CURRENT, "b", "3"));
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "b", "6"), MDB_NOTFOUND);
	assert_true(gives(f, MDB_GET_CURRENT, MDB_NOTFOUND));
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "c", "145"), MDB_NOTFOUND);
	assert_true(moves(f, MDB_GET_CURRENT, "c", "15"));
	/* A miss behind the last value of a leaf does not move to the next leaf. */
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "c", "155"), MDB_NOTFOUND);
	assert_true(gives(f, MDB_GET_CURRENT, MDB_NOTFOUND));
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "c", "99"), MDB_NOTFOUND);
	assert_true(gives(f, MDB_GET_CURRENT, MDB_NOTFOUND));
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "a", "2"), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "bb", "1"), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "b", ""), MDB_BAD_VALSIZE);
	assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_GET_BOTH), EINVAL);
	assert_int_equal(cursor_get(&f->cursor, NULL, &f->data, MDB_GET_BOTH), EINVAL);
}

static void get_both_range_when_in_a_gap_then_next_value_of_the_key(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *key, *from, *to;
	} cases[] = {
		{"a", "0", "1"},   {"a", "1", "1"},    {"b", "0", "1"},	 {"b", "2", "3"},
		{"b", "4", "5"},   {"b", "5", "5"},    {"c", "0", "10"}, {"c", "1555", "16"},
		{"c", "27", "27"}, {"c", "265", "27"}, {"d", "5", "9"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, cases[i].key, cases[i].from),
				 0);
		assert_true(at(f, cases[i].key, cases[i].to));
	}
	assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, "a", "2"), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, "b", "6"), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, "c", "28"), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, "bb", "1"), MDB_NOTFOUND);
}

static void count_when_each_kind_then_number_of_values(void **state)
{
	struct fixture *f = *state;
	size_t count = 0;

	assert_int_equal(cursor_count(&f->cursor, &count), EINVAL);
	assert_true(gives(f, MDB_FIRST, 0));
	assert_int_equal(cursor_count(&f->cursor, &count), 0);
	assert_int_equal(count, 1);
	assert_true(gives(f, MDB_NEXT, 0));
	assert_int_equal(cursor_count(&f->cursor, &count), 0);
	assert_int_equal(count, 3);
	assert_true(gives(f, MDB_NEXT_NODUP, 0));
	assert_int_equal(cursor_count(&f->cursor, &count), 0);
	assert_int_equal(count, TREE_VALUES);
	assert_true(gives(f, MDB_LAST, 0));
	assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
	assert_int_equal(cursor_count(&f->cursor, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(fixture_get(f, MDB_SET, "e", NULL), MDB_NOTFOUND);
	assert_int_equal(cursor_count(&f->cursor, &count), MDB_NOTFOUND);
	f->snapshot.blocked = SNAPSHOT_FINISHED;
	assert_int_equal(cursor_count(&f->cursor, &count), MDB_BAD_TXN);
}

/* LMDB 0.9.24 enters a sub-page at once and a sub-tree only when a value is asked for. */
static void set_when_value_is_not_wanted_then_sub_tree_is_not_entered(void **state)
{
	struct fixture *f = *state;
	size_t count = 0;
	MDB_val b = {1, (char[]){"b"}}, c = {1, (char[]){"c"}};

	assert_int_equal(cursor_get(&f->cursor, &b, NULL, MDB_SET), 0);
	assert_int_equal(cursor_count(&f->cursor, &count), 0);
	assert_int_equal(count, 3);
	assert_true(moves(f, MDB_NEXT, "b", "3"));
	assert_int_equal(cursor_get(&f->cursor, &c, NULL, MDB_SET), 0);
	assert_int_equal(cursor_count(&f->cursor, &count), EINVAL);
	assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
	assert_true(gives(f, MDB_FIRST_DUP, EINVAL));
	assert_true(moves(f, MDB_NEXT, "c", "10"));
}

static void get_when_key_has_duplicates_then_first_value(void **state)
{
	static const char *const pairs[][2] = {{"a", "1"}, {"b", "1"}, {"c", "10"}, {"d", "9"}};
	struct fixture *f = *state;

	for (size_t i = 0; i < 4; i++) {
		MDB_val key = {1, (void *)(uintptr_t)pairs[i][0]};

		f->key = key;
		assert_int_equal(tree_get(&f->snapshot, &f->tree, &f->order, &key, &f->data), 0);
		assert_true(at(f, pairs[i][0], pairs[i][1]));
	}
}

static void multiple_when_not_dupfixed_then_incompatible(void **state)
{
	assert_true(gives(*state, MDB_FIRST, 0));
	assert_true(gives(*state, MDB_GET_MULTIPLE, MDB_INCOMPATIBLE));
	assert_true(gives(*state, MDB_NEXT_MULTIPLE, MDB_INCOMPATIBLE));
	assert_true(gives(*state, MDB_PREV_MULTIPLE, MDB_INCOMPATIBLE));
}

static void fixed_walk_when_both_ways_then_every_value(void **state)
{
	char value[8];

	assert_true(moves(*state, MDB_NEXT, "a", "0001"));
	assert_true(moves(*state, MDB_NEXT, "b", "1000"));
	assert_true(moves(*state, MDB_NEXT, "b", "1001"));
	assert_true(moves(*state, MDB_NEXT, "b", "1002"));
	for (unsigned i = 2000; i < 2000 + TREE_VALUES; i++) {
		snprintf(value, sizeof(value), "%u", i);
		assert_true(moves(*state, MDB_NEXT, "c", value));
	}
	assert_true(moves(*state, MDB_NEXT, "d", "9000"));
	assert_true(gives(*state, MDB_NEXT, MDB_NOTFOUND));
	for (unsigned i = 2000 + TREE_VALUES; i-- > 2000;) {
		snprintf(value, sizeof(value), "%u", i);
		assert_true(moves(*state, MDB_PREV, "c", value));
	}
	assert_true(moves(*state, MDB_PREV, "b", "1002"));
}

static void fixed_get_both_when_any_value_then_found(void **state)
{
	struct fixture *f = *state;
	char value[8];

	for (unsigned i = 2000; i < 2000 + TREE_VALUES; i++) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(fixture_get(f, MDB_GET_BOTH, "c", value), 0);
		assert_true(at(f, "c", value));
	}
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "b", "1001"), 0);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, "b", "10005"), 0);
	assert_true(at(f, "b", "1001"));
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "b", "1003"), MDB_NOTFOUND);
}

static void multiple_when_dupfixed_then_page_by_page(void **state)
{
	struct fixture *f = *state;

	assert_true(gives(f, MDB_GET_MULTIPLE, EINVAL));
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	assert_true(moves(f, MDB_GET_MULTIPLE, NULL, "100010011002"));
	assert_true(moves(f, MDB_GET_CURRENT, "b", "1002"));
	assert_true(gives(f, MDB_NEXT_MULTIPLE, MDB_NOTFOUND));
	assert_int_equal(fixture_get(f, MDB_SET, "c", NULL), 0);
	assert_true(moves(f, MDB_GET_MULTIPLE, NULL, "2000200120022003"));
	assert_true(moves(f, MDB_NEXT_MULTIPLE, "c", "2004200520062007"));
	assert_true(moves(f, MDB_NEXT_MULTIPLE, "c", "2008200920102011"));
	assert_true(moves(f, MDB_NEXT_MULTIPLE, "c", "2012201320142015"));
	assert_true(moves(f, MDB_NEXT_MULTIPLE, "c", "20162017"));
	assert_true(gives(f, MDB_NEXT_MULTIPLE, MDB_NOTFOUND));
	assert_true(moves(f, MDB_PREV_MULTIPLE, NULL, "2012201320142015"));
	assert_true(moves(f, MDB_PREV_MULTIPLE, NULL, "2008200920102011"));
	assert_true(moves(f, MDB_PREV_MULTIPLE, NULL, "2004200520062007"));
	assert_true(moves(f, MDB_PREV_MULTIPLE, NULL, "2000200120022003"));
	assert_true(gives(f, MDB_PREV_MULTIPLE, MDB_NOTFOUND));
	assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_GET_MULTIPLE), EINVAL);
	assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_NEXT_MULTIPLE), EINVAL);
	assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_PREV_MULTIPLE), EINVAL);
}

static void multiple_when_single_value_then_untouched_or_notfound(void **state)
{
	struct fixture *f = *state;

	assert_true(gives(f, MDB_NEXT_MULTIPLE, MDB_NOTFOUND)); /* at a, which has no page */
	assert_true(at(f, "a", "0001"));
	assert_int_equal(fixture_get(f, MDB_GET_MULTIPLE, "mine", "mine"), 0);
	assert_true(at(f, "mine", "mine"));
	assert_true(gives(f, MDB_NEXT_MULTIPLE, MDB_NOTFOUND));
	assert_true(gives(f, MDB_PREV_MULTIPLE, MDB_NOTFOUND));
}

/* Sizes of items from one byte on; LMDB counts items of one byte in its own way. */
static void fixed_values_when_any_item_size_then_all_are_walked(void **state)
{
	static const uint16_t sizes[] = {1, 2, 3, 5, 8, 64};
	struct fixture *f = *state;

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint16_t size = sizes[s];
		struct tree_record record = {.flags = MDB_DUPSORT | MDB_DUPFIXED};
		uint8_t page[PAGE_HEADER + 4 * 64], item[64] = {0};
		struct made_entry entry = {"k", page, 1, PAGE_HEADER + 4u * size, ENTRY_DUPS};
		size_t count;

		fixture_close(f);
		fixture_open(f, 512, 8);
		page_format(page, PAGE_HEADER + 4u * size, 2, SUB_FLAGS | PAGE_LEAF2);
		for (uint8_t i = 1; i <= 4; i++) {
			item[0] = i;
			page_add_item(page, item, size);
		}
		builder_tree(&f->builder, &entry, 1, 1, 2, &record);
		fixture_look(f, &record);
		for (uint8_t i = 1; i <= 4; i++) {
			assert_true(gives(f, MDB_NEXT, 0));
			assert_int_equal(f->data.mv_size, size);
			assert_int_equal(*(uint8_t *)f->data.mv_data, i);
		}
		assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
		assert_int_equal(cursor_count(&f->cursor, &count), 0);
		assert_int_equal(count, 4);
	}
}

#define SORTED(test) cmocka_unit_test_setup_teardown(test, setup_sorted, teardown)
#define FIXED(test)  cmocka_unit_test_setup_teardown(test, setup_fixed, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SORTED(walk_when_forward_then_every_value_of_every_key),
		SORTED(walk_when_backward_then_every_value_of_every_key),
		SORTED(walk_when_turned_anywhere_then_the_neighbour),
		SORTED(walk_when_over_keys_alone_then_first_or_last_values),
		SORTED(walk_when_within_a_key_then_stops_at_its_edges),
		SORTED(edges_when_of_a_key_then_value_and_key_of_singles_alone),
		SORTED(set_when_key_has_duplicates_then_first_value),
		SORTED(get_both_when_present_then_placed_there),
		SORTED(get_both_when_missed_then_current_is_the_next_or_nothing),
		SORTED(get_both_range_when_in_a_gap_then_next_value_of_the_key),
		SORTED(count_when_each_kind_then_number_of_values),
		SORTED(set_when_value_is_not_wanted_then_sub_tree_is_not_entered),
		SORTED(get_when_key_has_duplicates_then_first_value),
		SORTED(multiple_when_not_dupfixed_then_incompatible),
		FIXED(fixed_walk_when_both_ways_then_every_value),
		FIXED(fixed_get_both_when_any_value_then_found),
		FIXED(multiple_when_dupfixed_then_page_by_page),
		FIXED(multiple_when_single_value_then_untouched_or_notfound),
		FIXED(fixed_values_when_any_item_size_then_all_are_walked),
	};

	return cmocka_run_group_tests_name("cursor among duplicates", tests, NULL, NULL);
}
