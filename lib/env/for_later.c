/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves the environments of programs that were built for LMDB 1.0.
 *
 * lmdbio reads such an environment as any other, data files of both formats alike, with the
 * built-in LMDB 0.9 beside it. The program's own LMDB 1.0 does all that lmdbio does not do itself.
 * So an environment also has one of LMDB 1.0, which takes its place if the program opens it for
 * writing, for instance. On a machine without an LMDB 1.0 programs can only read; a line tells the
 * user so when a program asks for more.
 */
#include "env/env.h"

#include "cursor/cursor.h"
#include "format/identify.h"
#include "util/checked.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A database's name with the NUL behind it, as LMDB 1.0 keeps it. */
struct name_copy {
	struct name_copy *next;
	size_t size; /* the NUL included */
	char text[];
};

int for_later_create(MDB_env *env, const struct origin *origin)
{
	struct for_later *later = &env->for_later;
	int rc;

	later->origin = origin;
	if (!origin->later)
		return 0;
	rc = origin->call.mdb_env_create(&later->orig);
	if (rc) {
		later->orig = NULL;
		return rc;
	}
	origin->call.mdb_env_set_userctx(later->orig, env);
	origin->call.mdb_env_set_assert(later->orig, env_forward_assert);
	return 0;
}

/* Whether the program's LMDB 1.0 serves the environment. */
static bool is_forwarded(const MDB_env *env)
{
	return env->origin == env->for_later.origin;
}

/* Logs that `what` needs an LMDB 1.0, which is missing. Returns `rc`. */
static int refuse(const char *path, const char *what, int rc)
{
	if (settings_get()->verbose)
		log_line("%s: %s takes an LMDB 1.0 (%s): install one, or name its liblmdb.so.1 by "
			 "LMDBIO_LMDB1",
			 path, what, origin_later_why());
	return rc;
}

/* Whether a path leads to a device, which LMDB 1.0 also takes as a data file. */
static bool is_device(const char *path)
{
	struct stat st;

	return !stat(path, &st) && (S_ISBLK(st.st_mode) || S_ISCHR(st.st_mode));
}

int for_later_choose(MDB_env *env, const char *path, unsigned *flags, bool *own)
{
	struct for_later *later = &env->for_later;
	const char *what = "reading with LMDBIO_DISABLE";
	bool device = is_device(path);

	later->refused = false;
	if (is_forwarded(env)) { /* an earlier opening has failed */
		*own = false;
		return 0;
	}
	if (*own && !later->encrypts && !(*flags & MDB_PREVSNAPSHOT) && !device) {
		later->flags = *flags & MDB_REMAP_CHUNKS;
		*flags &= ~MDB_REMAP_CHUNKS; /* our map has one piece */
		return 0;
	}
	*own = false;
	if (!(*flags & MDB_RDONLY))
		what = "writing";
	else if (*flags & MDB_PREVSNAPSHOT)
		what = "reading the snapshot before the newest one";
	else if (device)
		what = "reading a device";
	later->refused = !later->orig;
	if (later->refused)
		return refuse(path, what, EACCES);
	env->origin->call.mdb_env_close(env->orig);
	env->orig = later->orig;
	env->origin = later->origin;
	later->orig = NULL;
	return 0;
}

int for_later_judge(int fd, const struct meta *newest)
{
	const struct tree_record *trees[] = {&newest->free_tree, &newest->main_tree};
	uint64_t pages = FORMAT_METAS, most;
	struct stat st;
	bool sums = true;

	if (fstat(fd, &st))
		return errno;
	most = (uint64_t)st.st_size / newest->page_size;
	for (unsigned i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		const struct tree_record *tree = trees[i];

		if (tree->root == PAGE_NONE)
			continue;
		if (tree->root > most)
			return MDB_PAGE_NOTFOUND;
		sums = sums && checked_add(pages, tree->branch_pages, &pages) &&
		       checked_add(pages, tree->leaf_pages, &pages) &&
		       checked_add(pages, tree->overflow_pages, &pages);
	}
	return sums && pages <= most ? 0 : MDB_CORRUPTED;
}

