/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides what a forked child may go on using.
 *
 * The child inherits our maps and descriptors, which serve it as they are. It must not share the
 * arena and the prefetch thread with its parent, so it gives them up at once. It also inherits the
 * original's environment, whose reader slots belong to the parent; for slots of its own the child
 * opens the original once more. The inherited environment is never closed: that would close a
 * descriptor of the lock file, and so drop every lock that this process has on that file.
 */
#include "env/env.h"

#include "origin/origin_loan.h"
#include "util/stats.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t adopt_lock = PTHREAD_MUTEX_INITIALIZER;

/* Held while an environment of the list is without its map or its store. */
static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static MDB_env *list;

static void fork_prepare(void)
{
	pthread_mutex_lock(&map_lock);
	pthread_mutex_lock(&list_lock);
	/* No arena may be half open, nor a map half changed, when the child begins. */
	for (MDB_env *env = list; env; env = env->next)
		env_store_hold(env, true);
}

static void fork_in_parent(void)
{
	for (MDB_env *env = list; env; env = env->next)
		env_store_hold(env, false);
	pthread_mutex_unlock(&list_lock);
	pthread_mutex_unlock(&map_lock);
}

static void fork_in_child(void)
{
	for (MDB_env *env = list; env; env = env->next) {
		env_store_forked(env);
		records_forked(env);
	}
	readers_forked();
	pthread_mutex_unlock(&list_lock);
	pthread_mutex_unlock(&map_lock);
	/* Another thread of the parent may have held adopt_lock. */
	pthread_mutex_init(&adopt_lock, NULL);
	origin_later_forked();
}

/* At load time: the first environment may be opened while another thread forks. */
__attribute__((constructor)) static void fork_begin(void)
{
	static const struct fork_steps steps = {fork_prepare, fork_in_parent, fork_in_child};

	at_fork(FORK_ENV, &steps);
}

int env_set_mapsize(MDB_env *env, size_t size)
{
	UNCANCELLED;
	int rc;

	pthread_mutex_lock(&map_lock);
	rc = env_map_renew(env, size);
	pthread_mutex_unlock(&map_lock);
	return rc;
}

/* The bytes of an environment's arena. They count once, however often this process has the data set
 * open. Under list_lock. */
static uint64_t arena_bytes_of(const MDB_env *env)
{
	if (!env->stored || store_shows_file(&env->store))
		return 0;
	for (const MDB_env *other = list; other; other = other->next)
		if (other->arena_bytes && !strcmp(other->path, env->path))
			return 0;
	return env->bytes;
}

uint64_t fork_arena_bytes(const MDB_env *env)
{
	uint64_t sum = 0;

	pthread_mutex_lock(&list_lock);
	for (const MDB_env *other = list; other; other = other->next)
		if (other->arena_bytes && strcmp(other->path, env->path))
			sum += other->arena_bytes;
	pthread_mutex_unlock(&list_lock);
	return sum;
}

/* Looks at the file that has the lock file's name now. Returns 0 or errno. */
static int lock_look(const MDB_env *env, struct stat *st)
{
	char *name = env_lock_path(env->path, env->flags);
	int rc = name ? 0 : ENOMEM;

	if (name && stat(name, st))
		rc = errno;
	free(name);
	return rc;
}

/* An original that takes no loans does not tell which lock file it has opened: the name does. */
static void lock_know(MDB_env *env)
{
	struct stat st;

	if (!origin_takes_loans(env->origin) && !lock_look(env, &st))
		env->lock = (struct descriptor_kept){-1, st.st_dev, st.st_ino};
}

/* Whether the name of the lock file leads to another file or none. The original would put its slots
 * there, or make that file, and no writer that has the old one open would see them. */
static bool lock_is_gone(const MDB_env *env)
{
	struct stat st;
	int rc;

	if (!env->lock.inode)
		return false;
	rc = lock_look(env, &st);
	if (rc)
		return rc == ENOENT;
	return st.st_dev != env->lock.device || st.st_ino != env->lock.inode;
}

void fork_enlist(MDB_env *env)
{
	lock_know(env);
	pthread_mutex_lock(&list_lock);
	env->arena_bytes = arena_bytes_of(env);
	env->next = list;
	env->link = &list;
	if (list)
		list->link = &env->next;
	list = env;
	pthread_mutex_unlock(&list_lock);
}

void fork_delist(MDB_env *env)
{
	pthread_mutex_lock(&list_lock);
	*env->link = env->next;
	if (env->next)
		env->next->link = env->link;
	pthread_mutex_unlock(&list_lock);
}

bool env_any_open(void)
{
	bool any;

	pthread_mutex_lock(&list_lock);
	any = list;
	pthread_mutex_unlock(&list_lock);
	return any;
}

/* Checks that a descriptor leads to the environment's file. Returns 0, MDB_INVALID (another file),
 * or the kernel's reason why it cannot tell. */
static int same_file(const MDB_env *env, int fd)
{
	if (env_file_is(env, fd))
		return 0;
	return errno == EBADF ? MDB_INVALID : errno;
}

