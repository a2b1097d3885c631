/* SPDX-License-Identifier: OLDAP-2.8 */
/* The original LMDB that serves an environment: a table of its functions, and which one it is.
 *
 * `origin->call.mdb_env_open()` is that original's mdb_env_open(), and so on for each name in
 * origin_functions.def. The handles they take are that original's own, never ours.
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

/* What LMDB 1.0 has besides. The lists of page numbers and the functions that load modules may be
 * NULL: see later_read(). */
struct origin_later_functions {
#define F(result, name, parameters, arguments) result(*name) parameters;
#define P(name, parameters, arguments)	       void(*name) parameters;
#include "origin/later_functions.def"
#undef F
#undef P
};

struct origin {
	struct origin_functions call;
	const struct origin_later_functions *later; /* NULL: it is no LMDB 1.0, or none is there */
	unsigned version; /* see ORIGIN_VERSION(); known before the first environment is created */
	const char *where; /* "built in", or the path of the library or program that it is part of */
	/* lmdbio does not understand this LMDB (1.0, for instance): its callers get its own
	 * handles, and every call is passed on. Never the built-in one. */
	bool whole;
	/* It serves programs built for LMDB 1.0, which lmdbio reads for (origin_later.c). */
	bool for_later;
	/* py-lmdb's patched LMDB copies from a given transaction; NULL elsewhere. */
	int (*copy3)(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn);
	int (*copyfd3)(MDB_env *env, mdb_filehandle_t fd, unsigned flags, MDB_txn *txn);
	_Atomic bool *told; /* LMDBIO_VERBOSE has named it */
};

/* Versions compare as numbers. */
#define ORIGIN_VERSION(major, minor, patch)                                                        \
	((unsigned)(major) << 16 | (unsigned)(minor) << 8 | (unsigned)(patch))

static inline unsigned origin_version(const struct origin *origin)
{
	return origin->version;
}

/* The original that is part of this library, or that configure has found for it. Any thread.
 * Lifetime: the program's. */
const struct origin *origin_built_in(void);

/* The original of programs that were built for LMDB 1.0: the library at `path` (NULL or "": none).
 * Where it cannot be used, its table has functions without an environment alone, `later` is NULL,
 * and origin_later_why() says why in one line. The first call decides for the process. Any thread.
 * Lifetime: the program's. */
const struct origin *origin_later(const char *path);
const char *origin_later_why(void);
/* In a forked child. */
void origin_later_forked(void);

/* 0, or why the built-in original cannot be called (dlopen only): an errno. *why is one line. */
int origin_check(const char **why);

/* Where the built-in original is (origin.where). */
const char *origin_place(void);

/* The names of the original's functions, and where each stands in struct origin_functions. */
struct origin_name {
	const char *name;
	size_t offset; /* bytes, in struct origin_functions */
};

extern const struct origin_name origin_names[];
extern const size_t origin_names_count;

/* The same in struct origin_later_functions. */
extern const struct origin_name later_names[];
extern const size_t later_names_count;

#endif
