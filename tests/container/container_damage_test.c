/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that every damaged bit of a container is found and none is handed out,
 * and that storage that fails is an error and no more. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_fixture.h"
#include "container_image.h"
#include "container_walk.h"

#include "io_fault.h"
#include "random_stream.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 64 << 10, PAGE = 4096, END = 256, FLIPS = 10000 };

/* Flipped bits. */

struct sample {
	uint8_t *data;
	size_t size;
	struct contained contained; /* as libzstd makes it, with a dictionary and databases */
	struct image image;         /* made by hand, of the same data */
	uint64_t data_offset, data_end, groups, groups_end;
};

enum { COPIES = 66 };

static uint64_t copies[COPIES];

static const struct image_tree trees[] = {
	{"", 0, 1, 2, 9}, {"images", 0, 260, 3, 20}, {"none", 0, 0, 0, 0}};

static void write_trees(struct container_writer *writer)
{
	uint64_t tree;

	for (size_t t = 0; t < 3; t++) {
		assert_int_equal(container_write_tree(writer, trees[t].name, strlen(trees[t].name),
						      0, &tree),
				 0);
		for (uint64_t i = 0; i < trees[t].leaves; i++)
			assert_int_equal(container_write_leaf(writer, tree, i, trees[t].per_leaf),
					 0);
	}
}

static int make_sample(void **state)
{
	static struct sample sample;
	struct container_write_options options = {.page_size = PAGE, .chunk_size = CHUNK};
	struct container_writer *writer;
	struct image_plan plan;
	struct reader reader;

	sample.size = 32 * CHUNK + 777;
	sample.data = data_make(DATA_MIXED, sample.size, 40);
	image_meta_page(sample.data, 0, PAGE, 8);
	image_meta_page(sample.data + PAGE, 1, PAGE, 9);
	for (uint64_t i = 0; i < COPIES; i++) {
		copies[i] = 5 + 6 * i;
		image_branch_page(sample.data + copies[i] * PAGE, copies[i]);
	}
	options.size = sample.size;
	options.dictionary = sample.data;
	options.dictionary_size = 3000;
	sample.contained.fd = memory_file();
	assert_int_equal(container_write_open(&writer, sample.contained.fd, &options), 0);
	assert_int_equal(container_write_bytes(writer, sample.data, sample.size), 0);
	write_trees(writer);
	assert_int_equal(container_write_finish(writer), 0);
	container_write_close(writer);
	sample.contained.bytes = memory_file_bytes(sample.contained.fd, &sample.contained.size);
	assert_int_equal(reader_open(&reader, sample.contained.bytes, sample.contained.size), 0);
	sample.data_offset = container_info(&reader.io)->data_offset;
	sample.data_end = container_info(&reader.io)->data_end;
	sample.groups_end =
		sample.contained.size - END - 2 * PAGE; /* a page of copies, of chunks */
	sample.groups = sample.groups_end - container_info(&reader.io)->groups_size;
	reader_close(&reader);
	plan = (struct image_plan){.data = sample.data,
				   .size = sample.size,
				   .page_size = PAGE,
				   .chunk_size = CHUNK,
				   .trees = trees,
				   .n_trees = 3,
				   .copies = copies,
				   .n_copies = COPIES,
				   .meta_page = 2};
	image_make(&sample.image, &plan);
	*state = &sample;
	return 0;
}

static int free_sample(void **state)
{
	struct sample *sample = *state;

	image_free(&sample->image);
	contained_free(&sample->contained);
	free(sample->data);
	return 0;
}

/* The chunk whose frame byte `at` is of. */
static uint64_t chunk_at(struct io *io, uint64_t at, struct container_chunk *chunk)
{
	for (uint64_t i = 0;; i++) {
		assert_int_equal(container_chunk(io, i, chunk), 0);
		if (at < chunk->offset + chunk->length)
			return i;
	}
}

