/* SPDX-License-Identifier: OLDAP-2.8 */
/* Does what lmdb.h allows with one environment in several threads, and with environments of a thread's own. */
#include "pairs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void actor_look(struct actor *actor, MDB_env *env, MDB_dbi dbi)
{
	uint64_t number = actor_random(actor, PAIR_RECORDS);
	char text[9];
	MDB_val key = pair_key(text, number), data;
	MDB_txn *txn;

	if (!actor_has(actor, "mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0))
		return;
	if (actor_has(actor, "mdb_get", mdb_get(txn, dbi, &key, &data), 0) &&
	    !pair_is_record(NULL, &data, number))
		actor_wrong(actor, "bytes of record", (long)number);
	mdb_txn_abort(txn);
}

static void says(struct actor *actor)
{
	int major, minor, patch;

	if (!mdb_version(&major, &minor, &patch) || major != MDB_VERSION_MAJOR)
		actor_wrong(actor, "mdb_version", major);
	actor_has(
		actor, "mdb_strerror",
		strcmp(mdb_strerror(MDB_NOTFOUND), "MDB_NOTFOUND: No matching key/data pair found"),
		0);
	actor_has(actor, "mdb_strerror", strcmp(mdb_strerror(ENOENT), "No such file or directory"),
		  0);
}

static void asks(struct actor *actor)
{
	MDB_env *env = actor->shared->env;
	unsigned flags = 0, readers = 0;
	const char *path = NULL;
	MDB_envinfo info;
	MDB_stat stat;
	int fd = -1;

	actor_has(actor, "mdb_env_stat", mdb_env_stat(env, &stat), 0);
	actor_has(actor, "ms_entries", (long)stat.ms_entries, PAIR_NAMES);
	actor_has(actor, "mdb_env_info", mdb_env_info(env, &info), 0);
	if (info.me_mapsize < PAIR_RECORDS * PAIR_VALUE || !info.me_last_txnid)
		actor_wrong(actor, "me_mapsize", (long)info.me_mapsize);
	actor_has(actor, "mdb_env_get_flags", mdb_env_get_flags(env, &flags), 0);
	actor_has(actor, "flags", flags & MDB_RDONLY, MDB_RDONLY);
	actor_has(actor, "mdb_env_get_path", mdb_env_get_path(env, &path), 0);
	actor_has(actor, "path", strcmp(path, actor->shared->path), 0);
	actor_has(actor, "mdb_env_get_fd", mdb_env_get_fd(env, &fd), 0);
	actor_has(actor, "fcntl", fcntl(fd, F_GETFD) < 0, 0);
	actor_has(actor, "mdb_env_get_maxreaders", mdb_env_get_maxreaders(env, &readers), 0);
	if (!readers || mdb_env_get_maxkeysize(env) < 511)
		actor_wrong(actor, "mdb_env_get_maxreaders, mdb_env_get_maxkeysize", (long)readers);
	if (mdb_env_get_userctx(env) != actor->shared)
		actor_wrong(actor, "mdb_env_get_userctx", 0);
	actor_has(actor, "mdb_env_sync", mdb_env_sync(env, 1), EACCES);
}

static int take_line(const char *line, void *lines)
{
	++*(unsigned *)lines;
	return *line ? 0 : -1;
}

static void lists_readers(struct actor *actor)
{
	unsigned lines = 0;

	actor_has(actor, "mdb_reader_list",
		  mdb_reader_list(actor->shared->env, take_line, &lines) < 0 || !lines, 0);
}

static void checks_readers(struct actor *actor)
{
	int dead = 0;

	/* Children that have forked with a thread's slot may be among them. */
	actor_has(actor, "mdb_reader_check", mdb_reader_check(actor->shared->env, &dead), 0);
	actor_has(actor, "dead readers", dead < 0, 0);
}

void actor_open_and_look(struct actor *actor, const char *path, unsigned flags)
{
	MDB_txn *txn;
	MDB_env *env;
	MDB_dbi dbi;

	if (!actor_has(actor, "mdb_env_create", mdb_env_create(&env), 0))
		return;
	actor_has(actor, "mdb_env_set_maxdbs", mdb_env_set_maxdbs(env, PAIR_NAMES), 0);
	actor_has(actor, "mdb_env_set_maxreaders", mdb_env_set_maxreaders(env, 60), 0);
	actor_has(actor, "mdb_env_set_mapsize", mdb_env_set_mapsize(env, 64 << 20), 0);
	actor_has(actor, "mdb_env_set_userctx", mdb_env_set_userctx(env, actor), 0);
	actor_has(actor, "mdb_env_set_assert", mdb_env_set_assert(env, NULL), 0);
	if (actor_has(actor, "mdb_env_open", mdb_env_open(env, path, flags, 0600), 0)) {
		/* Own ones are refused flags that are set when they are opened. */
		actor_has(actor, "mdb_env_set_flags", mdb_env_set_flags(env, MDB_NOMETASYNC, 1), 0);
		if (actor_has(actor, "mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn),
			      0)) {
			actor_has(actor, "mdb_dbi_open", mdb_dbi_open(txn, "records", 0, &dbi), 0);
			actor_has(actor, "mdb_txn_commit", mdb_txn_commit(txn), 0);
			actor_look(actor, env, dbi);
		}
	}
	mdb_env_close(env);
}

static void opens_its_own(struct actor *actor)
{
	actor_open_and_look(actor, actor->shared->path, actor->shared->own);
}

static void copies_to(struct actor *actor, unsigned flags)
{
	const char *to = actor->shared->place->copies[actor->number];
	unsigned kind = actor->shared->flags & MDB_NOSUBDIR;
	char file[240];

	snprintf(file, sizeof(file), "%s/data.mdb", to);
	unlink(file);
	if (kind)
		to = file;
	if (flags)
		actor_has(actor, "mdb_env_copy2", mdb_env_copy2(actor->shared->env, to, flags), 0);
	else
		actor_has(actor, "mdb_env_copy", mdb_env_copy(actor->shared->env, to), 0);
	actor_open_and_look(actor, to, MDB_RDONLY | MDB_NOLOCK | kind);
	unlink(file);
}

static void copies(struct actor *actor)
{
	copies_to(actor, 0);
}

static void copies_compactly(struct actor *actor)
{
	copies_to(actor, MDB_CP_COMPACT);
}

static void copies_away(struct actor *actor)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	actor_has(actor, "mdb_env_copyfd", mdb_env_copyfd(actor->shared->env, fd), 0);
	actor_has(actor, "mdb_env_copyfd2", mdb_env_copyfd2(actor->shared->env, fd, MDB_CP_COMPACT),
		  0);
	close(fd);
}

/* No function of a header, but what programs do at any time. */
static void forks(struct actor *actor)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		actor_wrong(actor, "fork", errno);
	if (child <= 0) {
		if (!child) {
			actor_look(actor, actor->shared->env, actor->shared->records);
			_exit(*actor->wrong != 0);
		}
		return;
	}
	if (waitpid(child, &status, 0) != child || status)
		actor_wrong(actor, "a child", status);
}

