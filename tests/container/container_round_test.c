/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that what goes into a container comes out of it, whatever the data,
 * the options and the way of reading, and with how few bytes of storage. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_fixture.h"

#include "random_stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

/* Every kind of data and option. */

static void round_trip(const uint8_t *data, size_t size, struct container_write_options options,
		       const char *zstd_options)
{
	struct contained contained;
	struct reader reader;
	uint64_t bad;

	assert_int_equal(contain(&contained, data, size, options), 0);
	assert_int_equal(reader_open(&reader, contained.bytes, contained.size), 0);
	assert_reads(&reader.io, data, size, 3 * MIB + 12345);
	assert_int_equal(container_check_index(&reader.io, &bad), 0);
	if (zstd_options)
		(void)zstd_gives(contained.fd, zstd_options, data, size);
	reader_close(&reader);
	contained_free(&contained);
}

static void data_of_any_kind_and_size_comes_back(void **state)
{
	static const uint32_t chunks[] = {64 << 10, 1 << 20, 4 << 20};

	(void)state;
	for (size_t c = 0; c < 3; c++) {
		size_t chunk = chunks[c];
		const size_t sizes[] = {0,     1,         4096,      chunk - 1,
					chunk, chunk + 1, 2 * chunk, 2 * chunk + 4097};

		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			for (int kind = 0; kind < DATA_KINDS; kind++) {
				uint8_t *data = data_make((enum data_kind)kind, sizes[s], s);
				struct container_write_options options = {
					.chunk_size = (uint32_t)chunk, .level = 1, .threads = 1};

				round_trip(data, sizes[s], options, kind == DATA_MIXED ? "" : NULL);
				free(data);
			}
		}
	}
}

static void every_level_gives_the_data_back(void **state)
{
	size_t size = 200 * KIB + 77;
	uint8_t *data = data_make(DATA_MIXED, size, 5);

	(void)state;
	for (int level = -7; level <= ZSTD_maxCLevel(); level++) {
		struct container_write_options options = {.chunk_size = 64 << 10, .level = level};

		round_trip(data, size, options, level % 5 ? NULL : "");
	}
	round_trip(data, size, (struct container_write_options){.level = ZSTD_minCLevel()}, "");
	free(data);
}

static void long_distance_matching_finds_what_is_far(void **state)
{
	size_t size = 8 * MIB;
	uint8_t *data = data_make(DATA_RANDOM, size, 6);
	struct container_write_options options = {.chunk_size = 8 << 20, .level = 1};
	struct contained plain, matched;

	(void)state;
	memcpy(data + 6 * MIB, data, 2 * MIB);
	assert_int_equal(contain(&plain, data, size, options), 0);
	options.long_distance = true;
	assert_int_equal(contain(&matched, data, size, options), 0);
	assert_true(matched.size + MIB < plain.size);
	contained_free(&plain);
	contained_free(&matched);
	round_trip(data, size, options, "");
	free(data);
}

/* Dictionaries. */

static void dictionary_is_kept_and_used(void **state)
{
	size_t size = 3 * MIB + 5, n = 100 * KIB, sizes[400];
	uint8_t *data = data_make(DATA_TEXT, size, 7), *dictionary = malloc(n);
	char option[64];
	struct container_write_options options = {.chunk_size = 64 << 10, .threads = 2};
	int fd = memory_file();

	(void)state;
	for (size_t i = 0; i < 400; i++)
		sizes[i] = 4096;
	assert_int_equal(container_train(data, sizes, 400, dictionary, &n), 0);
	assert_in_range(n, 256, 100 * KIB);
	options.dictionary = dictionary;
	options.dictionary_size = n;
	assert_int_equal(write(fd, dictionary, n), n);
	(void)snprintf(option, sizeof(option), "-D /proc/%d/fd/%d", (int)getpid(), fd);
	round_trip(data, size, options, option);
	/* Any bytes are a dictionary. */
	options.dictionary = data;
	options.dictionary_size = CONTAINER_DICTIONARY_MAX;
	round_trip(data, size, options, NULL);
	options.dictionary_size = 8;
	round_trip(data, size, options, NULL);
	(void)close(fd);
	free(dictionary);
	free(data);
}

