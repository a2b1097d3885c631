/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which part file of a node is accepted: one that has all its expected properties, and no
 * other. */
#include "mpi/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* The second, the fifth and the last of nine chunks and a bit. */
enum {
	CHUNK = 1 << 20,
	SIZE = 9 * CHUNK + 4000,
	COUNT = 3,
	HEAD = 9 * CHUNK + 4096,
	ROWS = HEAD + 104
};
static const uint64_t chunks[COUNT] = {1, 4, 9};

static const struct part_identity identity = {
	.original = {.inode = 11, .size = SIZE, .mtime_ns = 77, .ctime_ns = 78, .snapshot = 5},
	.size = SIZE,
	.node = 2,
	.nodes = 3,
};

struct made {
	char directory[64], below[160], file[240];
	uint8_t *bytes;
	int fd;
};

static uint64_t length_of(uint64_t chunk)
{
	return chunk == 9 ? 4000 : CHUNK;
}

static int make(void **state)
{
	struct made *made = calloc(1, sizeof(*made));
	char name[STAGED_NAME], part[PART_NAME];

	assert_non_null(made);
	strcpy(made->directory, "/tmp/part_file_test.XXXXXX");
	assert_non_null(mkdtemp(made->directory));
	staged_name(&identity.original, name);
	part_file_name(&identity, part);
	snprintf(made->below, sizeof(made->below), "%s/%s", made->directory, name);
	snprintf(made->file, sizeof(made->file), "%s/%s", made->below, part);
	assert_int_equal(mkdir(made->below, 0700), 0);
	made->fd = open(made->file, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(made->fd >= 0);
	made->bytes = malloc(CHUNK);
	assert_non_null(made->bytes);
	for (uint64_t i = 0; i < COUNT; i++) {
		memset(made->bytes, (int)chunks[i], CHUNK);
		assert_int_equal(part_file_put(made->fd, SIZE, i, chunks[i], made->bytes), 0);
	}
	assert_int_equal(part_file_seal(made->fd, &identity, COUNT), 0);
	*state = made;
	return 0;
}

static int unmake(void **state)
{
	struct made *made = *state;

	close(made->fd);
	unlink(made->file);
	rmdir(made->below);
	rmdir(made->directory);
	free(made->bytes);
	free(made);
	return 0;
}

static int try_open(const struct made *made, const struct part_identity *wanted)
{
	struct part_file part;
	int rc = part_file_open(&part, made->directory, wanted);

	part_file_close(&part);
	return rc;
}

static void part_that_was_sealed_has_its_chunks(void **state)
{
	struct made *made = *state;
	struct part_file part;

	assert_int_equal(part_file_open(&part, made->directory, &identity), 0);
	assert_int_equal(part.count, COUNT);
	for (uint64_t chunk = 0; chunk < 12; chunk++)
		assert_int_equal(part_file_has(&part, chunk),
				 chunk == 1 || chunk == 4 || chunk == 9);
	for (uint64_t i = 0; i < COUNT; i++) {
		assert_int_equal(pread(part.fd, made->bytes, length_of(chunks[i]),
				       (off_t)(chunks[i] * CHUNK)),
				 length_of(chunks[i]));
		assert_true(part_file_is(&part, chunks[i], made->bytes));
		made->bytes[length_of(chunks[i]) - 1] ^= 1;
		assert_false(part_file_is(&part, chunks[i], made->bytes));
	}
	assert_false(part_file_is(&part, 2, made->bytes));
	part_file_close(&part);
	assert_false(part_file_has(&part, 1));
}

static void part_of_nothing_is_a_part(void **state)
{
	struct made *made = *state;
	struct part_file part;

	assert_int_equal(ftruncate(made->fd, HEAD), 0);
	assert_int_equal(part_file_seal(made->fd, &identity, 0), 0);
	assert_int_equal(part_file_open(&part, made->directory, &identity), 0);
	assert_false(part_file_has(&part, 1));
	part_file_close(&part);
}

/* Flips a bit in each byte of the head and the rows. */
static void part_with_a_flipped_bit_is_not_believed(void **state)
{
	struct made *made = *state;

	for (off_t at = HEAD; at < ROWS + COUNT * 16; at++) {
		uint8_t byte, other;

		assert_int_equal(pread(made->fd, &byte, 1, at), 1);
		other = byte ^ (uint8_t)(1 << at % 8);
		assert_int_equal(pwrite(made->fd, &other, 1, at), 1);
		assert_int_equal(try_open(made, &identity), EBADMSG);
		assert_int_equal(pwrite(made->fd, &byte, 1, at), 1);
	}
	assert_int_equal(try_open(made, &identity), 0);
}

static void part_of_another_length_is_not_believed(void **state)
{
	struct made *made = *state;
	off_t length = ROWS + COUNT * 16;
	const off_t wrong[] = {length + 1, length - 1, ROWS, ROWS - 1, HEAD, CHUNK, 0};

	assert_int_equal(part_file_length(SIZE, COUNT), length);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(ftruncate(made->fd, wrong[i]), 0);
		assert_int_equal(try_open(made, &identity), EBADMSG);
	}
}

