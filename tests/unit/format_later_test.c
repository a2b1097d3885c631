/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks where each field of a page stands in both layouts, and what is sound in LMDB 1.0's. */
#define CURSOR_INSTANCE 1_0
#include "cursor/instance.h"
#include "format/meta.h"
#include "format/page.h"

#include <lmdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LATER (&page_layouts[FORMAT_1_0])

/* The tests write their numbers as LMDB's source has them, not by the names that they check. */
static void put(uint8_t *at, uint64_t value, size_t bytes)
{
	memcpy(at, &value, bytes);
}

/* Allocates each page by itself, so that a sanitizer sees a read past its end. */
static uint8_t *lone_page(uint32_t size)
{
	uint8_t *page = calloc(1, size);

	assert_non_null(page);
	return page;
}

static void layouts_when_asked_then_as_lmdb_has_them(void **state)
{
	const struct page_layout *one = LAYOUT_0_9, *two = LATER;

	(void)state;
	assert_int_equal(one->version, 1);
	assert_int_equal(one->page_max, 32768);
	assert_int_equal(one->shift, 0);
	assert_int_equal(one->header, 16);
	assert_int_equal(one->base, 0);
	assert_int_equal(one->least, 18);
	assert_int_equal(one->odd, 0);
	assert_int_equal(one->reference, 8);
	assert_int_equal(one->name_end, 0);
	assert_int_equal(two->version, 3);
	assert_int_equal(two->page_max, 65536);
	assert_int_equal(two->shift, 8);
	assert_int_equal(two->header, 24);
	assert_int_equal(two->base, 24);
	assert_int_equal(two->least, 0);
	assert_int_equal(two->odd, 1);
	assert_int_equal(two->reference, 24);
	assert_int_equal(two->name_end, 1);
}

/* The numbers by which other layers read pages. */
static void numbers_when_asked_then_as_lmdb_has_them(void **state)
{
	(void)state;
	assert_int_equal(PAGE_NUMBER, 0);
	assert_int_equal(PAGE_TXNID, 8);
	assert_int_equal(PAGE_PAD, 8);
	assert_int_equal(PAGE_FLAGS, 10);
	assert_int_equal(PAGE_LOWER, 12);
	assert_int_equal(PAGE_UPPER, 14);
	assert_int_equal(PAGE_RUN, 12);
	assert_int_equal(PAGE_HEADER, 16);
	assert_int_equal(RUN_PAGES, 16);
	assert_int_equal(REFERENCE_PAGES, 16);
	assert_int_equal(META_END, 152);
	assert_int_equal(META_LOOK, 160);
	assert_true(FORMAT_MAGIC == 0xbeefc0de && FORMAT_VERSION == 1);
	assert_int_equal(TREE_SIZE, 48);
	assert_int_equal(PAGE_BRANCH, 1);
	assert_int_equal(PAGE_LEAF, 2);
	assert_int_equal(PAGE_OVERFLOW, 4);
	assert_int_equal(PAGE_META, 8);
	assert_int_equal(PAGE_LEAF2, 0x20);
	assert_int_equal(PAGE_SUB, 0x40);
	assert_int_equal(ENTRY_LOW, 0);
	assert_int_equal(ENTRY_HIGH, 2);
	assert_int_equal(ENTRY_FLAGS, 4);
	assert_int_equal(ENTRY_KEY_SIZE, 6);
	assert_int_equal(ENTRY_KEY, 8);
	assert_int_equal(ENTRY_BIG, 1);
	assert_int_equal(ENTRY_SUBTREE, 2);
	assert_int_equal(ENTRY_DUPS, 4);
	assert_int_equal(FORMAT_PAGE_MIN, 256);
	assert_int_equal(FORMAT_PAGE_MAX, 65536);
	assert_int_equal(FORMAT_DEPTH_MAX, 32);
	assert_int_equal(FORMAT_METAS, 2);
	assert_int_equal(FORMAT_ENCRYPTED, 0x2000);
}

/* The numbers of a record, all different. */
static void put_tree(uint8_t *at, uint32_t pad, uint64_t first)
{
	put(at, pad, 4);
	put(at + 4, first, 2);
	put(at + 6, first + 1, 2);
	for (unsigned i = 0; i < 5; i++)
		put(at + 8 + 8 * i, (first + 2 + i) << 33, 8);
}

