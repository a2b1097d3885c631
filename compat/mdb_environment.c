/* SPDX-License-Identifier: OLDAP-2.8 */
/* The exported mdb_env_* calls and those without a handle. */
#include "handles.h"

#include <errno.h>

EXPORT char *mdb_version(int *major, int *minor, int *patch)
{
	return caller_origin(CALLER)->call.mdb_version(major, minor, patch);
}

EXPORT char *mdb_strerror(int err)
{
	const struct origin *origin = caller_origin(CALLER);

	/* The only code of LMDB 1.0 that lmdbio returns to programs for 0.9. */
	if (err == MDB_BAD_CHECKSUM && !origin->later)
		return (char *)(uintptr_t) "MDB_BAD_CHECKSUM: a page does not have its checksum";
	return origin->call.mdb_strerror(err);
}

EXPORT int mdb_env_create(MDB_env **env)
{
	const struct origin *origin = caller_origin(CALLER);

	return origin == origin_built_in() ? env_create(env) : env_create_by(origin, env);
}

EXPORT int mdb_env_open(MDB_env *env, const char *path, unsigned int flags, mdb_mode_t mode)
{
	if (!env_is_ours(env))
		return caller_origin(CALLER)->call.mdb_env_open(env, path, flags, mode);
	if (flags & MDB_RDONLY)
		inside_call();
	return env_open(env, path, flags, mode);
}

EXPORT void mdb_env_close(MDB_env *env)
{
	if (!env_is_ours(env)) {
		caller_origin(CALLER)->call.mdb_env_close(env);
		return;
	}
	inside_call();
	env_close(env);
}

EXPORT int mdb_env_copy(MDB_env *env, const char *path)
{
	if (env_is_ours(env))
		return env_copy(env, path, 0, NULL);
	return origin_leave(origin_enter(caller_origin(CALLER))->call.mdb_env_copy(env, path));
}

EXPORT int mdb_env_copy2(MDB_env *env, const char *path, unsigned int flags)
{
	if (env_is_ours(env))
		return env_copy(env, path, flags, NULL);
	return origin_leave(origin_enter(caller_origin(CALLER))->call.mdb_env_copy2(env, path, flags));
}

EXPORT int mdb_env_copyfd(MDB_env *env, mdb_filehandle_t fd)
{
	if (env_is_ours(env))
		return env_copyfd(env, fd, 0, NULL);
	return origin_leave(origin_enter(caller_origin(CALLER))->call.mdb_env_copyfd(env, fd));
}

EXPORT int mdb_env_copyfd2(MDB_env *env, mdb_filehandle_t fd, unsigned int flags)
{
	if (env_is_ours(env))
		return env_copyfd(env, fd, flags, NULL);
	return origin_leave(origin_enter(caller_origin(CALLER))->call.mdb_env_copyfd2(env, fd, flags));
}

/* Builds of py-lmdb with a patched LMDB call these two; <lmdb.h> lacks them. */
int mdb_env_copy3(MDB_env *env, const char *path, unsigned int flags, MDB_txn *txn);
int mdb_env_copyfd3(MDB_env *env, mdb_filehandle_t fd, unsigned int flags, MDB_txn *txn);

EXPORT int mdb_env_copy3(MDB_env *env, const char *path, unsigned int flags, MDB_txn *txn)
{
	const struct origin *origin;

	if (env_is_ours(env))
		return env_copy(env, path, flags, txn);
	origin = origin_enter(caller_origin(CALLER));
	return origin_leave(origin->copy3 ? origin->copy3(env, path, flags, txn)
					  : MDB_INCOMPATIBLE);
}

EXPORT int mdb_env_copyfd3(MDB_env *env, mdb_filehandle_t fd, unsigned int flags, MDB_txn *txn)
{
	const struct origin *origin;

	if (env_is_ours(env))
		return env_copyfd(env, fd, flags, txn);
	origin = origin_enter(caller_origin(CALLER));
	return origin_leave(origin->copyfd3 ? origin->copyfd3(env, fd, flags, txn)
					    : MDB_INCOMPATIBLE);
}

EXPORT int mdb_env_stat(MDB_env *env, MDB_stat *stat)
{
	return env_is_ours(env) ? env_stat(env, stat)
				: caller_origin(CALLER)->call.mdb_env_stat(env, stat);
}

EXPORT int mdb_env_info(MDB_env *env, MDB_envinfo *info)
{
	return env_is_ours(env) ? env_info(env, info)
				: caller_origin(CALLER)->call.mdb_env_info(env, info);
}

