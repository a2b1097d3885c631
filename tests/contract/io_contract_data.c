/* SPDX-License-Identifier: OLDAP-2.8 */
/* The files that the io contract is tested on, and their pattern. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io_contract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct data_file big_file, small_file, empty_file;
char *arena;

static struct io_request requests[ARENA_SLOTS];

/* Every eight bytes tell their own place in the file. */
static uint64_t word_at(uint64_t index)
{
	uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u; /* odd: no word comes twice */

	return z ^ (z >> 31);
}

/* The largest file's bytes, and more, once: to compare with them is far cheaper than to reckon again what
 * each word should be, when millions are read. Shared, so that a fork has nothing to copy. */
enum { PATTERN = 48 * MIB };
static const char *pattern;

static int make_pattern(void)
{
	uint64_t *words = mmap(NULL, PATTERN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (words == MAP_FAILED)
		return errno;
	for (i = 0; i < PATTERN / sizeof(*words); i++)
		words[i] = word_at(i);
	pattern = (const char *)words;
	return 0;
}

bool has_pattern(const void *buffer, size_t length, uint64_t offset)
{
	if (length == 0) /* past the end */
		return true;
	return length <= PATTERN && offset <= PATTERN - length &&
	       memcmp(buffer, pattern + offset, length) == 0;
}

void append_pattern(struct data_file *file, uint64_t more)
{
	assert_true(file->size + more <= PATTERN);
	if (more)
		assert_int_equal(pwrite(file->fd, pattern + file->size, more, (off_t)file->size),
				 more);
	file->size += more;
}

int make_file(struct data_file *file, uint64_t size)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];

	if (!pattern && make_pattern())
		return ENOMEM;
	memset(file, 0, sizeof(*file));
	(void)snprintf(path, sizeof(path), "%s/io_contract.XXXXXX", folder ? folder : "/tmp");
	file->fd = mkstemp(path);
	if (file->fd < 0)
		return errno;
	(void)unlink(path);
	append_pattern(file, size);
	file->mapped = size;
	if (size == 0)
		return 0;
	file->bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, file->fd, 0);
	return file->bytes == MAP_FAILED ? errno : 0;
}

void free_file(struct data_file *file)
{
	if (file->bytes)
		(void)munmap((void *)(uintptr_t)file->bytes, file->mapped);
	if (file->container > 0)
		(void)close(file->container);
	(void)close(file->fd);
}

void open_subject(struct subject *subject, const struct row *row, const struct data_file *file)
{
	int rc = row->open(subject, row->name, file);

	if (rc == EINVAL && strncmp(row->name, "direct", 6) == 0) {
		print_message("O_DIRECT cannot be had in TMPDIR\n");
		skip();
	}
	assert_int_equal(rc, 0);
}

void close_subject(struct subject *subject)
{
	io_close(&subject->io);
	io_close(&subject->below);
}

size_t bytes_there(uint64_t size, uint64_t offset, size_t length)
{
	if (offset >= size)
		return 0;
	return length < size - offset ? length : (size_t)(size - offset);
}

int submit_some(struct io *io, size_t n, size_t chunk, uint64_t offset, size_t slot)
{
	struct io_request *batch[ARENA_SLOTS];
	size_t i;

	for (i = 0; i < n; i++) {
		requests[slot + i] = (struct io_request){
			.offset = offset + i * chunk,
			.length = chunk,
			.buffer = arena + (slot + i) * MIB,
			.tag = &requests[slot + i],
		};
		memset(requests[slot + i].buffer, 0xee, chunk);
		batch[i] = &requests[slot + i];
	}
	return io_submit(io, batch, n);
}

int finish_in_flight(struct io *io, uint64_t size, size_t chunk, uint64_t next, size_t in_flight)
{
	uint64_t left = size - bytes_there(size, next, SIZE_MAX); /* to see, of what is in flight */
	struct io_request *out[7];
	size_t i, n;

	while (in_flight > 0) {
		n = io_wait(io, out, in_flight > 2 ? 2 : 1, sizeof(out) / sizeof(out[0]));
		if (n == 0 || n > in_flight)
			return 1;
		in_flight -= n;
		for (i = 0; i < n; i++) {
			struct io_request *r = out[i];

			if (r->error || r->tag != r)
				return 2;
			if (r->done != bytes_there(size, r->offset, chunk))
				return 3;
			if (!has_pattern(r->buffer, r->done, r->offset))
				return 4;
			left -= r->done;
			r->tag = NULL; /* a second time would be seen */
			if (next >= size)
				continue;
			if (submit_some(io, 1, chunk, next, (size_t)(r - requests)))
				return 5;
			left += bytes_there(size, next, chunk);
			next += chunk;
			in_flight++;
		}
	}
	return left ? 6 : 0;
}

int read_in_flight(struct io *io, uint64_t size, size_t chunk, size_t depth)
{
	if (submit_some(io, depth, chunk, 0, 0))
		return 7;
	return finish_in_flight(io, size, chunk, depth * chunk, depth);
}
