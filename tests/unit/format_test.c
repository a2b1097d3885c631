/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the format layer must accept and refuse, byte by byte. */
#include "page_builder.h"

#include "format/meta.h"
#include "format/page.h"

#include <lmdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct tree_record nothing = {.root = PAGE_NONE};

static void sound_metas(struct builder *builder, uint32_t page_size)
{
	struct tree_record main_tree = {
		.pad = 3,
		.flags = 0x04,
		.depth = 2,
		.branch_pages = 1,
		.leaf_pages = 7,
		.overflow_pages = 9,
		.entries = 123456789012,
		.root = 5,
	};

	builder_open(builder, page_size, 16);
	builder_take(builder, 9);
	builder_meta(builder, 0, 6, &nothing, &main_tree);
	builder_meta(builder, 1, 7, &nothing, &main_tree);
}

static void meta_parse_when_sound_then_every_field_is_read(void **state)
{
	struct builder builder;
	struct meta meta;

	(void)state;
	sound_metas(&builder, 4096);
	store64(builder_page(&builder, 1) + META_ADDRESS, 0x123456789abc);
	assert_int_equal(meta_parse(&meta, builder_page(&builder, 1), FORMAT_0_9), 0);
	assert_int_equal(meta.page_size, 4096);
	assert_int_equal(meta.env_flags, 0x08);
	assert_int_equal(meta.address, 0x123456789abc);
	assert_int_equal(meta.mapsize, 16 * 4096);
	assert_int_equal(meta.last_page, 10);
	assert_int_equal(meta.txnid, 7);
	assert_true(meta.free_tree.root == PAGE_NONE);
	assert_int_equal(meta.main_tree.pad, 3);
	assert_int_equal(meta.main_tree.flags, 0x04);
	assert_int_equal(meta.main_tree.depth, 2);
	assert_int_equal(meta.main_tree.branch_pages, 1);
	assert_int_equal(meta.main_tree.leaf_pages, 7);
	assert_int_equal(meta.main_tree.overflow_pages, 9);
	assert_true(meta.main_tree.entries == 123456789012);
	assert_int_equal(meta.main_tree.root, 5);
	builder_close(&builder);
}

static void meta_parse_when_unaligned_then_reads_the_same(void **state)
{
	struct builder builder;
	struct meta meta;
	uint8_t *shifted = malloc(META_END + 1);

	(void)state;
	assert_non_null(shifted);
	sound_metas(&builder, 512);
	memcpy(shifted + 1, builder.bytes, META_END);
	assert_int_equal(meta_parse(&meta, shifted + 1, FORMAT_0_9), 0);
	assert_int_equal(meta.txnid, 6);
	free(shifted);
	builder_close(&builder);
}

static void meta_parse_when_any_page_size_of_the_format_then_accepts(void **state)
{
	(void)state;
	for (uint32_t size = 256; size <= 32768; size *= 2) {
		struct builder builder;
		struct meta meta;

		sound_metas(&builder, size);
		assert_int_equal(meta_parse(&meta, builder.bytes, FORMAT_0_9), 0);
		assert_int_equal(meta.page_size, size);
		builder_close(&builder);
	}
}

static void meta_parse_when_page_size_is_no_such_then_invalid(void **state)
{
	static const uint32_t bad[] = {
		0,     1,     128,   255,        257,        4095,       4097,
		12288, 32767, 65536, 0x10000000, 0x80000000, 0xffffffff,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct builder builder;
		struct meta meta;

		sound_metas(&builder, 4096);
		store32(builder.bytes + META_FREE_TREE + TREE_PAD, bad[i]);
		assert_int_equal(meta_parse(&meta, builder.bytes, FORMAT_0_9), MDB_INVALID);
		builder_close(&builder);
	}
}

static void meta_parse_when_a_bit_of_magic_flips_then_invalid(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 32; bit++) {
		struct builder builder;
		struct meta meta;

		sound_metas(&builder, 256);
		builder.bytes[META_MAGIC + bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(meta_parse(&meta, builder.bytes, FORMAT_0_9), MDB_INVALID);
		builder_close(&builder);
	}
}

