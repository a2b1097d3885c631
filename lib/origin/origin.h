/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: the original LMDB's functions under the names that we call them by.
 *
 * lmdbio_orig_mdb_env_open() is the original's mdb_env_open(), and so on for each name in
 * origin_functions.def. The handles they take are the original's own, never ours.
 */
#ifndef LMDBIO_ORIGIN_H
#define LMDBIO_ORIGIN_H

#include <lmdb.h>
#include <stddef.h>

#define F(result, name, parameters, arguments) result lmdbio_orig_##name parameters;
#define P(name, parameters, arguments) void lmdbio_orig_##name parameters;
#include "origin/origin_functions.def"
#undef F
#undef P

/* Which original this is and how it is held, for the banner: "0.9.24, built in" or
 * "0.9.24, /usr/lib/.../liblmdb.so.0". Lifetime: the program's. */
const char *origin_describe(void);

/* 0, or why the original cannot be called (dlopen only): an errno. *why is one line. */
int origin_check(const char **why);

#endif
