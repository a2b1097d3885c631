/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens an environment as env_open() does, and explains failures. */
#include "tool_env.h"

#include "container/container.h"
#include "env/env.h"
#include "io/io.h"
#include "util/phrases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *tool_read_text(int rc)
{
	static _Thread_local char text[128];
	const char *remedy = remedy_find(rc);

	switch (rc) {
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
		return "it is damaged: lmdbio-check says where";
	case MDB_BAD_CHECKSUM:
		return "a page does not have its checksum: lmdbio-check says which";
	case MDB_INVALID:
	case MDB_VERSION_MISMATCH:
		return "this is no data file that lmdbio reads: lmdbio-check says what it is";
	default:
		if (!remedy)
			return lmdbio_orig_mdb_strerror(rc);
		snprintf(text, sizeof(text), "%s: %s", strerror(rc), remedy);
		return text;
	}
}

int tool_read_failed(const struct tool *tool, const char *path, int rc)
{
	tool_complain(tool, "%s: %s", path, tool_read_text(rc));
	return rc;
}

int tool_read_status(int rc)
{
	if (!rc)
		return TOOL_OK;
	return rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_BAD_CHECKSUM
		       ? TOOL_PROBLEM
		       : TOOL_FAILED;
}

/* Returns why programs read a data file through the page cache, by the rules of
 * lib/env/env_store.c, or NULL if they do not. */
static const char *cache_reason(int fd)
{
	const char *store = getenv("LMDBIO_STORE"), *backend, *why;
	struct stat status;

	if (store && !strcasecmp(store, "arena"))
		return NULL;
	if (store && !strcasecmp(store, "cache"))
		return "LMDBIO_STORE=cache";
	if (fstat(fd, &status) || container_is_one(fd))
		return NULL;
	if (status.st_size < ENV_STORE_FILE_MIN)
		return "it is smaller than 1 MiB";
	if (io_choose(fd, getenv("LMDBIO_IO"), &backend, &why))
		return NULL;
	return strcmp(backend, "direct") ? why : NULL;
}

void tool_store_tell(const struct tool *tool, const char *path, const char *kept)
{
	char *name = tool_data_name(path);
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	const char *why = fd < 0 ? NULL : cache_reason(fd);

	if (why)
		tool_complain(tool,
			      "%s: %s has no effect: programs read this data set through the page "
			      "cache (%s); with LMDBIO_STORE=arena they read %s",
			      path, kept, why, kept);
	if (fd >= 0)
		close(fd);
	free(name);
}

char *tool_env_path(const char *path, unsigned *flags)
{
	static const char usual[] = "data.mdb";
	const char *name = basename(path);

	if (*flags & MDB_NOSUBDIR || !tool_path_flags(path))
		return strdup(path);
	if (strcmp(name, usual) != 0) {
		*flags |= MDB_NOSUBDIR;
		return strdup(path);
	}
	return name > path ? strndup(path, (size_t)(name - path)) : strdup(".");
}

int tool_env_judge(const char *path, unsigned flags)
{
	char *name = flags & MDB_NOSUBDIR ? strdup(path) : tool_data_name(path);
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	int rc = !name ? ENOMEM : fd < 0 ? errno : 0;
	struct stat status;

	if (!rc && fstat(fd, &status))
		rc = errno;
	if (!rc && !S_ISREG(status.st_mode))
		rc = S_ISDIR(status.st_mode) ? EISDIR : MDB_INVALID;
	if (fd >= 0)
		close(fd);
	free(name);
	return rc;
}

int tool_env_try(const char *path, unsigned flags, MDB_dbi dbs, MDB_env **ret)
{
	MDB_env *env = NULL;
	char *name;
	int rc;

	/* The commands do not support forwarded environments. */
	unsetenv("LMDBIO_DISABLE");
	if ((rc = env_create(&env)))
		return rc;
	if (dbs)
		(void)env_set_maxdbs(env, dbs);
	name = tool_env_path(path, &flags);
	rc = name ? env_open(env, name, flags | MDB_RDONLY, 0664) : ENOMEM;
	free(name);
	if (!rc && env->mode != ENV_OWN)
		rc = EPERM; /* lmdbio reads nothing itself in a set-uid program */
	if (rc) {
		env_close(env);
		return rc;
	}
	*ret = env;
	return 0;
}

