/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a new LMDB environment from records of any source.
 *
 * Records come in any order and are collected in batches. A batch reads the files of its records
 * with several threads, is sorted, and goes into the environment as one transaction. If the map is
 * full, the transaction is repeated with a larger map. Memory: two batches' bytes (lmdbio's and
 * LMDB's dirty pages), or twice the largest value if that is more; convert.limits bounds it.
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

/* One record. It has exactly one of `value` and `path`. */
struct import_record {
	const char *key;  /* copied */
	size_t key_size;  /* bytes */
	void *value;      /* from malloc(); the import owns it in any case */
	uint64_t size;    /* bytes of the value; of a file: from stat(2) */
	const char *path; /* a file to read; copied */
	bool labelled;    /* with convert.caffe: the Datum has `label` */
	int32_t label;
};

/* Makes a new environment in the existing empty file `path`. With `comparing`, opens an existing
 * environment and compares the records put with its own. Messages call it `name`. *import is NULL
 * on failure. */
int import_open(struct import **import, struct convert *convert, const char *path, const char *name,
		bool comparing);

/* Takes a record. With convert.caffe the value becomes an encoded Datum with this label. A key that
 * LMDB cannot hold, a key that existed before, or a value of more than convert.limits.value bytes
 * is an error, which may be reported a batch late. */
int import_put(struct import *import, const struct import_record *record);

/* Reports that the value of `name` has more bytes than allowed. Returns TOOL_FAILED. */
int import_too_large(const struct convert *convert, const char *name, uint64_t size);

/* Returns the value of a record that was put. *value is malloc()ed, or NULL if there is none. */
int import_get(struct import *import, const char *key, size_t key_size, void **value, size_t *size);

/* Writes the collected records and makes them durable. When comparing, returns TOOL_PROBLEM after
 * messages if there are differences. */
int import_finish(struct import *import);

/* Translates an error of a transaction of `bytes` bytes in the original's environment for the user:
 * a full file system is ENOSPC. */
int import_write_error(MDB_env *env, uint64_t bytes, int rc);

/* Frees the import, with or without import_finish(). NULL does nothing. */
void import_close(struct import *import);

#endif