/* The part is sealed correctly, but is not the expected one. */
static void part_of_something_else_is_not_believed(void **state)
{
	struct made *made = *state;
	struct part_identity others[] = {identity, identity, identity, identity, identity,
					 identity, identity, identity, identity};

	others[0].node = 1;
	others[1].nodes = 4;
	others[2].original.inode++;
	others[3].original.size++;
	others[4].original.mtime_ns--;
	others[5].original.snapshot++;
	others[6].original.ctime_ns++;
	others[7].original.system++;
	others[8].original.metas++;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		assert_int_equal(part_file_seal(made->fd, &others[i], COUNT), 0);
		assert_int_equal(try_open(made, &identity), EBADMSG);
	}
	assert_int_equal(try_open(made, &others[0]), ENOENT);
	assert_int_equal(try_open(made, &others[6]), ENOENT);
}

static void rows_that_are_no_chunks_of_the_data_are_not_sealed(void **state)
{
	struct made *made = *state;
	const uint64_t wrong[][COUNT] = {{1, 1, 9}, {4, 1, 9}, {1, 4, 10}, {1, 4, UINT64_MAX}};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		for (off_t row = 0; row < COUNT; row++)
			assert_int_equal(pwrite(made->fd, &wrong[i][row], 8, ROWS + row * 16), 8);
		assert_int_equal(part_file_seal(made->fd, &identity, COUNT), EIO);
	}
	assert_int_equal(part_file_seal(made->fd, &identity, 11), EIO);
}

static void part_that_others_may_write_to_is_not_believed(void **state)
{
	struct made *made = *state;

	assert_int_equal(fchmod(made->fd, 0666), 0);
	assert_int_equal(try_open(made, &identity), EPERM);
	assert_int_equal(fchmod(made->fd, 0600), 0);
	assert_int_equal(chmod(made->below, 0770), 0);
	assert_int_equal(try_open(made, &identity), EPERM);
	assert_int_equal(chmod(made->below, 0700), 0);
	assert_int_equal(try_open(made, &identity), 0);
}

/* A user with write access to the directory could make a server wait for ever. */
static void part_that_is_a_fifo_is_not_waited_for(void **state)
{
	struct made *made = *state;

	assert_int_equal(unlink(made->file), 0);
	assert_int_equal(mkfifo(made->file, 0600), 0);
	assert_int_equal(try_open(made, &identity), EPERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(part_that_was_sealed_has_its_chunks, make, unmake),
		cmocka_unit_test_setup_teardown(part_of_nothing_is_a_part, make, unmake),
		cmocka_unit_test_setup_teardown(part_with_a_flipped_bit_is_not_believed, make,
						unmake),
		cmocka_unit_test_setup_teardown(part_of_another_length_is_not_believed, make,
						unmake),
		cmocka_unit_test_setup_teardown(part_of_something_else_is_not_believed, make,
						unmake),
		cmocka_unit_test_setup_teardown(rows_that_are_no_chunks_of_the_data_are_not_sealed,
						make, unmake),
		cmocka_unit_test_setup_teardown(part_that_others_may_write_to_is_not_believed, make,
						unmake),
		cmocka_unit_test_setup_teardown(part_that_is_a_fifo_is_not_waited_for, make,
						unmake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