/* A read that takes in the chunk as a whole, and one that wants a part. */
static void assert_chunk_is_refused(struct io *io, uint64_t number, uint32_t size,
				    const uint8_t *data, unsigned part)
{
	uint64_t from = number * CHUNK;
	uint8_t *buffer = malloc(size);
	size_t done;

	memset(buffer, 0xa5, size);
	assert_int_equal(io_read(io, buffer, size, from, &done), EBADMSG);
	assert_int_equal(done, 0);
	/* What stands there now is nobody's: not the data with a flaw in it. */
	for (uint32_t i = 1; i < size; i++)
		assert_true(buffer[i] == buffer[0]);
	assert_int_equal(io_read(io, buffer, 1 + part % size, from, &done), EBADMSG);
	assert_int_equal(done, 0);
	/* The chunk in front is still good. */
	if (number > 0) {
		assert_int_equal(io_read(io, buffer, 100, from - 100, &done), 0);
		assert_memory_equal(buffer, data + from - 100, 100);
	}
	free(buffer);
}

static void every_flipped_bit_of_chunk_data_is_found(void **state)
{
	const struct sample *sample = *state;
	struct random_stream stream = random_start(9, 9);
	uint8_t *bytes = sample->contained.bytes;

	for (unsigned i = 0; i < FLIPS; i++) {
		uint64_t at = random_between(&stream, sample->data_offset, sample->data_end - 1);
		uint8_t bit = (uint8_t)(1u << random_below(&stream, 8));
		struct container_chunk chunk;
		struct reader reader;
		uint64_t number;

		bytes[at] ^= bit;
		assert_int_equal(reader_open(&reader, bytes, sample->contained.size), 0);
		number = chunk_at(&reader.io, at, &chunk);
		assert_chunk_is_refused(&reader.io, number, chunk.size, sample->data, i);
		reader_close(&reader);
		bytes[at] ^= bit;
	}
	assert_int_equal(container_walk(bytes, sample->contained.size, sample->data, sample->size),
			 0);
}

static void every_flipped_bit_outside_of_chunks_is_found(void **state)
{
	const struct sample *sample = *state;
	size_t size = sample->contained.size;
	uint8_t *bytes = sample->contained.bytes;

	for (uint64_t at = 0; at < size; at++) {
		bool is_end = at < END || at >= size - END;
		int rc;

		if (at == sample->data_offset)
			at = sample->data_end;
		/* Of copies there are many bytes: some here, others below. Of index pages one byte
		 * in four, but all that are no entries of the first of each. */
		if (at > sample->groups + 8 && at < sample->groups_end && at % 1009 != 0)
			continue;
		if (!is_end && (at - sample->data_end) % PAGE > 64 && at % 4 != 0)
			continue;
		for (unsigned bit = is_end ? 0 : at % 8; bit < (is_end ? 8 : at % 8 + 1); bit++) {
			bytes[at] ^= (uint8_t)(1u << bit);
			rc = container_walk(bytes, size, NULL, 0);
			assert_true(rc == MDB_CORRUPTED || (at < 16 && rc == MDB_INVALID));
			bytes[at] ^= (uint8_t)(1u << bit);
		}
	}
}

/* What a lookup is led by is right or refused, and the data is there all the same. */
static void every_flipped_bit_of_a_copy_is_found_by_who_reads_it(void **state)
{
	const struct sample *sample = *state;
	uint8_t *bytes = sample->contained.bytes, page[PAGE];
	struct random_stream stream = random_start(10, 10);
	struct reader reader;
	size_t done;

	for (unsigned i = 0; i < FLIPS / 20; i++) {
		uint64_t at = random_between(&stream, sample->groups, sample->groups_end - 1);
		unsigned refused = 0;
		int rc;

		bytes[at] ^= (uint8_t)(1u << i % 8);
		assert_int_equal(reader_open(&reader, bytes, sample->contained.size), 0);
		/* Some of the first group, and the last one of the second. */
		for (size_t n = 0, c; n <= COPIES / 7; n++) {
			c = n < COPIES / 7 ? 7 * n + i % 7 : COPIES - 1;
			rc = container_read_copies(&reader.io, page, PAGE, copies[c] * PAGE);
			refused += rc == MDB_CORRUPTED;
			if (rc)
				assert_int_equal(rc, MDB_CORRUPTED);
			else
				assert_memory_equal(page, sample->data + copies[c] * PAGE, PAGE);
		}
		assert_in_range(refused, 1, COPIES / 7 + 1);
		assert_int_equal(io_read(&reader.io, page, PAGE, copies[i % COPIES] * PAGE, &done),
				 0);
		assert_memory_equal(page, sample->data + copies[i % COPIES] * PAGE, PAGE);
		reader_close(&reader);
		bytes[at] ^= (uint8_t)(1u << i % 8);
	}
}

