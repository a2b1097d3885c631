/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements lmdbio-dump's command line, and walks a sound database in the order of its keys. */
#include "dump_format.h"
#include "dump_salvage.h"
#include "tool_common.h"
#include "tool_env.h"
#include "tool_output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DUMP_DATABASES = 2, /* the original's: named databases that are open at once */
	DUMP_ESCAPES = ORIGIN_VERSION(0, 9, 25), /* from this version on mdb_dump doubles a
						    backslash */
};

static struct {
	const char *path, *subdb, *output;
	unsigned flags;
	bool all, list, salvage;
	struct dump_form form;
} dump;

enum { OPTION_NO_LOCK = TOOL_LONG_ONLY, OPTION_SALVAGE };

static const struct tool_option dump_options[] = {
	{'a', "all", NULL, "dump every named database, not the main one"},
	{'f', "output", "FILE", "write to FILE, which appears when it is whole"},
	{'l', "list", NULL, "only list the names of the databases"},
	{'n', "no-subdir", NULL,
	 "PATH is the data file, not its directory (a file is recognised without this)"},
	{'p', "print", NULL, "write printable characters as they are"},
	{'s', "subdb", "DATABASE", "dump the named database DATABASE instead of the main one"},
	{OPTION_NO_LOCK, "no-lock", NULL,
	 "leave the lock file alone: no program may write to the database meanwhile"},
	{OPTION_SALVAGE, "salvage", NULL,
	 "dump what can be read of a damaged file, and say what is left out"},
	{0},
};

static const struct tool dump_tool = {
	.name = "lmdbio-dump",
	.synopsis = "[OPTION]... PATH",
	.purpose = "Write an LMDB database in the flat-text format of mdb_dump(1), which "
		   "mdb_load(1) reads.",
	.options = dump_options,
	.closing = "Exit status: 0 all is written; 1 damage was found; 2 something could not be "
		   "read or written, or wrong usage; 130 interrupted.",
};

/* Dumps one database. Unlike the original, marks the end only if the walk has reached it. */
static int dump_database(MDB_txn *txn, MDB_dbi dbi, const char *name)
{
	struct tool_cursor cursor;
	MDB_val key, data;
	int rc;

	dump_header(&dump.form, &txn->trees[dbi].record, name);
	tool_cursor_open(&cursor, txn, dbi);
	while (!(rc = cursor_get(&cursor.cursor, &key, &data, MDB_NEXT))) {
		if (tool_signal || ferror(stdout)) {
			rc = tool_signal ? EINTR : 0;
			break;
		}
		dump_bytes(&dump.form, &key);
		dump_bytes(&dump.form, &data);
	}
	tool_cursor_close(&cursor);
	if (rc != MDB_NOTFOUND)
		return rc;
	printf("DATA=END\n");
	return 0;
}

static int dump_all(MDB_txn *txn, MDB_dbi main)
{
	struct tool_cursor cursor;
	uint64_t keys = 0;
	char *name;
	MDB_dbi dbi;
	int rc;

	tool_cursor_open(&cursor, txn, main);
	while (!(rc = tool_names_next(&cursor, txn, &name, &dbi, &keys))) {
		if (dump.list)
			printf("%s\n", name);
		else
			rc = dump_database(txn, dbi, name);
		dbi_close(txn->env, dbi);
		free(name);
		if (rc)
			break;
	}
	tool_cursor_close(&cursor);
	if (rc == MDB_NOTFOUND && !keys) {
		tool_complain(&dump_tool,
			      "%s: it has no named databases: without -a and -l its records are "
			      "dumped",
			      dump.path);
		return rc;
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Returns an exit status. */
static int dump_sound(MDB_txn *txn)
{
	MDB_dbi dbi;
	int rc = tool_dbi_open(&dump_tool, dump.path, txn, dump.subdb, &dbi);

	if (rc)
		return tool_read_status(rc);
	rc = dump.all ? dump_all(txn, dbi) : dump_database(txn, dbi, dump.subdb);
	if (rc && rc != MDB_NOTFOUND && !tool_signal)
		tool_read_failed(&dump_tool, dump.path, rc);
	if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_BAD_CHECKSUM)
		tool_complain(&dump_tool, "%s: --salvage dumps what can be read", dump.path);
	return tool_read_status(rc);
}

static int dump_salvaged(MDB_txn *txn)
{
	struct salvage salvage = {.tool = &dump_tool,
				  .path = dump.path,
				  .form = &dump.form,
				  .subdb = dump.subdb,
				  .all = dump.all,
				  .list = dump.list};

	return salvage_run(&salvage, txn);
}

static int dump_run(void)
{
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	int status, rc;

	rc = tool_env_open(&dump_tool, dump.path, dump.flags,
			   dump.all || dump.subdb ? DUMP_DATABASES : 0, &env);
	if (rc)
		return tool_read_status(rc);
	rc = tool_txn_begin(&dump_tool, dump.path, env, &txn);
	if (!rc && (rc = tool_env_info(env, &dump.form.info)))
		tool_read_failed(&dump_tool, dump.path, rc);
	status = tool_read_status(rc);
	if (!rc) {
		dump.form.page_size = txn->snapshot.page_size;
		status = dump.salvage ? dump_salvaged(txn) : dump_sound(txn);
	}
	if (txn)
		txn_abort(txn);
	env_close(env);
	return status;
}

static void on_unreadable(void)
{
	int status = tool_output_commit(&dump_tool, TOOL_FAILED, false);

	tool_read_failed(&dump_tool, dump.path, EIO);
	_exit(status);
}

static int dump_parse(int argc, char **argv)
{
	int key;

	while ((key = tool_option_next(&dump_tool, argc, argv)) != -1) {
		switch (key) {
		case 'l':
			dump.list = true;
			/* fall through */
		case 'a':
			dump.all = true;
			break;
		case 'f':
			dump.output = optarg;
			break;
		case 'n':
			dump.flags |= MDB_NOSUBDIR;
			break;
		case 'p':
			dump.form.print = true;
			dump.form.escapes = origin_version(origin_built_in()) >= DUMP_ESCAPES;
			break;
		case 's':
			dump.subdb = optarg;
			break;
		case OPTION_NO_LOCK:
			dump.flags |= MDB_NOLOCK;
			break;
		case OPTION_SALVAGE:
			dump.salvage = true;
			break;
		default:
			return tool_usage_hint(&dump_tool);
		}
	}
	if (dump.all && dump.subdb)
		return tool_usage_error(&dump_tool, "--all and --list exclude --subdb");
	if (optind != argc - 1)
		return tool_usage_error(&dump_tool, "one data set is wanted");
	dump.path = argv[optind];
	return 0;
}

int main(int argc, char **argv)
{
	int status = dump_parse(argc, argv);

	if (status)
		return status;
	tool_signals_catch();
	tool_unreadable_catch(on_unreadable);
	tool_output_spare(dump.path);
	if (dump.output && (status = tool_output_file(&dump_tool, dump.output)))
		return status;
	status = dump_run();
	if (tool_signal)
		status = tool_signal_status();
	return tool_output_commit(&dump_tool, status,
				  !tool_signal &&
					  (!status || (dump.salvage && status != TOOL_FAILED)));
}
