/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no lie of an index with a right checksum is believed, and that none costs
 * more memory than the limits say. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_fixture.h"
#include "container_image.h"
#include "container_walk.h"
#include "counted_memory.h"

#include "index/record_index.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10, PAGE = 4096, END = 256 };

/* What is lied about: a container that was made by hand. */
struct sample {
	uint8_t *data;
	size_t size;
	struct image image;
};

enum { COPIES = 100 };

static uint64_t copies[COPIES];

static const struct image_tree trees[] = {
	{"", 0, 1, 2, 9}, {"images", 0, 260, 3, 20}, {"none", 0, 0, 0, 0}};

static int make_sample(void **state)
{
	static struct sample sample;
	struct image_plan plan;

	sample.size = 32 * CHUNK + 777;
	sample.data = data_make(DATA_MIXED, sample.size, 41);
	image_meta_page(sample.data, 0, PAGE, 8);
	image_meta_page(sample.data + PAGE, 1, PAGE, 7);
	for (uint64_t i = 0; i < COPIES; i++) {
		copies[i] = 10 + 3 * i;
		image_branch_page(sample.data + copies[i] * PAGE, copies[i]);
	}
	plan = (struct image_plan){
		.data = sample.data,
		.size = sample.size,
		.page_size = PAGE,
		.chunk_size = CHUNK,
		.trees = trees,
		.n_trees = 3,
		.copies = copies,
		.n_copies = COPIES,
		.meta_page = 1,
	};
	image_make(&sample.image, &plan);
	*state = &sample;
	return 0;
}

static int free_sample(void **state)
{
	struct sample *sample = *state;

	image_free(&sample->image);
	free(sample->data);
	return 0;
}

/* Lies with right checksums. */

struct lie {
	enum image_place place;
	unsigned at, width;
	bool is_added; /* to what stands there */
	uint64_t value;
	int expected;
};

#define HUGE_NUMBER (UINT64_MAX / 2 + 1)

