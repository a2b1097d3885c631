/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells lmdbio's handles from those of an LMDB that a program carries, and where a call goes on.
 *
 * An LMDB with visible names calls its own public functions through the dynamic loader, which binds
 * them to us, with its own handles. A module may also hand such a handle to another module. A call
 * with a handle that is not ours, or with none, goes on to the original of the calling module.
 */
#ifndef LMDBIO_COMPAT_HANDLES_H
#define LMDBIO_COMPAT_HANDLES_H

#include "env/env.h"
#include "origin/origin_find.h"

#define EXPORT __attribute__((visibility("default")))

/* The calling module's code. Use this in the exported function itself. */
#define CALLER __builtin_return_address(0)

/* The library that contains the called function (loaded.c). */
extern struct origin_front this_library;

static inline const struct origin *caller_origin(const void *caller)
{
	return origin_of_call(&this_library, caller);
}

/* Returns the original that a call goes on to, and its handle: the wrapped one, or the same. */
static inline const struct origin *env_origin(const MDB_env *env, const void *caller)
{
	return env_is_ours(env) ? env->origin : caller_origin(caller);
}

static inline MDB_env *env_orig(MDB_env *env)
{
	return env_is_ours(env) ? env->orig : env;
}

static inline const struct origin *txn_origin(const MDB_txn *txn, const void *caller)
{
	return txn_is_ours(txn) ? txn->env->origin : caller_origin(caller);
}

static inline MDB_txn *txn_orig(MDB_txn *txn)
{
	return txn_is_ours(txn) ? txn->orig : txn;
}

/* Not for a cursor of an own transaction, which has no original's handle. */
static inline const struct origin *cursor_origin(const MDB_cursor *cursor, const void *caller)
{
	return cursor_is_ours(cursor) ? cursor->origin : caller_origin(caller);
}

static inline MDB_cursor *cursor_orig(MDB_cursor *cursor)
{
	return cursor_is_ours(cursor) ? cursor->orig : cursor;
}

/* inside.c */
/* Makes the module serve this node from inside the program, once the program has begun MPI. LMDB's
 * calls call this if LMDBIO_MPI=1. A failure is a line on standard error; reading goes on. */
void inside_call(void);

#endif
