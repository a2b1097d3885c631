/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps the data file of an environment in a program that closes descriptors it did not open.
 *
 * A daemon closes all descriptors from 3 on, and its next files get those numbers. The original
 * goes on reading, because it has its map. mdb_env_get_fd() still gives the original's descriptor.
 * We read by another one with a high number, and check either descriptor before each use.
 */
#include "env/env.h"

#include "origin/origin_loan.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/kernel_file.h"

#include <errno.h>
#include <stdlib.h>

/* An original that takes no loans has opened the file itself. To close the other descriptor would
 * drop the program's own fcntl(2) locks on the file, if it has any. */
void env_file_leave(struct origin_loan *loan, int rc)
{
	if (loan->fd >= 0 && (rc || !file_is_locked_here(loan->fd))) {
		close(loan->fd);
		loan->fd = -1;
	}
}

void env_file_replaced(MDB_env *env, int fd, const struct identity *identity)
{
	if (file_is_locked_here(fd))
		env->replaced = (struct descriptor_kept){fd, identity->device, identity->inode};
	else
		close(fd);
}

int env_file_hold(MDB_env *env, const struct origin_loan *loan, uint64_t snapshot)
{
	struct descriptor_file file;

	env->seen.at = clock_coarse();
	env->seen.snapshot = snapshot;
	env->data = loan->fd >= 0 ? loan->fd : env->fd;
	if (fstat(env->fd, &env->seen.st))
		return errno;
	env->lock.fd = -1;
	if (loan->lock >= 0 && descriptor_look(loan->lock, 0, &file))
		env->lock = (struct descriptor_kept){loan->lock, file.device, file.inode};
	return 0;
}

void env_file_know_system(MDB_env *env)
{
	env->seen.system = identity_system(env->data);
}

/* A descriptor below this needs no look at the limits: its twin's number is at least 1000, so fewer
 * than half of the allowed descriptors are in use. */
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

void env_file_forget(MDB_env *env)
{
	packed_close(env->packed);
	descriptor_kept_close(&env->replaced);
	free(env->staged);
	free(env->named);
	env->packed = NULL;
	env->staged = env->named = NULL;
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
	/* The program has closed our descriptor, too. If the path does not lead to the file either,
	 * bytes appended since opening count as missing. */
	name = env_data_path(env->path, env_origin_flags(env, env->flags));
	if (!name || stat(name, st) || !is_ours(env, st))
		*st = env->seen.st;
	free(name);
}
