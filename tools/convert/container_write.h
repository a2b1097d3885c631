/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes containers.
 *
 * One process:  container_write_open() or _resume(); container_write_buffer() and _commit() until
 *               all data is in, or container_write_bytes(); container_write_tree() and _leaf() at
 *               any time between; container_write_finish(); container_write_close().
 * Several:      each compresses its chunks (container_compress()). An exclusive scan of the frames'
 *               lengths from container_write_offset() on places them. One process gives its
 *               writer every frame in order (container_write_frame()), and every page that
 *               container_select() has picked (container_write_copy()), and finishes.
 *
 * The same data, options and libzstd give the same bytes, with any number of processes and threads.
 * One thread at a time may use a writer. Every function that returns int returns 0, an errno, or
 * what its comment says; after the first error but EINVAL and EBUSY every call on that writer
 * returns that error.
 */
#ifndef LMDBIO_CONTAINER_WRITE_H
#define LMDBIO_CONTAINER_WRITE_H

#include "container/container.h"

struct container_write_options {
	uint64_t size;          /* bytes of data that the caller will give */
	enum format format;     /* of the data file's pages */
	uint32_t page_size;     /* of them, bytes: 256 to 32768 (LMDB 1.0: 65536), a power of two */
	uint32_t chunk_size;    /* a power of two; 0: CONTAINER_CHUNK_DEFAULT */
	int level;              /* 1 to 22, or negative: zstd's fast ones; 0: zstd's default (3) */
	bool long_distance;     /* long-distance matching, window as large as the chunk */
	bool relaid;            /* noted in the header: pages stand in another order than in the
				   source */
	unsigned threads;       /* threads that compress beside the caller's; 0: only the
				   caller's */
	const void *dictionary; /* NULL: none */
	size_t dictionary_size; /* 8 bytes to CONTAINER_DICTIONARY_MAX */
	struct container_source source;
	const char *temporary; /* folder for index pages that outgrow memory; NULL: TMPDIR, /tmp */
};

/* One chunk. */

/* The facts about a compressed chunk that the container keeps. */
struct container_frame {
	uint32_t length; /* of the frame, bytes */
	uint32_t check;  /* the low half of the frame's XXH3-64 */
	uint32_t size;   /* of the data in it, bytes */
	uint64_t hash;   /* XXH3-64 of the data */
};

struct container_compressor; /* a context of one thread */

/* Memory: a context of zstd for the level and chunk size (ZSTD_estimateCCtxSize()), and the
 * digested dictionary. EINVAL: options that no container can have. */
int container_compressor_open(struct container_compressor **compressor,
			      const struct container_write_options *options);
void container_compressor_close(struct container_compressor *compressor); /* NULL is fine */

/* Compresses a chunk of `size` bytes into `out`, of container_frame_bound(size) bytes. EIO: zstd
 * failed. */
int container_compress(struct container_compressor *compressor, const void *data, size_t size,
		       void *out, struct container_frame *frame);

/* The file. */

struct container_writer;

/* Begins a container at the start of fd, an empty file (or a pipe) open for writing, which stays
 * the caller's. The header is written with the first bytes of data. Pointers in the options must
 * stay valid until close. Memory in all, with J the chunk size or 1 MiB if that is more: (2 *
 * threads + 1) * 2.01 * J; a compressor for each thread (at least one) and one more for copies; and
 * 2 MiB for index pages and copies. The rest of these is in files without a name in
 * options->temporary (17 bytes a chunk, 17 a leaf page, 586 a database, copies compressed). EINVAL:
 * options that no container can have. */
int container_write_open(struct container_writer **writer, int fd,
			 const struct container_write_options *options);

/* Goes on with a partial file, open for reading and writing, that a killed writer with the same
 * options left. Verifies chunks from the first on, and cuts the file behind the last good one.
 * *done: bytes of data that are in; give the data behind them, for container_write_offset(). Give
 * all trees and leaves again. A finished container is resumed behind its last chunk. An empty file,
 * or one too short for a header, begins anew. MDB_INCOMPATIBLE: the file is not the beginning of
 * this container (another source, other options), and stays as it is. */
int container_write_resume(struct container_writer **writer, int fd,
			   const struct container_write_options *options, uint64_t *done);

/* Returns the room for the next data: *buffer of *length bytes, more than 0, to be filled from its
 * start; 0 when all of options->size has been given. The buffer is aligned to 4096 bytes as long as
 * every commit is a multiple of that. Valid until _commit(); a second call returns the same. Waits
 * for a compressing thread if all buffers are busy, and writes finished frames. */
int container_write_buffer(struct container_writer *writer, void **buffer, size_t *length);

/* Takes the first `length` bytes of the buffer: more than 0, at most the offered length. */
int container_write_commit(struct container_writer *writer, size_t length);

/* The same by a copy: `length` bytes of data, at most the missing ones (else EINVAL). */
int container_write_bytes(struct container_writer *writer, const void *bytes, size_t length);

/* Appends compressed chunks in order, instead of the three above. `bytes` is the frame; NULL:
 * another process writes it, at container_write_offset(). EINVAL: not the size of the next
 * chunk. */
int container_write_frame(struct container_writer *writer, const void *bytes,
			  const struct container_frame *frame);

/* Adds the next picked page, where the writer does not see the data (container_write_frame()) and
 * cannot pick. EINVAL: not behind the page before, or not in the data. */
int container_write_copy(struct container_writer *writer, uint64_t page, const void *bytes);

/* Returns the place of the next frame in the file, in bytes. EBUSY: data of _commit() is in
 * work. */
int container_write_offset(struct container_writer *writer, uint64_t *offset);

/* Returns hash_chain() over the chunks so far. */
uint64_t container_write_content(const struct container_writer *writer);

/* Writes header and dictionary now, if not yet written: frames of other processes follow them. */
int container_write_begin(struct container_writer *writer);

/* Begins the record index of one database (name of name_size bytes, none: the main one; flags as in
 * LMDB's tree record). The following leaves belong to it. *tree is its number, from 0. EINVAL: the
 * name is longer than CONTAINER_NAME_MAX; the caller may leave the database out. */
int container_write_tree(struct container_writer *writer, const void *name, size_t name_size,
			 uint16_t flags, uint64_t *tree);

/* Adds the next leaf page of that database, in key order, with its number of records (each
 * duplicate counts), more than 0. EINVAL: the tree is not the last one begun. */
int container_write_leaf(struct container_writer *writer, uint64_t tree, uint64_t leaf_page,
			 uint64_t entries);

/* Writes the data in work, the indexes and the footer. EINVAL: data is missing. The caller calls
 * fsync, renames and closes fd. */
int container_write_finish(struct container_writer *writer);

/* The state so far, for a progress line. */
struct container_progress {
	uint64_t data;    /* bytes of data whose frames are written */
	uint64_t written; /* bytes of the container */
};
struct container_progress container_write_progress(const struct container_writer *writer);

/* Ends the threads and frees everything; NULL is fine. Without _finish() the file stays partial. */
void container_write_close(struct container_writer *writer);

/* Trains a dictionary on `n` samples that lie behind each other. *size: the room before, the
 * dictionary's bytes after. ENODATA: the samples are too few or too alike. */
int container_train(const void *samples, const size_t *sizes, unsigned n, void *dictionary,
		    size_t *size);

#endif
