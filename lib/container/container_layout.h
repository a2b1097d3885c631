/* SPDX-License-Identifier: OLDAP-2.8 */
/* Defines the layout of a container, format version 1.
 *
 * doc/container-format.md is the full description. All numbers are little-endian; offsets are in
 * bytes from the start of the block. A container is a row of zstd frames and skippable frames:
 *
 *   header (256)  [dictionary (8 + its size)]  chunks (one zstd frame each)
 *   leaf pages  tree pages (4096 each)  groups of copies (8 + a zstd frame each)
 *   chunk pages  copy pages (4096 each)  footer (256)
 *
 * Every block of 256 or 4096 bytes is one skippable frame and ends with its own XXH3-64. A page's
 * XXH3-64 is seeded with the header's, so that no page of another container passes.
 */
#ifndef LMDBIO_CONTAINER_LAYOUT_H
#define LMDBIO_CONTAINER_LAYOUT_H

#include "container/container.h"
#include "util/checked.h"
#include "util/hash.h"

#include <endian.h>
#include <stdint.h>

#define LAYOUT_SKIPPABLE 0x184D2A5Cu /* the one of zstd's 16 that all blocks here use */
#define LAYOUT_ZSTD      0xFD2FB528u

enum {
	LAYOUT_MAJOR = 1,
	LAYOUT_MINOR = 0,
	LAYOUT_FRAME =
		8, /* bytes in front of a skippable frame's content: magic (4), its size (4) */
	LAYOUT_END = CONTAINER_FOOTER, /* bytes of the header and of the footer */
	LAYOUT_END_HASH = 248,
	LAYOUT_PAGE = 4096,
	LAYOUT_PAGE_HASH = 4088,
};

/* "lmdbio\r\n" and "oibdml\r\n": they show a transfer that changes ends of lines. */
#define LAYOUT_HEADER_MAGIC 0x0a0d6f6962646d6cu
#define LAYOUT_FOOTER_MAGIC 0x0a0d6c6d6462696fu

enum layout_flag {
	LAYOUT_DICTIONARY = 1,   /* the dictionary is needed to read chunks */
	LAYOUT_LMDB_1_0 = 2,     /* the data is a data file of LMDB 1.0 */
	LAYOUT_NEEDED = 0xffff,  /* any other of these bits is of a newer format */
	LAYOUT_RELAID = 1 << 16, /* higher bits only inform. Pages stand in another order than in
				    the source */
	LAYOUT_LONG_DISTANCE = 1 << 17, /* the writer matched over the whole chunk */
};

enum {
	END_MAGIC = 8,  /* 8 bytes; 8, 16 and 18 are alike in the header and the footer, */
	END_MAJOR = 16, /* 2: and in every future version */
	END_MINOR = 18, /* 2 */
};

enum {
	HEADER_FLAGS = 20,           /* 4 */
	HEADER_PAGE_SIZE = 24,       /* 4 */
	HEADER_CHUNK_SIZE = 28,      /* 4 */
	HEADER_SIZE = 32,            /* 8: of the data */
	HEADER_DICTIONARY_SIZE = 40, /* 4 */
	HEADER_LEVEL = 44,           /* 4, signed */
	HEADER_DICTIONARY_HASH = 48, /* 8: XXH3-64 */
	HEADER_ZSTD_VERSION = 56,    /* 4 */
	HEADER_SOURCE_TXNID = 64,    /* 8 */
	HEADER_SOURCE_SIZE = 72,     /* 8 */
	HEADER_SOURCE_HASH = 80,     /* 16 */
};

enum {
	FOOTER_HEADER_HASH = 24,  /* 8: the header's own */
	FOOTER_FILE_SIZE = 32,    /* 8 */
	FOOTER_DATA_END = 40,     /* 8: offset behind the last chunk; the leaf pages begin here */
	FOOTER_LEAF_PAGES = 48,   /* 8 */
	FOOTER_TREES = 56,        /* 8 */
	FOOTER_CONTENT_HASH = 64, /* 8: hash_chain() over all chunks */
	FOOTER_COPIES = 72,       /* 8: copied pages */
	FOOTER_META_PAGE =
		80,       /* 4: 1 or 2: the footer has a copy of page 0 or 1; 0: it has no copy */
	FOOTER_META = 88, /* 136: that page's bytes from 16 on, in LMDB 1.0 from 24 on */
	FOOTER_META_SIZE = 136,
	FOOTER_SUM_SIZE = 224, /* 2: of LMDB 1.0, bytes of a page's checksum */
};

