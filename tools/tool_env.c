/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens an environment as env_open() does, and explains what fails. */
#include "tool_env.h"

#include "env/explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tool_read_failed(const struct tool *tool, const char *path, int rc)
{
	if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND)
		tool_complain(tool, "%s: it is damaged: lmdbio-check says where", path);
	else
		tool_complain(tool, "%s: %s", path, lmdbio_orig_mdb_strerror(rc));
	return rc;
}

int tool_read_status(int rc)
{
	if (!rc)
		return TOOL_OK;
	return rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ? TOOL_PROBLEM : TOOL_FAILED;
}

char *tool_env_path(const char *path, unsigned *flags)
{
	static const char usual[] = "data.mdb";
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (*flags & MDB_NOSUBDIR || !tool_path_flags(path))
		return strdup(path);
	if (strcmp(name, usual) != 0) {
		*flags |= MDB_NOSUBDIR;
		return strdup(path);
	}
	return slash ? strndup(path, (size_t)(name - path)) : strdup(".");
}

int tool_env_try(const char *path, unsigned flags, MDB_dbi dbs, MDB_env **ret)
{
	MDB_env *env = NULL;
	char *name;
	int rc;

	/* The commands know nothing of forwarded environments. */
	unsetenv("LMDBIO_DISABLE");
	if ((rc = env_create(&env)))
		return rc;
	if (dbs)
		(void)env_set_maxdbs(env, dbs);
	name = tool_env_path(path, &flags);
	rc = name ? env_open(env, name, flags | MDB_RDONLY, 0664) : ENOMEM;
	free(name);
	if (!rc && env->mode != ENV_OWN)
		rc = EPERM; /* a set-uid program reads nothing by itself */
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
	char *line = name ? env_explain(name, flags, rc) : NULL;

	free(name);
	return line;
}

int tool_env_open(const struct tool *tool, const char *path, unsigned flags, MDB_dbi dbs,
		  MDB_env **env)
{
	char *line;
	int rc = tool_env_try(path, flags, dbs, env);

	if (!rc)
		return 0;
	line = tool_env_explain(path, flags, rc);
	tool_complain(tool, "%s", line ? line : path);
	free(line);
	return rc;
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
		tool_complain(tool, "%s: '%s' is a record, no database", path, name);
	else if (rc)
		tool_read_failed(tool, path, rc);
	return rc;
}

int tool_env_info(MDB_env *env, MDB_envinfo *info)
{
	return lmdbio_orig_mdb_env_info(env->orig, info);
}

int tool_reader_list(MDB_env *env, MDB_msg_func *func, void *context)
{
	return lmdbio_orig_mdb_reader_list(env->orig, func, context);
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
	name[strlen(name) - strlen(".zst")] = 0; /* neither: the usual one is missed */
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
		/* Damage shows in the next step as well, but as MDB_BAD_TXN. */
		if (txn->snapshot.blocked)
			return rc;
	}
	return rc;
}
