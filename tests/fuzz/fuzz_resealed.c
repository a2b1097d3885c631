/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes lists of edits in a sound container, puts every checksum right again, and checks that every
 * way to read the container then returns an answer of lmdb.h, without a signal.
 *
 * An environment costs some milliseconds, most of them the kernel's, so one input in eight is read
 * through lmdb.h. For the others the target makes the container's own calls, and walks over the
 * decompressed data in memory.
 *
 * An edit is 8 bytes: the place (1: a part of the container, or of its content before compression),
 * the kind of edit (1), the offset in that place (2), and a number (4). */
#include "container_image.h"
#include "container_walk.h"
#include "fuzz_driver.h"
#include "fuzz_images.h"
#include "fuzz_reads.h"
#include "fuzz_walk.h"

#include "container/container.h"
#include "format/layout.h"
#include "util/checked.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EDIT = 8, EDITS_MOST = 32, CHUNK = 64 << 10, PAGE = 1024, INDEX_PAGE = 4096, COPIES = 20, IMAGE_1024 = 2, BEHIND = 777, READ_MOST = 3 * CHUNK, OPEN_EVERY = 8, SHARE_EVERY = 64 };
/* Places beyond enum image_place: the data, a group of copies, and any byte of the container. */
enum { IN_DATA = IMAGE_PLACES, IN_GROUP, ANYWHERE, PLACES };

const struct fuzz_weight fuzz_weight = {.stride = EDIT, .front = EDIT, .mutations = 1500, .most = EDITS_MOST * EDIT};

static const uint8_t script[] = {
	22, 0, 0,  3, 7, 0,  5, 7, 0,  23, 7, 0,  22, 4, 5,  17, 18, 1,  4, 0, 12,  0, 7, 20,
	22, 1, 6,  1, 0, 2,  19, 2, 2, 2, 0, 4,   18, 0, 16, 12, 23, 16, 20, 0, 0,  8, 0, 0,
};

/* The edits of the current input. */
static const uint8_t *edits;
static size_t edits_count;

static void edit(uint8_t *part, size_t size, const uint8_t *by)
{
	static const unsigned widths[] = {1, 2, 4, 8};
	unsigned width = widths[by[1] % 4];
	size_t at = load16(by + 2);
	uint64_t value = load32(by + 4), is = by[1] / 4 % 4;

	if (size < width)
		return;
	at %= size - width + 1;
	if (is == 1) /* added, or taken off */
		value = image_get(part + at, width) + (uint64_t)(int32_t)value;
	else if (is == 2) /* from the top */
		value = ~value;
	else if (is == 3)
		value <<= 32;
	image_put(part + at, width, value);
}

static void edit_all(uint8_t *part, size_t size, unsigned place)
{
	for (size_t i = 0; i < edits_count; i++)
		if (edits[i * EDIT] % PLACES == place)
			edit(part, size, edits + i * EDIT);
}

/* The group is hashed after this call, so that every checksum covers its edits. */
static size_t frame_of_group(uint8_t *out, const uint8_t *bytes, size_t n)
{
	edit_all((uint8_t *)(uintptr_t)bytes, n, IN_GROUP);
	return image_frame(out, bytes, n);
}

/* Returns the first leaf page of a database whose record stands behind its name. */
static uint64_t first_leaf(const uint8_t *data, size_t size, const char *name)
{
	const uint8_t *record = memmem(data, size, name, strlen(name)), *page, *entry;
	uint64_t number = record ? load64(record + strlen(name) + TREE_ROOT) : 0;

	for (page = data + number * PAGE; load16(page + PAGE_FLAGS) & PAGE_BRANCH; page = data + number * PAGE) {
		entry = page + load16(page + PAGE_HEADER);
		number = load16(entry) | (uint64_t)load16(entry + ENTRY_HIGH) << 16;
	}
	return number;
}

