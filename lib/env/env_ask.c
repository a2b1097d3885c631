/* SPDX-License-Identifier: OLDAP-2.8 */
/* Answers <lmdb.h>'s questions about an environment, also if the original has another file open. */
#include "env/env.h"

#include <errno.h>

/* Whether the original has opened another file than the program thinks, without a lock file. */
static bool has_stand_in(const MDB_env *env)
{
	return env->packed || env->staged || env->later;
}

/* With a stand-in, the original has opened another file with other flags. */
int env_get_flags(MDB_env *env, unsigned *flags)
{
	const unsigned other = packed_flags(0);
	int rc = env->origin->call.mdb_env_get_flags(env->orig, flags);

	if (!rc && has_stand_in(env))
		*flags = (*flags & ~other) | (env->flags & other);
	if (!rc)
		*flags |= env->for_later.flags;
	return rc;
}

unsigned env_flags_added(const MDB_env *env, unsigned flags)
{
	unsigned before = 0;

	if (env->mode == ENV_NEW)
		(void)env->origin->call.mdb_env_get_flags(env->orig, &before);
	return flags | before;
}

int env_get_path(MDB_env *env, const char **path)
{
	int rc = env->origin->call.mdb_env_get_path(env->orig, path);

	if (!rc && env->packed)
		*path = env->packed->path;
	else if (!rc && env->named)
		*path = env->named;
	return rc;
}

int env_get_fd(MDB_env *env, int *fd)
{
	if (!env->later)
		return env->origin->call.mdb_env_get_fd(env->orig, fd);
	if (!fd)
		return EINVAL;
	*fd = env->fd;
	return 0;
}

int env_get_maxkeysize(MDB_env *env)
{
	/* LMDB 1.0 does not know the size before it opens the file. */
	if (env->for_later.origin && env->mode == ENV_NEW)
		return 0;
	return env->later ? later_key_max(env)
			  : env->origin->call.mdb_env_get_maxkeysize(env->orig);
}

int env_info_stored(const MDB_env *env, MDB_envinfo *info)
{
	return env->later && info ? later_info(env, info)
				  : env->origin->call.mdb_env_info(env->orig, info);
}

int env_info(MDB_env *env, MDB_envinfo *info)
{
	int rc = env_info_stored(env, info);

	/* LMDB 1.0 always gives the map's address. */
	if (!rc && env->for_later.origin && env->mode == ENV_OWN && !info->me_mapaddr)
		info->me_mapaddr = (void *)(uintptr_t)env->window.base;
	return rc;
}

int env_stat(MDB_env *env, MDB_stat *stat)
{
	return env->later && stat ? later_stat(env, stat)
				  : env->origin->call.mdb_env_stat(env->orig, stat);
}

int env_get_maxreaders(MDB_env *env, unsigned *readers)
{
	return env->later ? later_maxreaders(env, readers)
			  : env->origin->call.mdb_env_get_maxreaders(env->orig, readers);
}

int env_reader_list(MDB_env *env, MDB_msg_func *func, void *context)
{
	return env->later ? later_reader_list(env, func, context)
			  : env->origin->call.mdb_reader_list(env->orig, func, context);
}

/* The parent's original would take a slot of this process for a dead one's: the kernel reports no
 * lock of the process that asks. */
int env_reader_check(MDB_env *env, int *dead)
{
	int rc = env_is_parents(env) ? env_adopt(env) : 0;

	if (rc)
		return rc;
	return env->later ? later_reader_check(env, dead)
			  : env->origin->call.mdb_reader_check(env->orig, dead);
}
