/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a container, the compressed and checked form of a data file, as one more kind of io:
 * offsets are those of the uncompressed data file.
 *
 * The format is in doc/container-format.md. Nothing in a container is believed before its checksum
 * and its sense have been checked, and nothing is allocated by a length that has not been.
 *
 * Errors, the one convention: what opens or asks a container here returns 0, an errno, or an MDB_*
 * code. A read through the io door (io_read(), a request's `error`) is an errno alone: damage is
 * EBADMSG there, and never anything else is; container_code() turns it into MDB_CORRUPTED.
 */
#ifndef LMDBIO_CONTAINER_H
#define LMDBIO_CONTAINER_H

#include "format/layout.h"
#include "io/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONTAINER_CHUNK_MIN = 64 << 10, /* bytes, of data */
	CONTAINER_CHUNK_MAX = 64 << 20,
	CONTAINER_CHUNK_DEFAULT = 1 << 20,
	CONTAINER_DICTIONARY_MAX = 512 << 10,
	CONTAINER_NAME_MAX = 511, /* bytes in a database's name */
	CONTAINER_META = 136,     /* bytes of a meta page that say anything: from its magic number on */
	CONTAINER_FOOTER = 256,   /* bytes at the file's end, which its contents' hash is among */
};

/* Where the data came from, so that a container can be told from a stale one. */
struct container_source {
	uint64_t txnid;   /* of the LMDB snapshot */
	uint64_t size;    /* of the source file, bytes */
	uint8_t hash[16]; /* container_source_hash() of its first two pages; zeroes: not known */
};

/* What the header and the footer say. */
struct container_info {
	unsigned major, minor; /* of the format */
	enum format format;    /* of the data's pages */
	bool relaid;           /* pages stand in another order than in the source */
	uint32_t page_size;    /* bytes */
	uint32_t chunk_size;   /* bytes of data; the last chunk may be shorter */
	uint64_t size;         /* bytes of data: what io_size() says */
	uint64_t chunks;
	struct container_source source;
	int level;                /* of zstd, as asked for */
	bool long_distance;       /* long-distance matching was on */
	unsigned zstd_version;    /* ZSTD_versionNumber() of the writer */
	uint32_t dictionary_size; /* bytes; 0: none */
	uint64_t trees;           /* databases in the record index; 0: there is no record index */
	uint64_t file_size;       /* bytes of the container */
	uint64_t data_offset;     /* of the first chunk's frame in the container */
	uint64_t data_end;        /* behind the last chunk's frame */
	uint64_t footer_hash;     /* of the footer's bytes: the container's own identity */
	uint64_t content_hash;    /* of all chunks' checksums, in order: of the data as a whole */
	uint64_t copies;          /* pages that stand in the index as well */
	uint64_t groups;          /* in so many groups ... */
	uint64_t groups_size;     /* ... of so many bytes */
	bool has_meta;            /* the data's newest meta page is known: */
	unsigned meta_page;       /* 0 or 1 */
	uint8_t meta[CONTAINER_META];
	uint16_t sum_size; /* of LMDB 1.0: bytes of a page's checksum; 0: pages have none */
};

struct container_options {
	size_t cache; /* bytes of partly read chunks to keep; 0: 8 MiB. At least two chunks are */
};

/* Whether a file begins as a container does, in whatever version, finished or not, and also where a
 * transfer has changed ends of lines: io_open_container() says what is wrong with one. */
bool container_is_one(int fd);

/* Opens the container that `below` reads as an io of the data in it: io_read() and requests at any
 * offset and length (alignment 1), io_size() the data's. Reads the header, the last 64 KiB and the
 * dictionary: less than 600 KiB, however large the container. `below` stays the caller's and must
 * outlive the io; its counts are what was asked of storage. NULL options: the defaults.
 * Memory: the options' cache, 64 index pages, 16 groups of copies (264 KiB each), the dictionary, and
 * for each thread that is inside a read its compressed bytes (at most 4 MiB, or one chunk's if that is
 * more) and 100 KiB. Returns 0; MDB_INVALID (no container);
 * MDB_VERSION_MISMATCH (of a newer format); MDB_CORRUPTED (damaged, cut off or not finished);
 * ENOMEM; the errno of a read. */
