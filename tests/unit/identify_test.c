/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how a file is identified by its first bytes: each layout of LMDB, in either meta page, and
 * files that are not LMDB's. */
#include "format/identify.h"
#include "format/layout.h"
#include "util/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { AT_32 = 12, AT_64 = 16, AT_LATER = 24, LEAST = 256, MOST = 65536 };

static uint8_t file[MOST + LEAST];

static int setup(void **state)
{
	(void)state;
	memset(file, 0, sizeof(file));
	return 0;
}

static void magic(size_t at, uint32_t version)
{
	store32(file + at, FORMAT_MAGIC);
	store32(file + at + 4, version);
}

static struct format_identity look(size_t length)
{
	return format_identify(file, length);
}

static bool is(size_t length, enum format_kind kind)
{
	return look(length).kind == kind;
}

/* Writes this version at the places of both meta pages. */
static void both(size_t at, size_t page, uint32_t version)
{
	magic(at, version);
	magic(page + at, version);
}

static void version_1_at_either_place_is_ours(void **state)
{
	(void)state;
	magic(AT_64, 1);
	assert_true(is(sizeof(file), FORMAT_KIND_OURS));
	for (size_t page = LEAST; page <= MOST; page *= 2) {
		setup(state);
		magic(page + AT_64, 1);
		assert_true(is(page + AT_64 + 8, FORMAT_KIND_OURS));
		assert_true(is(page + AT_64 + 7, FORMAT_KIND_OTHER));
		assert_true(is(page + AT_64 + 3, FORMAT_KIND_OTHER));
		/* No place is behind the bytes that are looked at. */
		assert_true(is(FORMAT_LOOK, FORMAT_KIND_OURS));
	}
	setup(state);
	magic(LEAST / 2 + AT_64, 1);
	assert_true(is(sizeof(file), FORMAT_KIND_OTHER));
}

static void file_that_ends_in_the_version_is_ours_damaged(void **state)
{
	(void)state;
	magic(AT_64, 7);
	for (size_t length = AT_64 + 4; length <= AT_64 + 8; length++)
		assert_true(is(length, FORMAT_KIND_OURS));
	for (size_t length = 1; length < AT_64 + 4; length++)
		assert_true(is(length, FORMAT_KIND_OTHER));
	assert_true(is(0, FORMAT_KIND_EMPTY));
}

static void another_version_in_both_places_is_told(void **state)
{
	(void)state;
	for (size_t page = LEAST; page <= MOST; page *= 2) {
		setup(state);
		both(AT_64, page, 999);
		assert_true(is(page + AT_64 + 8, FORMAT_KIND_VERSION));
		assert_int_equal(look(page + AT_64 + 8).version, 999);
		/* In one place alone a wrong version is damage. */
		assert_true(is(page + AT_64 + 7, FORMAT_KIND_OURS));
		store32(file + page + AT_64 + 4, 998);
		assert_true(is(sizeof(file), FORMAT_KIND_OURS));
	}
	setup(state);
	magic(LEAST + AT_64, 999);
	assert_true(is(sizeof(file), FORMAT_KIND_OTHER));
}

static void version_3_behind_a_longer_header_is_lmdb_1(void **state)
{
	(void)state;
	magic(AT_LATER, 3);
	assert_true(is(AT_LATER + 8, FORMAT_KIND_LMDB_1));
	assert_int_equal(look(AT_LATER + 8).version, 3);
	assert_true(is(AT_LATER + 7, FORMAT_KIND_OTHER));
	for (size_t page = LEAST; page <= MOST; page *= 2) {
		setup(state);
		magic(page + AT_LATER, 3);
		assert_true(is(page + AT_LATER + 8, FORMAT_KIND_LMDB_1));
	}
	setup(state);
	magic(AT_LATER, 2);
	assert_true(is(sizeof(file), FORMAT_KIND_VERSION));
	assert_int_equal(look(sizeof(file)).version, 2);
	/* A second meta page of LMDB 0.9 takes precedence. */
	magic(4096 + AT_64, 1);
	assert_true(is(sizeof(file), FORMAT_KIND_OURS));
}