static void make(struct image *image, uint8_t *data, size_t size)
{
	struct image_tree trees[] = {{"", 0, 4, 2, 2}, {"numbers", 8, 4, 4, 4}, {"plain", 0, 6, 4, 4}};
	uint64_t copies[COPIES];
	struct image_plan plan = {.data = data, .size = size, .page_size = PAGE, .chunk_size = CHUNK,
				  .trees = trees, .n_trees = 3, .copies = copies, .meta_page = 1,
				  .txnid = 2, .source_size = size, .copies_frame = frame_of_group};

	for (unsigned i = 1; i < 3; i++)
		trees[i].first_page = first_leaf(data, size, trees[i].name);
	for (uint64_t page = 2; page < size / PAGE && plan.n_copies < COPIES; page++)
		if (load16(data + page * PAGE + PAGE_FLAGS) & PAGE_BRANCH)
			copies[plan.n_copies++] = page;
	edit_all(data, size, IN_DATA);
	image_make(image, &plan);
	for (unsigned place = 0; place < IMAGE_PLACES; place++) {
		size_t from = image_place(image, (enum image_place)place);
		size_t left = image->size - from;

		edit_all(image->bytes + from, left < INDEX_PAGE ? left : INDEX_PAGE, place);
	}
	edit_all(image->bytes, image->size, ANYWHERE);
	image_seal(image->bytes, image->size, image->data_end);
}

/* Returns the sound data, malloc'ed. The zeroes behind its pages are a second chunk. */
static uint8_t *data_copy(size_t *size)
{
	static uint8_t *pages;
	static size_t pages_size;
	uint8_t *data;

	if (!pages)
		pages = images_make(IMAGE_1024, &pages_size);
	*size = pages_size + BEHIND;
	data = calloc(1, *size);
	if (!data)
		abort();
	memcpy(data, pages, pages_size);
	return data;
}

/* Returns the container's decompressed data, in memory of exactly its size, or NULL if the
 * container cannot be read. */
static uint8_t *data_read(const struct image *image, size_t *done)
{
	struct io below, io;
	uint8_t *bytes = NULL;
	uint64_t length;

	if (io_open_memory(&below, image->bytes, image->size))
		abort();
	if (!io_open_container(&io, &below, NULL)) {
		length = container_info(&io)->size;
		length = length < READ_MOST ? length : READ_MOST;
		bytes = malloc(length + !length);
		if (!bytes)
			abort();
		if (io_read(&io, bytes, length, 0, done) || *done < length) {
			free(bytes);
			bytes = NULL;
		}
	}
	io_close(&io);
	io_close(&below);
	return bytes;
}

static void read_in_memory(const struct image *image)
{
	size_t size;
	uint8_t *bytes = data_read(image, &size);

	if (bytes)
		(void)walk_file(bytes, size, script, sizeof(script));
	free(bytes);
}

static void read_opened(const struct image *image, bool share)
{
	uint64_t sum;
	int fd = reads_file(image->bytes, image->size);

	reads_through("auto", share);
	(void)reads_run(fd, script, sizeof(script), &sum);
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	size_t data_size;
	uint8_t *data = data_copy(&data_size);
	uint64_t chosen = image_hash(input, size);
	struct image image;

	edits = input;
	edits_count = size / EDIT < EDITS_MOST ? size / EDIT : EDITS_MOST;
	make(&image, data, data_size);
	(void)container_walk(image.bytes, image.size, NULL, READ_MOST);
	if (chosen % OPEN_EVERY)
		read_in_memory(&image);
	else
		read_opened(&image, chosen % SHARE_EVERY == 0);
	image_free(&image);
	free(data);
	return 0;
}

/* Makes two edits of each kind in each place, at a byte that a parser reads; the first example has
 * none. The last example is an input that has found a defect. */
uint8_t *fuzz_example(unsigned number, size_t *size)
{
	/* A branch page of the data gets the flag of items, and has more entries than room. */
	static const uint8_t items_in_branch[EDIT] = {0x2f, 0xff, 0x06, 0xd8, 0x31, 0x94, 0xd0, 0xd0};
	static const uint16_t at[] = {32, 36, 40, 16, 40, 8, 50};
	uint8_t *bytes = calloc(2, EDIT);

	if (!bytes)
		abort();
	if (number > 4 * PLACES) {
		free(bytes);
		return NULL;
	}
	if (number == 4 * PLACES) {
		memcpy(bytes, items_in_branch, EDIT);
		*size = EDIT;
		return bytes;
	}
	*size = number ? 2 * EDIT : 0;
	bytes[0] = (uint8_t)(number % PLACES);
	bytes[1] = (uint8_t)(number / PLACES * 5);
	image_put(bytes + 2, 2, at[number % 7] + number / PLACES * PAGE);
	image_put(bytes + 4, 4, number * 3);
	memcpy(bytes + EDIT, bytes, EDIT);
	bytes[EDIT + 2] ^= 8;
	return bytes;
}