static void meta_parse_when_a_bit_of_version_flips_then_version_mismatch(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 32; bit++) {
		struct builder builder;
		struct meta meta;

		sound_metas(&builder, 256);
		builder.bytes[META_VERSION + bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(meta_parse(&meta, builder.bytes, FORMAT_0_9),
				 MDB_VERSION_MISMATCH);
		builder_close(&builder);
	}
}

static void meta_parse_when_not_flagged_a_meta_page_then_invalid(void **state)
{
	static const uint16_t flags[] = {0, PAGE_BRANCH, PAGE_LEAF, PAGE_OVERFLOW,
					 (uint16_t)~PAGE_META};

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		struct builder builder;
		struct meta meta;

		sound_metas(&builder, 256);
		store16(builder.bytes + PAGE_FLAGS, flags[i]);
		assert_int_equal(meta_parse(&meta, builder.bytes, FORMAT_0_9), MDB_INVALID);
		builder_close(&builder);
	}
}

static void meta_parse_when_zeroes_or_ones_then_invalid(void **state)
{
	uint8_t page[META_END] = {0};
	struct meta meta;

	(void)state;
	assert_int_equal(meta_parse(&meta, page, FORMAT_0_9), MDB_INVALID);
	memset(page, 0xff, sizeof(page));
	assert_int_equal(meta_parse(&meta, page, FORMAT_0_9), MDB_INVALID);
}

/* LMDB 1.0 puts its magic behind a page header of 24 bytes. */
static void meta_parse_when_layout_of_lmdb_1_then_invalid(void **state)
{
	uint8_t page[META_END] = {0};
	struct meta meta;

	(void)state;
	store16(page + PAGE_FLAGS, PAGE_META);
	store32(page + 24, FORMAT_MAGIC);
	store32(page + 28, 3);
	assert_int_equal(meta_parse(&meta, page, FORMAT_0_9), MDB_INVALID);
}

static void meta_judge_when_both_sound_then_tells_the_page_size(void **state)
{
	struct builder builder;
	struct meta meta = {0};

	(void)state;
	sound_metas(&builder, 1024);
	assert_int_equal(meta_judge(builder.bytes, builder_page(&builder, 1), &meta, FORMAT_0_9),
			 0);
	assert_int_equal(meta.page_size, 1024);
	builder_close(&builder);
}

static void meta_judge_when_page_sizes_differ_then_invalid(void **state)
{
	struct builder builder;
	struct meta meta;

	(void)state;
	sound_metas(&builder, 1024);
	store32(builder_page(&builder, 1) + META_FREE_TREE + TREE_PAD, 2048);
	assert_int_equal(meta_judge(builder.bytes, builder_page(&builder, 1), &meta, FORMAT_0_9),
			 MDB_INVALID);
	builder_close(&builder);
}

static void meta_judge_when_the_last_page_cannot_be_then_invalid(void **state)
{
	static const struct {
		uint64_t last;
		int rc;
	} cases[] = {
		{0, MDB_INVALID},
		{1, 0}, /* both meta pages, and nothing else */
		{UINT64_MAX / 4096 - 1, 0},
		{UINT64_MAX / 4096, MDB_INVALID},
		{UINT64_MAX - 1, MDB_INVALID},
		{UINT64_MAX, MDB_INVALID},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct builder builder;
		struct meta meta;

		sound_metas(&builder, 4096);
		store64(builder_page(&builder, 1) + META_LAST_PAGE, cases[i].last);
		assert_int_equal(meta_judge(builder_page(&builder, 0), builder_page(&builder, 1), &meta, FORMAT_0_9),
				 cases[i].rc);
		builder_close(&builder);
		/* The older meta page is not checked. */
		sound_metas(&builder, 4096);
		store64(builder_page(&builder, 0) + META_LAST_PAGE, cases[i].last);
		assert_int_equal(meta_judge(builder_page(&builder, 0), builder_page(&builder, 1), &meta, FORMAT_0_9), 0);
		builder_close(&builder);
	}
}

static void meta_judge_when_one_is_bad_then_its_error(void **state)
{
	(void)state;
	for (unsigned which = 0; which < 2; which++) {
		struct builder builder;
		struct meta meta;

		sound_metas(&builder, 1024);
		store32(builder_page(&builder, which) + META_VERSION, 2);
		assert_int_equal(
			meta_judge(builder.bytes, builder_page(&builder, 1), &meta, FORMAT_0_9),
			MDB_VERSION_MISMATCH);
		store32(builder_page(&builder, which) + META_MAGIC, 0);
		assert_int_equal(
			meta_judge(builder.bytes, builder_page(&builder, 1), &meta, FORMAT_0_9),
			MDB_INVALID);
		builder_close(&builder);
	}
}