/* Cut and moved bytes. */

static void cut_container_is_refused_at_every_length(void **state)
{
	const struct sample *sample = *state;
	size_t size = sample->contained.size;

	for (size_t cut = 0; cut < size; cut += cut < 600 || cut > size - 600 ? 1 : 997) {
		int rc = container_walk(sample->contained.bytes, cut, NULL, 0);

		assert_int_equal(rc, cut < END ? MDB_INVALID : MDB_CORRUPTED);
	}
}

static void bytes_behind_the_footer_are_refused(void **state)
{
	const struct sample *sample = *state;
	uint8_t *longer = calloc(1, sample->contained.size + 5000);

	memcpy(longer, sample->contained.bytes, sample->contained.size);
	for (size_t more = 1; more < 5000; more += 100)
		assert_int_equal(container_walk(longer, sample->contained.size + more, NULL, 0),
				 MDB_CORRUPTED);
	free(longer);
}

static void file_that_shrinks_while_it_is_open_is_damage(void **state)
{
	const struct sample *sample = *state;
	struct reader reader;
	uint8_t buffer[100];
	int fd = memory_file();
	size_t done;

	assert_int_equal(write(fd, sample->contained.bytes, sample->contained.size),
			 sample->contained.size);
	assert_int_equal(reader_open_file(&reader, fd), 0);
	assert_int_equal(io_read(&reader.io, buffer, 100, 0, &done), 0);
	assert_int_equal(ftruncate(fd, (off_t)sample->data_offset + 5000), 0);
	assert_int_equal(io_read(&reader.io, buffer, 100, 5 * CHUNK, &done), EBADMSG);
	reader_close(&reader);
	(void)close(fd);
}

static void pages_that_changed_places_are_found(void **state)
{
	const struct sample *sample = *state;
	const struct image *image = &sample->image;
	uint8_t *bytes = malloc(image->size), page[PAGE];

	/* The second database's two pages; then a leaf page where the tree page was. */
	for (size_t other = 2 * PAGE; other <= 3 * PAGE; other += PAGE) {
		uint8_t *a = bytes + image->data_end + PAGE, *b = bytes + image->data_end + other;

		memcpy(bytes, image->bytes, image->size);
		memcpy(page, a, PAGE);
		memcpy(a, b, PAGE);
		memcpy(b, page, PAGE);
		assert_int_equal(container_walk(bytes, image->size, NULL, 0), MDB_CORRUPTED);
	}
	free(bytes);
}

static void page_of_another_container_is_found(void **state)
{
	const struct sample *sample = *state;
	struct image_plan plan = {.data = sample->data,
				  .size = sample->size,
				  .page_size = PAGE,
				  .chunk_size = CHUNK,
				  .trees = trees,
				  .n_trees = 3,
				  .copies = copies,
				  .n_copies = COPIES,
				  .meta_page = 2,
				  .txnid = 1};
	struct image other;
	struct reader reader;

	image_make(&other, &plan);
	assert_int_equal(other.size, sample->image.size);
	memcpy(other.bytes + other.chunks, sample->image.bytes + other.chunks, PAGE);
	assert_int_equal(container_walk(other.bytes, other.size, NULL, 0), MDB_CORRUPTED);
	/* And its header, when the container is opened. */
	memcpy(other.bytes + END, sample->image.bytes + END, other.size - END);
	assert_int_equal(reader_open(&reader, other.bytes, other.size), MDB_CORRUPTED);
	reader_close(&reader);
	image_free(&other);
}

