/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a new LMDB environment of records from anywhere.
 *
 * Records are taken in any order. They are collected to batches; a batch reads the files that its
 * records name with several threads, is sorted, and goes into the environment as one transaction,
 * which is done again with a larger map when the map is full. Memory: two batches' bytes (ours and
 * LMDB's dirty pages), or twice the largest value if that is more, which convert.limits bounds.
 */
#ifndef LMDBIO_TOOLS_IMPORT_RECORDS_H
#define LMDBIO_TOOLS_IMPORT_RECORDS_H

#include "convert.h"

#include <lmdb.h>
#include <sys/types.h>

enum {
	IMPORT_BATCH_BYTES = 32 << 20,
	IMPORT_BATCH_RECORDS = 4096,
};

#define IMPORT_VALUE_MOST ((uint64_t)INT32_MAX) /* bytes: 2 GiB less one; LMDB holds no more */

struct import;

/* One record. Exactly one of `value` and `path` is there. */
struct import_record {
	const char *key;  /* copied */
	size_t key_size;  /* bytes */
	void *value;      /* from malloc(); becomes the import's in any case */
	uint64_t size;    /* bytes of the value; of a file: as stat(2) said */
	const char *path; /* a file to read; copied */
	bool labelled;    /* with convert.caffe: `label` is the Datum's */
	int32_t label;
};

/* Makes a new environment in the file `path`, which is there and empty; with `comparing` it is one
 * that was made before, and what is put is compared with what it holds. A person knows it by
 * `name`. *import is NULL on failure. */
int import_open(struct import **import, struct convert *convert, const char *path, const char *name,
		bool comparing);

/* Takes a record; with convert.caffe the value becomes an encoded Datum with this label. A key that
 * LMDB cannot hold, that was there before, or a value of more than convert.limits.value bytes is an
 * error; it may be told of one batch late. */
int import_put(struct import *import, const struct import_record *record);

/* Tells the person that the value of `name` has more bytes than are allowed. Returns TOOL_FAILED.
 */
int import_too_large(const struct convert *convert, const char *name, uint64_t size);

/* The value of a record that was put. *value is malloc()ed, or NULL when there is none. */
int import_get(struct import *import, const char *key, size_t key_size, void **value, size_t *size);

/* Writes what has been collected and makes it durable. When comparing: TOOL_PROBLEM if there are
 * differences, which a person has been told of. */
int import_finish(struct import *import);

/* What an error of a transaction of so many bytes in the original's environment means to a person: a
 * full file system is ENOSPC. */
int import_write_error(MDB_env *env, uint64_t bytes, int rc);

/* Lets go of everything, with or without import_finish(). NULL does nothing. */
void import_close(struct import *import);

#endif
