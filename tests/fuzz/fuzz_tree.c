/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes files of LMDB 0.9 with a script for a fuzzer, which reads its bytes as walk_input() does. */
#include "fuzz_driver.h"
#include "fuzz_images.h"
#include "fuzz_walk.h"

#include "util/checked.h"

#include <stdlib.h>
#include <string.h>

enum { SCRIPT = 61 };

const struct fuzz_weight fuzz_weight = {.stride = 256, .front = 48};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	walk_input(FORMAT_0_9, data, size);
	return 0;
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	unsigned kind = number % IMAGE_KINDS, variant = number / IMAGE_KINDS;
	uint8_t *image, *bytes;
	size_t image_size;

	if (variant >= 8)
		return NULL;
	image = images_make(kind, &image_size);
	*size = image_size + SCRIPT + 2;
	bytes = realloc(image, *size);
	if (!bytes)
		abort();
	bytes[image_size] = (uint8_t)variant; /* which database the script reads */
	for (unsigned i = 1; i < SCRIPT; i++)
		bytes[image_size + i] = (uint8_t)((i * 7 + variant * 13) * (i % 2 ? 1 : 11));
	store16(bytes + image_size + SCRIPT, SCRIPT);
	return bytes;
}