static void samples_that_teach_nothing_are_refused(void **state)
{
	uint8_t samples[64] = {0}, dictionary[1024];
	size_t sizes[2] = {32, 32}, n = sizeof(dictionary);

	(void)state;
	assert_int_equal(container_train(samples, sizes, 2, dictionary, &n), ENODATA);
}

/* What it costs. */

static void data_that_does_not_compress_costs_next_to_nothing(void **state)
{
	size_t size = 16 * MIB;
	uint8_t *data = data_make(DATA_RANDOM, size, 8);
	struct contained contained;

	(void)state;
	assert_int_equal(contain(&contained, data, size, (struct container_write_options){0}), 0);
	/* A frame's header, three bytes for each 128 KiB, a checksum; the index. */
	assert_in_range(contained.size, size, size + 16 * (14 + 8 * 3 + 4) + 4096 + 512);
	contained_free(&contained);
	free(data);
}

static void header_tells_what_was_asked_for(void **state)
{
	struct container_write_options options = {
		.page_size = 8192,
		.chunk_size = 128 << 10,
		.level = 7,
		.long_distance = true,
		.relaid = true,
		.source = {.txnid = 12345, .size = 999, .hash = {1, 2, 3, 250}},
	};
	uint8_t *data = data_make(DATA_TEXT, 1000000, 9);
	const struct container_info *info;
	struct contained contained;
	struct reader reader;

	(void)state;
	assert_int_equal(contain(&contained, data, 1000000, options), 0);
	assert_int_equal(reader_open(&reader, contained.bytes, contained.size), 0);
	info = container_info(&reader.io);
	assert_int_equal(info->major, 1);
	assert_int_equal(info->page_size, 8192);
	assert_int_equal(info->chunk_size, 128 << 10);
	assert_int_equal(info->size, 1000000);
	assert_int_equal(info->chunks, 8);
	assert_int_equal(info->level, 7);
	assert_true(info->long_distance && info->relaid);
	assert_int_equal(info->source.txnid, 12345);
	assert_int_equal(info->source.size, 999);
	assert_memory_equal(info->source.hash, options.source.hash, 16);
	assert_int_equal(info->file_size, contained.size);
	assert_int_equal(info->trees, 0);
	reader_close(&reader);
	contained_free(&contained);
	free(data);
}

/* Ways of reading. */

/* 24 chunks of a MiB that become a third: what most of the tests below read. */
struct sample {
	uint8_t *data, *buffer;
	size_t size;
	struct contained contained;
};

static int make_sample(void **state)
{
	static struct sample sample;

	sample.size = 24 * MIB + 1000;
	sample.data = data_make(DATA_TEXT, sample.size, 10);
	sample.buffer = malloc(sample.size);
	*state = &sample;
	return contain(&sample.contained, sample.data, sample.size,
		       (struct container_write_options){.level = 1, .threads = 2});
}

static int free_sample(void **state)
{
	struct sample *sample = *state;

	contained_free(&sample->contained);
	free(sample->data);
	free(sample->buffer);
	return 0;
}

static void open_sample(struct reader *reader, const struct sample *sample)
{
	assert_int_equal(reader_open(reader, sample->contained.bytes, sample->contained.size), 0);
}

static void read_sample(struct reader *reader, const struct sample *sample, size_t length,
			uint64_t offset)
{
	size_t done;

	assert_int_equal(io_read(&reader->io, sample->buffer, length, offset, &done), 0);
	assert_int_equal(done, length);
	assert_memory_equal(sample->buffer, sample->data + offset, length);
}

static void any_range_is_as_it_was_written(void **state)
{
	const struct sample *sample = *state;
	struct random_stream stream = random_start(1, 1);
	struct reader reader;

	open_sample(&reader, sample);
	for (int i = 0; i < 1000; i++) {
		size_t most = i % 10 ? 20000 : 5 * MIB;
		uint64_t offset = random_below(&stream, sample->size);
		size_t length = random_between(&stream, 1, most);

		if (length > sample->size - offset)
			length = sample->size - offset;
		read_sample(&reader, sample, length, offset);
	}
	reader_close(&reader);
}