static void assert_tree(const struct tree_record *record, uint32_t pad, uint64_t first)
{
	assert_int_equal(record->pad, pad);
	assert_int_equal(record->flags, first);
	assert_int_equal(record->depth, first + 1);
	assert_true(record->branch_pages == (first + 2) << 33);
	assert_true(record->leaf_pages == (first + 3) << 33);
	assert_true(record->overflow_pages == (first + 4) << 33);
	assert_true(record->entries == (first + 5) << 33);
	assert_true(record->root == (first + 6) << 33);
}

static void meta_parse_when_either_layout_then_every_field_is_where_it_stands(void **state)
{
	(void)state;
	for (enum format format = FORMAT_0_9; format < FORMATS; format++) {
		uint32_t shift = format == FORMAT_0_9 ? 0 : 8;
		uint8_t *page = lone_page(152 + shift), *at = page + shift;
		struct meta meta;

		put(at + 10, 0x08, 2);
		put(at + 16, 0xbeefc0de, 4);
		put(at + 20, format == FORMAT_0_9 ? 1 : 3, 4);
		put(at + 24, 0x1234567890, 8);
		put(at + 32, 0xabcdef1234, 8);
		put_tree(at + 40, 8192, 50);
		put_tree(at + 88, 77, 70);
		put(at + 136, 0x9876543210, 8);
		put(at + 144, 0x1122334455, 8);
		assert_int_equal(meta_parse(&meta, page, format), 0);
		assert_int_equal(meta.format, format);
		assert_int_equal(meta.page_size, 8192);
		assert_int_equal(meta.env_flags, 50);
		assert_true(meta.address == 0x1234567890 && meta.mapsize == 0xabcdef1234);
		assert_tree(&meta.free_tree, 8192, 50);
		assert_tree(&meta.main_tree, 77, 70);
		assert_true(meta.last_page == 0x9876543210 && meta.txnid == 0x1122334455);
		free(page);
	}
}

/* LMDB takes the second meta page only if it is newer. */
static void meta_judge_when_transactions_are_equal_then_the_first(void **state)
{
	uint8_t *pages[2];
	struct meta meta;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		pages[i] = lone_page(152);
		put(pages[i] + 10, 0x08, 2);
		put(pages[i] + 16, 0xbeefc0de, 4);
		put(pages[i] + 20, 1, 4);
		put(pages[i] + 40, 4096, 4);
		put(pages[i] + 136, 5 + i, 8);
		put(pages[i] + 144, 9, 8);
	}
	assert_int_equal(meta_judge(pages[0], pages[1], &meta, FORMAT_0_9), 0);
	assert_int_equal(meta.last_page, 5);
	put(pages[1] + 144, 10, 8);
	assert_int_equal(meta_judge(pages[0], pages[1], &meta, FORMAT_0_9), 0);
	assert_int_equal(meta.last_page, 6);
	free(pages[0]);
	free(pages[1]);
}

static void meta_parse_when_later_then_pages_up_to_65536_bytes(void **state)
{
	uint8_t *page = lone_page(160);
	struct meta meta;

	(void)state;
	put(page + 18, 0x08, 2);
	put(page + 24, 0xbeefc0de, 4);
	put(page + 28, 3, 4);
	for (uint32_t size = 128; size <= 131072; size *= 2) {
		put(page + 48, size, 4);
		assert_int_equal(meta_parse(&meta, page, FORMAT_1_0),
				 size < 256 || size > 65536 ? MDB_INVALID : 0);
	}
	put(page + 28, 1, 4);
	assert_int_equal(meta_parse(&meta, page, FORMAT_1_0), MDB_VERSION_MISMATCH);
	free(page);
}