/* Opens the original's environment once more: a forked child needs reader slots of its own. */
static int origin_open(const MDB_env *env, MDB_env **ret)
{
	const struct origin_functions *call = &env->origin->call;
	unsigned readers;
	MDB_env *orig;
	int rc = call->mdb_env_create(&orig);

	if (rc)
		return rc;
	call->mdb_env_set_userctx(orig, (void *)(uintptr_t)env);
	if (!call->mdb_env_get_maxreaders(env->orig, &readers))
		call->mdb_env_set_maxreaders(orig, readers);
	call->mdb_env_set_mapsize(orig, env->window.length);
	if (env->later)
		rc = later_open_origin(env, orig);
	else
		/* Without MDB_FIXEDMAP: the parent's map is at that address. */
		rc = call->mdb_env_open(orig, env->path,
					env_origin_flags(env, env->flags) & ~(unsigned)MDB_FIXEDMAP,
					env->permissions);
	if (rc)
		call->mdb_env_close(orig);
	else
		*ret = orig;
	return rc;
}

/* Opens the original by the inherited descriptors, if the path can no longer be opened: the
 * directory was moved, or the child has another root directory or fewer privileges than its parent.
 * Returns `rc` if that is impossible. */
static int open_inherited(const MDB_env *env, MDB_env **orig, int rc)
{
	struct origin_loan loan = {.has_lock = true};
	char *name;

	if (!origin_takes_loans(env->origin) || !descriptor_is_kept(&env->lock) ||
	    !env_file_is(env, env->data))
		return rc;
	name = env_data_path(env->path, env_origin_flags(env, env->flags));
	if (!name)
		return ENOMEM;
	loan.path = name;
	loan.fd = fcntl(env->data, F_DUPFD, 0);
	loan.lock = loan.fd < 0 ? -1 : fcntl(env->lock.fd, F_DUPFD_CLOEXEC, 0);
	if (loan.lock < 0) {
		rc = errno;
	} else {
		origin_loan_begin(&loan);
		rc = origin_open(env, orig);
		origin_loan_end();
	}
	if (loan.fd >= 0)
		close(loan.fd);
	if (loan.has_lock && loan.lock >= 0)
		close(loan.lock);
	free(name);
	return rc;
}

/* Opens the file again. Returns MDB_INVALID if its name leads to another file or none: reader slots
 * there would be of no use. */
static int open_again(const MDB_env *env, MDB_env **orig)
{
	int fd, rc = !env->later && lock_is_gone(env) ? ENOENT : origin_open(env, orig);

	if (rc > 0 && !env->later)
		rc = open_inherited(env, orig, rc);
	if (rc || env->later)
		return rc == ENOENT ? MDB_INVALID : rc;
	rc = env->origin->call.mdb_env_get_fd(*orig, &fd);
	if (!rc)
		rc = same_file(env, fd);
	if (rc)
		env->origin->call.mdb_env_close(*orig);
	return rc;
}

/* Keeps the path that the program gave: the original opened once more has an absolute one. */
static int named_keep(MDB_env *env)
{
	const char *path;
	int rc = env_get_path(env, &path);

	if (rc || env->named)
		return rc;
	env->named = strdup(path);
	return env->named ? 0 : ENOMEM;
}

bool env_is_parents(const MDB_env *env)
{
	return env->mode == ENV_OWN && env->generation != fork_generation && !env->later &&
	       !(env_origin_flags(env, env->flags) & MDB_NOLOCK);
}

/* Makes an environment this process's own. Without a lock file there are neither slots nor locks,
 * and the inherited original serves. */
static int adopt(MDB_env *env)
{
	bool serves = !env->later && env_origin_flags(env, env->flags) & MDB_NOLOCK;
	MDB_env *orig = env->orig;
	int rc = serves ? 0 : named_keep(env);

	if (!rc && !serves)
		rc = open_again(env, &orig);
	if (rc)
		return rc;
	if (env->later && env->later->readers)
		rc = later_lock(env);
	if (!rc && env->stored)
		rc = store_settle(&env->store);
	if (rc) {
		if (!serves)
			env->origin->call.mdb_env_close(orig);
		return rc;
	}
	env->orig = orig;
	env->generation = fork_generation;
	stats_opened();
	if (env->kernel_reads)
		stats_kernel_watch();
	return 0;
}

int env_adopt(MDB_env *env)
{
	UNCANCELLED;
	int rc = 0;

	pthread_mutex_lock(&adopt_lock);
	if (env->generation != fork_generation)
		rc = adopt(env);
	pthread_mutex_unlock(&adopt_lock);
	return rc;
}

/* Whether this process can pin only a newer snapshot than an inherited transaction has. Without a
 * lock file, nothing pins a file of LMDB 1.0. */
static bool is_past(MDB_txn *txn, MDB_txn *orig)
{
	if (!txn->env->later)
		return txn->env->origin->call.mdb_txn_id(orig) != txn->id;
	return txn->slot && readers_pin(txn->env->later->readers, txn->slot) != txn->id;
}

int txn_adopt(MDB_txn *txn)
{
	MDB_txn *orig;
	int rc;

	if (txn->snapshot.blocked & SNAPSHOT_FINISHED)
		return 0; /* no snapshot to pin */
	rc = env_adopt(txn->env);
	if (!rc)
		rc = txn->env->origin->call.mdb_txn_begin(txn->env->orig, NULL, MDB_RDONLY, &orig);
	if (rc)
		return rc;
	txn->slot = NULL; /* the slot is the parent's */
	rc = later_begin(txn);
	if (!rc && is_past(txn, orig)) {
		/* A writer has committed since, so this process cannot pin the old snapshot. */
		later_end(txn);
		rc = MDB_BAD_TXN;
	}
	if (rc) {
		txn->env->origin->call.mdb_txn_abort(orig);
		return rc;
	}
	txn->orig = orig;
	txn->generation = fork_generation;
	return 0;
}
