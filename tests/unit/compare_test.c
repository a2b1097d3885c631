/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how values are ordered, by each rule, and what a search does with it.
 */
#include "tree_fixture.h"

#include "util/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct bytes {
	uint8_t size, at[17];
};

static int sign(int order)
{
	return (order > 0) - (order < 0);
}

/* Copies of the exact size, so that a sanitizer sees a read past their ends. */
static int compare_bytes_as(enum compare_kind kind, const struct bytes *x, const struct bytes *y)
{
	const struct comparator comparator = {.kind = kind};
	MDB_val a = {x->size, malloc(x->size)}, b = {y->size, malloc(y->size)};
	int order;

	memcpy(a.mv_data, x->at, x->size);
	memcpy(b.mv_data, y->at, y->size);
	order = sign(compare(&comparator, &a, &b));
	free(a.mv_data);
	free(b.mv_data);
	return order;
}

/* values[] is in rising order by the rule: each pair must compare so, in both directions. */
static void assert_rising(enum compare_kind kind, const struct bytes *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			int wanted = (i > j) - (i < j);
			int got = compare_bytes_as(kind, &values[i], &values[j]);

			if (got != wanted)
				print_error("values %zu and %zu of the list\n", i, j);
			assert_int_equal(got, wanted);
		}
}

static void compare_when_bytes_then_as_memcmp_and_by_length(void **state)
{
	static const struct bytes rising[] = {
		{1, {0}},
		{2, {0, 0}},
		{1, {1}},
		{8, {1, 1, 1, 1, 1, 1, 1, 1}},
		{9, {1, 1, 1, 1, 1, 1, 1, 1, 0}},
		{9, {1, 1, 1, 1, 1, 1, 1, 1, 255}},
		{8, {1, 1, 1, 1, 1, 1, 1, 2}},
		{7, {1, 1, 1, 1, 1, 1, 2}},
		{1, {127}},
		{1, {128}},
		{17, {128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
		{1, {255}},
	};

	(void)state;
	assert_rising(COMPARE_BYTES, rising, sizeof(rising) / sizeof(rising[0]));
}

static void compare_when_reverse_then_from_the_last_byte(void **state)
{
	static const struct bytes rising[] = {
		{1, {0}},
		{2, {0, 0}},
		{2, {9, 0}},
		{1, {1}},
		{2, {0, 1}},
		{3, {0, 0, 1}},
		{2, {255, 1}},
		{2, {0, 2}},
		{3, {1, 0, 2}},
		{3, {0, 1, 2}},
		{1, {127}},
		{1, {128}},
		{9, {0, 0, 0, 0, 0, 0, 0, 0, 255}},
	};

	(void)state;
	assert_rising(COMPARE_REVERSE, rising, sizeof(rising) / sizeof(rising[0]));
}

/* Numbers of 1 to 16 bytes, in little-endian order: LMDB compares all of them from the most
 * significant byte down. */
static void compare_when_integer_of_any_size_then_as_numbers(void **state)
{
	(void)state;
	for (uint8_t size = 1; size <= 16; size++) {
		struct bytes rising[2 * 16 + 1] = {{.size = size}};
		size_t n = 1;

		for (uint8_t byte = 0; byte < size; byte++) {
			rising[n].size = rising[n + 1].size = size;
			rising[n].at[byte] = 1;
			memset(rising[n + 1].at, 0xff, byte + 1u);
			n += 2;
		}
		for (size_t i = 0; i + 1 < n; i++) {
			int got = compare_bytes_as(COMPARE_INTEGER, &rising[i], &rising[i + 1]);

			if (got >= 0)
				print_error("numbers of %u bytes, byte %zu\n", size, i / 2);
			assert_true(got < 0);
			assert_true(compare_bytes_as(COMPARE_INTEGER, &rising[i + 1], &rising[i]) >
				    0);
		}
		for (size_t i = 0; i < n; i++)
			assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &rising[i], &rising[i]),
					 0);
	}
}