static void fields_when_either_layout_then_read_where_they_stand(void **state)
{
	(void)state;
	for (enum format format = FORMAT_0_9; format < FORMATS; format++) {
		const struct page_layout *layout = &page_layouts[format];
		uint32_t shift = format == FORMAT_0_9 ? 0 : 8, base = format == FORMAT_0_9 ? 0 : 24;
		uint8_t *page = lone_page(256);

		put(page, 0x1020304050607080, 8);
		put(page + shift + 8, 0xfedc, 2);
		put(page + shift + 10, 0x4002, 2);
		put(page + shift + 12, 0x22, 2);
		put(page + shift + 14, 0x33, 2);
		assert_int_equal(page_pad(layout, page), 0xfedc);
		assert_int_equal(page_flags(layout, page), 0x4002);
		assert_int_equal(page_lower(layout, page), base + 0x22);
		assert_int_equal(page_upper(layout, page), base + 0x33);
		assert_int_equal(page_run(layout, page), 0x330022);
		assert_true(page_is_sound(layout, page, 0x1020304050607080));
		put(page + 16 + shift + 6, 0x44, 2);
		assert_int_equal(page_offset(layout, page, 3), base + 0x44);
		assert_ptr_equal(page_item(layout, page, 5, 7), page + 16 + shift + 35);
		assert_ptr_equal(page_value(layout, page), page + 16 + shift);
		free(page);
	}
}

static void page_count_when_later_header_at_its_edges_then_counts_or_zero(void **state)
{
	const uint32_t size = 512, room = 512 - 24;
	const struct {
		uint32_t lower, upper, count;
	} cases[] = {
		{0, room, 0},     {2, room, 1},        {3, room, 1},
		{2, 2, 1},        {2, 1, 0},           {room, room, room / 2},
		{2, room + 1, 0}, {room + 2, room, 0}, {65535, 65535, 0},
	};
	uint8_t *page = lone_page(size);

	(void)state;
	put(page + 18, 0x02, 2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put(page + 20, cases[i].lower, 2);
		put(page + 22, cases[i].upper, 2);
		assert_int_equal(page_count(LATER, page, size), cases[i].count);
	}
	/* On a page of items the bounds have no meaning, but in a branch page they do. */
	put(page + 18, 0x22, 2);
	put(page + 20, 6, 2);
	put(page + 22, 4, 2);
	assert_int_equal(page_count(LATER, page, size), 3);
	put(page + 18, 0x21, 2);
	assert_int_equal(page_count(LATER, page, size), 0);
	free(page);
}

/* Damage: an item count of a page whose free space begins inside its header. */
static void page_count_when_items_begin_in_the_header_then_zero(void **state)
{
	uint8_t *page = lone_page(256);

	(void)state;
	put(page + 10, 0x22, 2);
	put(page + 14, 256, 2);
	for (unsigned lower = 0; lower <= 20; lower++) {
		put(page + 12, lower, 2);
		assert_int_equal(page_count(LAYOUT_0_9, page, 256),
				 lower < 16 ? 0 : (lower - 16) / 2);
	}
	free(page);
}

static void page_entry_when_later_then_offsets_count_from_the_header(void **state)
{
	const uint32_t size = 512;
	uint8_t *page = lone_page(size);
	const uint8_t *key;
	uint32_t key_size;
	uint64_t child;

	(void)state;
	for (uint32_t offset = 0; offset < 65536; offset++) {
		bool inside = offset <= size - 24 - 8;

		put(page + 24, offset, 2);
		assert_ptr_equal(page_entry(LATER, page, size, 0),
				 inside ? page + 24 + offset : NULL);
		/* An entry that begins inside the offsets reads the offsets themselves. */
		if (offset >= 2)
			assert_true(page_entry_key(LATER, page, size, 0, &key, &key_size) ==
				    inside);
		assert_true(page_child(LATER, page, size, 0, &child) == inside);
	}
	free(page);
}

/* In 0.9 no entry is in front of the first offset's end. */
static void page_entry_key_when_earlier_then_from_behind_one_offset_on(void **state)
{
	uint8_t *page = lone_page(256);
	const uint8_t *key;
	uint32_t key_size;

	(void)state;
	for (uint32_t offset = 0; offset <= 256; offset++) {
		bool inside = offset >= 18 && offset <= 248;

		put(page + 16, offset, 2);
		assert_true(page_entry_key(LAYOUT_0_9, page, 256, 0, &key, &key_size) == inside);
		assert_ptr_equal(page_entry(LAYOUT_0_9, page, 256, 0),
				 inside ? page + offset : NULL);
	}
	free(page);
}

