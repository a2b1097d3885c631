/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says where things stand in a data file of LMDB 0.9 (data version 1).
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
 * Source: the original's mdb.c and files that it wrote; LMDB 1.0's data version 3 is another
 * layout (24-byte page header, magic at 24) and is refused as the original refuses it.
 */
#ifndef LMDBIO_FORMAT_LAYOUT_H
#define LMDBIO_FORMAT_LAYOUT_H

#include <stdint.h>

enum {
	PAGE_NUMBER = 0,
	PAGE_PAD = 8,
	PAGE_FLAGS = 10,
	PAGE_LOWER = 12,
	PAGE_UPPER = 14,
	PAGE_RUN = 12,
	PAGE_HEADER = 16,
};

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

enum entry_flag {
	ENTRY_BIG = 0x01,     /* the data is the number of an overflow run's first page */
	ENTRY_SUBTREE = 0x02, /* the data is a tree record */
	ENTRY_DUPS = 0x04, /* the data is a sub-page, or with ENTRY_SUBTREE a tree, of duplicates */
};

enum {
	FORMAT_PAGE_MIN = 256,
	FORMAT_PAGE_MAX = 32768, /* 0.9 caps at this: offsets in a page are 16 bits */
	FORMAT_DEPTH_MAX = 32,
	FORMAT_METAS = 2,
};

#endif
