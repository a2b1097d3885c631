/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes the original LMDB that serves an environment: which LMDB it is, and its functions.
 *
 * `origin->call.mdb_env_open()` is that original's mdb_env_open(), and so on for each name in
 * origin_functions.def. These functions take the original's own handles, never lmdbio's.
 */
#ifndef LMDBIO_ORIGIN_H
#define LMDBIO_ORIGIN_H

#include "origin/lmdb_later.h"

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>

/* The built-in original, directly: lmdbio_orig_mdb_env_open() and so on. */
#define F(result, name, parameters, arguments) result lmdbio_orig_##name parameters;
#define P(name, parameters, arguments)	       void lmdbio_orig_##name parameters;
#include "origin/origin_functions.def"
#undef F
#undef P

struct origin_functions {
#define F(result, name, parameters, arguments) result(*name) parameters;
#define P(name, parameters, arguments)	       void(*name) parameters;
#include "origin/origin_functions.def"
#undef F
#undef P
};

/* The functions that LMDB 1.0 adds. The lists of page numbers and the functions that load modules
 * may be NULL: see later_read(). */
struct origin_later_functions {
#define F(result, name, parameters, arguments) result(*name) parameters;
#define P(name, parameters, arguments)	       void(*name) parameters;
#include "origin/later_functions.def"
#undef F
#undef P
};

struct origin {
	struct origin_functions call;
	const struct origin_later_functions *later; /* NULL: not LMDB 1.0, or none is there */
	unsigned version; /* see ORIGIN_VERSION(); known before the first environment is created */
	const char *where; /* "built in", or the path of the library or program that contains it */
	/* lmdbio does not understand this LMDB (1.0, for instance): its callers get its own
	 * handles, and lmdbio passes every call on. Never the built-in original. */
	bool whole;
	/* Serves programs built for LMDB 1.0, for which lmdbio reads (origin_later.c). */
	bool for_later;
	/* py-lmdb's patched LMDB copies from a given transaction; NULL elsewhere. */
	int (*copy3)(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn);
	int (*copyfd3)(MDB_env *env, mdb_filehandle_t fd, unsigned flags, MDB_txn *txn);
	_Atomic bool *told; /* LMDBIO_VERBOSE has named this original */
};

/* Makes a version's number; versions compare as numbers. */
#define ORIGIN_VERSION(major, minor, patch)                                                        \
	((unsigned)(major) << 16 | (unsigned)(minor) << 8 | (unsigned)(patch))

static inline unsigned origin_version(const struct origin *origin)
{
	return origin->version;
}

/* Returns the original inside this library, or the one that configure found for it. Any thread.
 * Lifetime: the program's. */
const struct origin *origin_built_in(void);

/* Returns the original of programs built for LMDB 1.0: the library at `path` (NULL or "": none). If
 * it cannot be used, the table's functions work only without an environment, `later` is NULL, and
 * origin_later_why() says why in one line. The first call decides for the process. Any thread.
 * Lifetime: the program's. */
const struct origin *origin_later(const char *path);
const char *origin_later_why(void);
/* Call this in a forked child. */
void origin_later_forked(void);

/* Returns 0, or an errno if the built-in original cannot be called (dlopen only). *why is one
 * line. */
int origin_check(const char **why);

/* Returns where the built-in original is (origin.where). */
const char *origin_place(void);

/* The names of the original's functions, and the place of each in struct origin_functions. */
struct origin_name {
	const char *name;
	size_t offset; /* bytes, in struct origin_functions */
};

extern const struct origin_name origin_names[];
extern const size_t origin_names_count;

/* The same for struct origin_later_functions. */
extern const struct origin_name later_names[];
extern const size_t later_names_count;

#endif
