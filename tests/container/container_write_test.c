/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a container's bytes follow from data and options alone, however
 * it was written: by how many threads, in pieces, after being killed, into a pipe; and how writing
 * fails. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_fixture.h"

#include "random_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <sys/mman.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum { PAGE = 4096 };

/* Data, options, and the container that they make by one thread without helpers. */
struct sample {
	uint8_t *data;
	size_t size;
	struct container_write_options options;
	struct contained whole;
};

/* Three databases, as any writer of these tests gives them. */
static int write_trees(struct container_writer *writer)
{
	uint64_t tree;
	int rc = container_write_tree(writer, NULL, 0, 0, &tree);

	for (uint64_t i = 0; !rc && i < 300; i++)
		rc = container_write_leaf(writer, tree, i, 1 + i % 7);
	if (!rc)
		rc = container_write_tree(writer, "empty", 5, 4, &tree);
	if (!rc)
		rc = container_write_tree(writer, "last", 4, 0, &tree);
	return rc ? rc : container_write_leaf(writer, tree, 7, 1);
}

/* Gives what is missing from `from` on, in pieces of many sizes. */
static int write_rest(struct container_writer *writer, const struct sample *sample, size_t from)
{
	struct random_stream stream = random_start(from, 4);
	int rc = write_trees(writer);

	while (!rc && from < sample->size) {
		size_t n = random_between(&stream, 1, 300000);

		n = n < sample->size - from ? n : sample->size - from;
		rc = container_write_bytes(writer, sample->data + from, n);
		from += n;
	}
	return rc ? rc : container_write_finish(writer);
}

static int write_sample(int fd, const struct sample *sample, unsigned threads)
{
	struct container_write_options options = sample->options;
	struct container_writer *writer;
	int rc;

	options.threads = threads;
	rc = container_write_open(&writer, fd, &options);
	if (rc)
		return rc;
	rc = write_rest(writer, sample, 0);
	container_write_close(writer);
	return rc;
}

static int make_sample(void **state)
{
	static struct sample sample;

	sample.size = 5 * MIB + 4321;
	sample.data = data_make(DATA_MIXED, sample.size, 20);
	sample.options = (struct container_write_options){
		.size = sample.size,
		.page_size = PAGE,
		.chunk_size = 64 << 10,
		.source = {.txnid = 3, .size = sample.size},
	};
	sample.whole.fd = memory_file();
	*state = &sample;
	if (write_sample(sample.whole.fd, &sample, 0))
		return -1;
	sample.whole.bytes = memory_file_bytes(sample.whole.fd, &sample.whole.size);
	return 0;
}

static int free_sample(void **state)
{
	struct sample *sample = *state;

	contained_free(&sample->whole);
	free(sample->data);
	return 0;
}

/* That fd holds what the sample's whole does; and closes it. */
static void assert_same(int fd, const struct sample *sample)
{
	size_t size;
	uint8_t *bytes = memory_file_bytes(fd, &size);

	assert_int_equal(size, sample->whole.size);
	assert_memory_equal(bytes, sample->whole.bytes, size);
	free(bytes);
	(void)close(fd);
}

/* The same bytes. */

static void any_number_of_threads_gives_the_same_bytes(void **state)
{
	const struct sample *sample = *state;

	for (unsigned threads = 1; threads <= 4; threads++) {
		int fd = memory_file();

		assert_int_equal(write_sample(fd, sample, threads), 0);
		assert_same(fd, sample);
	}
}