static void shorter_header_is_of_a_32_bit_program(void **state)
{
	(void)state;
	magic(AT_32, 1);
	assert_true(is(AT_32 + 8, FORMAT_KIND_32_BIT));
	assert_true(is(AT_32 + 7, FORMAT_KIND_OTHER));
	setup(state);
	magic(MOST / 2 + AT_32, 1);
	assert_true(is(sizeof(file), FORMAT_KIND_32_BIT));
	setup(state);
	magic(AT_32, 2);
	assert_true(is(sizeof(file), FORMAT_KIND_OTHER));
}

static void swapped_magic_is_of_the_other_byte_order(void **state)
{
	static const size_t places[] = {AT_32, AT_64, AT_LATER};

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		setup(state);
		store32(file + places[i], 0xDEC0EFBE);
		assert_true(is(places[i] + 4, FORMAT_KIND_BYTE_ORDER));
		assert_true(is(places[i] + 3, FORMAT_KIND_OTHER));
	}
	setup(state);
	store32(file + AT_LATER + 4, 0xDEC0EFBE);
	assert_true(is(sizeof(file), FORMAT_KIND_OTHER));
}

static void frames_of_zstd_are_told_apart(void **state)
{
	(void)state;
	store32(file, 0xFD2FB528);
	assert_true(is(4, FORMAT_KIND_ZSTD));
	assert_true(is(3, FORMAT_KIND_OTHER));
	for (uint32_t i = 0; i < 16; i++) {
		store32(file, 0x184D2A50 + i);
		assert_true(is(4, FORMAT_KIND_SKIPPABLE));
		assert_true(is(3, FORMAT_KIND_OTHER));
	}
	store32(file, 0x184D2A60);
	assert_true(is(sizeof(file), FORMAT_KIND_OTHER));
	store32(file, 0x184D2A4F);
	assert_true(is(sizeof(file), FORMAT_KIND_OTHER));
}

static void each_kind_says_what_it_is_and_what_to_do(void **state)
{
	static const struct {
		enum format_kind kind;
		const char *is, *do_this;
	} texts[] = {
		{FORMAT_KIND_VERSION, "version 4 of LMDB's format, here they are 1 and 3", "mdb_load"},
		{FORMAT_KIND_32_BIT, "of a 32-bit program", "mdb_dump"},
		{FORMAT_KIND_BYTE_ORDER, "the other byte order", "mdb_dump"},
		{FORMAT_KIND_ZSTD, "compressed by zstd", "zstd -d"},
		{FORMAT_KIND_SKIPPABLE, "damaged or none", "convert it again"},
		{FORMAT_KIND_EMPTY, "this file is empty", "copy it again"},
		{FORMAT_KIND_OTHER, "no LMDB data file", "check the path"},
	};
	char text[FORMAT_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct format_identity identity = {texts[i].kind, 4};

		memset(text, 0, sizeof(text));
		assert_ptr_equal(format_explain(&identity, text), text);
		assert_non_null(strstr(text, texts[i].is));
		assert_non_null(strstr(text, texts[i].do_this));
		assert_true(strlen(text) < sizeof(text) - 1);
	}
	assert_null(format_explain(&(struct format_identity){FORMAT_KIND_OURS, 0}, text));
	assert_null(format_explain(&(struct format_identity){FORMAT_KIND_LMDB_1, 3}, text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(version_1_at_either_place_is_ours, setup),
		cmocka_unit_test_setup(file_that_ends_in_the_version_is_ours_damaged, setup),
		cmocka_unit_test_setup(another_version_in_both_places_is_told, setup),
		cmocka_unit_test_setup(version_3_behind_a_longer_header_is_lmdb_1, setup),
		cmocka_unit_test_setup(shorter_header_is_of_a_32_bit_program, setup),
		cmocka_unit_test_setup(swapped_magic_is_of_the_other_byte_order, setup),
		cmocka_unit_test_setup(frames_of_zstd_are_told_apart, setup),
		cmocka_unit_test(each_kind_says_what_it_is_and_what_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