/* LMDB compares as many bytes as the searched key has; a longer stored key never equals it. */
static void compare_when_integer_sizes_differ_then_by_the_searched_size(void **state)
{
	static const struct bytes four = {4, {5, 0, 0, 0}}, eight = {8, {5, 0, 0, 0, 0, 0, 0, 9}},
				  two = {2, {5, 0}}, less = {2, {4, 0}}, long_five = {8, {5}},
				  long_four = {8, {4}}, one = {1, {5}}, three = {3, {5, 0, 0}};

	(void)state;
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &four, &eight), 0);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &two, &four), 0);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &less, &four), -1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &four, &two), 1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &eight, &four), 1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &long_five, &four), 1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &long_five, &two), 1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &long_four, &four), -1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &less, &eight), -1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &three, &one), 1);
	assert_int_equal(compare_bytes_as(COMPARE_INTEGER, &one, &three), 0);
}

static void compare_when_fixed_numbers_then_of_4_or_8_bytes(void **state)
{
	static const struct bytes rising[] = {
		{4, {0, 0, 0, 0}},   {4, {1, 0, 0, 0}},		{4, {255, 255, 255, 127}},
		{4, {0, 0, 0, 128}}, {4, {255, 255, 255, 255}},
	};
	static const struct bytes longer[] = {
		{8, {255, 255, 255, 255, 0, 0, 0, 0}},
		{8, {0, 0, 0, 0, 1, 0, 0, 0}},
		{8, {0, 0, 0, 0, 0, 0, 0, 128}},
		{8, {1, 0, 0, 0, 0, 0, 0, 128}},
	};
	static const struct bytes shorter = {1, {1}}, same = {4, {1, 0, 0, 0}}, none = {0, {0}},
				  zero = {4, {0}};
	static const struct bytes long_one = {9, {1, 0, 0, 0, 0, 0, 0, 0, 7}}, one = {8, {1}},
				  other = {8, {1, 0, 0, 0, 9}};

	(void)state;
	assert_rising(COMPARE_UINT, rising, sizeof(rising) / sizeof(rising[0]));
	assert_rising(COMPARE_ULONG, longer, sizeof(longer) / sizeof(longer[0]));
	assert_int_equal(compare_bytes_as(COMPARE_UINT, &shorter, &same), 0);
	assert_int_equal(compare_bytes_as(COMPARE_ULONG, &shorter, &same), 0);
	/* Missing bytes count as 0; bytes beyond the number's size do not count. */
	assert_int_equal(compare_bytes_as(COMPARE_UINT, &none, &zero), 0);
	assert_int_equal(compare_bytes_as(COMPARE_ULONG, &zero, &none), 0);
	assert_int_equal(compare_bytes_as(COMPARE_ULONG, &long_one, &one), 0);
	assert_int_equal(compare_bytes_as(COMPARE_ULONG, &one, &long_one), 0);
	assert_int_equal(compare_bytes_as(COMPARE_UINT, &other, &one), 0);
	assert_int_equal(compare_bytes_as(COMPARE_UINT, &one, &other), 0);
}

static int one_order(const MDB_val *a, const MDB_val *b)
{
	return (a->mv_size > b->mv_size) - (a->mv_size < b->mv_size);
}

static void comparators_equal_when_one_of_four_differs_then_false(void **state)
{
	const struct comparators first = {{COMPARE_CUSTOM, one_order}, {COMPARE_REVERSE, NULL}};

	(void)state;
	assert_true(comparators_equal(&first, &first));
	for (unsigned which = 0; which < 4; which++) {
		struct comparators second = first;

		if (which == 0)
			second.key.kind = COMPARE_BYTES;
		else if (which == 1)
			second.key.function = NULL;
		else if (which == 2)
			second.data.kind = COMPARE_BYTES;
		else
			second.data.function = one_order;
		assert_false(comparators_equal(&first, &second));
		assert_false(comparators_equal(&second, &first));
	}
}