/* Neither: another process's transaction. */
static void another_process_commits(struct actor *actor)
{
	if (!actor->shared->packed)
		pair_writer_commit();
}

const struct action pair_environment_actions[] = {
	{.functions = "mdb_version mdb_strerror", .run = says},
	{.functions = "mdb_env_stat mdb_env_info mdb_env_get_flags mdb_env_get_path mdb_env_get_fd "
		      "mdb_env_get_maxreaders "
		      "mdb_env_get_maxkeysize mdb_env_get_userctx mdb_env_sync",
	 .run = asks},
	{.functions = "mdb_reader_list", .run = lists_readers},
	{.functions = "mdb_reader_check", .run = checks_readers},
	{.functions = "mdb_env_create mdb_env_set_maxdbs mdb_env_set_maxreaders "
		      "mdb_env_set_mapsize mdb_env_set_userctx "
		      "mdb_env_set_assert mdb_env_set_flags mdb_env_open mdb_env_close",
	 .run = opens_its_own,
	 .slow = true},
	{.functions = "mdb_env_copy", .run = copies, .slow = true},
	{.functions = "mdb_env_copy2", .run = copies_compactly, .slow = true},
	{.functions = "mdb_env_copyfd mdb_env_copyfd2", .run = copies_away, .slow = true},
	{.functions = "fork", .run = forks, .slow = true},
	{.functions = "commit", .run = another_process_commits, .slow = true, .last = true},
	{0},
};
