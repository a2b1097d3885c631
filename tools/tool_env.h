/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens an environment for reading, and names the file to blame if that fails.
 *
 * lmdbio itself does all reading, whatever LMDBIO_DISABLE says, through lib/env. So these commands
 * can read whatever env_open() can open.
 */
#ifndef LMDBIO_TOOLS_TOOL_ENV_H
#define LMDBIO_TOOLS_TOOL_ENV_H

#include "tool_common.h"

#include "env/env.h"

#include <stdbool.h>

/* Calls env_create() and env_open() with MDB_RDONLY, with room for `dbs` named databases at once
 * (0: none). Without MDB_NOSUBDIR in `flags`, the path may also be a file, even the data.mdb of a
 * directory. Returns 0, or their code. */
int tool_env_try(const char *path, unsigned flags, MDB_dbi dbs, MDB_env **env);

/* Returns the path under which env_open() finds the data set that the user named; adds its flag to
 * *flags. A file called data.mdb belongs to its directory: the lock file of its writers is there.
 * malloc'ed; NULL: no memory. */
char *tool_env_path(const char *path, unsigned *flags);

/* Checks a data set before it is opened: whether its data file exists, is readable, and is a file,
 * so that opening it cannot hang. Returns 0, or a code for tool_env_explain(). */
int tool_env_judge(const char *path, unsigned flags);

/* Explains a failure with `rc` in one line: "FILE: what is wrong: what to do". malloc'ed; NULL: no
 * memory. */
char *tool_env_explain(const char *path, unsigned flags, int rc);

/* Calls tool_env_judge(), with a message on failure. */
int tool_env_look(const struct tool *tool, const char *path, unsigned flags);

/* Calls tool_env_judge() and tool_env_try(), with a message on failure. */
int tool_env_open(const struct tool *tool, const char *path, unsigned flags, MDB_dbi dbs,
		  MDB_env **env);

/* Calls txn_begin() for reading in the environment of `path`, with a message on failure. */
int tool_txn_begin(const struct tool *tool, const char *path, MDB_env *env, MDB_txn **txn);

/* Calls dbi_open() for an existing database (NULL: the main one), with a message on failure. */
int tool_dbi_open(const struct tool *tool, const char *path, MDB_txn *txn, const char *name,
		  MDB_dbi *dbi);

/* Call mdb_env_info() and mdb_reader_list(). */
int tool_env_info(MDB_env *env, MDB_envinfo *info);
int tool_reader_list(MDB_env *env, MDB_msg_func *func, void *context);

/* Returns "0.9" or "1.0": the LMDB with such pages. */
const char *tool_format_name(enum format format);

/* Returns the data file of a path that the user named: `path` itself, or data.mdb in that
 * directory, or else data.mdb.zst there. malloc'ed; NULL: no memory. */
char *tool_data_name(const char *path);

/* Prints that reading `path` failed with an errno or a code of LMDB: "FILE: what is wrong". Returns
 * rc. */
int tool_read_failed(const struct tool *tool, const char *path, int rc);

/* Returns the same without the file's name. Valid until the same thread's next call. */
const char *tool_read_text(int rc);

/* Prints in one line on standard error that keeping `path` in the node's memory has no effect, if
 * programs with this environment would read the data set through the page cache. `kept` names the
 * kept data in the line: "what the server keeps". */
void tool_store_tell(const struct tool *tool, const char *path, const char *kept);

/* Returns the exit status for such a code: TOOL_PROBLEM for damage, TOOL_OK for 0, else
 * TOOL_FAILED. */
int tool_read_status(int rc);

/* A cursor of one database, with room for both of its halves. */
struct tool_cursor {
	struct cursor cursor;
	struct duplicates duplicates;
};

/* Opens a cursor in front of the first record. The transaction must live until it is closed. */
void tool_cursor_open(struct tool_cursor *cursor, MDB_txn *txn, MDB_dbi dbi);
void tool_cursor_close(struct tool_cursor *cursor);

/* Takes one step of a walk over the names in the main database, in key order. `cursor` was opened
 * on that database. Returns 0 with the database opened as *dbi and its *name malloc'ed (the caller
 * calls dbi_close() and free()), MDB_NOTFOUND after the last one, or as cursor_get() and
 * dbi_open(). Skips keys that are no databases; *keys counts those whose bytes could be a name. */
int tool_names_next(struct tool_cursor *cursor, MDB_txn *txn, char **name, MDB_dbi *dbi,
		    uint64_t *keys);

#endif
