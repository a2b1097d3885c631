/* SPDX-License-Identifier: OLDAP-2.8 */
/* Feeds whole data files, damaged or not, with a script of calls, and checks that the page cache, shared memory and a
 * container of the file give the same answers. The input is as walk_input() reads it. */
#include "container_write.h"
#include "fuzz_driver.h"
#include "fuzz_images.h"
#include "fuzz_reads.h"

#include "format/layout.h"
#include "util/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCRIPT = 90, VARIANTS = 3, CHUNK = 64 << 10 };

const struct fuzz_weight fuzz_weight = {.stride = 256, .front = 48, .mutations = 300};

/* Makes a container with the page size in the first meta page, if a container can have it. */
static int pack(const uint8_t *bytes, size_t size)
{
	struct container_write_options options = {.size = size, .page_size = 4096, .chunk_size = CHUNK, .level = -5};
	struct container_writer *writer;
	int fd = reads_file(NULL, 0);

	if (size >= META_END)
		options.page_size = load32(bytes + META_FREE_TREE + TREE_PAD);
	if (container_write_open(&writer, fd, &options)) {
		(void)close(fd);
		return -1;
	}
	if (container_write_bytes(writer, bytes, size) || container_write_finish(writer))
		abort();
	container_write_close(writer);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t script = size < 2 ? 0 : load16(data + size - 2) % 256u;
	uint64_t cache, arena, container;
	int fd, packed, rc;

	if (size < 2 || script > size - 2)
		return 0;
	size -= 2 + script;
	fd = reads_file(data, size);
	reads_through("cache", false);
	rc = reads_run(fd, data + size, script, &cache);
	reads_through("arena", false);
	if (reads_run(fd, data + size, script, &arena) != rc || cache != arena) {
		fprintf(stderr, "broken rule: shared memory answers as the page cache does\n");
		abort();
	}
	(void)close(fd);
	packed = rc ? -1 : pack(data, size);
	if (packed < 0)
		return 0;
	if (reads_run(packed, data + size, script, &container) || container != cache) {
		fprintf(stderr, "broken rule: a container answers as its file does\n");
		abort();
	}
	(void)close(packed);
	return 0;
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	unsigned kind = number % IMAGE_KINDS, variant = number / IMAGE_KINDS;
	uint8_t *image, *bytes;
	size_t image_size;

	if (variant >= VARIANTS)
		return NULL;
	image = images_make(kind, &image_size);
	*size = image_size + SCRIPT + 2;
	bytes = realloc(image, *size);
	if (!bytes)
		abort();
	for (unsigned i = 0; i < SCRIPT; i++)
		bytes[image_size + i] = (uint8_t)(i * 37 + variant * 101 + i * i);
	store16(bytes + image_size + SCRIPT, SCRIPT);
	return bytes;
}
