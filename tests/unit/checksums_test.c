/* SPDX-License-Identifier: OLDAP-2.8 */
/* The well-known checksums give what their sources publish. */
#include "util/checksums.h"

#include "util/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ROOM = 64 };

static void sum(const char *name, const void *bytes, size_t size, uint8_t room[ROOM])
{
	const struct checksum *checksum = checksum_find(name);
	const MDB_val src = {size, (void *)(uintptr_t)bytes};
	MDB_val dst = {0, room};

	memset(room, 0xee, ROOM);
	assert_non_null(checksum);
	assert_true(checksum->size < ROOM);
	dst.mv_size = checksum->size;
	checksum->func(&src, &dst, NULL);
	assert_int_equal(room[checksum->size], 0xee);
}

/* RFC 3720, B.4. */
static void crc32c_is_that_of_iscsi(void **state)
{
	uint8_t zeroes[32] = {0}, ones[32], rising[32], falling[32], room[ROOM];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	for (unsigned i = 0; i < 32; i++) {
		rising[i] = (uint8_t)i;
		falling[i] = (uint8_t)(31 - i);
	}
	sum("crc32c", zeroes, 32, room);
	assert_int_equal(load32(room), 0x8a9136aa);
	sum("crc32c", ones, 32, room);
	assert_int_equal(load32(room), 0x62a8ab43);
	sum("crc32c", rising, 32, room);
	assert_int_equal(load32(room), 0x46dd794e);
	sum("CRC32C", falling, 32, room);
	assert_int_equal(load32(room), 0x113fdb5c);
}

/* The vectors of the FNV draft. */
static void fnv1a_is_that_of_its_draft(void **state)
{
	uint8_t room[ROOM];

	(void)state;
	sum("fnv1a", "", 0, room);
	assert_true(load64(room) == UINT64_C(0xcbf29ce484222325));
	sum("fnv1a", "a", 1, room);
	assert_true(load64(room) == UINT64_C(0xaf63dc4c8601ec8c));
	sum("fnv1a", "foobar", 6, room);
	assert_true(load64(room) == UINT64_C(0x85944171f73967e8));
}

/* FIPS 180's examples: one block, two, and a message whose length takes a block of its own. */
static void sha256_is_that_of_fips_180(void **state)
{
	static const uint8_t abc[32] = {
		0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
		0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
		0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad,
	};
	static const uint8_t longer[32] = {
		0x24, 0x8d, 0x6a, 0x61, 0xd2, 0x06, 0x38, 0xb8, 0xe5, 0xc0, 0x26,
		0x93, 0x0c, 0x3e, 0x60, 0x39, 0xa3, 0x3c, 0xe4, 0x59, 0x64, 0xff,
		0x21, 0x67, 0xf6, 0xec, 0xed, 0xd4, 0x19, 0xdb, 0x06, 0xc1,
	};
	static const char text[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	uint8_t room[ROOM];

	(void)state;
	sum("sha256", "abc", 3, room);
	assert_memory_equal(room, abc, sizeof(abc));
	sum("sha256", text, sizeof(text) - 1, room);
	assert_memory_equal(room, longer, sizeof(longer));
}

/* xxHash's own, of nothing and of "abc". */
static void xxhashes_are_those_of_their_author(void **state)
{
	uint8_t room[ROOM];

	(void)state;
	sum("xxh64", "", 0, room);
	assert_true(load64(room) == UINT64_C(0xef46db3751d8e999));
	sum("xxh64", "abc", 3, room);
	assert_true(load64(room) == UINT64_C(0x44bc2cf5ad770999));
	sum("xxh3", "", 0, room);
	assert_true(load64(room) == UINT64_C(0x2d06800538d394c2));
	sum("xxh3", "abc", 3, room);
	assert_true(load64(room) == UINT64_C(0x78af5f94892f3950));
}

static void other_names_are_not_known(void **state)
{
	(void)state;
	assert_null(checksum_find(""));
	assert_null(checksum_find("md5"));
	assert_null(checksum_find("xxh"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32c_is_that_of_iscsi),
		cmocka_unit_test(fnv1a_is_that_of_its_draft),
		cmocka_unit_test(sha256_is_that_of_fips_180),
		cmocka_unit_test(xxhashes_are_those_of_their_author),
		cmocka_unit_test(other_names_are_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
