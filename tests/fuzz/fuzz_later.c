/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes files of LMDB 1.0 with a script for a fuzzer, which reads its bytes as walk_input() does. */
#include "fuzz_driver.h"
#include "fuzz_images.h"
#include "fuzz_walk.h"
#include "later_make.h"

#include "util/checked.h"

#include <stdlib.h>
#include <string.h>

enum { SCRIPT = 61, VARIANTS = 8 };

const struct fuzz_weight fuzz_weight = {.stride = 512, .front = 64};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	walk_input(FORMAT_1_0, data, size);
	return 0;
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	unsigned kind = number % IMAGE_KINDS, variant = number / IMAGE_KINDS;
	size_t image_size, made_size;
	uint8_t *image, *made, *bytes;

	if (variant >= VARIANTS)
		return NULL;
	image = images_make(kind, &image_size);
	made = later_make_bytes(image, image_size, (struct later_how){.sums = variant % 2},
				&made_size);
	free(image);
	if (!made)
		abort();
	*size = made_size + SCRIPT + 2;
	bytes = realloc(made, *size);
	if (!bytes)
		abort();
	bytes[made_size] = (uint8_t)variant; /* which database the script reads */
	for (unsigned i = 1; i < SCRIPT; i++)
		bytes[made_size + i] = (uint8_t)((i * 7 + variant * 13) * (i % 2 ? 1 : 11));
	store16(bytes + made_size + SCRIPT, SCRIPT);
	return bytes;
}