char *tool_env_explain(const char *path, unsigned flags, int rc)
{
	char *name = tool_env_path(path, &flags);
	char *line = name ? env_explain(name, flags | MDB_RDONLY, rc) : NULL;

	free(name);
	return line;
}

static int open_failed(const struct tool *tool, const char *path, unsigned flags, int rc)
{
	char *line = tool_env_explain(path, flags, rc);

	tool_complain(tool, "%s", line ? line : path);
	free(line);
	return rc;
}

int tool_env_look(const struct tool *tool, const char *path, unsigned flags)
{
	int rc = tool_env_judge(path, flags);

	return rc ? open_failed(tool, path, flags, rc) : 0;
}

int tool_env_open(const struct tool *tool, const char *path, unsigned flags, MDB_dbi dbs,
		  MDB_env **env)
{
	int rc = tool_env_look(tool, path, flags);

	if (rc)
		return rc;
	rc = tool_env_try(path, flags, dbs, env);
	return rc ? open_failed(tool, path, flags, rc) : 0;
}

int tool_txn_begin(const struct tool *tool, const char *path, MDB_env *env, MDB_txn **txn)
{
	int rc = txn_begin(env, NULL, MDB_RDONLY, txn);

	return rc ? tool_read_failed(tool, path, rc) : 0;
}

int tool_dbi_open(const struct tool *tool, const char *path, MDB_txn *txn, const char *name,
		  MDB_dbi *dbi)
{
	int rc = dbi_open(txn, name, 0, dbi);

	if (rc == MDB_NOTFOUND && name)
		tool_complain(tool, "%s: no database '%s': lmdbio-dump -l lists them", path, name);
	else if (rc == MDB_INCOMPATIBLE && name)
		tool_complain(tool, "%s: '%s' is a record, no database: lmdbio-dump -l lists them",
			      path, name);
	else if (rc)
		tool_read_failed(tool, path, rc);
	return rc;
}

int tool_env_info(MDB_env *env, MDB_envinfo *info)
{
	return env_info(env, info);
}

int tool_reader_list(MDB_env *env, MDB_msg_func *func, void *context)
{
	return env_reader_list(env, func, context);
}

const char *tool_format_name(enum format format)
{
	return format == FORMAT_1_0 ? "1.0" : "0.9";
}

char *tool_data_name(const char *path)
{
	static const char *const names[] = {"data.mdb", "data.mdb.zst"};
	struct stat status;
	char *name = NULL;

	if (stat(path, &status) || !S_ISDIR(status.st_mode))
		return strdup(path);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		free(name);
		if (asprintf(&name, "%s/%s", path, names[i]) < 0)
			return NULL;
		if (!access(name, F_OK))
			return name;
	}
	name[strlen(name) - strlen(".zst")] = 0; /* neither file exists: report the usual name as
						    missing */
	return name;
}

void tool_cursor_open(struct tool_cursor *cursor, MDB_txn *txn, MDB_dbi dbi)
{
	cursor_init(&cursor->cursor, &txn->snapshot, &txn->trees[dbi], &txn->env->slots[dbi].order,
		    &cursor->duplicates);
}

void tool_cursor_close(struct tool_cursor *cursor)
{
	cursor_end(&cursor->cursor);
}

int tool_names_next(struct tool_cursor *cursor, MDB_txn *txn, char **ret, MDB_dbi *dbi,
		    uint64_t *keys)
{
	MDB_val key;
	char *name;
	int rc;

	while (!(rc = cursor_get(&cursor->cursor, &key, NULL, MDB_NEXT_NODUP))) {
		if (memchr(key.mv_data, 0, key.mv_size))
			continue;
		++*keys;
		name = strndup(key.mv_data, key.mv_size);
		if (!name)
			return ENOMEM;
		rc = dbi_open(txn, name, 0, dbi);
		if (!rc) {
			*ret = name;
			return 0;
		}
		free(name);
		/* A code of LMDB's concerns a record; an errno concerns a database that could not
		 * be opened. Damage shows in the next step as well, but as MDB_BAD_TXN. */
		if (rc > 0 || txn->snapshot.blocked)
			return rc;
	}
	return rc;
}
