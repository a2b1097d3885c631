/* SPDX-License-Identifier: OLDAP-2.8 */
/* Delivers the bytes of a data.mdb, from an LMDB environment that other processes may be writing
 * to, or from a container. */
#ifndef LMDBIO_TOOLS_CONVERT_SOURCE_H
#define LMDBIO_TOOLS_CONVERT_SOURCE_H

#include "convert.h"

#include "container/container.h"
#include "env/env.h"
#include "format/layout.h"
#include "io/io.h"

#include <sys/stat.h>

/* A source that has been opened. Its data is that of one snapshot: of an LMDB file the two meta
 * pages as they stood at one moment between two commits, and the pages of their trees as long as
 * the source is open, because a read transaction holds them. */
struct source {
	enum convert_form form; /* FORM_LMDB or FORM_CONTAINER */
	char *path;             /* of the environment, as LMDB wants it */
	char *file;             /* the data file or container */
	char *lock;             /* LMDB's lock file, NULL: there is none */
	int fd;
	struct stat st;     /* of the file, when it was opened */
	uint64_t size;      /* bytes of data */
	uint32_t page_size; /* bytes */
	enum format format; /* of the data's pages */
	struct container_source identity;
	bool ordered; /* reads are to be kept in flight: they are requests, or decompression */
	/* the rest is its own */
	struct io below, io;
	uint8_t *metas; /* two pages; NULL: as they are in the file */
	MDB_env *env;   /* ours, over the file; of a container only after source_tree() */
	MDB_txn *txn;
	bool unlocked; /* there is no reader slot that holds the snapshot */
};

/* What a path is, by what lies there: FORM_AUTO when that cannot be told. */
enum convert_form source_form(const char *path, bool no_subdir);

/* Whether a data set that is taken for `form` is a container instead of an LMDB file, or an LMDB file instead of
 * a container. */
bool source_is_other(const char *path, enum convert_form form, bool no_subdir);

/* Sets a source's path, file and lock, and opens nothing: source_close() frees them. Returns 0 or an errno. */
int source_name(struct source *source, const char *path, enum convert_form form, bool no_subdir);

/* Opens an LMDB environment or a container. On failure there is nothing to be closed. A container
 * that is damaged is TOOL_PROBLEM. */
int source_open(struct source *source, const char *path, enum convert_form form, bool no_subdir);

/* The same for an LMDB file that has no name any more, and that no other process knows. `fd`
 * becomes the source's in any case. */
int source_open_file(struct source *source, const char *name, int fd);

/* The bytes of a file, whatever they are. */
int source_open_bytes(struct source *source, const char *path);

/* All of a range of the data. Buffer, length and offset are multiples of source_alignment(), but
 * the length may end with the data. Threads: any. Returns 0, EBADMSG (damage), EIO when the file
 * has become shorter, or an errno. */
int source_read(struct source *source, void *buffer, size_t length, uint64_t offset);
size_t source_alignment(const struct source *source);

/* Puts the snapshot's meta pages over what a read of a range that holds them has brought. */
void source_patch(const struct source *source, void *buffer, size_t length, uint64_t offset);

/* Whether it is a container whose pages were laid anew. */
bool source_is_relaid(const struct source *source);

/* The transaction in which the trees of the data can be walked; it is the source's. */
int source_tree(struct source *source, MDB_txn **txn);

/* Whether nothing has been written to the file since it was opened. */
bool source_is_unchanged(const struct source *source);

/* TOOL_PROBLEM or TOOL_FAILED, and the person has been told, for an error of source_read(). */
int source_fail(const struct source *source, uint64_t offset, int rc);

/* Ends the read transaction and gives up the lock file. Afterwards call only source_is_unchanged() and
 * source_close(). */
void source_let_go(struct source *source);

void source_close(struct source *source);

/* Reads a stretch of the data from its beginning to its end, several requests ahead. */
struct source_stream;
int source_stream_open(struct source_stream **stream, struct source *source, uint64_t offset,
		       uint64_t end);
/* The next `length` bytes; as source_read(), without its alignment. One thread. */
int source_stream_take(struct source_stream *stream, void *buffer, size_t length);
void source_stream_close(struct source_stream *stream); /* NULL does nothing */

#endif
