/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the request to lmdbio-convert, and its results so far.
 *
 * The parts of the command pass one struct convert on. Unless a comment says otherwise, a function
 * returns 0, or an exit status after a message.
 */
#ifndef LMDBIO_TOOLS_CONVERT_H
#define LMDBIO_TOOLS_CONVERT_H

#include "convert_progress.h"
#include "tool_common.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

extern const struct tool convert_tool;

enum convert_form {
	FORM_AUTO,
	FORM_LMDB,
	FORM_CONTAINER,
	FORM_TREE,       /* a directory of files */
	FORM_TAR,        /* a record per member */
	FORM_WEBDATASET, /* tars whose members are grouped to samples */
	FORM_IMAGES,     /* Caffe's list of images: "path label" lines */
};

enum {
	CONVERT_LEVEL = 3,
	CONVERT_LEVEL_MOST = 19,
	CONVERT_LEVEL_ULTRA = 22,
};

struct convert_job;

/* Limits on an import's source, which a stranger may have made. */
struct convert_limits {
	uint64_t value;      /* bytes of the largest value, and of all values of one sample */
	uint64_t expansion;  /* bytes to take from an archive for each byte of it; 0: no limit */
	bool outside;        /* files may lie outside the source's directory */
	const char *inside;  /* that directory, without links in its name; NULL: anywhere */
	bool piped;          /* the archive is no file: its size so far is the bytes that have
				come */
	uint64_t may_expand; /* bytes that the current archive may give */
	uint64_t expanded;   /* bytes of values that the archive has given */
};

/* Identifies a file, whatever its name. Inode 0: none. */
struct convert_file {
	dev_t device;
	ino_t inode;
};

struct convert {
	struct convert_job *job; /* NULL: this process works alone */
	/* The request. */
	enum convert_form from, to;
	const char *const *sources;
	size_t source_count;
	const char *target;
	int level;
	unsigned threads;       /* 1 or more */
	unsigned window_log;    /* --long, 0: not given */
	uint64_t chunk_size;    /* bytes, 0: the container's default */
	const char *dictionary; /* a file, or NULL */
	uint64_t train_size;    /* bytes of a dictionary to be trained, 0: none */
	const char *labels;     /* a file, or NULL */
	const char *root;       /* where the paths of an image list begin, or NULL */
	bool caffe, relayout, verify, no_subdir;
	bool rewrite; /* the target is LMDB 0.9's, and the source, once it is open, is not */
	bool force, remove, resume, keep_partial;
	struct convert_limits limits;
	bool json;
	unsigned verbose; /* 0: quiet, 1: as usual, 2: more */
	/* The results. */
	struct convert_file written
		[2]; /* the partial file, and the target that it replaces: no records of a tree */
	struct progress progress;
	uint64_t records; /* imported, or counted by the record index */
	uint64_t skipped; /* members and files that are no records: links, devices */
	uint64_t damaged; /* chunks with a wrong checksum or wrong contents */
};

/* Returns "lmdb", "webdataset": as after --from. */
const char *convert_form_name(enum convert_form form);

/* Calls tool_complain() about `path` with the text of an errno or a code of LMDB. Returns
 * TOOL_FAILED. */
int convert_fail(const char *path, int rc);

/* The same with the caller's words. Returns TOOL_FAILED. */
int convert_refuse(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns 0, or the exit status if the user has asked for an end. */
int convert_interrupted(void);

#endif
