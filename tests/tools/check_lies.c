/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a data file becomes a container that lies, with every checksum
 * right, in each of the ways that lmdbio-check has words for. */
#include "container_image.h"

#include "format/layout.h"
#include "util/checked.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10, COPY_FIRST = 3, N_COPIES = 3 };

static const uint64_t copies[N_COPIES] = {COPY_FIRST, COPY_FIRST + 1, COPY_FIRST + 2};
static const uint64_t falling[N_COPIES] = {COPY_FIRST, COPY_FIRST + 2, COPY_FIRST + 1};
static const uint8_t stranger[16] = "another source!";

/* From a container of other data, of which all lengths are the same. */
static void take_index(struct image *image, const struct image_plan *plan, uint64_t byte,
		       bool copies_only)
{
	struct image_plan other = *plan;
	uint8_t *data = malloc(plan->size);
	struct image from;

	memcpy(data, plan->data, plan->size);
	data[byte] ^= 1;
	other.data = data;
	image_make(&from, &other);
	if (from.size != image->size)
		exit(2);
	if (copies_only) {
		memcpy(image->bytes + image->groups, from.bytes + image->groups,
		       image->chunks - image->groups);
		memcpy(image->bytes + image->copies, from.bytes + image->copies,
		       image->footer - image->copies);
	} else {
		memcpy(image->bytes + image->data_end, from.bytes + image->data_end,
		       image->size - image->data_end);
	}
	image_free(&from);
	free(data);
}

static bool lie(struct image *image, const struct image_plan *plan, const char *kind)
{
	uint8_t *footer = image->bytes + image->footer;

	if (!strcmp(kind, "copy"))
		take_index(image, plan, (COPY_FIRST + 1) * plan->page_size + 100, true);
	else if (!strcmp(kind, "chunk"))
		take_index(image, plan, CHUNK + 100, false);
	else if (!strcmp(kind, "meta"))
		footer[88 + META_MAPSIZE - META_MAGIC] ^= 1;
	else if (!strcmp(kind, "content"))
		footer[64] ^= 1;
	else if (!strcmp(kind, "version"))
		image->bytes[16] = footer[16] = 2;
	else if (strcmp(kind, "none") && strcmp(kind, "records") && strcmp(kind, "source") &&
		 strcmp(kind, "order"))
		return false;
	image_seal(image->bytes, image->size, image->data_end);
	return true;
}

static uint8_t *file_read(const char *name, size_t *size)
{
	FILE *file = fopen(name, "rb");
	uint8_t *bytes = malloc(16 << 20);

	*size = file && bytes ? fread(bytes, 1, 16 << 20, file) : 0;
	if (!*size || !feof(file))
		exit(2);
	fclose(file);
	return bytes;
}

int main(int argc, char **argv)
{
	struct image_tree tree = {.name = "", .leaves = 1, .first_page = 2, .per_leaf = 7};
	struct image_plan plan = {.chunk_size = CHUNK, .copies = copies, .n_copies = N_COPIES};
	struct image image;
	uint8_t *data;
	FILE *out;
	bool done;

	if (argc != 4) {
		fprintf(stderr, "usage: check_lies DATA.MDB CONTAINER none|copy|chunk|meta|content|"
				"version|records|source|order\n");
		return 2;
	}
	plan.data = data = file_read(argv[1], &plan.size);
	plan.page_size = load32(data + META_FREE_TREE + TREE_PAD);
	plan.txnid = load64(data + META_TXNID);
	plan.meta_page = load64(data + plan.page_size + META_TXNID) > plan.txnid ? 2 : 1;
	plan.source_size = plan.size;
	if (!strcmp(argv[3], "records")) {
		plan.trees = &tree;
		plan.n_trees = 1;
	}
	if (!strcmp(argv[3], "source"))
		plan.source_hash = stranger;
	if (!strcmp(argv[3], "order"))
		plan.copies = falling;
	image_make(&image, &plan);
	out = fopen(argv[2], "wb");
	done = lie(&image, &plan, argv[3]) && out &&
	       fwrite(image.bytes, 1, image.size, out) == image.size && !fclose(out);
	image_free(&image);
	free(data);
	return done ? 0 : 2;
}
