/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens an environment for reading, and says which file is to blame where that fails.
 *
 * All reading is lmdbio's own, whatever LMDBIO_DISABLE says, and goes through lib/env: what
 * env_open() can open, these commands can read.
 */
#ifndef LMDBIO_TOOLS_TOOL_ENV_H
#define LMDBIO_TOOLS_TOOL_ENV_H

#include "tool_common.h"

#include "env/env.h"

#include <stdbool.h>

/* env_create() and env_open() with MDB_RDONLY, with room for `dbs` named databases at once (0:
 * none). Without MDB_NOSUBDIR in `flags` the path may be a file all the same, also the data.mdb of
 * a directory. Returns 0, or their code. */
int tool_env_try(const char *path, unsigned flags, MDB_dbi dbs, MDB_env **env);

/* The path under which env_open() finds what a person named, and the flag that it takes. A file
 * that is called data.mdb belongs to its directory: the lock file that its writers use is there.
 * malloc'ed; NULL: no memory. */
char *tool_env_path(const char *path, unsigned *flags);

/* Looks at what the user names as a data set before it is opened: whether its data file is there,
 * may be read, and is a file, at which an opening cannot hang. Returns 0, or a code for
 * tool_env_explain(). */
int tool_env_judge(const char *path, unsigned flags);

/* Why it has failed with `rc`, as one line: "FILE: what is wrong: what to do". malloc'ed; NULL: no
 * memory. */
char *tool_env_explain(const char *path, unsigned flags, int rc);

/* The same; a person is told why not. */
int tool_env_open(const struct tool *tool, const char *path, unsigned flags, MDB_dbi dbs,
		  MDB_env **env);

/* txn_begin() for reading in the environment of `path`; a person is told why not. */
int tool_txn_begin(const struct tool *tool, const char *path, MDB_env *env, MDB_txn **txn);

/* dbi_open() of a database that exists (NULL: the main one); a person is told why not. */
int tool_dbi_open(const struct tool *tool, const char *path, MDB_txn *txn, const char *name,
		  MDB_dbi *dbi);

/* mdb_env_info() and mdb_reader_list(). */
int tool_env_info(MDB_env *env, MDB_envinfo *info);
int tool_reader_list(MDB_env *env, MDB_msg_func *func, void *context);

/* "0.9" or "1.0": the LMDB that has such pages. */
const char *tool_format_name(enum format format);

/* The data file of what a person named: `path` itself, or data.mdb in that directory, or, when
 * there is none, data.mdb.zst there. malloc'ed; NULL: no memory. */
char *tool_data_name(const char *path);

/* Says that reading `path` has failed with an errno or a code of LMDB: "FILE: what is
 * wrong". Returns rc. */
int tool_read_failed(const struct tool *tool, const char *path, int rc);

/* The same without the file's name. The text lasts until the same thread's next call. */
const char *tool_read_text(int rc);

/* Says in one line on standard error that what is kept of `path` in the node's memory has no
 * effect, where programs with this environment would read the data set through the page cache.
 * `kept` is what keeps it: "what is held". */
void tool_store_tell(const struct tool *tool, const char *path, const char *kept);

/* The exit status for such a code: TOOL_PROBLEM for damage, else TOOL_FAILED; TOOL_OK for 0. */
int tool_read_status(int rc);

/* A cursor of one database: room for both of its halves. */
struct tool_cursor {
	struct cursor cursor;
	struct duplicates duplicates;
};

/* Sets it before the first record. Until it is closed the transaction must live. */
void tool_cursor_open(struct tool_cursor *cursor, MDB_txn *txn, MDB_dbi dbi);
void tool_cursor_close(struct tool_cursor *cursor);

/* One step of a walk over the names in the main database, in key order. `cursor` is one that was
 * opened on it. Returns 0 with the database opened as *dbi and its *name (malloc'ed, the caller
 * frees both: dbi_close(), free()); MDB_NOTFOUND after the last one; or as cursor_get() and
 * dbi_open(). Keys that are no databases are passed over; *keys counts those that could have been,
 * by their bytes. */
int tool_names_next(struct tool_cursor *cursor, MDB_txn *txn, char **name, MDB_dbi *dbi,
		    uint64_t *keys);

#endif
