/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what an open container is made of.
 *
 * Functions in here return 0 or an errno; EBADMSG is damage. container_code() makes MDB_CORRUPTED
 * of it where it leaves the folder for a caller that is not the io door.
 */
#ifndef LMDBIO_CONTAINER_PRIVATE_H
#define LMDBIO_CONTAINER_PRIVATE_H

#include "container/container.h"
#include "container/container_cache.h"
#include "container/container_layout.h"

#define ZSTD_WINDOW_MAX CONTAINER_CHUNK_MAX /* bytes: a frame that says more is refused */

struct io_threads;
struct ZSTD_DCtx_s;
struct ZSTD_DDict_s;

/* What a thread needs that is inside a read; kept for the next one. */
struct read_worker {
	struct read_worker *next;
	struct ZSTD_DCtx_s *zstd;
	uint8_t *buffer; /* compressed bytes, aligned as the io below wants */
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
	struct section groups;                      /* their number in `pages` */
	uint32_t group_pages;                       /* in a full one */
	struct ZSTD_DDict_s *dictionary;            /* NULL: none */
	struct cache pages;                         /* of the index, by their offset */
	struct cache chunks;                        /* partly read ones, by number */
	struct cache copies;                        /* groups, by number */
	struct io_threads *threads;                 /* from the first submit on */
	pthread_mutex_t lock;                       /* of `idle` */
	struct read_worker *idle;
	unsigned generation; /* fork_generation of the process that made these locks */
	unsigned adopting;   /* ... and the last attempt to make them ours */
};

/* What every way into an open container calls first: in a forked child it frees the locks that the
 * parent's other threads held. */
void container_enter(struct container *container);

/* container_open.c */

/* Bytes of data in chunk `number`. */
uint32_t container_chunk_size(const struct container_info *info, uint64_t number);

/* Judges a header of LAYOUT_END bytes. 0, MDB_INVALID, MDB_VERSION_MISMATCH, MDB_CORRUPTED. */
int container_parse_header(const uint8_t *header, struct container_info *info);

/* Exactly these bytes of the container. EBADMSG: it ends before. */
int container_read_below(struct container *container, uint64_t offset, size_t length, void *out);

void container_close(struct io *io);

/* container_read.c */

extern const struct io_ops io_container_ops;

/* A worker for the caller's thread, to be given back; NULL: no memory. */
struct read_worker *worker_take(struct container *container);
void worker_give(struct container *container, struct read_worker *worker);

/* Makes worker->buffer hold `size` bytes. false: no memory. */
bool worker_reserve(struct read_worker *worker, size_t size, size_t alignment);

/* container_index.c */

/* A verified page; to be given back with cache_release(&container->pages, slot). */
int index_take(struct container *container, enum layout_kind kind, uint64_t number,
	       struct cache_slot **slot);

/* Puts page `number`, which is at hand, where index_take() will find it, if it is good. */
void index_keep(struct container *container, enum layout_kind kind, uint64_t number,
		const uint8_t *page);

/* The entries of up to n chunks from `first` on, and how many were given. */
int index_chunks(struct container *container, uint64_t first, size_t n,
		 struct container_chunk *chunks, size_t *given);

/* container_copies.c */

/* A group that has been read. */
struct copies {
	struct cache_slot *slot; /* to be given back with cache_release(&container->copies, slot) */
	uint32_t n;        /* pages */
	uint64_t offset;   /* of it in the container */
};

/* Group `number`, verified: its numbers rise, and are of pages within the data. */
int copies_take(struct container *container, uint64_t number, struct copies *copies);
uint64_t copies_number(const struct copies *copies, uint32_t i);

/* How large a full group is when it is decoded, bytes. */
size_t copies_size(const struct container *container);

/* Which of a data file's first two pages is the newest meta page: 0 or 1, or -1 when they are none
 * that the original would go by. META_LOOK bytes of each are looked at. */
int select_meta(const uint8_t *first, const uint8_t *second, uint32_t page_size,
		enum format format);

/* container_chunk.c */

/* Reads a frame of `length` bytes that must hold `size` bytes of data into `out`. If it cannot,
 * `out` is as it was, or zeroes. No memory is taken by what the frame says. EBADMSG, ENOMEM. */
int frame_decode(struct ZSTD_DCtx_s *zstd, const struct ZSTD_DDict_s *dictionary,
		 const uint8_t *frame, size_t length, void *out, size_t size);

/* The same, but only if the checksums of the frame, before it is decoded, and of the data are
 * right. */
int chunk_decode(struct ZSTD_DCtx_s *zstd, const struct ZSTD_DDict_s *dictionary,
		 const struct container_chunk *chunk, const uint8_t *frame, void *out);

#endif