/* The kind of a file that the program's LMDB 1.0 refuses. */
static enum format_kind kind_of(const char *data)
{
	struct format_identity identity = {.kind = FORMAT_KIND_OTHER};
	int fd = open(data, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	uint8_t *bytes = fd < 0 ? NULL : malloc(FORMAT_LOOK);
	ssize_t n = bytes ? pread(fd, bytes, FORMAT_LOOK, 0) : -1;

	if (n > 0)
		identity = format_identify(bytes, (size_t)n);
	free(bytes);
	if (fd >= 0)
		close(fd);
	return identity.kind;
}

char *for_later_explain(const MDB_env *env, const char *path, unsigned flags, int rc)
{
	char *data, *line = NULL;

	if (rc != MDB_INVALID || !is_forwarded(env) || !(data = env_data_path(path, flags)))
		return NULL;
	if (kind_of(data) == FORMAT_KIND_OURS &&
	    asprintf(&line,
		     "%s: this is a data file of LMDB 0.9, which LMDB 1.0 does not write to: open it "
		     "with MDB_RDONLY (readonly=True), or load a dump of it with LMDB 1.0's mdb_load",
		     data) < 0)
		line = NULL;
	free(data);
	return line;
}

void for_later_close(MDB_env *env)
{
	struct for_later *later = &env->for_later;
	struct name_copy *next;

	if (later->orig)
		later->origin->call.mdb_env_close(later->orig);
	for (struct name_copy *name = later->names; name; name = next) {
		next = name->next;
		free(name);
	}
}

int env_set_flags(MDB_env *env, unsigned flags, int onoff)
{
	const struct for_later *later = &env->for_later;
	int rc = env->origin->call.mdb_env_set_flags(env->orig, flags, onoff);

	return !rc && later->orig ? later->origin->call.mdb_env_set_flags(later->orig, flags, onoff)
				  : rc;
}

int env_set_maxreaders(MDB_env *env, unsigned readers)
{
	const struct for_later *later = &env->for_later;
	int rc = env->origin->call.mdb_env_set_maxreaders(env->orig, readers);

	return !rc && later->orig ? later->origin->call.mdb_env_set_maxreaders(later->orig, readers)
				  : rc;
}

int env_set_maxdbs(MDB_env *env, MDB_dbi dbs)
{
	const struct for_later *later = &env->for_later;
	int rc = env->origin->call.mdb_env_set_maxdbs(env->orig, dbs);

	if (!rc && later->orig)
		rc = later->origin->call.mdb_env_set_maxdbs(later->orig, dbs);
	if (!rc)
		env->maxdbs = dbs + DBI_CORE;
	return rc;
}

int env_set_pagesize(MDB_env *env, int size)
{
	enum { LEAST = 256 };
	const struct for_later *later = &env->for_later;

	if (env->mode != ENV_NEW || size < LEAST || size > FORMAT_PAGE_MAX || size & (size - 1))
		return EINVAL;
	/* A file that lmdbio reads has its own page size. */
	return later->orig ? later->origin->later->mdb_env_set_pagesize(later->orig, size) : 0;
}

int env_set_encrypt(MDB_env *env, MDB_enc_func *func, const MDB_val *key, unsigned size)
{
	struct for_later *later = &env->for_later;
	int rc;

	if (!func || !key || env->mode != ENV_NEW)
		return EINVAL;
	if (!later->orig)
		return refuse("mdb_env_set_encrypt", "reading encrypted pages", MDB_ENV_ENCRYPTION);
	rc = later->origin->later->mdb_env_set_encrypt(later->orig, func, key, size);
	if (!rc)
		later->encrypts = true;
	return rc;
}

int for_later_set_checksum(MDB_env *env, MDB_sum_func *func, unsigned size)
{
	const struct for_later *later;
	int rc;

	if (!env || !func || !size || size > CHECKSUM_MOST || env->mode != ENV_NEW)
		return EINVAL;
	/* LMDB 1.0 needs the function if the program opens the environment for writing. */
	later = &env->for_later;
	rc = later->orig
		     ? later->origin->later->mdb_env_set_checksum(later->orig, func, size)
		     : 0;
	if (rc)
		return rc;
	env->sum_func = func;
	env->sum_size = size;
	return 0;
}

int for_later_name(MDB_cursor *cursor, MDB_val *key)
{
	MDB_env *env = cursor->txn->env;
	_Atomic(struct name_copy *) *names = &env->for_later.names;
	struct name_copy *name;
	MDB_val whole;

	if (!key || !cursor_at_database(&cursor->cursor, &whole))
		return 0;
	if (env->format == FORMAT_1_0) {
		*key = whole; /* the page has the NUL */
		return 0;
	}
	for (name = *names; name; name = name->next)
		if (name->size == whole.mv_size + 1 &&
		    !memcmp(name->text, whole.mv_data, whole.mv_size))
			break;
	if (!name) {
		name = malloc(sizeof(*name) + whole.mv_size + 1);
		if (!name)
			return ENOMEM;
		name->size = whole.mv_size + 1;
		memcpy(name->text, whole.mv_data, whole.mv_size);
		name->text[whole.mv_size] = 0;
		name->next = *names;
		while (!atomic_compare_exchange_weak(names, &name->next, name))
			;
	}
	*key = (MDB_val){name->size, name->text};
	return 0;
}

int env_incr_dumpfd(MDB_env *env, int fd, size_t txnid)
{
	UNCANCELLED;

	if (env->mode != ENV_OWN || !env->later || env->packed)
		return MDB_INCOMPATIBLE; /* pages of LMDB 0.9 do not say when they were written */
	return later_dump(env, fd, txnid);
}

int env_incr_dump(MDB_env *env, const char *path, size_t txnid)
{
	UNCANCELLED;
	int fd, rc;

	if (env->mode != ENV_OWN || !env->later || env->packed)
		return MDB_INCOMPATIBLE;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return errno;
	rc = env_incr_dumpfd(env, fd, txnid);
	if (close(fd) && !rc)
		rc = errno;
	return rc;
}
