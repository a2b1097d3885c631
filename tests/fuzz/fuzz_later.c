/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a fuzzer's bytes are a file of LMDB 1.0 and a script, cut as fuzz_tree.c cuts them. */
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
	size_t script;
	uint8_t *file;

	if (size < 2)
		return 0;
	size -= 2;
	script = load16(data + size) % 256;
	if (script > size)
		script = size;
	size -= script;
	/* Apart from the script, so that a look past the file's end is seen. */
	file = malloc(size ? size : 1);
	if (!file)
		return 0;
	memcpy(file, data, size);
	walk_file_of(FORMAT_1_0, file, size, data + size, script);
	free(file);
	return 0;
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	unsigned kind = number % IMAGE_KINDS, variant = number / IMAGE_KINDS;
	size_t image_size, made_size;
	uint8_t *image, *made, *bytes;

	if (variant >= VARIANTS)
		return NULL;
	image = image_make(kind, &image_size);
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
