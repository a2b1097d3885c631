/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: the exported mdb_env_* calls and those without a handle. */
#include "env/env.h"
#include "inside.h"

#include <errno.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT char *mdb_version(int *major, int *minor, int *patch)
{
	return lmdbio_orig_mdb_version(major, minor, patch);
}

EXPORT char *mdb_strerror(int err)
{
	return lmdbio_orig_mdb_strerror(err);
}

EXPORT int mdb_env_create(MDB_env **env)
{
	return env_create(env);
}

EXPORT int mdb_env_open(MDB_env *env, const char *path, unsigned int flags, mdb_mode_t mode)
{
	if (flags & MDB_RDONLY)
		inside_start();
	return env_open(env, path, flags, mode);
}

EXPORT void mdb_env_close(MDB_env *env)
{
	env_close(env);
}

EXPORT int mdb_env_copy(MDB_env *env, const char *path)
{
	return env_copy(env, path, 0, NULL);
}

EXPORT int mdb_env_copy2(MDB_env *env, const char *path, unsigned int flags)
{
	return env_copy(env, path, flags, NULL);
}

EXPORT int mdb_env_copyfd(MDB_env *env, mdb_filehandle_t fd)
{
	return env_copyfd(env, fd, 0, NULL);
}

EXPORT int mdb_env_copyfd2(MDB_env *env, mdb_filehandle_t fd, unsigned int flags)
{
	return env_copyfd(env, fd, flags, NULL);
}

/* Builds of py-lmdb with a patched LMDB of their own call these two; <lmdb.h> has them not. */
int mdb_env_copy3(MDB_env *env, const char *path, unsigned int flags, MDB_txn *txn);
int mdb_env_copyfd3(MDB_env *env, mdb_filehandle_t fd, unsigned int flags, MDB_txn *txn);

EXPORT int mdb_env_copy3(MDB_env *env, const char *path, unsigned int flags, MDB_txn *txn)
{
	return env_copy(env, path, flags, txn);
}

EXPORT int mdb_env_copyfd3(MDB_env *env, mdb_filehandle_t fd, unsigned int flags, MDB_txn *txn)
{
	return env_copyfd(env, fd, flags, txn);
}

EXPORT int mdb_env_stat(MDB_env *env, MDB_stat *stat)
{
	return env ? env->origin->call.mdb_env_stat(env->orig, stat) : EINVAL;
}

EXPORT int mdb_env_info(MDB_env *env, MDB_envinfo *info)
{
	return env ? env->origin->call.mdb_env_info(env->orig, info) : EINVAL;
}

EXPORT int mdb_env_sync(MDB_env *env, int force)
{
	return env->origin->call.mdb_env_sync(env->orig, force);
}

EXPORT int mdb_env_set_flags(MDB_env *env, unsigned int flags, int onoff)
{
	return env->origin->call.mdb_env_set_flags(env->orig, flags, onoff);
}

EXPORT int mdb_env_get_flags(MDB_env *env, unsigned int *flags)
{
	return env ? env_get_flags(env, flags) : EINVAL;
}

EXPORT int mdb_env_get_path(MDB_env *env, const char **path)
{
	return env ? env_get_path(env, path) : EINVAL;
}

EXPORT int mdb_env_get_fd(MDB_env *env, mdb_filehandle_t *fd)
{
	return env ? env->origin->call.mdb_env_get_fd(env->orig, fd) : EINVAL;
}

EXPORT int mdb_env_set_mapsize(MDB_env *env, size_t size)
{
	return env_set_mapsize(env, size);
}

EXPORT int mdb_env_set_maxreaders(MDB_env *env, unsigned int readers)
{
	return env->origin->call.mdb_env_set_maxreaders(env->orig, readers);
}

EXPORT int mdb_env_get_maxreaders(MDB_env *env, unsigned int *readers)
{
	return env ? env->origin->call.mdb_env_get_maxreaders(env->orig, readers) : EINVAL;
}

EXPORT int mdb_env_set_maxdbs(MDB_env *env, MDB_dbi dbs)
{
	return env_set_maxdbs(env, dbs);
}

EXPORT int mdb_env_get_maxkeysize(MDB_env *env)
{
	return env ? env->origin->call.mdb_env_get_maxkeysize(env->orig)
		   : lmdbio_orig_mdb_env_get_maxkeysize(NULL);
}

EXPORT int mdb_env_set_userctx(MDB_env *env, void *ctx)
{
	if (!env)
		return EINVAL;
	env->userctx = ctx;
	return 0;
}

EXPORT void *mdb_env_get_userctx(MDB_env *env)
{
	return env ? env->userctx : NULL;
}

EXPORT int mdb_env_set_assert(MDB_env *env, MDB_assert_func *func)
{
	return env ? env_set_assert(env, func) : EINVAL;
}

EXPORT int mdb_reader_list(MDB_env *env, MDB_msg_func *func, void *ctx)
{
	return env ? env->origin->call.mdb_reader_list(env->orig, func, ctx)
		   : lmdbio_orig_mdb_reader_list(NULL, func, ctx);
}

EXPORT int mdb_reader_check(MDB_env *env, int *dead)
{
	return env ? env->origin->call.mdb_reader_check(env->orig, dead)
		   : lmdbio_orig_mdb_reader_check(NULL, dead);
}
