/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the shared pieces of the container tests are made. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_fixture.h"

#include "random_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fill_random(uint8_t *bytes, size_t size, struct random_stream *stream)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(random_next(stream) >> 32);
}

/* Words of a small language, which zstd makes about a third of. */
static void fill_text(uint8_t *bytes, size_t size, struct random_stream *stream)
{
	size_t at = 0;

	while (at < size) {
		uint64_t word = random_mix(random_below(stream, 2000));
		size_t letters = 2 + word % 8;

		for (size_t i = 0; i < letters && at < size; i++)
			bytes[at++] = (uint8_t)('a' + (word >> (5 * i + 8)) % 26);
		if (at < size)
			bytes[at++] = ' ';
	}
}

uint8_t *data_make(enum data_kind kind, size_t size, uint64_t seed)
{
	struct random_stream stream = random_start(seed, (uint64_t)kind);
	uint8_t *bytes = calloc(1, size + 1);

	if (!bytes)
		abort();
	if (kind == DATA_RANDOM)
		fill_random(bytes, size, &stream);
	if (kind == DATA_TEXT)
		fill_text(bytes, size, &stream);
	for (size_t at = 0, n; kind == DATA_MIXED && at < size; at += n) {
		n = random_between(&stream, 1, 40000);
		if (n > size - at)
			n = size - at;
		if (random_percent(&stream, 40))
			fill_random(bytes + at, n, &stream);
		else if (random_percent(&stream, 70))
			fill_text(bytes + at, n, &stream);
	}
	return bytes;
}

int memory_file(void)
{
	int fd = memfd_create("container", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

uint8_t *memory_file_bytes(int fd, size_t *size)
{
	struct stat st;
	uint8_t *bytes;

	assert_int_equal(fstat(fd, &st), 0);
	*size = (size_t)st.st_size;
	bytes = malloc(*size + 1);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, *size, 0), *size);
	return bytes;
}

int contain(struct contained *contained, const uint8_t *data, size_t size,
	    struct container_write_options options)
{
	struct container_writer *writer;
	int rc;

	options.size = size;
	if (!options.page_size)
		options.page_size = 4096;
	contained->fd = memory_file();
	contained->bytes = NULL;
	rc = container_write_open(&writer, contained->fd, &options);
	if (rc)
		return rc;
	rc = container_write_bytes(writer, data, size);
	if (!rc)
		rc = container_write_finish(writer);
	container_write_close(writer);
	if (!rc)
		contained->bytes = memory_file_bytes(contained->fd, &contained->size);
	return rc;
}

void contained_free(struct contained *contained)
{
	free(contained->bytes);
	(void)close(contained->fd);
}

int reader_open(struct reader *reader, const void *bytes, size_t size)
{
	assert_int_equal(io_open_memory(&reader->below, bytes, size), 0);
	return io_open_container(&reader->io, &reader->below, NULL);
}

int reader_open_file(struct reader *reader, int fd)
{
	assert_int_equal(io_open_file(&reader->below, "pread", fd), 0);
	return io_open_container(&reader->io, &reader->below, NULL);
}

void reader_close(struct reader *reader)
{
	io_close(&reader->io);
	io_close(&reader->below);
}

void assert_reads(struct io *io, const uint8_t *data, size_t size, size_t step)
{
	uint8_t *buffer = malloc(step);
	uint64_t all;
	size_t done;

	assert_non_null(buffer);
	assert_int_equal(io_size(io, &all), 0);
	assert_int_equal(all, size);
	for (size_t at = 0; at <= size; at += step) {
		size_t there = size - at < step ? size - at : step;

		memset(buffer, 0xee, step);
		assert_int_equal(io_read(io, buffer, step, at, &done), 0);
		assert_int_equal(done, there);
		assert_memory_equal(buffer, data + at, there);
	}
	free(buffer);
}

bool zstd_gives(int fd, const char *options, const uint8_t *data, size_t size)
{
	char command[300];
	uint8_t *found = malloc(size + 1);
	FILE *pipe;

	if (system("command -v zstd >/dev/null") != 0) {
		print_message("no zstd to compare with\n");
		free(found);
		return false;
	}
	assert_non_null(found);
	(void)snprintf(command, sizeof(command), "zstd -dcq %s < /proc/%d/fd/%d", options,
		       (int)getpid(), fd);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fread(found, 1, size + 1, pipe), size);
	assert_int_equal(pclose(pipe), 0);
	assert_memory_equal(found, data, size);
	free(found);
	return true;
}