static void page_entry_key_when_later_and_at_the_end_then_true_one_more_false(void **state)
{
	uint8_t *page = lone_page(256);
	const uint8_t *key;
	uint32_t key_size;

	(void)state;
	put(page + 24, 200 - 24, 2);
	for (uint32_t bytes = 0; bytes <= 60; bytes++) {
		put(page + 206, bytes, 2);
		assert_true(page_entry_key(LATER, page, 256, 0, &key, &key_size) == (bytes <= 48));
		if (bytes <= 48) {
			assert_ptr_equal(key, page + 208);
			assert_int_equal(key_size, bytes);
		}
	}
	free(page);
}

/* Data begins at the next even offset behind the key. */
static void page_leaf_entry_when_later_then_data_at_even_offsets(void **state)
{
	uint8_t *page = lone_page(256);
	struct entry entry;

	(void)state;
	put(page + 24, 200 - 24, 2);
	for (uint32_t bytes = 0; bytes <= 48; bytes++) {
		uint32_t at = bytes + bytes % 2;

		put(page + 206, bytes, 2);
		for (uint32_t data = 0; data <= 60; data++) {
			put(page + 200, data, 4);
			assert_true(page_leaf_entry(LATER, page, 256, 0, &entry) ==
				    (at + data <= 48));
			if (at + data > 48)
				continue;
			assert_int_equal(entry.key_size, bytes);
			assert_int_equal(entry.data_size, data);
			assert_ptr_equal(entry.data, page + 208 + at);
		}
		/* All of the reference to an overflow run must lie inside the page. */
		put(page + 204, 0x01, 2);
		put(page + 200, 0xffffffff, 4);
		assert_true(page_leaf_entry(LATER, page, 256, 0, &entry) == (at + 24 <= 48));
		put(page + 204, 0, 2);
		assert_false(page_leaf_entry(LATER, page, 256, 0, &entry));
	}
	/* Damage: an entry at an odd offset whose key ends with the page, so that its data begins
	 * behind the page. */
	put(page + 24, 201 - 24, 2);
	put(page + 201, 0, 6);
	put(page + 207, 47, 2);
	assert_false(page_leaf_entry(LATER, page, 256, 0, &entry));
	put(page + 207, 46, 2);
	assert_true(page_leaf_entry(LATER, page, 256, 0, &entry));
	put(page + 24, 200 - 24, 2);
	put(page + 206, 3, 2);
	put(page + 200, 0x12345678, 4);
	put(page + 204, 0x01, 2);
	assert_true(page_leaf_entry(LATER, page, 256, 0, &entry));
	assert_int_equal(entry.data_size, 0x12345678);
	assert_int_equal(entry.flags, 1);
	free(page);
}

