/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a data file by hand, page by page, sound or damaged.
 *
 * The builder writes whatever its caller asks for. An error of the caller (no room left) ends the
 * test program.
 */
#ifndef LMDBIO_TEST_PAGE_BUILDER_H
#define LMDBIO_TEST_PAGE_BUILDER_H

#include "format/layout.h"
#include "format/meta.h"

#include <stddef.h>
#include <stdint.h>

struct builder {
	uint8_t *bytes; /* malloc'ed: `pages` pages */
	uint32_t page_size;
	uint64_t pages;
	uint64_t next; /* the first page that is not taken; pages 0 and 1 are the meta pages */
};

/* The content of one leaf node. */
struct made_entry {
	const void *key, *data;
	size_t key_size, data_size; /* data_size: the value's size, also with ENTRY_BIG */
	unsigned flags;             /* enum entry_flag */
};

void builder_open(struct builder *builder, uint32_t page_size, uint64_t pages);
void builder_close(struct builder *builder);

/* The address of a page. */
uint8_t *builder_page(const struct builder *builder, uint64_t number);
/* Takes `count` pages and leaves their content as it is. Returns the first one's number. */
uint64_t builder_take(struct builder *builder, uint64_t count);
/* Takes a page and makes it an empty page. */
uint64_t builder_new(struct builder *builder, unsigned flags);
/* Takes an overflow run and fills it with a value. Returns the first page's number. */
uint64_t builder_run(struct builder *builder, const void *value, size_t size);

/* Makes an empty page of `size` bytes: a page, or a sub-page of any even or odd size. */
void page_format(uint8_t *page, uint32_t size, uint64_t number, unsigned flags);
/* Append to a page. Both return the node's address. */
uint8_t *page_add_entry(uint8_t *page, const struct made_entry *entry);
uint8_t *page_add_child(uint8_t *page, const void *key, size_t key_size, uint64_t child);
/* Append an item to a LEAF2 page, and count it as LMDB does. */
void page_add_item(uint8_t *page, const void *item, uint16_t size);

/* The TREE_SIZE bytes of a record. */
void record_write(uint8_t *bytes, const struct tree_record *record);
/* A meta page that is sound, with the builder's page size and last page. */
void builder_meta(struct builder *builder, unsigned which, uint64_t txnid,
		  const struct tree_record *free_tree, const struct tree_record *main_tree);

/* A tree over entries that are sorted already: at most `per_leaf` entries in a leaf and
 * `per_branch` children in a branch. *record gets depth, counts and root; its pad and flags are
 * kept. */
void builder_tree(struct builder *builder, const struct made_entry *entries, size_t n,
		  size_t per_leaf, size_t per_branch, struct tree_record *record);
/* The same for a tree of DUPFIXED duplicates: n items of record->pad bytes each. */
void builder_items(struct builder *builder, const uint8_t *items, size_t n, size_t per_leaf,
		   size_t per_branch, struct tree_record *record);

#endif
