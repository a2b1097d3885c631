/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the bytes of each version of the format are.
 *
 * A golden file is made here by container_image.c, which knows the description of the format and
 * not the library; its expected hash is below. It must never change: a file of a released version
 * stays readable. The library's writer, given the same frames, must make the same bytes.
 */
#include "container_fixture.h"
#include "container_image.h"

#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum { CHUNK = 64 << 10, DATA_SIZE = 300 * CHUNK + 12345, PAGE = 4096, COPIES = 150 };

/* Of version 1.0's, below. */
#define GOLDEN_1_SIZE 10855782u
#define GOLDEN_1_HASH 0x1128afd2c069c307u

static const uint8_t source_hash[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

static const struct image_tree trees[] = {
	{"", 0, 1, 2, 9},        {"images", 0, 600, 3, 20}, {"labels", 0x0c, 253, 700, 340},
	{"nothing", 4, 0, 0, 0}, {"a", 0, 1, 1000, 1},      {"b", 0, 1, 1001, 2},
	{"c", 0, 254, 1002, 3},  {"d", 0, 2, 1500, 4},      {"e", 0, 2, 1600, 5},
};

enum { TREES = sizeof(trees) / sizeof(trees[0]) };

struct golden {
	uint8_t *data;
	struct image image;
};

static uint64_t copies[COPIES];

/* Pages that are worth a copy, and such as are not. */
static void lay_pages(uint8_t *data)
{
	image_meta_page(data, 0, PAGE, 76);
	image_meta_page(data + PAGE, 1, PAGE, 77);
	for (uint64_t i = 0; i < COPIES; i++) {
		uint64_t page = 20 + i * i / 5;

		while (i && page <= copies[i - 1])
			page++;
		copies[i] = page;
		if (i % 3 == 0)
			image_branch_page(data + page * PAGE, page);
		else
			image_leaf_page(data + page * PAGE, page, PAGE, 8);
	}
	image_leaf_page(data + 4790 * PAGE, 4790, PAGE, 7);
	image_branch_page(data + 4791 * PAGE, 4700);
}

static struct image_plan golden_plan(const uint8_t *data, unsigned zstd_version)
{
	return (struct image_plan){
		.data = data,
		.size = DATA_SIZE,
		.page_size = PAGE,
		.chunk_size = CHUNK,
		.zstd_version = zstd_version,
		.trees = trees,
		.n_trees = TREES,
		.txnid = 77,
		.source_size = DATA_SIZE + 5,
		.source_hash = source_hash,
		.copies = copies,
		.n_copies = COPIES,
		.meta_page = 2,
	};
}

static int make_golden(void **state)
{
	static struct golden golden;
	struct image_plan plan;

	golden.data = malloc(DATA_SIZE);
	if (!golden.data)
		return -1;
	image_data(golden.data, DATA_SIZE);
	lay_pages(golden.data);
	plan = golden_plan(golden.data, 10504);
	image_make(&golden.image, &plan);
	*state = &golden;
	return 0;
}

static int free_golden(void **state)
{
	struct golden *golden = *state;

	image_free(&golden->image);
	free(golden->data);
	return 0;
}

static void golden_file_is_what_it_always_was(void **state)
{
	const struct golden *golden = *state;

	assert_int_equal(golden->image.size, GOLDEN_1_SIZE);
	assert_int_equal(image_hash(golden->image.bytes, golden->image.size), GOLDEN_1_HASH);
}

static void golden_file_is_read(void **state)
{
	const struct golden *golden = *state;
	const struct container_info *info;
	struct container_tree tree;
	struct container_leaf leaf;
	struct reader reader;
	uint8_t page[PAGE];
	uint64_t bad;

	assert_int_equal(reader_open(&reader, golden->image.bytes, golden->image.size), 0);
	info = container_info(&reader.io);
	assert_int_equal(info->source.txnid, 77);
	assert_int_equal(info->source.size, DATA_SIZE + 5);
	assert_memory_equal(info->source.hash, source_hash, 16);
	assert_int_equal(info->zstd_version, 10504);
	assert_int_equal(container_check_index(&reader.io, &bad), 0);
	assert_reads(&reader.io, golden->data, DATA_SIZE, 1000000);
	assert_int_equal(info->copies, COPIES);
	for (size_t i = 0; i < COPIES; i++) {
		assert_int_equal(container_read_copies(&reader.io, page, PAGE, copies[i] * PAGE),
				 0);
		assert_memory_equal(page, golden->data + copies[i] * PAGE, PAGE);
	}
	assert_true(info->has_meta);
	assert_int_equal(info->meta_page, 1);
	assert_memory_equal(info->meta, golden->data + PAGE + 16, sizeof(info->meta));
	assert_int_equal(container_check_copies(&reader.io, golden->data, DATA_SIZE, 0, &bad), 0);
	for (size_t t = 0; t < TREES; t++) {
		assert_int_equal(container_tree_find(&reader.io, trees[t].name,
						     strlen(trees[t].name), &tree),
				 0);
		assert_int_equal(tree.flags, trees[t].flags);
		assert_int_equal(tree.records, trees[t].leaves * trees[t].per_leaf);
		for (uint64_t i = 0; i < tree.leaves; i++) {
			assert_int_equal(container_leaf(&reader.io, &tree, i, &leaf), 0);
			assert_int_equal(leaf.page, trees[t].first_page + i);
			assert_int_equal(leaf.first, i * trees[t].per_leaf);
		}
	}
	reader_close(&reader);
}

static void golden_file_is_a_zstd_stream(void **state)
{
	const struct golden *golden = *state;
	int fd = memory_file();

	assert_int_equal(write(fd, golden->image.bytes, golden->image.size), golden->image.size);
	if (!zstd_gives(fd, "", golden->data, DATA_SIZE)) {
		(void)close(fd);
		skip();
	}
	(void)close(fd);
}

/* Copies are libzstd's to compress, as the library does. */
static size_t zstd_frame(uint8_t *out, const uint8_t *data, size_t n)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	size_t length;

	ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
	length = ZSTD_compress2(zstd, out, ZSTD_compressBound(n), data, n);
	assert_false(ZSTD_isError(length));
	ZSTD_freeCCtx(zstd);
	return length;
}

