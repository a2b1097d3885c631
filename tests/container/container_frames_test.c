/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no frame that lies is believed although all checksums are right, and that none costs
 * more memory than the limits say. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_fixture.h"
#include "container_image.h"
#include "counted_memory.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { CHUNK = 64 << 10, PAGE = 4096, END = 256 };

/* A container of one chunk of zeroes, whose frame is this one, with all checksums right. */
static void assert_frame(const uint8_t *frame, size_t length, int expected)
{
	static uint8_t zeroes[CHUNK], buffer[CHUNK];
	const struct container_write_options options = {
		.size = CHUNK, .page_size = PAGE, .chunk_size = CHUNK};
	struct container_frame entry = {
		.length = (uint32_t)length,
		.check = image_check(frame, length),
		.size = CHUNK,
		.hash = image_hash(zeroes, CHUNK),
	};
	struct container_writer *writer;
	struct contained contained = {.fd = memory_file()};
	struct reader reader;
	size_t done;

	assert_int_equal(container_write_open(&writer, contained.fd, &options), 0);
	assert_int_equal(container_write_frame(writer, frame, &entry), 0);
	assert_int_equal(container_write_finish(writer), 0);
	container_write_close(writer);
	contained.bytes = memory_file_bytes(contained.fd, &contained.size);
	assert_int_equal(reader_open(&reader, contained.bytes, contained.size), 0);
	memset(buffer, 0, CHUNK); /* as the data, so that a failed read shows, too */
	memory_largest = 0;
	assert_int_equal(io_read(&reader.io, buffer, CHUNK, 0, &done), expected);
	assert_int_equal(done, expected ? 0 : CHUNK);
	assert_memory_equal(buffer, zeroes, CHUNK);
	assert_int_equal(io_read(&reader.io, buffer, 10, 77, &done), expected);
	assert_modest(contained.size, CHUNK);
	reader_close(&reader);
	contained_free(&contained);
}

/* All is right with it but the data. */
static void frame_of_other_data_is_refused(void **state)
{
	static uint8_t data[CHUNK], frame[2 * CHUNK];
	size_t length;

	(void)state;
	memset(data, 'x', CHUNK);
	length = image_frame(frame, data, CHUNK);
	assert_frame(frame, length, EBADMSG);
	frame[length - 1] ^= 1; /* zstd's checksum: the decoder sees it when all is decoded */
	assert_frame(frame, length, EBADMSG);
	data[0] = 0;
	memset(data, 0, CHUNK - 1);
	assert_frame(frame, image_frame(frame, data, CHUNK), EBADMSG);
}

/* As many empty blocks as one likes: a good frame to zstd, too long for a container. */
static void frame_over_the_bound_is_refused(void **state)
{
	static const uint8_t zeroes[CHUNK];
	enum { EMPTY = 30000, BLOCKS = 9 };
	struct image_plan plan = {
		.data = zeroes, .size = CHUNK, .page_size = PAGE, .chunk_size = CHUNK};
	size_t more = 3 * EMPTY, length;
	struct container_chunk chunk;
	struct reader reader;
	struct image image;
	uint8_t *bytes;

	(void)state;
	image_make(&image, &plan);
	length = image.data_end - END + more;
	bytes = calloc(1, image.size + more);
	assert_non_null(bytes);
	memcpy(bytes, image.bytes, END + BLOCKS);
	memcpy(bytes + END + BLOCKS + more, image.bytes + END + BLOCKS, image.size - END - BLOCKS);
	image_put(bytes + image.chunks + more + 32, 4, length);
	image_put(bytes + image.chunks + more + 36, 4, image_check(bytes + END, length));
	image_put(bytes + image.footer + more + 32, 8, image.size + more);
	image_put(bytes + image.footer + more + 40, 8, image.data_end + more);
	image_seal(bytes, image.size + more, image.data_end + more);
	assert_int_equal(ZSTD_findFrameCompressedSize(bytes + END, length), length);
	assert_int_equal(reader_open(&reader, bytes, image.size + more), 0);
	assert_int_equal(container_chunk(&reader.io, 0, &chunk), MDB_CORRUPTED);
	reader_close(&reader);
	image_free(&image);
	free(bytes);
}

static void frame_that_names_another_size_is_refused(void **state)
{
	static uint8_t zeroes[2 * CHUNK], frame[CHUNK];
	static const size_t sizes[] = {1, CHUNK - 1, CHUNK + 1, 2 * CHUNK};

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_frame(frame, image_frame(frame, zeroes, sizes[i]), EBADMSG);
	assert_frame(frame, image_frame(frame, zeroes, CHUNK), 0);
	/* The header says right, the blocks are more or fewer. */
	for (size_t i = 0; i < 4; i++) {
		size_t length = image_frame(frame, zeroes, sizes[i]);

		image_put(frame + 5, 4, CHUNK);
		assert_frame(frame, length, EBADMSG);
	}
}

