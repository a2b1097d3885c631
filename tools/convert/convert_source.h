/* SPDX-License-Identifier: OLDAP-2.8 */
/* Delivers the bytes of a data.mdb, from a container, or from an LMDB environment that other
 * processes may write to. */
#ifndef LMDBIO_TOOLS_CONVERT_SOURCE_H
#define LMDBIO_TOOLS_CONVERT_SOURCE_H

#include "convert.h"

#include "container/container.h"
#include "env/env.h"
#include "format/layout.h"
#include "io/io.h"

#include <sys/stat.h>

/* An open source. Its data is that of one snapshot. Of an LMDB file these are the two meta pages as
 * they stood at one moment between two commits, and the pages of their trees. A read transaction
 * holds these as long as the source is open. */
struct source {
	enum convert_form form; /* FORM_LMDB or FORM_CONTAINER */
	char *path;             /* of the environment, as LMDB wants it */
	unsigned flags; /* MDB_NOSUBDIR: the path is the data file's, and so is the lock's name */
	char *file;             /* the data file or container */
	char *lock;             /* LMDB's lock file; NULL: none */
	int fd;
	struct stat st;     /* of the file, when it was opened */
	uint64_t size;      /* bytes of data */
	uint32_t page_size; /* bytes */
	enum format format; /* of the data's pages */
	struct container_source identity;
	bool ordered; /* keep reads in flight: each is a request, or decompression */
	/* private: */
	struct io below, io;
	uint8_t *metas; /* two pages; NULL: as they are in the file */
	MDB_env *env;   /* lmdbio's, over the file; of a container only after source_tree() */
	MDB_txn *txn;
	bool unlocked; /* no reader slot holds the snapshot */
	bool bypassed; /* a program had it open by another lock file */
};

/* Returns the form of a path by the files there; FORM_AUTO if they do not show it. */
enum convert_form source_form(const char *path, bool no_subdir);

/* Returns whether a data set taken for `form` is a container instead of an LMDB file, or an LMDB
 * file instead of a container. */
bool source_is_other(const char *path, enum convert_form form, bool no_subdir);

/* Sets a source's path, file and lock, and opens nothing. source_close() frees them. Returns 0 or
 * an errno. */
int source_name(struct source *source, const char *path, enum convert_form form, bool no_subdir);

/* Opens an LMDB environment or a container. After a failure there is nothing to close. A damaged
 * container gives TOOL_PROBLEM. */
int source_open(struct source *source, const char *path, enum convert_form form, bool no_subdir);

/* The same for an LMDB file without a name, which no other process knows. The source owns `fd` in
 * any case. */
int source_open_file(struct source *source, const char *name, int fd);

/* Opens a file as plain bytes. */
int source_open_bytes(struct source *source, const char *path);

/* Reads a range of the data. Buffer, length and offset are multiples of source_alignment(), but the
 * length may end with the data. Threads: any. Returns 0, EBADMSG (damage), EIO if the file has
 * become shorter, or an errno. */
int source_read(struct source *source, void *buffer, size_t length, uint64_t offset);
size_t source_alignment(const struct source *source);

/* Puts the snapshot's meta pages into the buffer of a read that covers them. */
void source_patch(const struct source *source, void *buffer, size_t length, uint64_t offset);

/* Returns whether the source is a container with relaid pages. */
bool source_is_relaid(const struct source *source);

/* Returns the source's transaction in which the trees of the data can be walked. */
int source_tree(struct source *source, MDB_txn **txn);

/* Returns whether the file is unchanged since it was opened. */
bool source_is_unchanged(const struct source *source);

/* Judges a file that has changed since it was opened: refuses it if the reader slot may not have held
 * the snapshot. */
int source_judge_changed(const struct source *source);

/* Reports an error of source_read(). Returns TOOL_PROBLEM or TOOL_FAILED. */
int source_fail(const struct source *source, uint64_t offset, int rc);

/* Ends the read transaction and closes the lock file. Afterwards call only source_is_unchanged()
 * and source_close(). */
void source_let_go(struct source *source);

void source_close(struct source *source);

/* Reads a stretch of the data from its beginning to its end, several requests ahead. */
struct source_stream;
int source_stream_open(struct source_stream **stream, struct source *source, uint64_t offset,
		       uint64_t end);
/* Reads the next `length` bytes, as source_read(), without its alignment. One thread. */
int source_stream_take(struct source_stream *stream, void *buffer, size_t length);
void source_stream_close(struct source_stream *stream); /* NULL does nothing */

#endif