static void write_copies(struct container_writer *writer, const uint8_t *data)
{
	uint8_t *picked = calloc(1, DATA_SIZE / PAGE / 8 + 1);

	container_select(FORMAT_0_9, PAGE, data, DATA_SIZE, 0, picked);
	for (uint64_t i = 0; i < DATA_SIZE / PAGE; i++)
		if (picked[i / 8] >> i % 8 & 1)
			assert_int_equal(container_write_copy(writer, i, data + i * PAGE), 0);
	free(picked);
}

/* The frames are made by hand, so that no version of libzstd matters. */
static void write_frames(struct container_writer *writer, const uint8_t *data)
{
	uint8_t *bytes = malloc(image_frame_bound(CHUNK));
	struct container_frame frame;

	assert_non_null(bytes);
	for (size_t at = 0; at < DATA_SIZE; at += CHUNK) {
		frame.size = DATA_SIZE - at < CHUNK ? (uint32_t)(DATA_SIZE - at) : CHUNK;
		frame.length = (uint32_t)image_frame(bytes, data + at, frame.size);
		frame.check = image_check(bytes, frame.length);
		frame.hash = image_hash(data + at, frame.size);
		assert_int_equal(container_write_frame(writer, bytes, &frame), 0);
	}
	free(bytes);
}

static void writer_makes_what_the_description_says(void **state)
{
	const struct golden *golden = *state;
	struct image_plan plan = golden_plan(golden->data, ZSTD_versionNumber());
	struct container_write_options options = {
		.size = DATA_SIZE,
		.page_size = PAGE,
		.chunk_size = CHUNK,
		.source = {.txnid = 77, .size = DATA_SIZE + 5},
	};
	struct container_writer *writer;
	struct image image;
	int fd = memory_file();
	uint8_t *bytes;
	uint64_t tree;
	size_t size;

	plan.copies_frame = zstd_frame;
	image_make(&image, &plan);
	memcpy(options.source.hash, source_hash, 16);
	assert_int_equal(container_write_open(&writer, fd, &options), 0);
	for (size_t t = 0; t < TREES; t++) {
		assert_int_equal(container_write_tree(writer, trees[t].name, strlen(trees[t].name),
						      trees[t].flags, &tree),
				 0);
		for (uint64_t i = 0; i < trees[t].leaves; i++)
			assert_int_equal(container_write_leaf(writer, tree, trees[t].first_page + i,
							      trees[t].per_leaf),
					 0);
	}
	write_frames(writer, golden->data);
	write_copies(writer, golden->data);
	assert_int_equal(container_write_finish(writer), 0);
	container_write_close(writer);
	bytes = memory_file_bytes(fd, &size);
	assert_int_equal(size, image.size);
	assert_memory_equal(bytes, image.bytes, size);
	free(bytes);
	image_free(&image);
	(void)close(fd);
}

static void source_hash_is_xxh3_128(void **state)
{
	/* Of nothing, as xxHash's own documents give it, most significant byte first. */
	static const uint8_t of_nothing[16] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
					       0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
	uint8_t hash[16];

	(void)state;
	container_source_hash("", 0, hash);
	assert_memory_equal(hash, of_nothing, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_file_is_what_it_always_was),
		cmocka_unit_test(golden_file_is_read),
		cmocka_unit_test(golden_file_is_a_zstd_stream),
		cmocka_unit_test(writer_makes_what_the_description_says),
		cmocka_unit_test(source_hash_is_xxh3_128),
	};

	return cmocka_run_group_tests(tests, make_golden, free_golden);
}
