/* SPDX-License-Identifier: OLDAP-2.8 */
/* The checksums of pages that LMDBIO_CHECKSUM knows by name. */
#ifndef LMDBIO_UTIL_CHECKSUMS_H
#define LMDBIO_UTIL_CHECKSUMS_H

#include <lmdb.h>
#include <stddef.h>

/* As <lmdb.h> of LMDB 1.0 has it: puts the checksum of *src where *dst says. `key` is NULL where pages
 * are not encrypted. */
typedef void(MDB_sum_func)(const MDB_val *src, MDB_val *dst, const MDB_val *key);

struct checksum {
	const char *name;
	unsigned size; /* bytes of one */
	MDB_sum_func *func;
};

/* What those names are, for a message. */
#define CHECKSUM_NAMES "crc32c, fnv1a, sha256, xxh3 or xxh64"

/* Returns NULL for a name that is not known. Threads: any. Lifetime: the process's. */
const struct checksum *checksum_find(const char *name);

#endif