static void compare_when_custom_then_the_function_gets_both(void **state)
{
	const struct comparator custom = {COMPARE_CUSTOM, one_order};
	MDB_val a = {3, (char[]){"abc"}}, b = {2, (char[]){"zz"}};

	(void)state;
	assert_int_equal(compare(&custom, &a, &b), 1);
	assert_int_equal(compare(&custom, &b, &a), -1);
	assert_int_equal(compare_as(COMPARE_CUSTOM, &custom, &a, b.mv_data, b.mv_size), 1);
}

static void comparators_default_when_any_flags_then_lmdb_choice(void **state)
{
	static const struct {
		unsigned flags;
		enum compare_kind key, data;
	} cases[] = {
		{0, COMPARE_BYTES, COMPARE_BYTES},
		{MDB_REVERSEKEY, COMPARE_REVERSE, COMPARE_BYTES},
		{MDB_INTEGERKEY, COMPARE_INTEGER, COMPARE_BYTES},
		{MDB_REVERSEKEY | MDB_INTEGERKEY, COMPARE_REVERSE, COMPARE_BYTES},
		{MDB_REVERSEDUP | MDB_INTEGERDUP, COMPARE_BYTES, COMPARE_BYTES},
		{MDB_DUPSORT, COMPARE_BYTES, COMPARE_BYTES},
		{MDB_DUPSORT | MDB_REVERSEDUP, COMPARE_BYTES, COMPARE_REVERSE},
		{MDB_DUPSORT | MDB_DUPFIXED, COMPARE_BYTES, COMPARE_BYTES},
		{MDB_DUPSORT | MDB_DUPFIXED | MDB_REVERSEDUP, COMPARE_BYTES, COMPARE_REVERSE},
		{MDB_DUPSORT | MDB_INTEGERDUP, COMPARE_BYTES, COMPARE_INTEGER},
		{MDB_DUPSORT | MDB_INTEGERDUP | MDB_REVERSEDUP, COMPARE_BYTES, COMPARE_INTEGER},
		{MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, COMPARE_BYTES, COMPARE_UINT},
		{MDB_DUPSORT | MDB_INTEGERKEY, COMPARE_INTEGER, COMPARE_BYTES},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct comparators order;

		comparators_default(&order, cases[i].flags);
		assert_int_equal(order.key.kind, cases[i].key);
		assert_int_equal(order.data.kind, cases[i].data);
		assert_null(order.key.function);
		assert_null(order.data.function);
	}
}

/* Searches every key of a tree, by tree_get() and by cursors from everywhere. */
static void assert_all_found(struct fixture *f, const struct made_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		MDB_val key = {entries[i].key_size, (void *)(uintptr_t)entries[i].key};

		assert_int_equal(tree_get(&f->snapshot, &f->tree, &f->order, &key, &f->data), 0);
		assert_int_equal(f->data.mv_size, entries[i].data_size);
		assert_memory_equal(f->data.mv_data, entries[i].data, entries[i].data_size);
		for (size_t from = 0; from < n; from++) {
			MDB_val other = {entries[from].key_size,
					 (void *)(uintptr_t)entries[from].key};

			assert_int_equal(cursor_get(&f->cursor, &other, &f->data, MDB_SET), 0);
			assert_int_equal(cursor_get(&f->cursor, &key, &f->data, MDB_SET), 0);
			assert_memory_equal(f->data.mv_data, entries[i].data, entries[i].data_size);
		}
	}
}

enum { NUMBERS = 24 };

static void search_when_integer_keys_then_all_found(void **state)
{
	static const uint8_t sizes[] = {2, 4, 6, 8};

	(void)state;
	for (size_t s = 0; s < sizeof(sizes); s++) {
		struct tree_record record = {.flags = MDB_INTEGERKEY};
		uint64_t keys[NUMBERS], missing = 101;
		struct made_entry entries[NUMBERS];
		struct fixture f;

		for (size_t i = 0; i < NUMBERS; i++) {
			keys[i] = i * 250; /* not the order of the keys' bytes */
			entries[i] = (struct made_entry){&keys[i], &keys[i], sizes[s], 8, 0};
		}
		fixture_open(&f, 512, 32);
		builder_tree(&f.builder, entries, NUMBERS, 3, 3, &record);
		fixture_look(&f, &record);
		assert_all_found(&f, entries, NUMBERS);
		f.key = (MDB_val){sizes[s], &missing};
		assert_int_equal(tree_get(&f.snapshot, &f.tree, &f.order, &f.key, &f.data),
				 MDB_NOTFOUND);
		assert_int_equal(cursor_get(&f.cursor, &f.key, &f.data, MDB_SET_RANGE), 0);
		assert_int_equal(load64(f.data.mv_data), 250);
		fixture_close(&f);
	}
}