/* Allocates each page by itself, so that a sanitizer sees a read past its end. */
static uint8_t *lone_page(uint32_t size, unsigned flags)
{
	uint8_t *page = malloc(size);

	assert_non_null(page);
	page_format(page, size, 9, flags);
	return page;
}

static void page_count_when_header_at_its_edges_then_counts_or_zero(void **state)
{
	(void)state;
	for (uint32_t size = 256; size <= 32768; size *= 2) {
		uint8_t *page = lone_page(size, PAGE_LEAF);
		const struct {
			uint32_t lower, upper;
			unsigned count;
		} cases[] = {
			{16, size, 0},
			{18, size, 1},
			{size, size, (size - 16) / 2},
			{15, size, 0},
			{0, size, 0},
			{18, 17, 0},
			{18, size + 1, 0},
			{18, 18, 1},
			{17, size, 0},
			{19, size, 1},
			{size + 2, size, 0},
			{65535, 65535, 0},
			{size - 2, size - 2, (size - 18) / 2},
			{18, 65535, 0},
		};

		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			store16(page + PAGE_LOWER, (uint16_t)cases[i].lower);
			store16(page + PAGE_UPPER, (uint16_t)cases[i].upper);
			assert_int_equal(page_count(LAYOUT_0_9, page, size), cases[i].count);
		}
		free(page);
	}
}

/* With items of one byte LMDB's own upper end lies past the page: LMDB only counts with it. */
static void page_count_when_items_of_one_byte_then_counts_them(void **state)
{
	uint8_t page[20];

	(void)state;
	page_format(page, sizeof(page), 9, PAGE_LEAF | PAGE_LEAF2 | PAGE_SUB);
	page_add_item(page, "a", 1);
	page_add_item(page, "b", 1);
	page_add_item(page, "c", 1);
	assert_int_equal(load16(page + PAGE_UPPER), 23);
	assert_int_equal(page_count(LAYOUT_0_9, page, sizeof(page)), 3);
}

/* Only a leaf has items of a fixed size: a branch page with that flag has entries all the same. */
static void page_count_when_branch_page_has_the_flag_of_items_then_bounds_hold(void **state)
{
	const uint32_t size = 1024;
	uint8_t *page = lone_page(size, PAGE_BRANCH | PAGE_LEAF2);

	(void)state;
	store16(page + PAGE_LOWER, 0xd0d0);
	assert_int_equal(page_count(LAYOUT_0_9, page, size), 0);
	store16(page + PAGE_LOWER, 18);
	store16(page + PAGE_UPPER, (uint16_t)size);
	assert_int_equal(page_count(LAYOUT_0_9, page, size), 1);
	free(page);
}

static void page_is_sound_when_number_or_kind_differ_then_false(void **state)
{
	static const struct {
		unsigned flags;
		bool sound;
	} cases[] = {
		{PAGE_LEAF, true},
		{PAGE_BRANCH, true},
		{PAGE_LEAF | PAGE_LEAF2, true},
		{PAGE_LEAF | 0x10, true},
		{PAGE_LEAF | 0x4000, true},
		{0, false},
		{PAGE_OVERFLOW, false},
		{PAGE_META, false},
		{PAGE_LEAF | PAGE_BRANCH, false},
		{PAGE_LEAF | PAGE_OVERFLOW, false},
		{PAGE_BRANCH | PAGE_META, false},
		{0xffff, false},
	};
	uint8_t *page = lone_page(256, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		page_format(page, 256, 9, cases[i].flags);
		assert_int_equal(page_is_sound(LAYOUT_0_9, page, 9), cases[i].sound);
		assert_false(page_is_sound(LAYOUT_0_9, page, 8));
		assert_false(page_is_sound(LAYOUT_0_9, page, 9 | 1ull << 63));
	}
	free(page);
}

