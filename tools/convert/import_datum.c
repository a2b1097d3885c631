/* SPDX-License-Identifier: OLDAP-2.8 */
/* Encodes the fields of Caffe's Datum, finds its image again, and the size of an image.
 *
 *   message Datum { optional int32 channels = 1, height = 2, width = 3; optional bytes data = 4;
 *                   optional int32 label = 5; optional bool encoded = 7; }
 *
 * A field of a protocol buffer is its number and kind in one varint (0: varint, 2: length and
 * bytes), then its value. Fields stand in the order of their numbers, as Caffe's own serializer
 * writes them.
 */
#include "import_datum.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
	DATUM_CHANNELS = 1,
	DATUM_HEIGHT = 2,
	DATUM_WIDTH = 3,
	DATUM_DATA = 4,
	DATUM_LABEL = 5,
	DATUM_ENCODED = 7,
	KIND_VARINT = 0,
	KIND_BYTES = 2,
	DATUM_MORE = 64, /* a Datum's bytes beyond its data, at most */
};

struct image_shape {
	uint32_t channels, height, width;
};

static uint32_t big16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t big32(const uint8_t *bytes)
{
	return big16(bytes) << 16 | big16(bytes + 2);
}

/* PNG: the signature (8), then the chunk IHDR: length (4), name (4), width (4), height (4), depth
 * (1), colour type (1). A palette's entries are colours. */
static bool png_shape(const uint8_t *bytes, size_t size, struct image_shape *shape)
{
	static const uint8_t channels[] = {1, 0, 3, 3, 2, 0, 4};

	if (size < 26 || memcmp(bytes, "\211PNG\r\n\032\n", 8) || memcmp(bytes + 12, "IHDR", 4))
		return false;
	if (bytes[25] >= sizeof(channels) || !channels[bytes[25]])
		return false;
	*shape = (struct image_shape){channels[bytes[25]], big32(bytes + 20), big32(bytes + 16)};
	return true;
}

/* JPEG: segments of ff, a marker, a length (2, itself included). The frame's head is a marker c0 to
 * cf without c4, c8 and cc: precision (1), height (2), width (2), components (1). */
static bool jpeg_shape(const uint8_t *bytes, size_t size, struct image_shape *shape)
{
	size_t at = 2;

	if (size < 4 || bytes[0] != 0xff || bytes[1] != 0xd8)
		return false;
	while (size - at >= 10) {
		unsigned marker = bytes[at + 1];
		size_t length = big16(bytes + at + 2);

		if (bytes[at] != 0xff)
			return false;
		if (marker == 0xff) { /* fill */
			at++;
			continue;
		}
		if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
		    marker != 0xcc) {
			*shape = (struct image_shape){bytes[at + 9], big16(bytes + at + 5),
						      big16(bytes + at + 7)};
			return true;
		}
		if (length < 2 || length > size - at - 2)
			return false;
		at += 2 + length;
	}
	return false;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*at++ = (uint8_t)value;
	return at;
}

static uint8_t *put_number(uint8_t *at, unsigned field, uint64_t value)
{
	return put_varint(put_varint(at, field << 3 | KIND_VARINT), value);
}

static bool take_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = *(*at)++;

		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

const void *datum_image(const void *datum, size_t datum_size, size_t *size)
{
	const uint8_t *at = datum, *end = at + datum_size;
	uint64_t field, value;

	while (take_varint(&at, end, &field) && take_varint(&at, end, &value)) {
		if (field == (DATUM_DATA << 3 | KIND_BYTES)) {
			*size = (size_t)value;
			return value <= (size_t)(end - at) ? at : NULL;
		}
		if ((field & 7) != KIND_VARINT)
			break;
	}
	return NULL;
}

int datum_encode(const void *image, size_t size, int32_t label, void **datum, size_t *datum_size)
{
	uint8_t *bytes = malloc(size + DATUM_MORE), *at = bytes;
	struct image_shape shape;

	if (!bytes)
		return ENOMEM;
	if (png_shape(image, size, &shape) || jpeg_shape(image, size, &shape)) {
		at = put_number(at, DATUM_CHANNELS, shape.channels);
		at = put_number(at, DATUM_HEIGHT, shape.height);
		at = put_number(at, DATUM_WIDTH, shape.width);
	}
	at = put_varint(at, DATUM_DATA << 3 | KIND_BYTES);
	at = put_varint(at, size);
	if (size)
		memcpy(at, image, size);
	at += size;
	/* A negative int32 is written as a 64-bit number. */
	at = put_number(at, DATUM_LABEL, (uint64_t)(int64_t)label);
	at = put_number(at, DATUM_ENCODED, 1);
	*datum = bytes;
	*datum_size = (size_t)(at - bytes);
	return 0;
}
