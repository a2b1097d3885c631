/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: the flat-text format of mdb_dump and mdb_load. */
#include "tool_common.h"
#include "tool_env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DUMP_DATABASES = 2, /* the original's: how many named ones are open at once */
	DUMP_PIECE = 4096,  /* bytes of a key or value that are turned into text at once */
};

struct dump {
	const char *program, *path, *subdb;
	unsigned flags;
	bool all, list, print;
};

static struct dump dump;

static const struct tool_option dump_options[] = {
	{'a', "all", NULL, "dump every named database, not the main one"},
	{'f', "output", "FILE", "write to FILE instead of to standard output"},
	{'l', "list", NULL, "only list the names of the databases"},
	{'n', "no-subdir", NULL,
	 "PATH is the data file, not its directory (a file is recognised without this)"},
	{'p', "print", NULL, "write printable characters as they are"},
	{'s', "subdb", "NAME", "dump the database NAME instead of the main one"},
	{TOOL_LONG_ONLY, "no-lock", NULL,
	 "leave the lock file alone: nobody may write to the database meanwhile"},
	{'V', NULL, NULL, "print the version of LMDB and exit"},
	{0},
};

static const struct tool dump_tool = {
	.name = "lmdbio-dump",
	.synopsis = "[OPTION]... PATH",
	.purpose = "Write an LMDB database in the flat-text format of mdb_dump(1), which "
		   "mdb_load(1) reads.",
	.options = dump_options,
	.closing = "Exit status: 0 all is written; 1 wrong usage, or something could not be read "
		   "or written; 130 interrupted.",
};

static const struct {
	unsigned bit;
	const char *name;
} flag_names[] = {
	{MDB_REVERSEKEY, "reversekey"}, {MDB_DUPSORT, "dupsort"},
	{MDB_INTEGERKEY, "integerkey"}, {MDB_DUPFIXED, "dupfixed"},
	{MDB_INTEGERDUP, "integerdup"}, {MDB_REVERSEDUP, "reversedup"},
};

/* The original's words and status: its users' scripts look for both. */
static int dump_usage(const char *program)
{
	fprintf(stderr, "usage: %s [-V] [-f output] [-l] [-n] [-p] [-a|-s subdb] dbpath\n",
		program);
	return EXIT_FAILURE;
}

static void dump_header(const struct tree_record *record, uint32_t page_size,
			const MDB_envinfo *info, const char *name)
{
	printf("VERSION=3\nformat=%s\n", dump.print ? "print" : "bytevalue");
	if (name)
		printf("database=%s\n", name);
	printf("type=btree\nmapsize=%zu\n", info->me_mapsize);
	if (info->me_mapaddr)
		printf("mapaddr=%p\n", info->me_mapaddr);
	printf("maxreaders=%u\n", info->me_maxreaders);
	if (record->flags & MDB_DUPSORT)
		printf("duplicates=1\n");
	for (size_t i = 0; i < sizeof(flag_names) / sizeof(*flag_names); i++)
		if (record->flags & flag_names[i].bit)
			printf("%s=1\n", flag_names[i].name);
	printf("db_pagesize=%u\nHEADER=END\n", page_size);
}

static void dump_bytes(const MDB_val *value)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *at = value->mv_data, *end = at + value->mv_size;
	char text[3 * DUMP_PIECE];

	putchar_unlocked(' ');
	while (at < end) {
		const uint8_t *stop = end - at > DUMP_PIECE ? at + DUMP_PIECE : end;
		char *out = text;

		for (; at < stop; at++) {
			if (dump.print && *at >= ' ' && *at <= '~') {
				*out++ = (char)*at;
				continue;
			}
			if (dump.print)
				*out++ = '\\';
			*out++ = digits[*at >> 4];
			*out++ = digits[*at & 15];
		}
		fwrite_unlocked(text, 1, (size_t)(out - text), stdout);
	}
	putchar_unlocked('\n');
}

/* One database. Unlike the original, the end is marked only when it has been reached. */
static int dump_database(MDB_txn *txn, MDB_dbi dbi, const char *name)
{
	struct tool_cursor cursor;
	MDB_val key, data;
	MDB_envinfo info;
	int rc = tool_env_info(txn->env, &info);

	if (rc)
		return rc;
	dump_header(&txn->trees[dbi].record, txn->snapshot.page_size, &info, name);
	tool_cursor_open(&cursor, txn, dbi);
	while (!(rc = cursor_get(&cursor.cursor, &key, &data, MDB_NEXT))) {
		if (tool_signal || ferror(stdout)) {
			rc = tool_signal ? EINTR : 0;
			break;
		}
		dump_bytes(&key);
		dump_bytes(&data);
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
		fprintf(stderr, "%s: %s does not contain multiple databases\n", dump.program,
			dump.path);
		return rc;
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int dump_run(void)
{
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	int rc = tool_env_open(dump.path, dump.flags, dump.all || dump.subdb ? DUMP_DATABASES : 0,
			       &env);

	if (rc)
		return EXIT_FAILURE;
	rc = tool_txn_begin(env, &txn);
	if (rc)
		goto fail;
	rc = tool_dbi_open(txn, dump.subdb, &dbi);
	if (rc)
		goto fail;
	rc = dump.all ? dump_all(txn, dbi) : dump_database(txn, dbi, dump.subdb);
	if (rc && rc != MDB_NOTFOUND && !tool_signal)
		fprintf(stderr, "%s: %s: %s\n", dump.program, dump.path,
			lmdbio_orig_mdb_strerror(rc));
fail:
	if (txn)
		txn_abort(txn);
	env_close(env);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void on_unreadable(void)
{
	tool_output_end(&dump_tool, EXIT_FAILURE);
	fprintf(stderr, "%s: %s: %s\n", dump.program, dump.path, strerror(EIO));
	_exit(EXIT_FAILURE);
}

/* Returns whether the command line makes sense. */
static bool dump_parse(int argc, char **argv)
{
	int key;

	while ((key = tool_option_next(&dump_tool, argc, argv)) != -1) {
		switch (key) {
		case 'V':
			printf("%s\n", lmdbio_orig_mdb_version(NULL, NULL, NULL));
			exit(tool_output_end(&dump_tool, EXIT_SUCCESS) != EXIT_SUCCESS);
		case 'l':
			dump.list = true;
			/* fall through */
		case 'a':
			if (dump.subdb)
				return false;
			dump.all = true;
			break;
		case 'f':
			if (!freopen(optarg, "w", stdout)) {
				fprintf(stderr, "%s: %s: reopen: %s\n", dump.program, optarg,
					strerror(errno));
				exit(EXIT_FAILURE);
			}
			break;
		case 'n':
			dump.flags |= MDB_NOSUBDIR;
			break;
		case 'p':
			dump.print = true;
			break;
		case 's':
			if (dump.all)
				return false;
			dump.subdb = optarg;
			break;
		case TOOL_LONG_ONLY:
			dump.flags |= MDB_NOLOCK;
			break;
		default:
			return false;
		}
	}
	return optind == argc - 1;
}

int main(int argc, char **argv)
{
	int status;

	dump.program = argv[0];
	if (argc < 2 || !dump_parse(argc, argv))
		return dump_usage(argv[0]);
	dump.path = argv[optind];
	tool_signals_catch();
	tool_unreadable_catch(on_unreadable);
	status = dump_run();
	if (tool_signal)
		return tool_signal_status();
	return tool_output_end(&dump_tool, status) == TOOL_FAILED ? EXIT_FAILURE : status;
}