static void frame_that_names_no_size_is_refused(void **state)
{
	static uint8_t zeroes[CHUNK], frame[CHUNK];
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	size_t length;

	(void)state;
	ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, 0);
	length = ZSTD_compress2(zstd, frame, CHUNK, zeroes, CHUNK);
	assert_false(ZSTD_isError(length));
	assert_frame(frame, length, EBADMSG);
	ZSTD_freeCCtx(zstd);
}

static void anything_but_one_frame_is_refused(void **state)
{
	static uint8_t zeroes[CHUNK], frame[CHUNK];
	size_t length = image_frame(frame, zeroes, CHUNK), half;

	(void)state;
	memset(frame + length, 0, 100);
	assert_frame(frame, length - 1, EBADMSG);
	assert_frame(frame, length + 1, EBADMSG);
	image_put(frame + length, 4, 0x184d2a50); /* an empty skippable frame behind it */
	assert_frame(frame, length + 8, EBADMSG);
	(void)image_frame(frame + length, zeroes, CHUNK); /* a second one */
	assert_frame(frame, 2 * length, EBADMSG);
	half = image_frame(frame, zeroes, CHUNK / 2);
	half += image_frame(frame + half, zeroes, CHUNK / 2);
	assert_frame(frame, half, EBADMSG);
	image_put(frame, 4, 0x184d2a50);
	image_put(frame + 4, 4, 100);
	assert_frame(frame, 108, EBADMSG);
	image_put(frame, 4, 0xfd2fb527); /* an old version's */
	assert_frame(frame, 108, EBADMSG);
	assert_frame(zeroes, 1, EBADMSG);
	assert_frame(zeroes, 5, EBADMSG);
}

/* A frame of RLE blocks with a window descriptor, which says how far back it will look. */
static size_t frame_with_window(uint8_t *frame, uint8_t window, unsigned blocks)
{
	size_t at = 10;

	image_put(frame, 4, 0xfd2fb528);
	frame[4] = 2 << 6;
	frame[5] = window;
	image_put(frame + 6, 4, CHUNK);
	for (unsigned i = 0; i < blocks; i++, at += 4) {
		image_put(frame + at, 3, (i == blocks - 1) | 1 << 1 | (uint64_t)CHUNK << 3);
		frame[at + 3] = 0;
	}
	return at;
}

static void window_over_the_limit_is_refused(void **state)
{
	uint8_t frame[100];

	(void)state;
	assert_frame(frame, frame_with_window(frame, 16 << 3, 1), 0);           /* 64 MiB */
	assert_frame(frame, frame_with_window(frame, 16 << 3 | 1, 1), EBADMSG); /* and an eighth */
	assert_frame(frame, frame_with_window(frame, 17 << 3, 1), EBADMSG);
	assert_frame(frame, frame_with_window(frame, 31 << 3 | 7, 1), EBADMSG);
}

static void bomb_is_refused(void **state)
{
	uint8_t *frame = malloc(CHUNK);
	size_t length = frame_with_window(frame, 16 << 3, 10000); /* 640 MiB in 40 KB */

	(void)state;
	assert_frame(frame, length, EBADMSG);
	image_put(frame + 6, 4, 10000 * (uint64_t)CHUNK);
	assert_frame(frame, length, EBADMSG);
	free(frame);
}

static void frame_that_wants_a_dictionary_is_refused(void **state)
{
	static uint8_t zeroes[CHUNK], frame[CHUNK];
	size_t length = image_frame(frame, zeroes, CHUNK);

	(void)state;
	memmove(frame + 6, frame + 5, length - 5);
	frame[4] |= 1; /* a dictionary of number 9 */
	frame[5] = 9;
	assert_frame(frame, length + 1, EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_of_other_data_is_refused),
		cmocka_unit_test(frame_over_the_bound_is_refused),
		cmocka_unit_test(frame_that_names_another_size_is_refused),
		cmocka_unit_test(frame_that_names_no_size_is_refused),
		cmocka_unit_test(anything_but_one_frame_is_refused),
		cmocka_unit_test(window_over_the_limit_is_refused),
		cmocka_unit_test(bomb_is_refused),
		cmocka_unit_test(frame_that_wants_a_dictionary_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
