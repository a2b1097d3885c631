/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no bytes in the place of a chunk's frame make the decoder crash
 * or return other data than zstd's own streaming decoder, nor make a writer crash that resumes a
 * partial file. The input is the size that the chunk should have (2 bytes), whether there is a
 * dictionary (1), and frames.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fuzz_driver.h"

#include "container/container_private.h"
#include "container_write.h"
#include "container_image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

enum { FRONT = 3, CHUNK = 64 << 10, CHUNKS = 3, DICTIONARY = 500 };

const struct fuzz_weight fuzz_weight = {.stride = 32, .front = 32};

static uint8_t dictionary[DICTIONARY];

/* Decodes a frame by zstd's streaming decoder, up to one byte more than `size`. */
static size_t stream_decode(const uint8_t *frame, size_t length, uint8_t *out, size_t size)
{
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	ZSTD_inBuffer in = {frame, length, 0};
	ZSTD_outBuffer to = {out, size + 1, 0};
	size_t rc = 1;

	while (rc && !ZSTD_isError(rc) && to.pos < to.size && in.pos < in.size)
		rc = ZSTD_decompressStream(zstd, &to, &in);
	ZSTD_freeDCtx(zstd);
	if (rc || in.pos < in.size)
		abort();
	return to.pos;
}

static void decode(const uint8_t *frame, size_t length, size_t size, bool with_dictionary)
{
	ZSTD_DCtx *zstd = ZSTD_createDCtx();
	ZSTD_DDict *digested = with_dictionary ? ZSTD_createDDict(dictionary, DICTIONARY) : NULL;
	uint8_t *out = malloc(size ? size : 1), *again = malloc(size + 1);
	int rc;

	if (!zstd || !out || !again)
		abort();
	rc = frame_decode(zstd, digested, frame, length, out, size);
	if (rc && rc != EBADMSG)
		abort();
	if (!rc && !digested &&
	    (stream_decode(frame, length, again, size) != size || memcmp(out, again, size) != 0))
		abort();
	free(out);
	free(again);
	ZSTD_freeDDict(digested);
	ZSTD_freeDCtx(zstd);
}

/* Resumes a partial container: a sound header, and the frames behind it. */
static void resume(const uint8_t *frames, size_t length, bool with_dictionary)
{
	struct container_write_options options = {
		.size = CHUNKS * CHUNK, .page_size = 4096, .chunk_size = CHUNK};
	struct container_writer *writer;
	int fd = memfd_create("partial", MFD_CLOEXEC);
	uint64_t offset, done;

	if (with_dictionary) {
		options.dictionary = dictionary;
		options.dictionary_size = DICTIONARY;
	}
	if (fd < 0 || container_write_open(&writer, fd, &options) ||
	    container_write_begin(writer) || container_write_offset(writer, &offset))
		abort();
	container_write_close(writer);
	if (pwrite(fd, frames, length, (off_t)offset) != (ssize_t)length)
		abort();
	if (container_write_resume(&writer, fd, &options, &done) || done % CHUNK ||
	    done > CHUNKS * CHUNK)
		abort();
	container_write_close(writer);
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < FRONT)
		return 0;
	decode(data + FRONT, size - FRONT, (size_t)get16(data) + 1, data[2] & 1);
	resume(data + FRONT, size - FRONT, data[2] & 1);
	return 0;
}

/* Makes frames: every other one by libzstd, at many levels, the others by hand. */
uint8_t *fuzz_example(unsigned number, size_t *size)
{
	static const size_t sizes[] = {1, 100, 3000, 20000, CHUNK};
	unsigned which = number / 2;
	uint8_t *data, *bytes;
	size_t n, length;

	if (which >= sizeof(sizes) / sizeof(sizes[0]))
		return NULL;
	n = sizes[which];
	data = malloc(n);
	bytes = malloc(FRONT + 2 * image_frame_bound(n) + 1000);
	if (!data || !bytes)
		abort();
	image_data(data, n);
	if (number % 2)
		memset(data + n / 3, 'x', n / 2);
	put16(bytes, (uint16_t)(n - 1));
	bytes[2] = number % 3 == 0;
	length = image_frame(bytes + FRONT, data, n);
	if (number % 2)
		length = ZSTD_compress(bytes + FRONT, ZSTD_compressBound(n), data, n,
				       (int)(which * 4));
	free(data);
	*size = FRONT + length;
	return bytes;
}