static void search_when_reverse_keys_then_all_found(void **state)
{
	struct tree_record record = {.flags = MDB_REVERSEKEY};
	static const char *const keys[] = {"za", "ya", "bza", "ab", "bb", "xab", "c", "ac"};
	/* Compared from the last letter: a < b < c; "za" follows "ya", and a longer key follows the
	 * key that it ends with. */
	static const char *const rising[] = {"ya", "za", "bza", "ab", "xab", "bb", "c", "ac"};
	struct made_entry entries[8];
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < 8; i++)
		entries[i] = (struct made_entry){rising[i], rising[i], strlen(rising[i]),
						 strlen(rising[i]), 0};
	fixture_open(&f, 512, 32);
	builder_tree(&f.builder, entries, 8, 2, 2, &record);
	fixture_look(&f, &record);
	assert_all_found(&f, entries, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(fixture_get(&f, MDB_SET, keys[i], NULL), 0);
	fixture_close(&f);
}

static int descending(const MDB_val *a, const MDB_val *b)
{
	int order =
		memcmp(b->mv_data, a->mv_data, a->mv_size < b->mv_size ? a->mv_size : b->mv_size);

	return order ? order : (b->mv_size > a->mv_size) - (b->mv_size < a->mv_size);
}

static void search_when_custom_order_then_the_function_decides(void **state)
{
	struct tree_record record = {0};
	char keys[NUMBERS][3];
	struct made_entry entries[NUMBERS];
	struct fixture f;

	(void)state;
	for (unsigned i = 0; i < NUMBERS; i++) {
		snprintf(keys[i], 3, "%02u", (90 - 2 * i) % 100);
		entries[i] = (struct made_entry){keys[i], keys[i], 2, 2, 0};
	}
	fixture_open(&f, 512, 32);
	builder_tree(&f.builder, entries, NUMBERS, 3, 3, &record);
	fixture_look(&f, &record);
	f.order.key = (struct comparator){COMPARE_CUSTOM, descending};
	fixture_rewind(&f);
	assert_all_found(&f, entries, NUMBERS);
	assert_int_equal(fixture_get(&f, MDB_SET_RANGE, "71", NULL), 0);
	assert_true(at(&f, "70", "70"));
	assert_int_equal(fixture_get(&f, MDB_SET_RANGE, "01", NULL), MDB_NOTFOUND);
	fixture_close(&f);
}

/* Duplicates of 4 and of 8 bytes: the flags are the same, the items tell the size. */
static void search_when_integer_duplicates_then_all_found(void **state)
{
	(void)state;
	for (uint32_t size = 4; size <= 8; size += 4) {
		struct tree_record inner = {.pad = size, .flags = MDB_DUPFIXED | MDB_INTEGERDUP};
		struct tree_record record = {.flags = MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP};
		uint8_t items[NUMBERS * 8], bytes[TREE_SIZE];
		struct made_entry entry = {"k", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};
		struct fixture f;

		for (unsigned i = 0; i < NUMBERS; i++) {
			uint64_t number = size == 8 ? (uint64_t)i * 250 << 28 : i * 250;

			memcpy(items + (size_t)i * size, &number, size);
		}
		fixture_open(&f, 512, 32);
		builder_items(&f.builder, items, NUMBERS, 3, 3, &inner);
		record_write(bytes, &inner);
		builder_tree(&f.builder, &entry, 1, 1, 2, &record);
		fixture_look(&f, &record);
		for (unsigned i = 0; i < NUMBERS; i++) {
			f.key = (MDB_val){1, (char[]){"k"}};
			f.data = (MDB_val){size, items + (size_t)i * size};
			assert_int_equal(cursor_get(&f.cursor, &f.key, &f.data, MDB_GET_BOTH), 0);
			assert_memory_equal(f.data.mv_data, items + (size_t)i * size, size);
		}
		fixture_close(&f);
	}
}