static void page_entry_when_offset_at_its_edges_then_address_or_null(void **state)
{
	(void)state;
	for (uint32_t size = 256; size <= 32768; size *= 2) {
		uint8_t *page = lone_page(size, PAGE_LEAF);
		const uint32_t good[] = {18, 19, size - 9, size - 8};
		const uint32_t bad[] = {0,        2,        15,   16,       17,
					size - 7, size - 1, size, size + 1, 65535};

		store16(page + PAGE_LOWER, 18);
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
			store16(page + PAGE_HEADER, (uint16_t)good[i]);
			assert_ptr_equal(page_entry(LAYOUT_0_9, page, size, 0), page + good[i]);
		}
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			const uint8_t *key;
			uint32_t key_size;
			uint64_t child;
			struct entry node;

			store16(page + PAGE_HEADER, (uint16_t)bad[i]);
			assert_null(page_entry(LAYOUT_0_9, page, size, 0));
			assert_false(page_entry_key(LAYOUT_0_9, page, size, 0, &key, &key_size));
			assert_false(page_leaf_entry(LAYOUT_0_9, page, size, 0, &node));
			assert_false(page_child(LAYOUT_0_9, page, size, 0, &child));
		}
		free(page);
	}
}

static void page_entry_key_when_key_reaches_the_end_then_true_one_more_false(void **state)
{
	(void)state;
	for (uint32_t size = 256; size <= 32768; size *= 2) {
		uint8_t *page = lone_page(size, PAGE_LEAF);
		unsigned offset = size - ENTRY_KEY - 40;
		const uint8_t *key;
		uint32_t key_size;

		store16(page + PAGE_HEADER, (uint16_t)offset);
		for (unsigned bytes = 0; bytes <= 40; bytes++) {
			store16(page + offset + ENTRY_KEY_SIZE, (uint16_t)bytes);
			assert_true(page_entry_key(LAYOUT_0_9, page, size, 0, &key, &key_size));
			assert_int_equal(key_size, bytes);
			assert_ptr_equal(key, page + offset + ENTRY_KEY);
		}
		store16(page + offset + ENTRY_KEY_SIZE, 41);
		assert_false(page_entry_key(LAYOUT_0_9, page, size, 0, &key, &key_size));
		store16(page + offset + ENTRY_KEY_SIZE, 65535);
		assert_false(page_entry_key(LAYOUT_0_9, page, size, 0, &key, &key_size));
		free(page);
	}
}

static void page_leaf_node_when_data_reaches_the_end_then_true_one_more_false(void **state)
{
	(void)state;
	for (uint32_t size = 256; size <= 32768; size *= 2) {
		uint8_t *page = lone_page(size, PAGE_LEAF);
		unsigned offset = size - ENTRY_KEY - 40;
		static const uint32_t huge[] = {31,           65535,      65536,
						0x10000 + 30, 0x7fffffff, 0xffffffff};
		struct entry node;

		store16(page + PAGE_HEADER, (uint16_t)offset);
		store16(page + offset + ENTRY_KEY_SIZE, 10);
		for (unsigned bytes = 0; bytes <= 30; bytes++) {
			store16(page + offset + ENTRY_LOW, (uint16_t)bytes);
			assert_true(page_leaf_entry(LAYOUT_0_9, page, size, 0, &node));
			assert_int_equal(node.key_size, 10);
			assert_int_equal(node.data_size, bytes);
			assert_ptr_equal(node.data, page + offset + ENTRY_KEY + 10);
		}
		for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
			store16(page + offset + ENTRY_LOW, (uint16_t)huge[i]);
			store16(page + offset + ENTRY_HIGH, (uint16_t)(huge[i] >> 16));
			assert_false(page_leaf_entry(LAYOUT_0_9, page, size, 0, &node));
		}
		free(page);
	}
}

static void page_leaf_node_when_big_then_page_number_must_fit(void **state)
{
	uint8_t *page = lone_page(256, PAGE_LEAF);
	unsigned offset = 256 - ENTRY_KEY - 12;
	struct entry node;

	(void)state;
	store16(page + PAGE_HEADER, (uint16_t)offset);
	store16(page + offset + ENTRY_FLAGS, ENTRY_BIG);
	store16(page + offset + ENTRY_LOW, 0xffff);
	store16(page + offset + ENTRY_HIGH, 0xffff);
	store16(page + offset + ENTRY_KEY_SIZE, 4);
	assert_true(page_leaf_entry(LAYOUT_0_9, page, 256, 0, &node));
	assert_int_equal(node.data_size, 0xffffffff);
	store16(page + offset + ENTRY_KEY_SIZE, 5);
	assert_false(page_leaf_entry(LAYOUT_0_9, page, 256, 0, &node));
	free(page);
}