enum layout_kind {
	LAYOUT_LEAVES = 1,
	LAYOUT_TREES = 2,
	LAYOUT_CHUNKS = 3,
	LAYOUT_COPIES = 4,
	LAYOUT_KINDS,
};

/* A page of the index. The pages of a section are numbered from 0, and all are full but the
 * section's last one (for leaf pages: each tree's last one). */
enum {
	INDEX_KIND = 8,     /* 4 */
	INDEX_ENTRIES = 12, /* 4: more than 0 */
	INDEX_NUMBER = 16,  /* 8: number in its section */
	INDEX_BASE = 24, /* 8: chunks: offset of the first frame; leaves: the tree; copies: offset
			    of the first group from where groups begin */
	INDEX_BODY = 32,

	CHUNKS_PER_PAGE = 253,
	CHUNK_ENTRY = 16,
	CHUNK_ENTRY_LENGTH = 0, /* 4: bytes of the frame */
	CHUNK_ENTRY_CHECK = 4,  /* 4: the low half of the frame's XXH3-64 */
	CHUNK_ENTRY_HASH = 8,   /* 8: XXH3-64 of the data */

	LEAVES_PER_PAGE = 253,
	LEAF_ENTRY = 16,
	LEAF_ENTRY_PAGE = 0,  /* 8: page number */
	LEAF_ENTRY_FIRST = 8, /* 8: number of its first record */

	TREES_PER_PAGE = 7,
	TREE_ENTRY = 576,
	TREE_ENTRY_RECORDS = 0,    /* 8 */
	TREE_ENTRY_LEAVES = 8,     /* 8 */
	TREE_ENTRY_FIRST = 16,     /* 8: its first leaf page */
	TREE_ENTRY_FLAGS = 24,     /* 2 */
	TREE_ENTRY_NAME_SIZE = 26, /* 2 */
	TREE_ENTRY_NAME = 64,

	GROUPS_PER_PAGE = 169,
	GROUP_ENTRY = 24,
	GROUP_ENTRY_FIRST = 0,   /* 8: the least page number in the group */
	GROUP_ENTRY_HASH = 8,    /* 8: XXH3-64 of the frame's content */
	GROUP_ENTRY_LENGTH = 16, /* 4: bytes of the frame */
	GROUP_ENTRY_CHECK = 20,  /* 4: the low half of the frame's XXH3-64 */
};

/* A group: a skippable frame around a zstd frame, which holds page numbers (8 bytes each, rising)
 * and behind them the pages. Every group but the last is full. */
enum { LAYOUT_GROUP = 256 << 10 /* bytes of pages */, LAYOUT_NUMBER = 8 };

static inline uint16_t get16(const uint8_t *p)
{
	return le16toh(load16(p));
}

static inline uint32_t get32(const uint8_t *p)
{
	return le32toh(load32(p));
}

static inline uint64_t get64(const uint8_t *p)
{
	return le64toh(load64(p));
}

static inline void put16(uint8_t *p, uint16_t value)
{
	store16(p, htole16(value));
}

static inline void put32(uint8_t *p, uint32_t value)
{
	store32(p, htole32(value));
}

static inline void put64(uint8_t *p, uint64_t value)
{
	store64(p, htole64(value));
}

/* Continues the content hash with a chunk: XXH3-64 of the hash so far (8 bytes, little-endian; at
 * first 0) and the chunk's checksum (8 bytes, too). */
static inline uint64_t hash_chain(uint64_t so_far, uint64_t chunk)
{
	uint8_t both[16];

	put64(both, so_far);
	put64(both + 8, chunk);
	return hash_bytes(both, sizeof(both));
}

/* Writes the checksum behind a header or footer (seed 0), or a page. */
static inline void hash_seal(uint8_t *block, size_t hash_at, uint64_t seed)
{
	put64(block + hash_at, hash_seeded(block, hash_at, seed));
}

/* Returns how many pages `n` items fill, `per` to a page. */
static inline uint64_t layout_pages(uint64_t n, uint64_t per)
{
	return n / per + (n % per != 0);
}

#endif
