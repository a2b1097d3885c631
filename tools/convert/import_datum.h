/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes Caffe's Datum, and finds the image in one. */
#ifndef LMDBIO_TOOLS_IMPORT_DATUM_H
#define LMDBIO_TOOLS_IMPORT_DATUM_H

#include <stddef.h>
#include <stdint.h>

/* Encodes an image file's bytes as a Datum: data, label, encoded = true, and the channels, height
 * and width if the file's head has them (PNG, JPEG). *datum is malloc()ed. Returns 0 or ENOMEM. */
int datum_encode(const void *image, size_t size, int32_t label, void **datum, size_t *datum_size);

/* Returns the image in a Datum from datum_encode(), a pointer into it; NULL: it has none. */
const void *datum_image(const void *datum, size_t datum_size, size_t *size);

#endif