static void chunks_that_changed_places_are_found(void **state)
{
	struct sample *sample = *state;
	size_t size = 4 * CHUNK;
	uint8_t *data = data_make(DATA_RANDOM, size, 3), *frame = malloc(CHUNK + 1000);
	struct contained contained;
	struct container_chunk a, b;
	struct reader reader;

	(void)sample;
	assert_int_equal(contain(&contained, data, size,
				 (struct container_write_options){.chunk_size = CHUNK}),
			 0);
	assert_int_equal(reader_open(&reader, contained.bytes, contained.size), 0);
	assert_int_equal(container_chunk(&reader.io, 1, &a), 0);
	assert_int_equal(container_chunk(&reader.io, 2, &b), 0);
	reader_close(&reader);
	assert_int_equal(a.length, b.length);
	memcpy(frame, contained.bytes + a.offset, a.length);
	memcpy(contained.bytes + a.offset, contained.bytes + b.offset, a.length);
	memcpy(contained.bytes + b.offset, frame, a.length);
	assert_int_equal(container_walk(contained.bytes, contained.size, data, size),
			 MDB_CORRUPTED);
	contained_free(&contained);
	free(frame);
	free(data);
}

/* Storage that fails. */

/* Everything once, over a back end that fails as planned. The first error. */
static int read_all(struct io *faulty, const struct sample *sample)
{
	uint8_t *buffer = malloc(sample->size);
	struct container_leaf leaf;
	struct container_tree tree;
	struct io io;
	size_t done = 0;
	int rc = io_open_container(&io, faulty, NULL);

	if (!rc)
		rc = container_tree_find(&io, "images", 6, &tree);
	if (!rc)
		rc = container_leaf(&io, &tree, 255, &leaf);
	if (!rc)
		rc = io_read(&io, buffer, 100, 100, &done);
	if (!rc)
		rc = io_read(&io, buffer, sample->size, 0, &done);
	assert_memory_equal(buffer, sample->data, done > 100 ? done : 0);
	io_close(&io);
	free(buffer);
	return rc;
}

static void nth_read_that_fails_is_that_error(void **state)
{
	const struct sample *sample = *state;
	struct io below, faulty;

	for (unsigned nth = 1;; nth++) {
		struct io_fault plan = {.calls = IO_FAULT_READS, .nth = nth, .error = EIO};
		int rc;

		assert_int_equal(
			io_open_memory(&below, sample->contained.bytes, sample->contained.size), 0);
		assert_int_equal(io_open_fault(&faulty, &below, &plan), 0);
		rc = read_all(&faulty, sample);
		assert_int_equal(rc, plan.failed ? EIO : 0);
		if (plan.failed)
			assert_int_equal(read_all(&faulty, sample), 0); /* it was that once */
		/* Short reads are healed; one that brings nothing is the end of the file. */
		plan = (struct io_fault){.calls = IO_FAULT_READS, .nth = nth, .cut = 13};
		assert_int_equal(read_all(&faulty, sample), 0);
		plan = (struct io_fault){
			.calls = IO_FAULT_READS, .nth = nth, .cut = IO_FAULT_TO_NOTHING};
		rc = read_all(&faulty, sample);
		assert_true(!plan.failed || rc == MDB_CORRUPTED || rc == EBADMSG);
		io_close(&faulty);
		io_close(&below);
		if (!plan.failed)
			break;
		assert_true(nth < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_flipped_bit_of_chunk_data_is_found),
		cmocka_unit_test(every_flipped_bit_outside_of_chunks_is_found),
		cmocka_unit_test(every_flipped_bit_of_a_copy_is_found_by_who_reads_it),
		cmocka_unit_test(cut_container_is_refused_at_every_length),
		cmocka_unit_test(bytes_behind_the_footer_are_refused),
		cmocka_unit_test(file_that_shrinks_while_it_is_open_is_damage),
		cmocka_unit_test(pages_that_changed_places_are_found),
		cmocka_unit_test(page_of_another_container_is_found),
		cmocka_unit_test(chunks_that_changed_places_are_found),
		cmocka_unit_test(nth_read_that_fails_is_that_error),
	};

	return cmocka_run_group_tests(tests, make_sample, free_sample);
}