int io_open_container(struct io *io, struct io *below, const struct container_options *options);

/* What a read's errno means to a caller of LMDB's: EBADMSG is MDB_CORRUPTED, the rest as it is. */
int container_code(int error);

/* XXH3-128 of `length` bytes (the first two pages), canonical byte order. Threads: any. */
void container_source_hash(const void *bytes, size_t length, uint8_t hash[16]);

/* The functions below take an io of io_open_container(). Threads: any, at the same time. They
 * return 0, MDB_CORRUPTED (damage in what they had to read), ENOMEM or the errno of a read; more if
 * said. */

/* Lives as long as the io. */
const struct container_info *container_info(const struct io *io);

struct container_chunk {
	uint64_t offset; /* of the frame in the container, bytes */
	uint32_t length; /* of the frame, bytes */
	uint32_t check;  /* the low half of the frame's XXH3-64 */
	uint32_t size;   /* bytes of data */
	uint64_t hash;   /* XXH3-64 of the data */
};

/* Chunk `number` of info->chunks; it holds the data from number * info->chunk_size on. EINVAL:
 * there is none of that number. The data itself is verified by reading it. */
int container_chunk(struct io *io, uint64_t number, struct container_chunk *chunk);

/* Reads a range of the data, of whole pages, out of the index: of the pages that lead to values
 * there are copies. No chunk is read. MDB_NOTFOUND: not all of its pages have one; and whatever
 * else it returns, io_read() may still bring the bytes. */
int container_read_copies(struct io *io, void *buffer, size_t length, uint64_t offset);

/* Whether all copies of pages in a range of the data, which begins with a page, are like the data,
 * of which these are the bytes; and in a range that begins at 0, the meta page that the footer has.
 * MDB_CORRUPTED: one is not; *page is its number. */
int container_check_copies(struct io *io, const void *bytes, size_t length, uint64_t offset,
			   uint64_t *page);

/* A database in the record index. */
struct container_tree {
	uint64_t number;                   /* its own, from 0 */
	uint64_t records;                  /* key-value pairs, each duplicate by itself */
	uint64_t leaves;                   /* leaf pages */
	uint64_t first;                    /* its first page in the record index */
	uint64_t pages;                    /* how many it has there */
	uint16_t flags;                    /* MDB_DUPSORT ..., as in LMDB's tree record */
	uint16_t name_size;                /* bytes; 0: the main database */
	char name[CONTAINER_NAME_MAX + 1]; /* any bytes; a zero byte behind them */
};

/* Database `number` of info->trees, in the order they were written. EINVAL: none of that number. */
int container_tree(struct io *io, uint64_t number, struct container_tree *tree);

/* The one of that name (size 0: the main database), by looking at each. MDB_NOTFOUND: not there. */
int container_tree_find(struct io *io, const void *name, size_t size, struct container_tree *tree);

struct container_leaf {
	uint64_t page;  /* page number in the data file */
	uint64_t first; /* number of its first record, from 0 */
};

/* Leaf page `number` of tree->leaves, in key order; reads at most one index page. EINVAL: none. */
int container_leaf(struct io *io, const struct container_tree *tree, uint64_t number,
		   struct container_leaf *leaf);

/* Reads the whole index, and sees that chunks, record numbers and copies follow each other without
 * a gap and that the content hash is right. *bad is then the container's offset of what is damaged.
 * The data is not read; that copies are like it, container_check_copies() tells. */
int container_check_index(struct io *io, uint64_t *bad);

/* Bytes that a frame of `size` bytes of data may need. */
size_t container_frame_bound(size_t size);

/* Which pages of a piece of data, of whole pages from `offset` on, the index is to have copies of:
 * sets or clears a bit of `picked` for each of the length / page_size pages. Any thread. */
void container_select(enum format format, uint32_t page_size, const void *data, size_t length,
		      uint64_t offset, uint8_t *picked);

#endif