/* The name of a database is shown without the NUL that ends it; other keys are shown whole. */
static void page_leaf_entry_when_a_database_then_its_name_without_the_end(void **state)
{
	static const struct {
		const char *key;
		uint32_t size, flags, later; /* the bytes that a view of LMDB 1.0 shows */
	} cases[] = {
		{"name\0", 5, 0x02, 4}, {"name", 4, 0x02, 4},   {"\0\0", 2, 0x02, 1},
		{"\0", 1, 0x02, 1},     {"", 0, 0x02, 0},       {"name\0", 5, 0x06, 5},
		{"name\0", 5, 0x04, 5}, {"name\0", 5, 0x00, 5}, {"name\0", 5, 0x01, 5},
		{"name\0", 5, 0x0a, 4}, {"a\0b", 3, 0x02, 3},   {"a\0", 2, 0x02, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint8_t *key = (const uint8_t *)cases[i].key;
		uint32_t size = cases[i].size;
		uint8_t *page = lone_page(256);
		struct entry entry;

		assert_int_equal(entry_key_shown(LATER, cases[i].flags, key, size), cases[i].later);
		assert_int_equal(entry_key_shown(LAYOUT_0_9, cases[i].flags, key, size), size);
		put(page + 24, 200 - 24, 2);
		put(page + 204, cases[i].flags, 2);
		put(page + 206, size, 2);
		memcpy(page + 208, key, size);
		assert_true(page_leaf_entry(LATER, page, 256, 0, &entry));
		assert_int_equal(entry.key_size, cases[i].later);
		assert_true(page_whole_entry(LATER, page, 256, 0, &entry));
		assert_int_equal(entry.key_size, size);
		free(page);
	}
	assert_true(entry_is_database(0x02));
	assert_true(entry_is_database(0x03));
	assert_false(entry_is_database(0x06));
	assert_false(entry_is_database(0x04));
	assert_false(entry_is_database(0));
}

static void page_items_fit_when_later_and_at_the_edge_then_true_one_more_false(void **state)
{
	(void)state;
	assert_true(page_items_fit(LATER, 256, 29, 8));
	assert_false(page_items_fit(LATER, 256, 30, 8));
	assert_true(page_items_fit(LATER, 256, 1, 232));
	assert_false(page_items_fit(LATER, 256, 1, 233));
	assert_true(page_items_fit(LATER, 256, 232, 1));
	assert_false(page_items_fit(LATER, 256, 0, 0));
	assert_true(page_items_fit(LATER, 24, 0, 1));
}

/* The header of the first page counts: a page of 256 bytes has room for 240, or 232. */
static void value_pages_when_at_the_edge_of_a_page_then_one_more(void **state)
{
	(void)state;
	for (uint32_t shift = 8; shift <= 16; shift++)
		for (uint64_t pages = 1; pages <= 3; pages++) {
			uint64_t room = (pages << shift) - 16;

			assert_int_equal(value_pages(LAYOUT_0_9, room, shift), pages);
			assert_int_equal(value_pages(LAYOUT_0_9, room + 1, shift), pages + 1);
			assert_int_equal(value_pages(LATER, room - 8, shift), pages);
			assert_int_equal(value_pages(LATER, room - 7, shift), pages + 1);
		}
	assert_int_equal(value_pages(LAYOUT_0_9, 0, 12), 1);
	assert_int_equal(value_pages(LATER, 0xffffffff, 12), 1048577);
}

/* A view that verifies checksums learns from the reference how long the run is, before it looks at the run. */
static void entry_value_when_later_and_in_a_run_then_the_view_has_the_reference(void **state)
{
	uint8_t reference[24] = {9};
	const struct entry entry = {.data = reference, .data_size = 5000, .flags = ENTRY_BIG};
	struct snapshot snapshot = {.page_size = 4096, .format = FORMAT_1_0, .view.page_shift = 12};
	MDB_val data;

	(void)state;
	assert_int_equal(entry_value(&snapshot, &entry, &data), MDB_PAGE_NOTFOUND);
	assert_ptr_equal(snapshot.view.reference, reference);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_when_asked_then_as_lmdb_has_them),
		cmocka_unit_test(numbers_when_asked_then_as_lmdb_has_them),
		cmocka_unit_test(meta_parse_when_either_layout_then_every_field_is_where_it_stands),
		cmocka_unit_test(meta_judge_when_transactions_are_equal_then_the_first),
		cmocka_unit_test(meta_parse_when_later_then_pages_up_to_65536_bytes),
		cmocka_unit_test(fields_when_either_layout_then_read_where_they_stand),
		cmocka_unit_test(page_count_when_later_header_at_its_edges_then_counts_or_zero),
		cmocka_unit_test(page_count_when_items_begin_in_the_header_then_zero),
		cmocka_unit_test(page_entry_when_later_then_offsets_count_from_the_header),
		cmocka_unit_test(page_entry_key_when_earlier_then_from_behind_one_offset_on),
		cmocka_unit_test(page_entry_key_when_later_and_at_the_end_then_true_one_more_false),
		cmocka_unit_test(page_leaf_entry_when_later_then_data_at_even_offsets),
		cmocka_unit_test(page_leaf_entry_when_a_database_then_its_name_without_the_end),
		cmocka_unit_test(
			page_items_fit_when_later_and_at_the_edge_then_true_one_more_false),
		cmocka_unit_test(
			entry_value_when_later_and_in_a_run_then_the_view_has_the_reference),
		cmocka_unit_test(value_pages_when_at_the_edge_of_a_page_then_one_more),
	};

	return cmocka_run_group_tests_name("format of LMDB 1.0", tests, NULL, NULL);
}