static const struct lie lies[] = {
	{IN_HEADER, 0, 4, false, 0x184d2a5d, MDB_INVALID},
	{IN_HEADER, 4, 4, false, 247, MDB_INVALID},
	{IN_HEADER, 8, 8, true, 1, MDB_INVALID},
	{IN_HEADER, 16, 2, false, 2, MDB_VERSION_MISMATCH},
	{IN_HEADER, 16, 2, false, 0, MDB_VERSION_MISMATCH},
	{IN_HEADER, 18, 2, false, 7, 0},             /* a later minor version is read */
	{IN_HEADER, 20, 4, false, 1, MDB_CORRUPTED}, /* a dictionary that is not there */
	{IN_HEADER, 20, 4, false, 2, MDB_CORRUPTED}, /* LMDB 1.0 has its meta page elsewhere */
	{IN_HEADER, 20, 4, false, 4, MDB_VERSION_MISMATCH},
	{IN_HEADER, 20, 4, false, 0x8000, MDB_VERSION_MISMATCH},
	{IN_HEADER, 20, 4, false, 0xffff0000, 0}, /* these only tell */
	{IN_HEADER, 24, 4, false, 0, MDB_CORRUPTED},
	{IN_HEADER, 24, 4, false, 4097, MDB_CORRUPTED},
	{IN_HEADER, 24, 4, false, 65536, MDB_CORRUPTED},
	{IN_HEADER, 28, 4, false, 0, MDB_CORRUPTED},
	{IN_HEADER, 28, 4, false, 32 << 10, MDB_CORRUPTED},
	{IN_HEADER, 28, 4, false, 128 << 10, MDB_CORRUPTED},
	{IN_HEADER, 28, 4, false, 128 << 20, MDB_CORRUPTED},
	{IN_HEADER, 28, 4, true, 1, MDB_CORRUPTED},
	{IN_HEADER, 32, 8, true, 1, MDB_CORRUPTED},
	{IN_HEADER, 32, 8, true, (uint64_t)-1, MDB_CORRUPTED},
	{IN_HEADER, 32, 8, true, CHUNK, MDB_CORRUPTED},
	{IN_HEADER, 32, 8, false, 0, MDB_CORRUPTED},
	{IN_HEADER, 32, 8, false, (uint64_t)1 << 50, MDB_CORRUPTED},
	{IN_HEADER, 32, 8, false, HUGE_NUMBER, MDB_CORRUPTED},
	{IN_HEADER, 32, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_HEADER, 40, 4, false, 8, MDB_CORRUPTED}, /* a dictionary without its flag */
	{IN_FOOTER, 0, 4, false, 0xfd2fb528, MDB_CORRUPTED},
	{IN_FOOTER, 4, 4, true, 8, MDB_CORRUPTED},
	{IN_FOOTER, 8, 8, true, 1, MDB_CORRUPTED},
	{IN_FOOTER, 16, 2, false, 2, MDB_VERSION_MISMATCH},
	{IN_FOOTER, 32, 8, true, 1, MDB_CORRUPTED},
	{IN_FOOTER, 40, 8, true, 1, MDB_CORRUPTED},
	{IN_FOOTER, 40, 8, true, PAGE, MDB_CORRUPTED},
	{IN_FOOTER, 40, 8, false, 0, MDB_CORRUPTED},
	{IN_FOOTER, 40, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_FOOTER, 48, 8, true, 1, MDB_CORRUPTED},
	{IN_FOOTER, 48, 8, false, 0, MDB_CORRUPTED},
	{IN_FOOTER, 48, 8, false, (uint64_t)1 << 52, MDB_CORRUPTED},
	{IN_FOOTER, 48, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_FOOTER, 56, 8, false, 0, MDB_CORRUPTED},
	{IN_FOOTER, 56, 8, true, 1, MDB_CORRUPTED},
	{IN_FOOTER, 56, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_FOOTER, 64, 8, true, 1, MDB_CORRUPTED},
	{IN_CHUNKS, 0, 4, false, 0, MDB_CORRUPTED},
	{IN_CHUNKS, 4, 4, false, 0, MDB_CORRUPTED},
	{IN_CHUNKS, 8, 4, false, 1, MDB_CORRUPTED},
	{IN_CHUNKS, 12, 4, false, 0, MDB_CORRUPTED},
	{IN_CHUNKS, 12, 4, true, 1, MDB_CORRUPTED},
	{IN_CHUNKS, 12, 4, true, (uint32_t)-1, MDB_CORRUPTED},
	{IN_CHUNKS, 12, 4, false, UINT32_MAX, MDB_CORRUPTED},
	{IN_CHUNKS, 16, 8, false, 1, MDB_CORRUPTED},
	{IN_CHUNKS, 24, 8, true, 1, MDB_CORRUPTED},
	{IN_CHUNKS, 24, 8, false, 0, MDB_CORRUPTED},
	{IN_CHUNKS, 24, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_CHUNKS, 32, 4, false, 0, MDB_CORRUPTED},
	{IN_CHUNKS, 32, 4, true, 1, MDB_CORRUPTED},
	{IN_CHUNKS, 32, 4, true, (uint32_t)-1, MDB_CORRUPTED},
	{IN_CHUNKS, 32, 4, false, CHUNK + 289, MDB_CORRUPTED}, /* one more than zstd's bound */
	{IN_CHUNKS, 32, 4, false, UINT32_MAX, MDB_CORRUPTED},
	{IN_CHUNKS, 36, 4, true, 1, MDB_CORRUPTED},
	{IN_CHUNKS, 40, 8, true, 1, MDB_CORRUPTED},
	{IN_LEAVES, 8, 4, false, 3, MDB_CORRUPTED},
	{IN_LEAVES, 12, 4, false, 2, MDB_CORRUPTED},
	{IN_LEAVES, 16, 8, false, 2, MDB_CORRUPTED},
	{IN_LEAVES, 24, 8, false, 1, MDB_CORRUPTED},
	{IN_LEAVES, 24, 8, false, 3, MDB_CORRUPTED},
	{IN_LEAVES, 32, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_LEAVES, 32, 8, false, 513, MDB_CORRUPTED}, /* the first page behind the data */
	{IN_LEAVES, 40, 8, false, 1, MDB_CORRUPTED},
	{IN_SECOND_LEAVES, 12, 4, true, 1, MDB_CORRUPTED},
	{IN_SECOND_LEAVES, 40, 8, false, 0, MDB_CORRUPTED},
	{IN_SECOND_LEAVES, 56, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_TREES, 12, 4, true, 1, MDB_CORRUPTED},
	{IN_TREES, 32, 8, false, 0, MDB_CORRUPTED},
	{IN_TREES, 40, 8, true, 1, MDB_CORRUPTED},
	{IN_TREES, 40, 8, false, 0, MDB_CORRUPTED},
	{IN_TREES, 40, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_TREES, 40, 8, false, HUGE_NUMBER, MDB_CORRUPTED},
	{IN_TREES, 48, 8, true, 1, MDB_CORRUPTED},
	{IN_TREES, 48, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_TREES, 58, 2, false, 512, MDB_CORRUPTED},
	{IN_TREES, 58, 2, false, 65535, MDB_CORRUPTED},
	{IN_FOOTER, 72, 8, false, 0, MDB_CORRUPTED},
	{IN_FOOTER, 72, 8, true, 1, MDB_CORRUPTED},
	{IN_FOOTER, 72, 8, true, (uint64_t)-1, MDB_CORRUPTED},
	{IN_FOOTER, 72, 8, true, 64, MDB_CORRUPTED},
	{IN_FOOTER, 72, 8, false, 513, MDB_CORRUPTED}, /* more than the data has pages */
	{IN_FOOTER, 72, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_FOOTER, 80, 4, false, 0, MDB_CORRUPTED}, /* the data has meta pages */
	{IN_FOOTER, 80, 4, false, 2, MDB_CORRUPTED}, /* not the newest */
	{IN_FOOTER, 80, 4, false, 3, MDB_CORRUPTED},
	{IN_FOOTER, 88, 4, true, 1, MDB_CORRUPTED},
	{IN_FOOTER, 216, 8, true, 1, MDB_CORRUPTED},
	{IN_COPIES, 8, 4, false, 3, MDB_CORRUPTED},
	{IN_COPIES, 12, 4, false, 1, MDB_CORRUPTED},
	{IN_COPIES, 16, 8, false, 1, MDB_CORRUPTED},
	{IN_COPIES, 24, 8, false, 1, MDB_CORRUPTED},
	{IN_COPIES, 24, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_COPIES, 32, 8, true, 1, MDB_CORRUPTED},
	{IN_COPIES, 32, 8, false, 0, MDB_CORRUPTED},
	{IN_COPIES, 32, 8, false, UINT64_MAX, MDB_CORRUPTED},
	{IN_COPIES, 40, 8, true, 1, MDB_CORRUPTED},
	{IN_COPIES, 48, 4, true, 1, MDB_CORRUPTED},
	{IN_COPIES, 48, 4, false, 0, MDB_CORRUPTED},
	{IN_COPIES, 48, 4, false, UINT32_MAX, MDB_CORRUPTED},
	{IN_COPIES, 52, 4, true, 1, MDB_CORRUPTED},
	{IN_COPIES, 56, 8, false, 10, MDB_CORRUPTED}, /* the second group's first page */
	{IN_COPIES, 72, 4, true, 1, MDB_CORRUPTED},
};