static void options_do_not_make_threads_matter(void **state)
{
	struct sample sample = *(const struct sample *)*state;
	struct container_write_options variants[4];

	for (size_t i = 0; i < 4; i++)
		variants[i] = sample.options;
	variants[0].level = 9;
	variants[0].long_distance = true;
	variants[0].chunk_size = 256 << 10;
	variants[1].dictionary = sample.data;
	variants[1].dictionary_size = 30000;
	variants[2].level = -5;
	variants[3].chunk_size = 4 << 20;
	for (size_t i = 0; i < 4; i++) {
		sample.options = variants[i];
		sample.whole.fd = memory_file();
		assert_int_equal(write_sample(sample.whole.fd, &sample, 0), 0);
		sample.whole.bytes = memory_file_bytes(sample.whole.fd, &sample.whole.size);
		for (unsigned threads = 1; threads <= 3; threads++) {
			int fd = memory_file();

			assert_int_equal(write_sample(fd, &sample, threads), 0);
			assert_same(fd, &sample);
		}
		contained_free(&sample.whole);
	}
}

/* What processes do that share the work: each compresses chunks in any order; their places follow
 * from the sum of the lengths before them. With `placed` they write them, too. */
static void write_by_frames(const struct sample *sample, bool placed)
{
	size_t chunk = sample->options.chunk_size, n = (sample->size + chunk - 1) / chunk;
	struct container_frame *frames = calloc(n, sizeof(*frames));
	uint8_t *bytes = malloc(n * container_frame_bound(chunk));
	struct container_compressor *compressor;
	struct container_writer *writer;
	int fd = memory_file();
	uint64_t offset;

	assert_true(frames && bytes);
	assert_int_equal(container_compressor_open(&compressor, &sample->options), 0);
	for (size_t i = n; i-- > 0;) {
		size_t size = sample->size - i * chunk < chunk ? sample->size - i * chunk : chunk;

		assert_int_equal(container_compress(compressor, sample->data + i * chunk, size,
						    bytes + i * container_frame_bound(chunk),
						    &frames[i]),
				 0);
	}
	container_compressor_close(compressor);
	assert_int_equal(container_write_open(&writer, fd, &sample->options), 0);
	for (size_t i = 0; i < n; i++) {
		const uint8_t *frame = bytes + i * container_frame_bound(chunk);

		assert_int_equal(container_write_offset(writer, &offset), 0);
		if (placed)
			assert_int_equal(pwrite(fd, frame, frames[i].length, (off_t)offset),
					 frames[i].length);
		assert_int_equal(container_write_frame(writer, placed ? NULL : frame, &frames[i]),
				 0);
	}
	assert_int_equal(write_trees(writer), 0);
	assert_int_equal(container_write_finish(writer), 0);
	container_write_close(writer);
	assert_same(fd, sample);
	free(bytes);
	free(frames);
}

static void frames_that_others_compressed_give_the_same_bytes(void **state)
{
	write_by_frames(*state, false);
	write_by_frames(*state, true);
}

static void buffers_that_are_filled_in_part_give_the_same_bytes(void **state)
{
	const struct sample *sample = *state;
	struct container_write_options options = sample->options;
	struct container_writer *writer;
	int fd = memory_file();
	size_t at = 0, length;
	void *buffer, *again;

	options.threads = 2;
	assert_int_equal(container_write_open(&writer, fd, &options), 0);
	assert_int_equal(write_trees(writer), 0);
	for (;;) {
		assert_int_equal(container_write_buffer(writer, &buffer, &length), 0);
		if (length == 0)
			break;
		assert_int_equal(container_write_buffer(writer, &again, &length), 0);
		assert_ptr_equal(buffer, again);
		length = length > 77777 ? 77777 : length;
		memcpy(buffer, sample->data + at, length);
		assert_int_equal(container_write_commit(writer, length), 0);
		at += length;
	}
	assert_int_equal(container_write_finish(writer), 0);
	assert_int_equal(container_write_progress(writer).data, sample->size);
	assert_int_equal(container_write_progress(writer).written, sample->whole.size);
	container_write_close(writer);
	assert_same(fd, sample);
}

struct drain {
	int from;
	uint8_t *bytes;
	size_t size;
};

static void *drain_pipe(void *arg)
{
	struct drain *drain = arg;
	ssize_t n;

	while ((n = read(drain->from, drain->bytes + drain->size, 1000000)) > 0)
		drain->size += (size_t)n;
	return NULL;
}

