/* SPDX-License-Identifier: OLDAP-2.8 */
/* Copies an environment, by the original or by our own reading. */
#include "env/env.h"

#include "origin/origin_find.h"
#include "util/thread.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The original writes a compacted copy in a thread that blocks SIGPIPE. Here the caller's thread
 * writes, so only the signal of this write is kept from it. */
int copy_write(int fd, const uint8_t *bytes, size_t length)
{
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	return quiet_put(fd, bytes, length, &pipe);
}

/* Whether we make the copy: the original would copy from its own map. */
static bool is_ours(const MDB_env *env, unsigned flags)
{
	return env->mode == ENV_OWN && (flags & MDB_CP_COMPACT || env->packed || env->later);
}

/* Whether a copy can be made of the snapshot of `txn`, if one is given. Our own copy has only its
 * reachable pages; an original must be an LMDB with these two functions. */
static bool may_be_given(const MDB_env *env, unsigned flags, const MDB_txn *txn)
{
	if (!txn)
		return true;
	if (env->mode == ENV_OWN)
		return flags & MDB_CP_COMPACT;
	return txn->env == env && env->origin->copy3 && env->origin->copyfd3;
}

static int copy_own(MDB_env *env, int fd, unsigned flags, MDB_txn *txn)
{
	MDB_txn *begun = NULL;
	int rc;

	if (env->later && !env->packed && !(flags & MDB_CP_COMPACT))
		return later_copy(env, fd);
	rc = txn ? txn_here(txn) : txn_begin(env, NULL, MDB_RDONLY, &begun);
	if (!rc && flags & MDB_CP_COMPACT)
		rc = copy_compact(txn ? txn : begun, fd);
	else if (!rc)
		rc = packed_copy(env->packed, fd,
				 begun->snapshot.view.pages << env->window.page_shift);
	if (begun)
		txn_abort(begun);
	return rc;
}

/* Readies the original for a copy, which takes a reader slot: a forked child needs its own. */
static int origin_ready(MDB_env *env)
{
	int fd, rc;

	if (env->mode != ENV_OWN)
		return 0;
	rc = env_adopt(env);
	if (!rc)
		rc = env->origin->call.mdb_env_get_fd(env->orig, &fd);
	/* The original copies as many bytes as its descriptor's file has. */
	return rc ? rc : env_file_is(env, fd) ? 0 : errno;
}

/* Lets the original copy to `path`, or to `fd` if `path` is NULL. */
static int origin_copy(MDB_env *env, const char *path, int fd, unsigned flags, MDB_txn *txn)
{
	const struct origin *origin;
	int rc = origin_ready(env);

	if (rc)
		return rc;
	/* The original copies out of its map, which may be our window. */
	rc = env_store_pause(env);
	if (!rc) {
		origin = origin_enter(env->origin);
		if (path)
			rc = txn ? origin->copy3(env->orig, path, flags, txn->orig)
				 : origin->call.mdb_env_copy2(env->orig, path, flags);
		else
			rc = txn ? origin->copyfd3(env->orig, fd, flags, txn->orig)
				 : origin->call.mdb_env_copyfd2(env->orig, fd, flags);
		rc = origin_leave(rc);
	}
	env_store_resume(env);
	return rc;
}

int env_copyfd(MDB_env *env, int fd, unsigned flags, MDB_txn *txn)
{
	UNCANCELLED;

	if (!may_be_given(env, flags, txn))
		return MDB_INCOMPATIBLE;
	return is_ours(env, flags) ? copy_own(env, fd, flags, txn)
				   : origin_copy(env, NULL, fd, flags, txn);
}

int env_copy(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn)
{
	UNCANCELLED;
	char *name;
	int fd, rc;

	if (!may_be_given(env, flags, txn))
		return MDB_INCOMPATIBLE; /* before open() makes an empty file */
	if (!is_ours(env, flags))
		return origin_copy(env, path, -1, flags, txn);
	name = env_data_path(path, env->mode == ENV_OWN ? env->flags : 0);
	if (!name)
		return ENOMEM;
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	free(name);
	if (fd < 0)
		return errno;
	rc = env_copyfd(env, fd, flags, txn);
	if (close(fd) && !rc)
		rc = errno;
	return rc;
}