/* The header, and the footer with what stands in front of it. */
enum { OPENING = 256 + (64 << 10) };

static void opening_reads_header_and_tail_alone(void **state)
{
	struct reader reader;

	open_sample(&reader, *state);
	assert_int_equal(io_counted(&reader.below).reads, 2);
	assert_int_equal(io_counted(&reader.below).bytes, OPENING);
	reader_close(&reader);
}

static uint64_t frames_size(const struct reader *reader)
{
	const struct container_info *info = container_info(&reader->io);

	return info->data_end - info->data_offset;
}

static void neighbouring_chunks_are_one_request(void **state)
{
	const struct sample *sample = *state;
	struct reader reader;
	struct io_counts counts;

	open_sample(&reader, sample);
	/* Three whole chunks and a part at each end, of about 350 KiB each. */
	read_sample(&reader, sample, 3 * MIB + 2000, MIB - 1000);
	counts = io_counted(&reader.below);
	assert_int_equal(counts.reads, 2 + 1);
	reader_close(&reader);

	open_sample(&reader, sample);
	read_sample(&reader, sample, sample->size, 0);
	counts = io_counted(&reader.below);
	/* Every byte once, in requests of up to 4 MiB. */
	assert_int_equal(counts.bytes, OPENING + frames_size(&reader));
	assert_in_range(counts.reads, 3, 2 + sample->contained.size / (3 * MIB) + 1);
	reader_close(&reader);
}

static void one_record_costs_its_chunk(void **state)
{
	const struct sample *sample = *state;
	struct container_chunk chunk;
	struct reader reader;

	open_sample(&reader, sample);
	read_sample(&reader, sample, 100, 7 * MIB + 5000);
	assert_int_equal(container_chunk(&reader.io, 7, &chunk), 0);
	assert_int_equal(io_counted(&reader.below).bytes, OPENING + chunk.length);
	/* Others of that chunk cost nothing more, nor does the whole of it. */
	for (size_t at = 0; at < MIB; at += 9999)
		read_sample(&reader, sample, 1, 7 * MIB + at);
	read_sample(&reader, sample, MIB, 7 * MIB);
	assert_int_equal(io_counted(&reader.below).bytes, OPENING + chunk.length);
	reader_close(&reader);
}

static void small_reads_in_order_read_each_chunk_once(void **state)
{
	const struct sample *sample = *state;
	struct reader reader;

	open_sample(&reader, sample);
	assert_reads(&reader.io, sample->data, sample->size, 50000);
	assert_int_equal(io_counted(&reader.below).bytes, OPENING + frames_size(&reader));
	reader_close(&reader);
}

