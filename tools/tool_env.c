/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: which calls of the original stand behind each step of opening. */
#include "tool_env.h"

#include "tool_common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tool_call_failed(const char *call, int rc)
{
	fprintf(stderr, "%s failed, error %d %s\n", call, rc, lmdbio_orig_mdb_strerror(rc));
	return rc;
}

/* The path under which env_open() finds what a person named, and the flag that it takes. A file
 * that is called data.mdb belongs to its directory: the lock file that its writers use is there.
 * malloc'ed. */
static char *environment_path(const char *path, unsigned *flags)
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

int tool_env_try(const char *path, unsigned flags, MDB_dbi dbs, MDB_env **ret, const char **call)
{
	MDB_env *env = NULL;
	char *name;
	int rc;

	/* The commands know nothing of forwarded environments. */
	unsetenv("LMDBIO_DISABLE");
	*call = "mdb_env_create";
	if ((rc = env_create(&env)))
		return rc;
	if (dbs)
		(void)env_set_maxdbs(env, dbs);
	*call = "mdb_env_open";
	name = environment_path(path, &flags);
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

int tool_env_open(const char *path, unsigned flags, MDB_dbi dbs, MDB_env **env)
{
	const char *call;
	int rc = tool_env_try(path, flags, dbs, env, &call);

	return rc ? tool_call_failed(call, rc) : 0;
}

int tool_txn_begin(MDB_env *env, MDB_txn **txn)
{
	int rc = txn_begin(env, NULL, MDB_RDONLY, txn);

	return rc ? tool_call_failed("mdb_txn_begin", rc) : 0;
}

int tool_dbi_open(MDB_txn *txn, const char *name, MDB_dbi *dbi)
{
	int rc = dbi_open(txn, name, 0, dbi);

	return rc ? tool_call_failed("mdb_open", rc) : 0;
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