static void pipe_gets_the_same_bytes(void **state)
{
	const struct sample *sample = *state;
	struct drain drain = {.bytes = malloc(sample->whole.size + 1000000)};
	pthread_t thread;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	drain.from = ends[0];
	assert_int_equal(pthread_create(&thread, NULL, drain_pipe, &drain), 0);
	assert_int_equal(write_sample(ends[1], sample, 2), 0);
	(void)close(ends[1]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(ends[0]);
	assert_int_equal(drain.size, sample->whole.size);
	assert_memory_equal(drain.bytes, sample->whole.bytes, drain.size);
	free(drain.bytes);
}

/* Going on. */

static int file_of(const uint8_t *bytes, size_t size)
{
	int fd = memory_file();

	assert_int_equal(pwrite(fd, bytes, size, 0), size);
	return fd;
}

static void resume_and_compare(int fd, const struct sample *sample, unsigned threads)
{
	struct container_write_options options = sample->options;
	struct container_writer *writer;
	uint64_t done;

	options.threads = threads;
	assert_int_equal(container_write_resume(&writer, fd, &options, &done), 0);
	assert_true(done == sample->size || done % options.chunk_size == 0);
	assert_int_equal(write_rest(writer, sample, (size_t)done), 0);
	container_write_close(writer);
	assert_same(fd, sample);
}

static void file_cut_anywhere_is_finished_with_the_same_bytes(void **state)
{
	const struct sample *sample = *state;
	struct random_stream stream = random_start(2, 2);
	int fd;

	for (unsigned i = 0; i < 60; i++) {
		size_t size = random_below(&stream, sample->whole.size);

		resume_and_compare(file_of(sample->whole.bytes, size), sample, i % 3);
	}
	for (size_t size = 0; size < 300; size += 37)
		resume_and_compare(file_of(sample->whole.bytes, size), sample, 1);
	/* A finished one, and one with something behind it. */
	resume_and_compare(file_of(sample->whole.bytes, sample->whole.size), sample, 1);
	fd = file_of(sample->whole.bytes, sample->whole.size);
	assert_int_equal(pwrite(fd, sample->data, 5000, (off_t)sample->whole.size + 100), 5000);
	resume_and_compare(fd, sample, 1);
}

/* Nothing says that its data is right. */
static void frame_without_a_checksum_is_written_again(void **state)
{
	const struct sample *sample = *state;
	struct container_writer *writer;
	int fd = file_of(sample->whole.bytes, sample->whole.size);
	uint8_t *frame = malloc(2 * sample->options.chunk_size);
	size_t length = ZSTD_compress(frame, 2 * sample->options.chunk_size, sample->data + 1,
				      sample->options.chunk_size, 1);
	uint64_t done;

	assert_non_null(frame);
	assert_false(ZSTD_isError(length));
	assert_int_equal(pwrite(fd, frame, length, 256), length);
	assert_int_equal(container_write_resume(&writer, fd, &sample->options, &done), 0);
	assert_int_equal(done, 0);
	container_write_close(writer);
	resume_and_compare(fd, sample, 0);
	free(frame);
}

static void file_with_a_hole_is_finished_from_there(void **state)
{
	const struct sample *sample = *state;
	struct random_stream stream = random_start(3, 2);
	static const uint8_t hole[PAGE];

	for (unsigned i = 0; i < 30; i++) {
		size_t at = random_between(&stream, 300, sample->whole.size - PAGE);
		int fd = file_of(sample->whole.bytes, sample->whole.size);
		uint8_t byte = sample->whole.bytes[at] ^ 1;

		/* What a crash of the machine leaves, and what a disk does. */
		if (i % 2)
			assert_int_equal(pwrite(fd, hole, PAGE, (off_t)at), PAGE);
		else
			assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		resume_and_compare(fd, sample, 1);
	}
}

static void dictionary_is_there_when_a_file_is_finished(void **state)
{
	struct sample sample = *(const struct sample *)*state;
	static const size_t cuts[] = {100, 256, 263, 20000, 30264, 30265, 200000};

	sample.options.dictionary = sample.data;
	sample.options.dictionary_size = 30000;
	sample.whole.fd = memory_file();
	assert_int_equal(write_sample(sample.whole.fd, &sample, 0), 0);
	sample.whole.bytes = memory_file_bytes(sample.whole.fd, &sample.whole.size);
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
		resume_and_compare(file_of(sample.whole.bytes, cuts[i]), &sample, 1);
	contained_free(&sample.whole);
}

static void file_of_something_else_is_left_alone(void **state)
{
	const struct sample *sample = *state;
	struct container_write_options others[6];
	struct container_writer *writer;
	uint64_t done;

	for (size_t i = 0; i < 6; i++)
		others[i] = sample->options;
	others[0].level = 5;
	others[1].size++;
	others[2].source.txnid++;
	others[3].chunk_size *= 2;
	others[4].relaid = true;
	others[5].dictionary = sample->data;
	others[5].dictionary_size = 100;
	for (size_t i = 0; i < 6; i++) {
		int fd = file_of(sample->whole.bytes, sample->whole.size);

		assert_int_equal(container_write_resume(&writer, fd, &others[i], &done),
				 MDB_INCOMPATIBLE);
		assert_same(fd, sample);
	}
}

/* How it fails. */

static void options_that_cannot_be_are_refused(void **state)
{
	const struct sample *sample = *state;
	struct container_write_options bad[12];
	struct container_compressor *compressor;
	struct container_writer *writer;
	int fd = memory_file();

	for (size_t i = 0; i < 12; i++)
		bad[i] = sample->options;
	bad[0].page_size = 0;
	bad[1].page_size = 5000;
	bad[2].page_size = 65536;
	bad[3].chunk_size = 32 << 10;
	bad[4].chunk_size = 100000;
	bad[5].chunk_size = 128 << 20;
	bad[6].level = 23;
	bad[7].level = -200000;
	bad[8].dictionary_size = 100;
	bad[9].dictionary = sample->data;
	bad[9].dictionary_size = 7;
	bad[10].dictionary = sample->data;
	bad[10].dictionary_size = CONTAINER_DICTIONARY_MAX + 1;
	bad[11].size = UINT64_MAX;
	for (size_t i = 0; i < 12; i++) {
		assert_int_equal(container_write_open(&writer, fd, &bad[i]), EINVAL);
		assert_int_equal(container_compressor_open(&compressor, &bad[i]), EINVAL);
	}
	(void)close(fd);
}

static void wrong_amounts_are_refused_and_forgotten(void **state)
{
	const struct sample *sample = *state;
	struct container_frame frame = {.length = 100, .size = 64 << 10};
	struct container_writer *writer;
	int fd = memory_file();
	uint64_t tree, offset;
	char name[600] = "";
	size_t length;
	void *buffer;

	assert_int_equal(container_write_open(&writer, fd, &sample->options), 0);
	assert_int_equal(container_write_leaf(writer, 0, 1, 1), EINVAL);
	assert_int_equal(container_write_tree(writer, name, CONTAINER_NAME_MAX + 1, 0, &tree),
			 EINVAL);
	assert_int_equal(write_trees(writer), 0);
	assert_int_equal(container_write_leaf(writer, 1, 1, 1), EINVAL);
	assert_int_equal(container_write_leaf(writer, 2, 1, 0), EINVAL);
	assert_int_equal(container_write_leaf(writer, 2, sample->size / PAGE + 1, 1), EINVAL);
	assert_int_equal(container_write_leaf(writer, 2, 1, UINT64_MAX), EINVAL);
	frame.size--;
	assert_int_equal(container_write_frame(writer, sample->data, &frame), EINVAL);
	frame.size++;
	frame.length = 1 << 20;
	assert_int_equal(container_write_frame(writer, sample->data, &frame), EINVAL);
	frame.length = 0;
	assert_int_equal(container_write_frame(writer, sample->data, &frame), EINVAL);
	assert_int_equal(container_write_finish(writer), EINVAL);
	assert_int_equal(container_write_buffer(writer, &buffer, &length), 0);
	assert_int_equal(container_write_commit(writer, 0), EINVAL);
	assert_int_equal(container_write_commit(writer, length + 1), EINVAL);
	assert_int_equal(container_write_bytes(writer, sample->data, sample->size), 0);
	assert_int_equal(container_write_bytes(writer, sample->data, 1), EINVAL);
	assert_int_equal(container_write_commit(writer, 1), EINVAL);
	assert_int_equal(container_write_offset(writer, &offset), EBUSY);
	frame.length = 100;
	assert_int_equal(container_write_frame(writer, sample->data, &frame), EBUSY);
	assert_int_equal(container_write_finish(writer), 0);
	assert_int_equal(container_write_finish(writer), EINVAL);
	container_write_close(writer);
	assert_same(fd, sample);
}

/* The first write fails, or one in the middle (a limit on the file's size: here the seal of a
 * memfd), and from then on everything does. */
static void full_device_is_one_lasting_error(void **state)
{
	const struct sample *sample = *state;
	struct container_write_options options = sample->options;
	struct container_writer *writer;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	size_t length;
	void *buffer;

	assert_true(fd >= 0);
	for (unsigned threads = 0; threads < 3; threads++) {
		options.threads = threads;
		assert_int_equal(container_write_open(&writer, fd, &options), 0);
		assert_int_equal(container_write_bytes(writer, sample->data, sample->size), ENOSPC);
		assert_int_equal(container_write_buffer(writer, &buffer, &length), ENOSPC);
		assert_int_equal(container_write_finish(writer), ENOSPC);
		container_write_close(writer);
	}
	(void)close(fd);
}

static void file_that_may_not_grow_is_an_error_under_way(void **state)
{
	const struct sample *sample = *state;
	int fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_int_equal(write_sample(fd, sample, 2), EPERM);
	(void)close(fd);
}

static void writer_closed_under_way_leaves_nothing(void **state)
{
	const struct sample *sample = *state;
	struct container_write_options options = sample->options;
	struct container_writer *writer;

	for (unsigned i = 0; i < 20; i++) {
		int fd = memory_file();

		options.threads = i % 4;
		assert_int_equal(container_write_open(&writer, fd, &options), 0);
		assert_int_equal(container_write_bytes(writer, sample->data, i * 200000), 0);
		container_write_close(writer);
		resume_and_compare(fd, sample, 1);
	}
	container_write_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
		cmocka_unit_test(options_do_not_make_threads_matter),
		cmocka_unit_test(frames_that_others_compressed_give_the_same_bytes),
		cmocka_unit_test(buffers_that_are_filled_in_part_give_the_same_bytes),
		cmocka_unit_test(pipe_gets_the_same_bytes),
		cmocka_unit_test(file_cut_anywhere_is_finished_with_the_same_bytes),
		cmocka_unit_test(frame_without_a_checksum_is_written_again),
		cmocka_unit_test(file_with_a_hole_is_finished_from_there),
		cmocka_unit_test(dictionary_is_there_when_a_file_is_finished),
		cmocka_unit_test(file_of_something_else_is_left_alone),
		cmocka_unit_test(options_that_cannot_be_are_refused),
		cmocka_unit_test(wrong_amounts_are_refused_and_forgotten),
		cmocka_unit_test(full_device_is_one_lasting_error),
		cmocka_unit_test(file_that_may_not_grow_is_an_error_under_way),
		cmocka_unit_test(writer_closed_under_way_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, make_sample, free_sample);
}
