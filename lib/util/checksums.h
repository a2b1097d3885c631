/* SPDX-License-Identifier: OLDAP-2.8 */
/* The checksums of pages that LMDBIO_CHECKSUM knows by name. */
#ifndef LMDBIO_UTIL_CHECKSUMS_H
#define LMDBIO_UTIL_CHECKSUMS_H

#include <lmdb.h>
#include <stddef.h>

/* As in <lmdb.h> of LMDB 1.0: stores the checksum of *src in the memory of *dst. `key` is NULL if
 * pages are not encrypted. */
typedef void(MDB_sum_func)(const MDB_val *src, MDB_val *dst, const MDB_val *key);

struct checksum {
	const char *name;
	unsigned size; /* bytes of a checksum */
	MDB_sum_func *func;
};

/* The known names, for a message. */
#define CHECKSUM_NAMES "crc32c, fnv1a, sha256, xxh3 or xxh64"

/* Finds a checksum by its name; NULL: there is none. Threads: any. Lifetime: the process's. */
const struct checksum *checksum_find(const char *name);

#endif
