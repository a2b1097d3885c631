/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a container, the compressed and checked form of a data file, as one more kind of io:
 * offsets are those of the uncompressed data file.
 *
 * The format is in doc/container-format.md. Nothing in a container is used before its checksum and
 * its plausibility have been checked, and no unchecked length sizes an allocation.
 *
 * Errors: a function here that opens or queries a container returns 0, an errno, or an MDB_* code.
 * A read through the io door (io_read(), a request's `error`) gives an errno alone: EBADMSG there
 * means damage and nothing else; container_code() turns it into MDB_CORRUPTED.
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
	CONTAINER_META = 136,     /* bytes of a meta page with data: from its magic number on */
	CONTAINER_FOOTER = 256,   /* bytes at the file's end; the content hash is among them */
};

/* The data's source, which tells a container from a stale one. */
struct container_source {
	uint64_t txnid;   /* of the LMDB snapshot */
	uint64_t size;    /* of the source file, bytes */
	uint8_t hash[16]; /* container_source_hash() of its first two pages; zeroes: not known */
};

/* The contents of the header and the footer. */
struct container_info {
	unsigned major, minor; /* of the format */
	enum format format;    /* of the data's pages */
	bool relaid;           /* pages stand in another order than in the source */
	uint32_t page_size;    /* bytes */
	uint32_t chunk_size;   /* bytes of data; the last chunk may be shorter */
	uint64_t size;         /* bytes of data, as io_size() returns */
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
	uint64_t copies;          /* pages with a copy in the index */
	uint64_t groups;          /* groups of copies */
	uint64_t groups_size;     /* bytes of all groups */
	bool has_meta;            /* the data's newest meta page is known: */
	unsigned meta_page;       /* 0 or 1 */
	uint8_t meta[CONTAINER_META];
	uint16_t sum_size; /* of LMDB 1.0: bytes of a page's checksum; 0: pages have none */
};

struct container_options {
	size_t cache; /* bytes of partly read chunks to keep, at least two chunks; 0: 8 MiB */
};

/* Whether a file begins as a container does, of any version, finished or not, even if a transfer
 * has changed ends of lines. io_open_container() says what is wrong with such a file. */
bool container_is_one(int fd);

/* Opens the container that `below` reads, as an io of the data in it. io_read() and requests take
 * any offset and length (alignment 1); io_size() returns the data's size. Opening reads the header,
 * the last 64 KiB and the dictionary: less than 600 KiB, however large the container. `below` stays
 * the caller's and must outlive the io; its counts are those of reads from storage. NULL options:
 * the defaults. Memory: the options' cache, 64 index pages, 16 groups of copies (264 KiB each), the
 * dictionary, and for each thread inside a read its compressed bytes (at most 4 MiB, or one chunk's
 * if that is more) and 100 KiB. Returns 0; MDB_INVALID (no container); MDB_VERSION_MISMATCH (of a
 * newer format); MDB_CORRUPTED (damaged, cut off or not finished); ENOMEM; the errno of a read. */
int io_open_container(struct io *io, struct io *below, const struct container_options *options);

/* Turns a read's errno into LMDB's code: EBADMSG into MDB_CORRUPTED, any other stays as it is. */
int container_code(int error);

/* Stores the XXH3-128 of `length` bytes (the first two pages), in canonical byte order. Threads:
 * any. */
void container_source_hash(const void *bytes, size_t length, uint8_t hash[16]);

/* The functions below take an io of io_open_container(). Threads: any, at the same time. They
 * return 0, MDB_CORRUPTED (damage in the parts they read), ENOMEM or the errno of a read, and
 * further codes that their comments name. */

/* The returned struct lives as long as the io. */
const struct container_info *container_info(const struct io *io);

struct container_chunk {
	uint64_t offset; /* of the frame in the container, bytes */
	uint32_t length; /* of the frame, bytes */
	uint32_t check;  /* the low half of the frame's XXH3-64 */
	uint32_t size;   /* bytes of data */
	uint64_t hash;   /* XXH3-64 of the data */
};

/* Describes chunk `number` of info->chunks, which holds the data from number * info->chunk_size on.
 * EINVAL: there is no such chunk. Only reading the data verifies it. */
int container_chunk(struct io *io, uint64_t number, struct container_chunk *chunk);

/* Reads a range of whole pages of the data out of the index, which has copies of pages that lead to
 * values. Reads no chunk. MDB_NOTFOUND: not all of the pages have a copy. After any error io_read()
 * may still bring the bytes. */
int container_read_copies(struct io *io, void *buffer, size_t length, uint64_t offset);

/* Compares all copies of pages in a range, which begins with a page, with `bytes`, the data of the
 * range. In a range that begins at 0, compares the footer's meta page, too. MDB_CORRUPTED: a copy
 * differs; *page is its page number. */
int container_check_copies(struct io *io, const void *bytes, size_t length, uint64_t offset,
			   uint64_t *page);

/* A database in the record index. */
struct container_tree {
	uint64_t number;                   /* its number, from 0 */
	uint64_t records;                  /* key-value pairs, each duplicate by itself */
	uint64_t leaves;                   /* leaf pages */
	uint64_t first;                    /* its first page in the record index */
	uint64_t pages;                    /* its pages in the record index */
	uint16_t flags;                    /* MDB_DUPSORT ..., as in LMDB's tree record */
	uint16_t name_size;                /* bytes; 0: the main database */
	char name[CONTAINER_NAME_MAX + 1]; /* any bytes; a zero byte behind them */
};

/* Describes database `number` of info->trees, in the order of writing. EINVAL: there is none. */
int container_tree(struct io *io, uint64_t number, struct container_tree *tree);

/* Finds a database by its name (size 0: the main one). The search is linear, from the database
 * behind the last one that was found. MDB_NOTFOUND: none. */
int container_tree_find(struct io *io, const void *name, size_t size, struct container_tree *tree);

struct container_leaf {
	uint64_t page;  /* page number in the data file */
	uint64_t first; /* number of its first record, from 0 */
};

/* Finds leaf page `number` of tree->leaves, in key order, in one index page. EINVAL: there is
 * none. */
int container_leaf(struct io *io, const struct container_tree *tree, uint64_t number,
		   struct container_leaf *leaf);

/* Reads the whole index, and checks that chunks, record numbers and copies follow each other
 * without a gap and that the content hash is right. On damage, *bad is the container's offset of
 * the damaged part. Does not read the data; container_check_copies() compares copies with it. */
int container_check_index(struct io *io, uint64_t *bad);

/* Bytes that a frame of `size` bytes of data may need. */
size_t container_frame_bound(size_t size);

/* Selects the pages of which the index is to have copies, from a piece of data of whole pages,
 * which begins at `offset`. Sets or clears a bit of `picked` for each of the length / page_size
 * pages. Any thread. */
void container_select(enum format format, uint32_t page_size, const void *data, size_t length,
		      uint64_t offset, uint8_t *picked);

#endif
