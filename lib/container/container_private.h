/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the parts of an open container.
 *
 * Functions in here return 0 or an errno; EBADMSG is damage. container_code() turns EBADMSG into
 * MDB_CORRUPTED where it leaves the folder for a caller other than the io door.
 */
#ifndef LMDBIO_CONTAINER_PRIVATE_H
#define LMDBIO_CONTAINER_PRIVATE_H

#include "container/container.h"
#include "container/container_cache.h"
#include "container/container_layout.h"

#include <stdatomic.h>

#define ZSTD_WINDOW_MAX CONTAINER_CHUNK_MAX /* bytes: a frame with a larger window is refused */

struct io_threads;
struct ZSTD_DCtx_s;
struct ZSTD_DDict_s;

/* The decoder and buffer of a thread inside a read; kept for the next read. */
struct read_worker {
	struct read_worker *next;
	struct ZSTD_DCtx_s *zstd;
	uint8_t *buffer; /* compressed bytes, aligned as the io below requires */
	size_t size;
};

struct section {
	uint64_t offset; /* of its first page */
	uint64_t pages;
};

struct container {
	struct io *below;
	struct container_info info;
	uint64_t header_hash, dictionary_hash;
	struct section sections[LAYOUT_KINDS];      /* by enum layout_kind */
	struct section groups;                      /* `pages` counts the groups */
	uint32_t group_pages;                       /* pages in a full group */
	struct ZSTD_DDict_s *dictionary;            /* NULL: none */
	struct cache pages;                         /* of the index, by their offset */
	struct cache chunks;                        /* partly read chunks, by number */
	struct cache copies;                        /* groups, by number */
	_Atomic uint64_t tree_next;                 /* where a search for a tree begins */
	struct io_threads *threads;                 /* from the first submit on */
	pthread_mutex_t lock;                       /* of `idle` */
	struct read_worker *idle;
	unsigned generation; /* fork_generation of the process that made these locks */
	unsigned adopting;   /* ... and of the last attempt to make them anew */
};

/* Every function that enters an open container calls this first: in a forked child it frees the
 * locks that the parent's other threads held. */
void container_enter(struct container *container);

/* container_open.c */

/* Bytes of data in chunk `number`. */
uint32_t container_chunk_size(const struct container_info *info, uint64_t number);

/* Judges a header of LAYOUT_END bytes. Returns 0 or an MDB_* code of io_open_container(). */
int container_parse_header(const uint8_t *header, struct container_info *info);

/* Reads exactly these bytes of the container. EBADMSG: the container ends before. */
int container_read_below(struct container *container, uint64_t offset, size_t length, void *out);

void container_close(struct io *io);

/* container_read.c */

extern const struct io_ops io_container_ops;

/* Returns a worker for the caller's thread, to be given back; NULL: no memory. */
struct read_worker *worker_take(struct container *container);
void worker_give(struct container *container, struct read_worker *worker);

/* Makes worker->buffer hold `size` bytes. Returns false if there is no memory. */
bool worker_reserve(struct read_worker *worker, size_t size, size_t alignment);

/* container_index.c */

/* Takes a verified page; to be given back with cache_release(&container->pages, slot). */
int index_take(struct container *container, enum layout_kind kind, uint64_t number,
	       struct cache_slot **slot);

/* Caches page `number`, of which `page` has the bytes, for index_take(), if it is good. */
void index_keep(struct container *container, enum layout_kind kind, uint64_t number,
		const uint8_t *page);

/* Stores the entries of up to n chunks from `first` on; *given is how many. */
int index_chunks(struct container *container, uint64_t first, size_t n,
		 struct container_chunk *chunks, size_t *given);

/* container_copies.c */

/* A group that has been read. */
struct copies {
	struct cache_slot *slot; /* to be given back with cache_release(&container->copies, slot) */
	uint32_t n;        /* pages */
	uint64_t offset;   /* of the group in the container */
};

/* Takes group `number`, verified: its page numbers rise and are within the data. */
int copies_take(struct container *container, uint64_t number, struct copies *copies);
uint64_t copies_number(const struct copies *copies, uint32_t i);

/* Returns the decoded size of a full group, bytes. */
size_t copies_size(const struct container *container);

/* Returns which of a data file's first two pages is the newest meta page: 0 or 1, or -1 if the
 * original would use neither. Looks at META_LOOK bytes of each. */
int select_meta(const uint8_t *first, const uint8_t *second, uint32_t page_size,
		enum format format);

/* container_chunk.c */

/* Decodes a frame of `length` bytes that must hold `size` bytes of data into `out`. On failure
 * `out` is as it was, or zeroes. No field of the frame sizes an allocation. Returns 0, EBADMSG or
 * ENOMEM. */
int frame_decode(struct ZSTD_DCtx_s *zstd, const struct ZSTD_DDict_s *dictionary,
		 const uint8_t *frame, size_t length, void *out, size_t size);

/* Decodes a chunk's frame like frame_decode(), but only if the checksums of the frame (before
 * decoding) and of the data (after it) are right. */
int chunk_decode(struct ZSTD_DCtx_s *zstd, const struct ZSTD_DDict_s *dictionary,
		 const struct container_chunk *chunk, const uint8_t *frame, void *out);

#endif
