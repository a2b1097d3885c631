/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no bytes in the place of a container make the reader crash, allocate the memory that
 * they declare, or return an answer that the format does not have. The input is a container.
 *
 * A checksum refuses most damaged containers, so each input is read a second time with all
 * checksums made right. */
#include "fuzz_driver.h"

#include "container_image.h"
#include "container_walk.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10, PAGE = 4096, END = 256, READ_MOST = 3 * CHUNK };

const struct fuzz_weight fuzz_weight = {.stride = 64, .front = 64};

/* Returns the offset of the index pages that the footer names. */
static size_t index_begin(const uint8_t *bytes, size_t size)
{
	uint64_t end = image_get(bytes + size - END + 40, 8);

	return end < size ? (size_t)end : size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *sealed;

	(void)container_walk(data, size, NULL, READ_MOST);
	if (size < 2 * END)
		return 0;
	sealed = malloc(size);
	if (!sealed)
		abort();
	memcpy(sealed, data, size);
	image_seal(sealed, size, index_begin(data, size));
	(void)container_walk(sealed, size, NULL, READ_MOST);
	free(sealed);
	return 0;
}

static const struct image_tree trees[] = {
	{"", 0, 1, 2, 9},      {"images", 0, 600, 3, 20}, {"none", 4, 0, 0, 0},
	{"b", 4, 253, 10, 1},  {"c", 4, 254, 10, 3},      {"d", 4, 1, 10, 1},
	{"e", 4, 2, 10, 1000}, {"f", 4, 3, 10, 1},
};

enum { COPIES = 130 };

/* Makes containers of zeroes and a few pages of trees, which are mostly index. */
uint8_t *fuzz_example(unsigned number, size_t *size)
{
	static const struct {
		size_t size, trees, copies;
	} plans[] = {{0, 0, 0},          {1, 0, 0},
		     {CHUNK, 1, 0},      {3 * CHUNK + 9, 3, 0},
		     {20 * CHUNK, 8, 0}, {254 * (size_t)CHUNK + 5, 2, COPIES},
		     {2 * CHUNK, 0, 3}};
	uint64_t copies[COPIES];
	struct image_plan plan = {.page_size = PAGE, .chunk_size = CHUNK, .trees = trees};
	struct image image;
	uint8_t *zeroes;

	if (number >= sizeof(plans) / sizeof(plans[0]))
		return NULL;
	zeroes = calloc(1, plans[number].size + 1);
	if (!zeroes)
		abort();
	plan.data = zeroes;
	plan.size = plans[number].size;
	plan.n_trees = plans[number].trees;
	plan.copies = copies;
	plan.n_copies = plans[number].copies;
	plan.meta_page = plan.n_copies ? 2 : 0;
	for (uint64_t i = 0; i < 2 && plan.meta_page; i++)
		image_meta_page(zeroes + i * PAGE, i, PAGE, 4 + i);
	for (uint64_t i = 0; i < plan.n_copies; i++) {
		copies[i] = 4 + i * 7;
		image_branch_page(zeroes + copies[i] * PAGE, copies[i]);
	}
	image_make(&image, &plan);
	free(zeroes);
	*size = image.size;
	return image.bytes;
}
