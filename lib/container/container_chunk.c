/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks zstd frames and decodes them.
 *
 * libzstd's decoder is made for hostile input, but it goes on to a second frame behind the first,
 * and does not check sizes that it was not asked about. So before it is decoded, into memory that
 * is there already, the input must be one frame. The frame must be as long as its index entry says,
 * and must name the size of its chunk.
 */
#include "container/container_private.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
	FRAME_DESCRIPTOR = 4, /* RFC 8878, 3.1.1.1: bit 5, the window is the content */
	FRAME_WINDOW = 5,     /* ... else its size: exponent (5 bits), mantissa (3) */
	FRAME_LEAST = 6,
};

/* Returns the size of the frame's window, in bytes. */
static uint64_t frame_window(const uint8_t *frame, size_t size)
{
	unsigned exponent = frame[FRAME_WINDOW] >> 3, mantissa = frame[FRAME_WINDOW] & 7;
	uint64_t base = (uint64_t)1 << (10 + exponent);

	if (frame[FRAME_DESCRIPTOR] & 0x20)
		return size;
	return base + base / 8 * mantissa;
}

static bool is_one_frame(const uint8_t *frame, size_t length, size_t size)
{
	if (length < FRAME_LEAST || get32(frame) != LAYOUT_ZSTD)
		return false;
	if (ZSTD_getFrameContentSize(frame, length) != size)
		return false;
	if (frame_window(frame, size) > ZSTD_WINDOW_MAX)
		return false;
	return ZSTD_findFrameCompressedSize(frame, length) == length;
}

int frame_decode(ZSTD_DCtx *zstd, const ZSTD_DDict *dictionary, const uint8_t *frame, size_t length,
		 void *out, size_t size)
{
	size_t n;

	if (!is_one_frame(frame, length, size))
		return EBADMSG;
	if (dictionary)
		n = ZSTD_decompress_usingDDict(zstd, out, size, frame, length, dictionary);
	else
		n = ZSTD_decompressDCtx(zstd, out, size, frame, length);
	if (n == size)
		return 0;
	memset(out, 0, size);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return ENOMEM;
	return EBADMSG;
}

int chunk_decode(ZSTD_DCtx *zstd, const ZSTD_DDict *dictionary, const struct container_chunk *chunk,
		 const uint8_t *frame, void *out)
{
	int rc;

	if ((uint32_t)hash_bytes(frame, chunk->length) != chunk->check)
		return EBADMSG;
	rc = frame_decode(zstd, dictionary, frame, chunk->length, out, chunk->size);
	if (rc || hash_bytes(out, chunk->size) == chunk->hash)
		return rc;
	memset(out, 0, chunk->size);
	return EBADMSG;
}

size_t container_frame_bound(size_t size)
{
	return ZSTD_COMPRESSBOUND(size);
}