static void lie_in_any_field_is_found(void **state)
{
	const struct sample *sample = *state;
	const struct image *image = &sample->image;
	uint8_t *bytes = malloc(image->size);

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		const struct lie *lie = &lies[i];
		uint8_t *at = bytes + image_place(image, lie->place) + lie->at;
		uint64_t before;
		int rc;

		memcpy(bytes, image->bytes, image->size);
		before = lie->is_added ? image_get(at, lie->width) : 0;
		image_put(at, lie->width, before + lie->value);
		image_seal(bytes, image->size, image->data_end);
		memory_largest = 0;
		rc = container_walk(bytes, image->size, sample->data, sample->size);
		assert_modest(image->size, CHUNK);
		if (rc != lie->expected)
			print_message("place %d, byte %u\n", (int)lie->place, lie->at);
		assert_int_equal(rc, lie->expected);
	}
	free(bytes);
}

/* Lists of copies that no writer makes, in groups with right checksums. */
static void copies_out_of_order_or_of_no_page_are_found(void **state)
{
	static const uint64_t lists[][2] = {{20, 20},         {30, 20}, {20, 512},
					    {20, UINT64_MAX}, {1, 20},  {0, 20}};
	const struct sample *sample = *state;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		struct image_plan plan = {.data = sample->data,
					  .size = sample->size,
					  .page_size = PAGE,
					  .chunk_size = CHUNK,
					  .copies = lists[i],
					  .n_copies = 2,
					  .meta_page = 1};
		struct image image;

		image_make(&image, &plan);
		assert_int_equal(
			container_walk(image.bytes, image.size, sample->data, sample->size),
			MDB_CORRUPTED);
		image_free(&image);
	}
}