static void smallest_cache_is_two_chunks(void **state)
{
	const struct container_options options = {.cache = 1};
	const struct sample *sample = *state;
	struct container_chunk chunks[3];
	struct reader reader;
	uint64_t bytes;

	assert_int_equal(
		io_open_memory(&reader.below, sample->contained.bytes, sample->contained.size), 0);
	assert_int_equal(io_open_container(&reader.io, &reader.below, &options), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(container_chunk(&reader.io, i, &chunks[i]), 0);
	bytes = io_counted(&reader.below).bytes;
	for (int i = 0; i < 4; i++)
		read_sample(&reader, sample, 10, (uint64_t)(i % 2) * MIB + 5);
	bytes += chunks[0].length + chunks[1].length;
	assert_int_equal(io_counted(&reader.below).bytes, bytes);
	read_sample(&reader, sample, 10, 2 * MIB);
	read_sample(&reader, sample, 10, MIB); /* the one that was used last has stayed */
	bytes += chunks[2].length;
	assert_int_equal(io_counted(&reader.below).bytes, bytes);
	reader_close(&reader);
}

/* Several threads. */

struct sharer {
	pthread_t thread;
	struct reader *reader;
	const struct sample *sample;
	uint64_t seed;
	size_t wrong;
};

static void *read_pieces(void *arg)
{
	struct sharer *sharer = arg;
	const struct sample *sample = sharer->sample;
	struct random_stream stream = random_start(sharer->seed, 3);
	uint8_t buffer[5000];

	for (int i = 0; i < 1000; i++) {
		uint64_t offset = random_below(&stream, 4 * MIB);
		size_t length = random_between(&stream, 1, sizeof(buffer)), done;

		if (io_read(&sharer->reader->io, buffer, length, offset, &done) || done != length ||
		    memcmp(buffer, sample->data + offset, length) != 0)
			sharer->wrong++;
	}
	return NULL;
}

static void threads_share_what_one_of_them_has_read(void **state)
{
	struct sharer sharers[8];
	struct container_chunk chunk;
	struct reader reader;
	uint64_t bytes = OPENING;

	open_sample(&reader, *state);
	for (uint64_t i = 0; i < 8; i++) {
		sharers[i] = (struct sharer){.reader = &reader, .sample = *state, .seed = i};
		assert_int_equal(pthread_create(&sharers[i].thread, NULL, read_pieces, &sharers[i]),
				 0);
	}
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(sharers[i].thread, NULL), 0);
		assert_int_equal(sharers[i].wrong, 0);
	}
	/* Five chunks at most, the fifth by reads across its border: each once. */
	for (uint64_t i = 0; i < 5; i++) {
		assert_int_equal(container_chunk(&reader.io, i, &chunk), 0);
		bytes += chunk.length;
	}
	assert_in_range(io_counted(&reader.below).bytes, bytes - chunk.length, bytes);
	reader_close(&reader);
}

static void requests_of_any_size_deliver_everything(void **state)
{
	const struct sample *sample = *state;
	static const size_t lengths[] = {100000, MIB, 3 * MIB + 7};

	for (size_t l = 0; l < 3; l++) {
		size_t n = (sample->size + lengths[l] - 1) / lengths[l];
		struct io_request *all = calloc(n, sizeof(*all)), **list = calloc(n, sizeof(*list));
		struct reader reader;

		assert_true(all && list);
		open_sample(&reader, sample);
		memset(sample->buffer, 0, sample->size);
		for (size_t i = 0; i < n; i++) {
			size_t left = sample->size - i * lengths[l];

			all[i].offset = i * lengths[l];
			all[i].length = left < lengths[l] ? left : lengths[l];
			all[i].buffer = sample->buffer + all[i].offset;
			list[i] = &all[i];
		}
		assert_int_equal(io_submit(&reader.io, list, n), 0);
		assert_int_equal(io_wait(&reader.io, list, n, n), n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(all[i].error, 0);
		assert_memory_equal(sample->buffer, sample->data, sample->size);
		reader_close(&reader);
		free(list);
		free(all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_of_any_kind_and_size_comes_back),
		cmocka_unit_test(every_level_gives_the_data_back),
		cmocka_unit_test(long_distance_matching_finds_what_is_far),
		cmocka_unit_test(dictionary_is_kept_and_used),
		cmocka_unit_test(samples_that_teach_nothing_are_refused),
		cmocka_unit_test(data_that_does_not_compress_costs_next_to_nothing),
		cmocka_unit_test(header_tells_what_was_asked_for),
		cmocka_unit_test(any_range_is_as_it_was_written),
		cmocka_unit_test(opening_reads_header_and_tail_alone),
		cmocka_unit_test(neighbouring_chunks_are_one_request),
		cmocka_unit_test(one_record_costs_its_chunk),
		cmocka_unit_test(small_reads_in_order_read_each_chunk_once),
		cmocka_unit_test(smallest_cache_is_two_chunks),
		cmocka_unit_test(threads_share_what_one_of_them_has_read),
		cmocka_unit_test(requests_of_any_size_deliver_everything),
	};

	return cmocka_run_group_tests(tests, make_sample, free_sample);
}
