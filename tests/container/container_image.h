/* What only this file knows: how a test makes a container without the library, from what
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
};

struct image {
	uint8_t *bytes;
	size_t size;
	size_t data_end; /* and with it the leaf pages; tree pages, chunk pages and footer: */
	size_t trees, chunks, footer;
};

void image_make(struct image *image, const struct image_plan *plan);
void image_free(struct image *image);

/* Puts every checksum right again: of the header, of all index pages (which begin at `pages` and
 * end at the footer, 256 bytes before the end), of the footer. */
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

/* Data of which about half repeats bytes page by page and half is random; the same on every
 * machine. */
void image_data(uint8_t *bytes, size_t n);

#endif
