/* SPDX-License-Identifier: OLDAP-2.8 */
/* The data file of an environment, in a program that closes descriptors which it did not open.
 *
 * A daemon closes all from 3 on, and its next files get those numbers. The original goes on
 * reading: it has its map. Its own descriptor stays the one that mdb_env_get_fd() tells; we read
 * by another one, out of the way, and believe neither without a look.
 */
#include "env/env.h"

#include "util/descriptor.h"

#include <errno.h>
#include <stdlib.h>

int env_file_hold(MDB_env *env, int lock)
{
	struct descriptor_file file;

	if (fstat(env->fd, &env->seen.st))
		return errno;
	env->data = env->fd;
	env->lock.fd = -1;
	if (lock >= 0 && descriptor_look(lock, 0, &file))
		env->lock = (struct descriptor_kept){lock, file.device, file.inode};
	return 0;
}

void env_file_know_system(MDB_env *env)
{
	env->seen.system = identity_system(env->data);
}

/* No twin has a number of so many unless more than twice as many may be had. */
enum { SPARE = 500 };

void env_file_lift(MDB_env *env)
{
	int twin;

	if (env->data != env->fd || (env->fd >= SPARE && !descriptors_spare()))
		return;
	twin = descriptor_twin(env->fd);
	if (twin >= 0)
		env->data = twin;
}

void env_file_release(MDB_env *env)
{
	if (env->data != env->fd)
		descriptor_close(env->data, env->seen.st.st_dev, env->seen.st.st_ino);
	env->data = -1;
}

bool env_file_is(const MDB_env *env, int fd)
{
	return descriptor_is(fd, env->seen.st.st_dev, env->seen.st.st_ino);
}

static bool is_ours(const MDB_env *env, const struct stat *st)
{
	return st->st_dev == env->seen.st.st_dev && st->st_ino == env->seen.st.st_ino;
}

void env_file_look(const MDB_env *env, struct stat *st)
{
	char *name;

	if (!fstat(env->data, st) && is_ours(env, st))
		return;
	/* The program has closed that, too. Should no way lead to the file any more, then what has
	 * been appended since it was opened is taken to be missing. */
	name = env_data_path(env->path, env_origin_flags(env, env->flags));
	if (!name || stat(name, st) || !is_ours(env, st))
		*st = env->seen.st;
	free(name);
}
