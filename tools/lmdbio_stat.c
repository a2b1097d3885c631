/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements lmdbio-stat's command line: mdb_stat's output, in its order, and more. */
#include "stat_container.h"
#include "stat_free.h"
#include "stat_measure.h"
#include "stat_report.h"
#include "tool_common.h"
#include "tool_env.h"
#include "tool_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STAT_DATABASES = 4 /* the original's: named databases that are open at once */ };

struct stat_options {
	const char *path, *subdb;
	unsigned flags, parts;
	int info, freed, readers;          /* how often each option was given */
	bool all, chunks, container, json; /* chunks: fail if there is no container */
};

struct stat_run {
	const struct stat_options *options;
	MDB_env *env;
	MDB_txn *txn;
	json_t *json; /* or NULL */
	struct page_map seen;
};

enum {
	OPTION_ALL_INFO = TOOL_LONG_ONLY,
	OPTION_CHUNKS,
	OPTION_JSON,
	OPTION_LAYOUT,
	OPTION_NO_LOCK,
	OPTION_RECORDS,
	OPTION_SIZES,
};

static const struct tool_option stat_options[] = {
	{'a', "all", NULL, "show the main database and all named ones"},
	{'e', "env-info", NULL, "show the environment: map size, pages, transactions, readers"},
	{'f', "free-list", NULL,
	 "show the free list; with -ff each transaction's part, with -fff each page"},
	{'n', "no-subdir", NULL,
	 "PATH is the data file, not its directory (a file is recognised without this)"},
	{'r', "readers", NULL,
	 "show the reader table; with -rr also clear stale readers out of it"},
	{'s', "subdb", "DATABASE", "show the named database DATABASE instead of the main one"},
	{OPTION_RECORDS, "records", NULL, "count records and keys, and the bytes in them"},
	{OPTION_SIZES, "sizes", NULL,
	 "show how many values there are of which size, and what is in overflow pages"},
	{OPTION_LAYOUT, "layout", NULL,
	 "show how much of a scan leads from a page to the next one in the file"},
	{OPTION_CHUNKS, "chunks", NULL, "show the chunks and the ratio of a container"},
	{OPTION_ALL_INFO, "all-info", NULL,
	 "show all: -aef, --records, --sizes, --layout, and --chunks for a container"},
	{OPTION_JSON, "json", NULL, "print one JSON object instead of lines"},
	{OPTION_NO_LOCK, "no-lock", NULL,
	 "leave the lock file alone: no program may write to the database meanwhile"},
	{0},
};

static const struct tool stat_tool = {
	.name = "lmdbio-stat",
	.synopsis = "[OPTION]... PATH",
	.purpose = "Tell what an LMDB environment is made of, as mdb_stat(1) does, and more.",
	.options = stat_options,
	.closing =
		"Exit status: 0 all was shown; 1 damage was found; 2 something could not be read, "
		"or wrong usage; 130 interrupted.",
};

static int show_environment(struct stat_run *run)
{
	uint32_t page_size = run->env->window.page_size;
	MDB_envinfo info;
	int rc = tool_env_info(run->env, &info);

	if (rc)
		return tool_read_failed(&stat_tool, run->options->path, rc);
	if (run->json) {
		json_object_set_new(run->json, "environment",
				    stat_json_environment(&info, page_size));
	} else if (run->options->info) {
		printf("Environment Info\n");
		printf("  Map address: %p\n", info.me_mapaddr);
		printf("  Map size: %zu\n", info.me_mapsize);
		printf("  Page size: %u\n", page_size);
		printf("  Max pages: %zu\n", info.me_mapsize / page_size);
		printf("  Number of pages used: %zu\n", info.me_last_pgno + 1);
		printf("  Last transaction ID: %zu\n", info.me_last_txnid);
		printf("  Max readers: %u\n", info.me_maxreaders);
		printf("  Number of readers used: %u\n", info.me_numreaders);
	}
	return 0;
}

static int reader_line(const char *line, void *context)
{
	json_t *list = context;

	if (list)
		return json_array_append_new(list, tool_json_text(line));
	return fputs(line, stdout) < 0 ? -1 : 0;
}

static int show_readers(struct stat_run *run)
{
	json_t *list = run->json ? json_array() : NULL;
	int dead = 0, rc;

	if (!run->json)
		printf("Reader Table Status\n");
	if (!run->json || run->options->readers == 1)
		(void)tool_reader_list(run->env, reader_line, list);
	if (run->options->readers > 1) {
		rc = env_reader_check(run->env, &dead);
		if (rc)
			dead = 0;
		if (!run->json)
			printf("  %d stale readers cleared.\n", dead);
		(void)tool_reader_list(run->env, reader_line, list);
	}
	if (run->json) {
		json_object_set_new(run->json, "readers", list);
		json_object_set_new(run->json, "stale_readers_cleared", json_integer(dead));
	}
	return 0;
}

static int show_free(struct stat_run *run)
{
	json_t *json = NULL;
	int rc = stat_free_list(run->txn, run->options->freed, run->json ? &json : NULL);

	if (rc)
		return tool_read_failed(&stat_tool, run->options->path, rc);
	if (run->json)
		json_object_set_new(run->json, "free_list", json);
	return 0;
}

static int show_database(struct stat_run *run, const char *name, MDB_dbi dbi)
{
	const struct tree_record *record = &run->txn->trees[dbi].record;
	unsigned parts = run->options->parts;
	struct measure measure;
	int rc = 0;

	if (!run->json) {
		printf("Status of %s\n", name ? name : "Main DB");
		stat_print_record(record);
	}
	if (parts && (rc = measure_take(&measure, run->txn, dbi, &run->seen)))
		return rc;
	if (run->json)
		json_array_append_new(json_object_get(run->json, "databases"),
				      stat_json_database(name, record, &measure, parts));
	else
		stat_print_measure(&measure, parts);
	return rc;
}