static void search_when_single_value_of_8_byte_numbers_then_all_8_count(void **state)
{
	struct tree_record record = {.flags = MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP};
	uint64_t value = 1ull << 40, less = 0;
	struct made_entry entry = {"k", &value, 1, 8, 0};
	struct fixture f;

	(void)state;
	fixture_open(&f, 512, 8);
	builder_tree(&f.builder, &entry, 1, 1, 2, &record);
	fixture_look(&f, &record);
	f.key = (MDB_val){1, (char[]){"k"}};
	f.data = (MDB_val){8, &less};
	assert_int_equal(cursor_get(&f.cursor, &f.key, &f.data, MDB_GET_BOTH), MDB_NOTFOUND);
	f.data = (MDB_val){8, &less};
	assert_int_equal(cursor_get(&f.cursor, &f.key, &f.data, MDB_GET_BOTH_RANGE), 0);
	assert_true(load64(f.data.mv_data) == value);
	fixture_close(&f);
}

static void search_when_custom_order_of_duplicates_then_the_function_decides(void **state)
{
	struct tree_record record = {.flags = MDB_DUPSORT};
	uint8_t page[100];
	struct made_entry entry = {"k", page, 1, sizeof(page), ENTRY_DUPS};
	struct fixture f;

	(void)state;
	fixture_open(&f, 512, 8);
	page_format(page, sizeof(page), 0, PAGE_LEAF | PAGE_SUB);
	page_add_entry(page, &(struct made_entry){"5", NULL, 1, 0, 0});
	page_add_entry(page, &(struct made_entry){"3", NULL, 1, 0, 0});
	page_add_entry(page, &(struct made_entry){"1", NULL, 1, 0, 0});
	builder_tree(&f.builder, &entry, 1, 1, 2, &record);
	fixture_look(&f, &record);
	f.order.data = (struct comparator){COMPARE_CUSTOM, descending};
	fixture_rewind(&f);
	assert_int_equal(fixture_get(&f, MDB_GET_BOTH, "k", "1"), 0);
	assert_int_equal(fixture_get(&f, MDB_GET_BOTH, "k", "5"), 0);
	assert_int_equal(fixture_get(&f, MDB_GET_BOTH_RANGE, "k", "4"), 0);
	assert_true(at(&f, "k", "3"));
	assert_int_equal(fixture_get(&f, MDB_GET_BOTH_RANGE, "k", "0"), MDB_NOTFOUND);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compare_when_bytes_then_as_memcmp_and_by_length),
		cmocka_unit_test(compare_when_reverse_then_from_the_last_byte),
		cmocka_unit_test(compare_when_integer_of_any_size_then_as_numbers),
		cmocka_unit_test(compare_when_integer_sizes_differ_then_by_the_searched_size),
		cmocka_unit_test(compare_when_fixed_numbers_then_of_4_or_8_bytes),
		cmocka_unit_test(comparators_equal_when_one_of_four_differs_then_false),
		cmocka_unit_test(compare_when_custom_then_the_function_gets_both),
		cmocka_unit_test(comparators_default_when_any_flags_then_lmdb_choice),
		cmocka_unit_test(search_when_integer_keys_then_all_found),
		cmocka_unit_test(search_when_reverse_keys_then_all_found),
		cmocka_unit_test(search_when_custom_order_then_the_function_decides),
		cmocka_unit_test(search_when_integer_duplicates_then_all_found),
		cmocka_unit_test(search_when_single_value_of_8_byte_numbers_then_all_8_count),
		cmocka_unit_test(search_when_custom_order_of_duplicates_then_the_function_decides),
	};

	return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
