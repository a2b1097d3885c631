/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says where things stand in a data file of LMDB 0.9 (data version 1), and what differs in 1.0 (3).
 *
 * 64-bit, native byte order. Offsets are in bytes from the start of the page, entry or record. An
 * entry is what LMDB's source calls a node.
 *
 *   page    0 page number (8)   8 pad (2): item size of a LEAF2 page   10 flags (2)
 *          12 lower (2), 14 upper (2): the free space; or 12 number of pages (4) of an overflow run
 *          16 entry offsets (2 each, from the page's start), (lower - 16) / 2 of them; entries fill
 *             the page from its end. LEAF2: items of `pad` bytes from 16 on, no offsets.
 *   meta   pages 0 and 1; the record stands at 16:
 *          16 magic (4)  20 version (4)  24 address (8)  32 map size (8)
 *          40 free tree (48): its pad is the page size, its flags the environment's
 *          88 main tree (48)  136 last page used (8)  144 transaction (8)
 *   tree    0 pad (4): item size of a DUPFIXED tree   4 flags (2)   6 depth (2)   8 branch pages
 *          16 leaf pages   24 overflow pages   32 entries   40 root page, all ones when empty
 *   entry   0 low, 2 high half of the data's size   4 flags (2)   6 key size (2)   8 key, data
 *          in a branch page 0, 2, 4 are the child's page number (48 bits); the first key is empty
 *
 * LMDB 1.0 has a transaction's number (8) behind the page number. So in its pages, and in its meta
 * pages, all but the page number stand `shift` = 8 bytes further on. Besides:
 *
 *   page    lower, upper and entry offsets count from the end of the header: `base` is 24, not 0
 *   entry   in a leaf the data stands at the next even offset behind the key; the reference to an
 *          overflow run is page number (8), transaction (8), pages of the run (8)
 *   key     the name of a database ends with a NUL byte
 *
 *   sums    the last bytes of a tree's page, and of an overflow run as a whole, may be a checksum of
 *          all in front of them. How many bytes it has (2) is behind all else in page 0; 0: no sums
 *
 * Trees, entry headers, flags and meta records are the same; a page may have 65,536 bytes.
 *
 * Source: the original's mdb.c and files that both releases wrote.
 */
#ifndef LMDBIO_FORMAT_LAYOUT_H
#define LMDBIO_FORMAT_LAYOUT_H

#include <stdint.h>

enum {
	PAGE_NUMBER = 0,
	PAGE_TXNID = 8, /* of LMDB 1.0: the transaction that wrote the page */
	RUN_PAGES = 16, /* of a reference to an overflow run, behind the page and transaction */
	PAGE_PAD = 8,
	PAGE_FLAGS = 10,
	PAGE_LOWER = 12,
	PAGE_UPPER = 14,
	PAGE_RUN = 12,
	PAGE_HEADER = 16,
};

/* The formats of data files. Their pages differ in the numbers of struct page_layout. */
enum format {
	FORMAT_0_9,
	FORMAT_1_0,
	FORMATS,
};

struct page_layout {
	uint32_t version;   /* of the meta pages */
	uint32_t page_max;  /* bytes */
	uint32_t shift;     /* bytes from a field's place in 0.9 to its place here */
	uint32_t header;    /* bytes: where the entry offsets or items begin */
	uint32_t base;      /* origin of entry offsets, lower and upper */
	uint32_t least;     /* the least entry offset; 0: none leads in front of the entries */
	uint32_t odd;       /* 1: data stands at even offsets only */
	uint32_t reference; /* bytes of a reference to an overflow run */
	uint32_t name_end;  /* bytes of a database's name behind its text */
};

/* With a constant index the compiler leaves nothing of this table in the code. */
static const struct page_layout page_layouts[FORMATS] = {
	[FORMAT_0_9] = {.version = 1, .page_max = 32768, .header = 16, .least = 18, .reference = 8},
	[FORMAT_1_0] = {.version = 3,
			.page_max = 65536,
			.shift = 8,
			.header = 24,
			.base = 24,
			.odd = 1,
			.reference = 24,
			.name_end = 1},
};

/* For code that only knows pages of this format. */
#define LAYOUT_0_9 (&page_layouts[FORMAT_0_9])

enum page_flag {
	PAGE_BRANCH = 0x01,
	PAGE_LEAF = 0x02,
	PAGE_OVERFLOW = 0x04,
	PAGE_META = 0x08,
	PAGE_LEAF2 = 0x20,
	PAGE_SUB = 0x40,
};

enum {
	META_MAGIC = 16,
	META_VERSION = 20,
	META_ADDRESS = 24,
	META_MAPSIZE = 32,
	META_FREE_TREE = 40,
	META_MAIN_TREE = 88,
	META_LAST_PAGE = 136,
	META_TXNID = 144,
	META_END = 152,
	META_LOOK = META_END + 8, /* the same for a meta page of any format */
};

#define FORMAT_MAGIC   0xBEEFC0DEu
#define FORMAT_VERSION 1u

enum {
	TREE_PAD = 0,
	TREE_FLAGS = 4,
	TREE_DEPTH = 6,
	TREE_BRANCH_PAGES = 8,
	TREE_LEAF_PAGES = 16,
	TREE_OVERFLOW_PAGES = 24,
	TREE_ENTRIES = 32,
	TREE_ROOT = 40,
	TREE_SIZE = 48,
};

#define PAGE_NONE UINT64_MAX /* the root of an empty tree */

enum {
	ENTRY_LOW = 0,
	ENTRY_HIGH = 2,
	ENTRY_FLAGS = 4,
	ENTRY_KEY_SIZE = 6,
	ENTRY_KEY = 8,
};

/* Offsets in LMDB 1.0's reference to an overflow run. */
enum { REFERENCE_PAGES = 16 };

enum entry_flag {
	ENTRY_BIG = 0x01,     /* the data is the number of an overflow run's first page */
	ENTRY_SUBTREE = 0x02, /* the data is a tree record */
	ENTRY_DUPS = 0x04, /* the data is a sub-page, or with ENTRY_SUBTREE a tree, of duplicates */
};

enum {
	FORMAT_PAGE_MIN = 256,
	FORMAT_PAGE_MAX = 65536, /* of any format: page_layout.page_max has each format's */
	FORMAT_DEPTH_MAX = 32,
	FORMAT_METAS = 2,
	FORMAT_ENCRYPTED = 0x2000, /* an environment's flag in LMDB 1.0: other pages are
				      encrypted */
};

#endif