static void page_child_when_number_has_48_bits_then_all_are_read(void **state)
{
	uint8_t *page = lone_page(256, PAGE_BRANCH);
	uint64_t child = 0;

	(void)state;
	page_add_child(page, NULL, 0, 0xfedcba987654);
	page_add_child(page, "k", 1, 2);
	assert_true(page_child(LAYOUT_0_9, page, 256, 0, &child));
	assert_true(child == 0xfedcba987654);
	assert_true(page_child(LAYOUT_0_9, page, 256, 1, &child));
	assert_true(child == 2);
	free(page);
}

static void page_items_fit_when_at_the_edge_then_true_one_more_false(void **state)
{
	(void)state;
	for (uint32_t size = 256; size <= 32768; size *= 2) {
		uint32_t room = size - PAGE_HEADER;

		assert_true(page_items_fit(LAYOUT_0_9, size, 1, room));
		assert_false(page_items_fit(LAYOUT_0_9, size, 1, room + 1));
		assert_true(page_items_fit(LAYOUT_0_9, size, room, 1));
		assert_false(page_items_fit(LAYOUT_0_9, size, room + 1, 1));
		assert_true(page_items_fit(LAYOUT_0_9, size, room / 8, 8));
		assert_false(page_items_fit(LAYOUT_0_9, size, room / 8 + 1, 8));
		assert_false(page_items_fit(LAYOUT_0_9, size, 1, 0));
		assert_false(page_items_fit(LAYOUT_0_9, size, 65535, 0xffffffff));
		/* 2^16 * 2^16 is 0 in 32 bits. */
		assert_false(page_items_fit(LAYOUT_0_9, size, 65536, 65536));
	}
	assert_true(page_items_fit(LAYOUT_0_9, PAGE_HEADER + 3, 1, 3));
	assert_false(page_items_fit(LAYOUT_0_9, PAGE_HEADER, 1, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(meta_parse_when_sound_then_every_field_is_read),
		cmocka_unit_test(meta_parse_when_unaligned_then_reads_the_same),
		cmocka_unit_test(meta_parse_when_any_page_size_of_the_format_then_accepts),
		cmocka_unit_test(meta_parse_when_page_size_is_no_such_then_invalid),
		cmocka_unit_test(meta_parse_when_a_bit_of_magic_flips_then_invalid),
		cmocka_unit_test(meta_parse_when_a_bit_of_version_flips_then_version_mismatch),
		cmocka_unit_test(meta_parse_when_not_flagged_a_meta_page_then_invalid),
		cmocka_unit_test(meta_parse_when_zeroes_or_ones_then_invalid),
		cmocka_unit_test(meta_parse_when_layout_of_lmdb_1_then_invalid),
		cmocka_unit_test(meta_judge_when_both_sound_then_tells_the_page_size),
		cmocka_unit_test(meta_judge_when_page_sizes_differ_then_invalid),
		cmocka_unit_test(meta_judge_when_the_last_page_cannot_be_then_invalid),
		cmocka_unit_test(meta_judge_when_one_is_bad_then_its_error),
		cmocka_unit_test(page_count_when_header_at_its_edges_then_counts_or_zero),
		cmocka_unit_test(page_count_when_items_of_one_byte_then_counts_them),
		cmocka_unit_test(page_count_when_branch_page_has_the_flag_of_items_then_bounds_hold),
		cmocka_unit_test(page_is_sound_when_number_or_kind_differ_then_false),
		cmocka_unit_test(page_entry_when_offset_at_its_edges_then_address_or_null),
		cmocka_unit_test(page_entry_key_when_key_reaches_the_end_then_true_one_more_false),
		cmocka_unit_test(page_leaf_node_when_data_reaches_the_end_then_true_one_more_false),
		cmocka_unit_test(page_leaf_node_when_big_then_page_number_must_fit),
		cmocka_unit_test(page_child_when_number_has_48_bits_then_all_are_read),
		cmocka_unit_test(page_items_fit_when_at_the_edge_then_true_one_more_false),
	};

	return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