/* All checksums are right, but the copy is of other bytes: whoever has both finds out. */
static void copy_unlike_the_data_is_found_beside_it(void **state)
{
	const struct sample *sample = *state;
	uint8_t *other = malloc(sample->size), page[PAGE];
	struct image_plan plan = {.data = other,
				  .size = sample->size,
				  .page_size = PAGE,
				  .chunk_size = CHUNK,
				  .copies = copies,
				  .n_copies = COPIES,
				  .meta_page = 1};
	uint64_t changed = copies[COPIES - 3], found = 0;
	struct reader reader;
	struct image image;

	memcpy(other, sample->data, sample->size);
	other[changed * PAGE + 77] ^= 1;
	image_make(&image, &plan);
	assert_int_equal(reader_open(&reader, image.bytes, image.size), 0);
	assert_int_equal(container_read_copies(&reader.io, page, PAGE, changed * PAGE), 0);
	assert_memory_equal(page, other + changed * PAGE, PAGE);
	assert_int_equal(container_check_copies(&reader.io, sample->data, sample->size, 0, &found),
			 MDB_CORRUPTED);
	assert_int_equal(found, changed);
	assert_int_equal(container_check_copies(&reader.io, other, sample->size, 0, &found), 0);
	reader_close(&reader);
	image_free(&image);
	free(other);
}

/* The same of the footer's copy of a meta page, where chunks have all meta pages or one. */
static void meta_unlike_the_data_is_found_beside_it(void **state)
{
	enum { META = 88, ROOT = 100 }; /* bytes */
	const struct sample *sample = *state;
	const size_t lengths[] = {sample->size, 2 * PAGE, PAGE};
	size_t size = sample->image.size;
	uint8_t *bytes = malloc(size), *root;
	struct reader reader;
	uint64_t found;

	for (int lied = 0; lied < 2; lied++) {
		memcpy(bytes, sample->image.bytes, size);
		root = bytes + image_place(&sample->image, IN_FOOTER) + META + ROOT;
		*root = (uint8_t)(*root + lied);
		image_seal(bytes, size, sample->image.data_end);
		assert_int_equal(reader_open(&reader, bytes, size), 0);
		for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
			found = UINT64_MAX;
			assert_int_equal(container_check_copies(&reader.io, sample->data,
								lengths[i], 0, &found),
					 lied ? MDB_CORRUPTED : 0);
			assert_true(!lied || !found);
		}
		reader_close(&reader);
	}
	free(bytes);
}

/* Frames of the first of two pages that reach behind the data: the page itself shows it. */
static void frames_behind_the_data_are_found(void **state)
{
	size_t size = 300 * CHUNK;
	struct image_plan plan = {
		.data = calloc(1, size), .size = size, .page_size = PAGE, .chunk_size = CHUNK};
	struct container_chunk chunk;
	struct reader reader;
	struct image image;

	(void)state;
	image_make(&image, &plan);
	image_put(image.bytes + image.chunks + 32, 4, 60000);
	image_seal(image.bytes, image.size, image.data_end);
	assert_int_equal(reader_open(&reader, image.bytes, image.size), 0);
	assert_int_equal(container_chunk(&reader.io, 0, &chunk), MDB_CORRUPTED);
	assert_int_equal(container_chunk(&reader.io, 253, &chunk), 0);
	reader_close(&reader);
	image_free(&image);
	free((void *)(uintptr_t)plan.data);
}