static int show_named(struct stat_run *run, MDB_dbi main)
{
	struct tool_cursor cursor;
	uint64_t keys = 0;
	char *name;
	MDB_dbi dbi;
	int rc;

	tool_cursor_open(&cursor, run->txn, main);
	while (!(rc = tool_names_next(&cursor, run->txn, &name, &dbi, &keys))) {
		rc = show_database(run, name, dbi);
		dbi_close(run->env, dbi);
		free(name);
		if (rc)
			break;
	}
	tool_cursor_close(&cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int show_databases(struct stat_run *run)
{
	MDB_dbi dbi;
	int rc = tool_dbi_open(&stat_tool, run->options->path, run->txn, run->options->subdb, &dbi);

	if (rc)
		return rc;
	if (run->options->parts)
		rc = page_map_open(&run->seen, run->txn->snapshot.view.limit);
	if (!rc)
		rc = show_database(run, run->options->subdb, dbi);
	if (!rc && run->options->all)
		rc = show_named(run, dbi);
	if (rc && !tool_signal)
		tool_read_failed(&stat_tool, run->options->path, rc);
	return rc;
}

static int show_container(struct stat_run *run)
{
	json_t *json = NULL;
	int rc = run->env ? 0 : tool_env_look(&stat_tool, run->options->path, run->options->flags);

	if (rc)
		return rc;
	rc = stat_container(run->options->path, run->json ? &json : NULL);
	if (run->json)
		json_object_set_new(run->json, "container", json ? json : json_null());
	if (rc == MDB_INVALID && !run->options->chunks)
		return 0; /* a plain data file, and no option demands a container */
	if (rc == MDB_INVALID)
		tool_complain(&stat_tool,
			      "%s: --chunks is for containers, which lmdbio-convert makes",
			      run->options->path);
	else if (rc)
		tool_read_failed(&stat_tool, run->options->path, rc);
	return rc;
}

static int stat_show(struct stat_run *run)
{
	const struct stat_options *options = run->options;
	int rc = tool_env_open(&stat_tool, options->path, options->flags,
			       options->all || options->subdb ? STAT_DATABASES : 0, &run->env);

	if (rc || ((options->info || run->json) && (rc = show_environment(run))))
		return rc;
	if (options->readers) {
		if ((rc = show_readers(run)))
			return rc;
		if (!options->subdb && !options->all && !options->freed && !options->parts)
			return 0;
	}
	if ((rc = tool_txn_begin(&stat_tool, options->path, run->env, &run->txn)))
		return rc;
	if (options->freed && (rc = show_free(run)))
		return rc;
	return show_databases(run);
}

/* Returns whether mdb_stat's lines are wanted: --chunks alone needs no environment. */
static bool stat_wanted(const struct stat_options *options)
{
	return !options->chunks || options->info || options->freed || options->readers ||
	       options->all || options->subdb || options->parts;
}

static struct stat_options options;

static void on_unreadable(void)
{
	tool_output_end(&stat_tool, TOOL_FAILED);
	tool_read_failed(&stat_tool, options.path, EIO);
	_exit(TOOL_FAILED);
}

static int stat_run(void)
{
	struct stat_run run = {.options = &options};
	int rc = 0;

	if (options.json)
		run.json = json_pack("{ss, so, s[]}", "schema", "lmdbio-stat/1", "path",
				     tool_json_text(options.path), "databases");
	if (stat_wanted(&options))
		rc = stat_show(&run);
	if (!rc && (options.chunks || options.container || options.json))
		rc = show_container(&run);
	if (run.json && !rc) {
		json_dumpf(run.json, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(run.json);
	page_map_close(&run.seen);
	if (run.txn)
		txn_abort(run.txn);
	env_close(run.env);
	return tool_read_status(rc);
}

/* Returns whether the option is known. */
static bool parse_option(int key)
{
	switch (key) {
	case 'a':
		options.all = true;
		return true;
	case 'e':
		options.info++;
		return true;
	case 'f':
		options.freed++;
		return true;
	case 'n':
		options.flags |= MDB_NOSUBDIR;
		return true;
	case 'r':
		options.readers++;
		return true;
	case 's':
		options.subdb = optarg;
		return true;
	case OPTION_RECORDS:
		options.parts |= STAT_RECORDS;
		return true;
	case OPTION_SIZES:
		options.parts |= STAT_SIZES;
		return true;
	case OPTION_LAYOUT:
		options.parts |= STAT_LAYOUT;
		return true;
	case OPTION_CHUNKS:
		options.chunks = true;
		return true;
	case OPTION_ALL_INFO:
		options.parts |= STAT_RECORDS | STAT_SIZES | STAT_LAYOUT;
		options.info++;
		options.freed += !options.freed;
		options.all = options.container = true;
		return true;
	case OPTION_JSON:
		options.json = true;
		return true;
	case OPTION_NO_LOCK:
		options.flags |= MDB_NOLOCK;
		return true;
	default:
		return false;
	}
}

int main(int argc, char **argv)
{
	int key, status;

	while ((key = tool_option_next(&stat_tool, argc, argv)) != -1)
		if (!parse_option(key))
			return tool_usage_hint(&stat_tool);
	if (options.all && options.subdb)
		return tool_usage_error(&stat_tool, "--all and --subdb exclude each other");
	if (optind != argc - 1)
		return tool_usage_error(&stat_tool, "one data set is wanted");
	options.path = argv[optind];
	tool_signals_catch();
	tool_unreadable_catch(on_unreadable);
	status = stat_run();
	return tool_signal ? tool_signal_status() : tool_output_end(&stat_tool, status);
}
