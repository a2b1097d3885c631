/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads meta pages and tree records, and judges meta pages. */
#ifndef LMDBIO_FORMAT_META_H
#define LMDBIO_FORMAT_META_H

#include "format/layout.h"

#include <stddef.h>
#include <stdint.h>

/* A B+tree, as its record describes it. */
struct tree_record {
	uint32_t
		pad; /* DUPFIXED item size, bytes; in the free tree of a meta page: the page size */
	uint16_t flags; /* MDB_REVERSEKEY ... MDB_REVERSEDUP */
	uint16_t depth; /* levels */
	uint64_t branch_pages;
	uint64_t leaf_pages;
	uint64_t overflow_pages;
	uint64_t entries;
	uint64_t root; /* page number, or PAGE_NONE */
};

struct meta {
	enum format format;
	uint32_t page_size; /* bytes, a power of two */
	uint16_t env_flags;
	uint64_t address;
	uint64_t mapsize; /* bytes */
	struct tree_record free_tree;
	struct tree_record main_tree;
	uint64_t last_page;
	uint64_t txnid;
};

/* Reads a tree record of TREE_SIZE bytes at any alignment. Does not judge the record. */
void tree_record_parse(struct tree_record *record, const uint8_t *bytes);

/* Reads a meta page of a format from META_END bytes plus the layout's shift. Returns 0, MDB_INVALID
 * (no meta page of this format, or a page size that no such file has) or MDB_VERSION_MISMATCH. */
int meta_parse(struct meta *meta, const uint8_t *page, enum format format);

/* Judges the first two pages of a data file before the file is mapped: `first` stands at offset 0,
 * `second` at the first meta's page size. Sets *newer to the newer meta and returns 0, or returns
 * an error as meta_parse(). */
int meta_judge(const uint8_t *first, const uint8_t *second, struct meta *newer, enum format format);

#endif