/* A lookup does not need a check of the whole index to find out. */
static void lookup_in_a_lying_index_is_refused(void **state)
{
	const struct image *image = &((const struct sample *)*state)->image;
	/* Fewer records than the leaves on the page have; a page that is another tree's. */
	const size_t places[] = {image->trees + 32 + 576, image->data_end + PAGE + 24};
	const uint64_t values[] = {261, 2};

	for (size_t i = 0; i < 2; i++) {
		uint8_t *bytes = malloc(image->size);
		struct container_tree tree;
		struct container_leaf leaf;
		struct reader reader;

		memcpy(bytes, image->bytes, image->size);
		image_put(bytes + places[i], 8, values[i]);
		image_seal(bytes, image->size, image->data_end);
		assert_int_equal(reader_open(&reader, bytes, image->size), 0);
		assert_int_equal(container_tree_find(&reader.io, "images", 6, &tree), 0);
		assert_int_equal(container_leaf(&reader.io, &tree, 5, &leaf), MDB_CORRUPTED);
		reader_close(&reader);
		free(bytes);
	}
}

/* Tables of a place for each record would have sizes that overflow, or fill all memory. */
static void records_that_no_page_can_hold_are_refused(void **state)
{
	static const uint64_t counts[] = {9, PAGE / 2 + 1, UINT64_C(1) << 60};
	const struct sample *sample = *state;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		for (uint64_t leaves = 1; leaves <= 2; leaves++) {
			const struct image_tree claimed = {"", 0, leaves, 2, counts[i]};
			struct tree tree = {.record = {.entries = leaves * counts[i]}};
			struct image_plan plan = {.data = sample->data,
						  .size = sample->size,
						  .page_size = PAGE,
						  .chunk_size = CHUNK,
						  .trees = &claimed,
						  .n_trees = 1,
						  .meta_page = 1};
			struct record_index *index = NULL;
			struct reader reader;
			struct image image;

			image_make(&image, &plan);
			assert_int_equal(reader_open(&reader, image.bytes, image.size), 0);
			assert_int_equal(index_read(&index, &reader.io, &tree, NULL),
					 i ? MDB_CORRUPTED : 0);
			index_free(index);
			reader_close(&reader);
			image_free(&image);
		}
	}
}

/* A header that names a dictionary of more than may be, or that would reach behind the file. */
static void dictionary_that_is_too_long_is_refused(void **state)
{
	static const uint32_t sizes[] = {512 << 10, (512 << 10) + 1, UINT32_MAX};
	const struct image *image = &((const struct sample *)*state)->image;
	size_t size = 1000;
	uint8_t *bytes = calloc(1, size);

	for (size_t i = 0; i < 3; i++) {
		memcpy(bytes, image->bytes, END);
		memcpy(bytes + size - END, image->bytes + image->footer, END);
		image_put(bytes + 20, 4, 1);
		image_put(bytes + 40, 4, sizes[i]);
		image_seal(bytes, size, size);
		memory_largest = 0;
		assert_int_equal(container_walk(bytes, size, NULL, 0), MDB_CORRUPTED);
		assert_in_range(memory_largest, 0, 100000);
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lie_in_any_field_is_found),
		cmocka_unit_test(copies_out_of_order_or_of_no_page_are_found),
		cmocka_unit_test(copy_unlike_the_data_is_found_beside_it),
		cmocka_unit_test(meta_unlike_the_data_is_found_beside_it),
		cmocka_unit_test(frames_behind_the_data_are_found),
		cmocka_unit_test(lookup_in_a_lying_index_is_refused),
		cmocka_unit_test(records_that_no_page_can_hold_are_refused),
		cmocka_unit_test(dictionary_that_is_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, make_sample, free_sample);
}
