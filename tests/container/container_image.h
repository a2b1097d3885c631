/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a test makes a container without the library, from what
 * doc/container-format.md says alone, and how it makes one that lies with its checksums right. */
#ifndef LMDBIO_TEST_CONTAINER_IMAGE_H
#define LMDBIO_TEST_CONTAINER_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* A database: `leaves` leaf pages from page `first_page` on, each of `per_leaf` records. */
struct image_tree {
	const char *name; /* "": the main one */
	uint16_t flags;
	uint64_t leaves, first_page, per_leaf;
};

struct image_plan {
	const uint8_t *data;
	size_t size;
	uint32_t page_size, chunk_size;
	uint32_t zstd_version;
	const struct image_tree *trees;
	size_t n_trees;
	uint64_t txnid, source_size;
	const uint8_t *source_hash; /* 16 bytes, or NULL */
	const uint64_t
		*copies; /* numbers of the pages that are copied, as they shall stand there */
	size_t n_copies;
	unsigned meta_page; /* 1 or 2: the footer has a copy of page 0 or 1 */
	/* How the frames of copies are made; NULL: image_frame(). */
	size_t (*copies_frame)(uint8_t *out, const uint8_t *data, size_t n);
};

struct image {
	uint8_t *bytes;
	size_t size;
	size_t data_end; /* and with it the leaf pages; tree pages, groups of copies, ...: */
	size_t trees, groups, chunks, copies, footer;
};

void image_make(struct image *image, const struct image_plan *plan);
void image_free(struct image *image);

/* Where each part begins that a lie can be told in. */
enum image_place { IN_HEADER, IN_FOOTER, IN_CHUNKS, IN_LEAVES, IN_SECOND_LEAVES, IN_TREES, IN_COPIES, IMAGE_PLACES };
size_t image_place(const struct image *image, enum image_place place);

/* Puts every checksum right again: of the header, of all index pages (which begin at `pages` and
 * end at the footer, 256 bytes before the end; groups among them are passed over), of the footer.
 */
void image_seal(uint8_t *bytes, size_t size, size_t pages);

/* A frame of blocks that are stored or repeat one byte: no encoder's choices are in it. Returns its
 * length, at most image_frame_bound(n). n > 0. */
size_t image_frame(uint8_t *out, const uint8_t *data, size_t n);
size_t image_frame_bound(size_t n);

/* XXH3-64, and its low half. */
uint64_t image_hash(const void *bytes, size_t n);
uint32_t image_check(const void *bytes, size_t n);

/* Little-endian numbers of n bytes. */
void image_put(uint8_t *at, unsigned n, uint64_t value);
uint64_t image_get(const uint8_t *at, unsigned n);

/* Makes page `number` of a data file a meta page of that transaction, a branch page, or a leaf page
 * whose one value lies in so many overflow pages, as far as anybody looks at them. */
void image_meta_page(uint8_t *page, uint64_t number, uint32_t page_size, uint64_t txnid);
void image_branch_page(uint8_t *page, uint64_t number);
void image_leaf_page(uint8_t *page, uint64_t number, uint32_t page_size, unsigned overflow);

/* Data of which about half repeats bytes page by page and half is random; the same on every
 * machine. */
void image_data(uint8_t *bytes, size_t n);

#endif
