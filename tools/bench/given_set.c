/* SPDX-License-Identifier: OLDAP-2.8 */
/* Examines the data set to measure. */
#include "given_set.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Records in the main database up to which it is searched for names. */
enum { SEARCHED = 100000, DATABASES = 4 };

static uint64_t tree_pages(const struct tree_record *record)
{
	return record->branch_pages + record->leaf_pages + record->overflow_pages;
}

static void take_tree(struct given_set *set, const MDB_txn *txn, MDB_dbi dbi)
{
	const struct tree_record *record = &txn->trees[dbi].record;

	set->records = record->entries;
	set->tree_size = tree_pages(record) * txn->env->window.page_size;
}

/* Takes the main database, or the named one with the most pages if that has more, or if the main
 * one holds only names. */
static int take_largest(struct given_set *set, MDB_txn *txn)
{
	uint64_t keys = 0, names = 0, records = set->records, most = 0;
	struct given_set named = {.database = NULL};
	struct tool_cursor cursor;
	char *name;
	MDB_dbi dbi;
	int rc;

	set->unsearched = records > SEARCHED;
	if (set->unsearched)
		return 0;
	tool_cursor_open(&cursor, txn, DBI_MAIN);
	for (; !(rc = tool_names_next(&cursor, txn, &name, &dbi, &keys)); names++) {
		uint64_t pages = tree_pages(&txn->trees[dbi].record);

		if (!named.database || pages > most) {
			most = pages;
			take_tree(&named, txn, dbi);
			free(named.database);
			named.database = name;
			name = NULL;
		}
		dbi_close(txn->env, dbi);
		free(name);
	}
	tool_cursor_close(&cursor);
	if (named.database && (named.tree_size > set->tree_size || names == records)) {
		set->database = named.database;
		set->records = named.records;
		set->tree_size = named.tree_size;
	} else {
		free(named.database);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int take_database(const struct tool *tool, struct given_set *set, MDB_env *env,
			 const char *database)
{
	MDB_envinfo info;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = tool_txn_begin(tool, set->named, env, &txn);

	if (rc)
		return rc;
	rc = tool_dbi_open(tool, set->named, txn, database, &dbi);
	if (!rc) {
		take_tree(set, txn, dbi);
		set->database = database ? strdup(database) : NULL;
		rc = database ? 0 : take_largest(set, txn);
		if (rc)
			tool_read_failed(tool, set->named, rc);
	}
	txn_abort(txn);
	if (!rc && !tool_env_info(env, &info))
		set->snapshot = info.me_last_txnid;
	if (!rc && !set->records) {
		tool_complain(tool, "%s: %s%s has no records: there is nothing to measure",
			      set->named, set->database ? "the database " : "it",
			      set->database ? set->database : "");
		rc = ENODATA;
	}
	return rc;
}

/* Chooses MDB_NOLOCK where needed: a reader without a slot in the lock file does not hold writers
 * back, and must not read beside them. Without a lock file no writer is active, for it would have
 * made one. */
static void choose_locks(struct given_set *set)
{
	char *lock = env_lock_path(set->path, set->flags);

	if (!lock)
		return;
	if (set->container || faccessat(AT_FDCWD, lock, R_OK | W_OK, AT_EACCESS))
		set->flags |= MDB_NOLOCK;
	free(lock);
}

static int look_at_file(const struct tool *tool, struct given_set *set)
{
	struct statfs system;
	struct stat st;

	if (stat(set->file, &st) || statfs(set->file, &system)) {
		int rc = errno;

		tool_complain(tool, "%s: %s", set->file, strerror(rc));
		return rc;
	}
	set->file_size = (uint64_t)st.st_size;
	set->in_memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
	return 0;
}

int given_open(const struct tool *tool, struct given_set *set, const char *path, unsigned flags,
	       const char *database)
{
	MDB_env *env;
	int rc;

	*set = (struct given_set){.named = path, .flags = flags};
	set->path = tool_env_path(path, &set->flags);
	set->file = tool_data_name(path);
	if (!set->path || !set->file) {
		tool_complain(tool, "%s: %s", path, strerror(ENOMEM));
		return ENOMEM;
	}
	choose_locks(set);
	rc = tool_env_open(tool, set->path, set->flags, DATABASES, &env);
	if (rc)
		return rc;
	set->container = env->packed != NULL;
	set->later = env->later != NULL;
	choose_locks(set);
	rc = take_database(tool, set, env, database);
	env_close(env);
	return rc ? rc : look_at_file(tool, set);
}

void given_close(struct given_set *set)
{
	free(set->path);
	free(set->file);
	free(set->database);
}

uint64_t given_snapshot(const struct given_set *set)
{
	uint64_t snapshot = set->snapshot;
	MDB_envinfo info;
	MDB_env *env;

	if (tool_env_try(set->path, set->flags, 0, &env))
		return snapshot;
	if (!tool_env_info(env, &info))
		snapshot = info.me_last_txnid;
	env_close(env);
	return snapshot;
}

uint64_t given_record_size(const struct given_set *set)
{
	uint64_t size = set->records ? set->tree_size / set->records : 1;

	return size ? size : 1;
}
