/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which errors damage may lead to. */
#include "container_walk.h"

#include "container/container.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES_ASKED = 1000, TREES_ASKED = 50, PAGES_ASKED = 50 };

/* The first error of all. */
static void note(int *first, int rc)
{
	if (rc != 0 && rc != MDB_CORRUPTED)
		abort();
	if (!*first)
		*first = rc;
}

static void walk_tree(struct io *io, const struct container_tree *tree, int *first)
{
	struct container_leaf leaf;

	for (uint64_t i = 0; i < tree->leaves && i < LEAVES_ASKED; i++)
		note(first, container_leaf(io, tree, i, &leaf));
	if (container_leaf(io, tree, tree->leaves, &leaf) != EINVAL)
		abort();
}

static void walk_index(struct io *io, int *first)
{
	const struct container_info *info = container_info(io);
	struct container_chunk chunk;
	struct container_tree tree;
	uint64_t bad = 0;
	int rc = container_check_index(io, &bad);

	note(first, rc);
	if (rc && bad > info->file_size)
		abort();
	if (container_chunk(io, info->chunks, &chunk) != EINVAL)
		abort();
	for (uint64_t i = 0; i < info->chunks && i < 1000; i++) {
		rc = container_chunk(io, i, &chunk);
		note(first, rc);
		if (!rc &&
		    (chunk.offset > info->data_end || chunk.length > info->data_end - chunk.offset))
			abort();
	}
	for (uint64_t i = 0; i < info->trees && i < TREES_ASKED; i++) {
		rc = container_tree(io, i, &tree);
		note(first, rc);
		if (!rc)
			walk_tree(io, &tree, first);
	}
}

/* Wrong bytes are none, also where a read fails. */
static void walk_data(struct io *io, const uint8_t *data, size_t data_size, size_t step, int *first)
{
	uint8_t *buffer = malloc(step);
	uint64_t size = container_info(io)->size;

	if (!buffer)
		abort();
	for (uint64_t at = 0; at < size && at < data_size; at += step) {
		size_t done;
		int rc;

		memset(buffer, 0xa5, step);
		rc = io_read(io, buffer, step, at, &done);
		note(first, container_code(rc));
		if (data && (done > data_size - at || memcmp(buffer, data + at, done) != 0))
			abort();
	}
	free(buffer);
}

/* Copies of pages are wrong in no byte either. */
static void walk_copies(struct io *io, const uint8_t *data, size_t data_size, int *first)
{
	const struct container_info *info = container_info(io);
	uint32_t size = info->page_size;
	uint8_t *page = malloc(size);
	uint64_t step = info->size / size / PAGES_ASKED + 1, bad = 0;

	if (!page)
		abort();
	for (uint64_t i = 0; i < info->size / size; i += step) {
		int rc = container_read_copies(io, page, size, i * size);

		if (rc == MDB_NOTFOUND)
			continue;
		note(first, rc);
		if (!rc && data && (i + 1) * size <= data_size &&
		    memcmp(page, data + i * size, size))
			abort();
	}
	if (data)
		note(first, container_check_copies(io, data, data_size, 0, &bad));
	free(page);
}

int container_walk(const uint8_t *bytes, size_t size, const uint8_t *data, size_t data_size)
{
	struct io below, io;
	int rc = io_open_memory(&below, bytes, size), first = 0;

	if (rc)
		abort();
	rc = io_open_container(&io, &below, NULL);
	if (rc && rc != MDB_CORRUPTED && rc != MDB_INVALID && rc != MDB_VERSION_MISMATCH)
		abort();
	if (!rc) {
		walk_index(&io, &first);
		walk_copies(&io, data, data_size, &first);
		walk_data(&io, data, data_size, 5000, &first);
		walk_data(&io, data, data_size, 200000, &first);
	}
	io_close(&io);
	io_close(&below);
	return rc ? rc : first;
}