EXPORT int mdb_env_sync(MDB_env *env, int force)
{
	const struct origin *origin;

	if (env_is_ours(env) && env->mode == ENV_OWN && env->for_later.origin)
		return MDB_IS_READONLY;
	origin = origin_enter(env_origin(env, CALLER));
	return origin_leave(origin->call.mdb_env_sync(env_orig(env), force));
}

EXPORT int mdb_env_set_flags(MDB_env *env, unsigned int flags, int onoff)
{
	return env_is_ours(env)
		       ? env_set_flags(env, flags, onoff)
		       : caller_origin(CALLER)->call.mdb_env_set_flags(env, flags, onoff);
}

EXPORT int mdb_env_get_flags(MDB_env *env, unsigned int *flags)
{
	return env_is_ours(env) ? env_get_flags(env, flags)
				: caller_origin(CALLER)->call.mdb_env_get_flags(env, flags);
}

EXPORT int mdb_env_get_path(MDB_env *env, const char **path)
{
	return env_is_ours(env) ? env_get_path(env, path)
				: caller_origin(CALLER)->call.mdb_env_get_path(env, path);
}

EXPORT int mdb_env_get_fd(MDB_env *env, mdb_filehandle_t *fd)
{
	return env_is_ours(env) ? env_get_fd(env, fd)
				: caller_origin(CALLER)->call.mdb_env_get_fd(env, fd);
}

EXPORT int mdb_env_set_mapsize(MDB_env *env, size_t size)
{
	return env_is_ours(env) ? env_set_mapsize(env, size)
				: caller_origin(CALLER)->call.mdb_env_set_mapsize(env, size);
}

EXPORT int mdb_env_set_maxreaders(MDB_env *env, unsigned int readers)
{
	return env_is_ours(env) ? env_set_maxreaders(env, readers)
				: caller_origin(CALLER)->call.mdb_env_set_maxreaders(env, readers);
}

EXPORT int mdb_env_get_maxreaders(MDB_env *env, unsigned int *readers)
{
	return env_is_ours(env) ? env_get_maxreaders(env, readers)
				: caller_origin(CALLER)->call.mdb_env_get_maxreaders(env, readers);
}

EXPORT int mdb_env_set_maxdbs(MDB_env *env, MDB_dbi dbs)
{
	return env_is_ours(env) ? env_set_maxdbs(env, dbs)
				: caller_origin(CALLER)->call.mdb_env_set_maxdbs(env, dbs);
}

EXPORT int mdb_env_get_maxkeysize(MDB_env *env)
{
	return env_is_ours(env) ? env_get_maxkeysize(env)
				: caller_origin(CALLER)->call.mdb_env_get_maxkeysize(env);
}

EXPORT int mdb_env_set_userctx(MDB_env *env, void *ctx)
{
	if (!env_is_ours(env))
		return caller_origin(CALLER)->call.mdb_env_set_userctx(env, ctx);
	env->userctx = ctx;
	return 0;
}

EXPORT void *mdb_env_get_userctx(MDB_env *env)
{
	return env_is_ours(env) ? env->userctx : caller_origin(CALLER)->call.mdb_env_get_userctx(env);
}

EXPORT int mdb_env_set_assert(MDB_env *env, MDB_assert_func *func)
{
	return env_is_ours(env) ? env_set_assert(env, func)
				: caller_origin(CALLER)->call.mdb_env_set_assert(env, func);
}

EXPORT int mdb_reader_list(MDB_env *env, MDB_msg_func *func, void *ctx)
{
	return env_is_ours(env) ? env_reader_list(env, func, ctx)
				: caller_origin(CALLER)->call.mdb_reader_list(env, func, ctx);
}

EXPORT int mdb_reader_check(MDB_env *env, int *dead)
{
	return env_is_ours(env) ? env_reader_check(env, dead)
				: caller_origin(CALLER)->call.mdb_reader_check(env, dead);
}

/* LMDB's lists of page numbers: internals that liblmdb.so.0 exports and some programs link to. No
 * header declares them; names and types are the library's. */
#define F(result, name, parameters, arguments)                                                     \
	result name parameters;                                                                    \
	EXPORT result name parameters                                                              \
	{                                                                                          \
		return caller_origin(CALLER)->call.name arguments;                                 \
	}
#define P(name, parameters, arguments)                                                             \
	void name parameters;                                                                      \
	EXPORT void name parameters                                                                \
	{                                                                                          \
		caller_origin(CALLER)->call.name arguments;                                        \
	}
#include "origin/origin_lists.def"
#undef F
#undef P
