/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements lmdbio-check's command line, and its messages during the work. */
#include "check_container.h"
#include "check_meta.h"
#include "check_pages.h"
#include "check_report.h"
#include "check_source.h"
#include "tool_common.h"
#include "tool_env.h"
#include "tool_json.h"

#include "util/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FINDINGS = 100, PROGRESS_TERMINAL = 250, PROGRESS_LOG = 30000 /* milliseconds */ };

struct check_options {
	const char *path;
	unsigned flags;
	bool verbose, json, unordered, checksum;
};

enum { OPTION_JSON = TOOL_LONG_ONLY, OPTION_CHECKSUM, OPTION_MOST, OPTION_NO_LOCK, OPTION_NO_ORDER };

static const struct tool_option check_options[] = {
	{OPTION_CHECKSUM, "checksum", "NAME",
	 "verify the checksum of each page (LMDB 1.0), which is " CHECKSUM_NAMES},
	{OPTION_JSON, "json", NULL, "print one JSON object instead of lines"},
	{OPTION_MOST, "max-findings", "N", "print at most N findings one by one (100)"},
	{'n', "no-subdir", NULL,
	 "PATH is the data file, not its directory (a file is recognised without this)"},
	{OPTION_NO_LOCK, "no-lock", NULL,
	 "leave the lock file alone: no program may write to the database meanwhile"},
	{OPTION_NO_ORDER, "no-order", NULL,
	 "do not judge the order of keys: for data of a program with its own comparison"},
	{'q', "quiet", NULL, "print nothing: the exit status says it"},
	{'v', "verbose", NULL, "say how far the check is, and what each database has"},
	{0},
};

static const struct tool check_tool = {
	.name = "lmdbio-check",
	.synopsis = "[OPTION]... PATH",
	.purpose = "Check the structure of an LMDB data file, or the checksums, the index and the "
		   "structure of a container made by lmdbio-convert.",
	.options = check_options,
	.closing = "Exit status: 0 intact; 1 damaged; 2 it could not be checked, or wrong usage; "
		   "130 interrupted.",
};

/* A process has only one check, and on_unreadable() has no argument. */
static struct check_report report = {.most = FINDINGS};
static struct check_source source;
static struct check_options options;
static uint64_t told_at; /* clock_now() */

static void on_unreadable(void)
{
	report.unchecked = "the file cannot be read: I/O error, or it was cut off meanwhile";
	_exit(tool_output_end(&check_tool, check_report_end(&report, options.path)));
}

static bool told_long_ago(void)
{
	uint64_t now = clock_now();

	if ((now - told_at) / 1000000 < (isatty(STDERR_FILENO) ? PROGRESS_TERMINAL : PROGRESS_LOG))
		return false;
	told_at = now;
	return true;
}

static void progress_show(const char *what, uint64_t done, uint64_t all)
{
	bool terminal = isatty(STDERR_FILENO);

	if (!options.verbose || report.quiet || !told_long_ago())
		return;
	fprintf(stderr, "%s%s: %" PRIu64 " of %" PRIu64 " %s (%u %%)%s", terminal ? "\r" : "",
		check_tool.name, done, all, what, all ? (unsigned)(done * 100 / all) : 100,
		terminal ? "" : "\n");
}

static void progress_end(void)
{
	if (options.verbose && !report.quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "\r%*s\r", 78, "");
}

static void on_progress(struct check_pages *pages, uint64_t reached)
{
	progress_show("pages", reached, pages->snapshot->view.pages);
}

static void on_chunks(uint64_t done, uint64_t all)
{
	progress_show("chunks", done, all);
}

static void on_database(struct check_pages *pages, const struct walk_tree *tree,
			const MDB_val *name)
{
	const struct walk_counts *counts = &tree->counts;

	(void)pages;
	if (report.json) {
		json_array_append_new(
			json_object_get(report.json, "databases"),
			json_pack(
				"{so, sI, sI, sI, sI, sI, sI, sI}", "name",
				name ? tool_json_bytes(name->mv_data, name->mv_size) : json_null(),
				"entries", (json_int_t)counts->entries, "depth",
				(json_int_t)counts->depth, "branch_pages",
				(json_int_t)counts->branch_pages, "leaf_pages",
				(json_int_t)counts->leaf_pages, "overflow_pages",
				(json_int_t)counts->overflow_pages, "duplicate_branch_pages",
				(json_int_t)counts->duplicate_branch_pages, "duplicate_leaf_pages",
				(json_int_t)counts->duplicate_leaf_pages));
	} else if (options.verbose && !report.quiet) {
		progress_end();
		printf("%s: %" PRIu64 " entries; %u levels, %" PRIu64 " branch, %" PRIu64
		       " leaf, %" PRIu64 " overflow pages, %" PRIu64 " of duplicates\n",
		       tree->label, counts->entries, counts->depth, counts->branch_pages,
		       counts->leaf_pages, counts->overflow_pages,
		       counts->duplicate_branch_pages + counts->duplicate_leaf_pages);
	}
}

static void summary_show(const struct check_pages *pages)
{
	const struct window_view *view = &pages->snapshot->view;

	if (report.json) {
		json_object_set_new(report.json, "pages",
				    json_pack("{so, so, so, so, so}", "size",
					      tool_json_number(report.page_size), "all",
					      tool_json_number(view->pages), "used",
					      tool_json_number(pages->used), "free",
					      tool_json_number(pages->free), "leaked",
					      tool_json_number(pages->leaked)));
		json_object_set_new(report.json, "lmdb_format",
				    json_string(tool_format_name(pages->snapshot->format)));
		json_object_set_new(report.json, "transaction", tool_json_number(pages->txnid));
		json_object_set_new(report.json, "entries", tool_json_number(pages->entries));
		json_object_set_new(report.json, "disordered_keys",
				    tool_json_number(pages->disorders));
	} else if (options.verbose && !report.quiet) {
		printf("transaction %" PRIu64 ": %" PRIu64 " pages of %u bytes (LMDB %s), %" PRIu64
		       " in use, %" PRIu64 " free, %" PRIu64 " lost; %" PRIu64
		       " databases, %" PRIu64 " entries\n",
		       pages->txnid, view->pages, report.page_size,
		       tool_format_name(pages->snapshot->format), pages->used, pages->free,
		       pages->leaked, pages->databases, pages->entries);
	}
}

/* Prints other possible reasons for the findings. */
static void notes_show(const struct check_pages *pages)
{
	if (pages->disorders)
		printf("note: keys were judged by LMDB's own orders; when the program compares "
		       "them in "
		       "its own way, check with --no-order\n");
	if (report.damages && source.unpinned)
		printf("note: the lock file could not be used; if a program was writing, check "
		       "again "
		       "without it\n");
}

static int check_structure(void)
{
	struct check_pages pages = {.report = &report,
				    .unordered = options.unordered,
				    .database = on_database,
				    .progress = on_progress};
	struct check_metas metas;
	int rc = check_metas(&report, source.data, &metas);

	if (rc == EBADMSG)
		return 0; /* a damaged chunk, already reported */
	if (rc || !metas.page_size)
		return rc;
	check_source_pin(&source, options.flags, &metas, &report);
	if (!source.snapshot)
		return 0;
	if (options.checksum && !source.sum_size) {
		report.unchecked = "its pages have no checksums: leave --checksum out";
		return 0;
	}
	report.sums = source.sum_size;
	report.summed = source.env && source.env->sums;
	pages.snapshot = source.snapshot;
	pages.free_tree = &source.free_tree;
	pages.main_tree = &source.main_tree;
	pages.txnid = source.txnid;
	pages.container = source.data == &source.container ? source.data : NULL;
	if (report.json)
		json_object_set_new(report.json, "databases", json_array());
	rc = check_pages(&pages);
	progress_end();
	if (!report.quiet && !report.json)
		notes_show(&pages);
	if (!rc)
		summary_show(&pages);
	return rc;
}

static int check_all(void)
{
	int rc = check_source_open(&source, options.path, &report);

	report.checksummed = !rc && source.data == &source.container;
	if (report.checksummed)
		rc = check_container(&report, &source.container, on_chunks);
	progress_end();
	/* A check of unreadable data would only find the same damage. */
	if (!rc && report.damages)
		report.unchecked = "the structure, until the container is whole";
	else if (!rc)
		rc = check_structure();
	if (rc && !report.unchecked)
		report.unchecked = tool_read_text(rc);
	return tool_signal ? tool_signal_status() : check_report_end(&report, options.path);
}

static int parse(int argc, char **argv)
{
	int key;

	while ((key = tool_option_next(&check_tool, argc, argv)) != -1) {
		switch (key) {
		case OPTION_CHECKSUM:
			if (!tool_setting_take(&check_tool, "--checksum", "LMDBIO_CHECKSUM",
					       optarg))
				return TOOL_FAILED;
			options.checksum = true;
			break;
		case OPTION_JSON:
			options.json = true;
			break;
		case OPTION_MOST:
			if (!tool_number_parse(&check_tool, "--max-findings", optarg, 0, UINT32_MAX,
					       &report.most))
				return TOOL_FAILED;
			break;
		case 'n':
			options.flags |= MDB_NOSUBDIR;
			break;
		case OPTION_NO_LOCK:
			options.flags |= MDB_NOLOCK;
			break;
		case OPTION_NO_ORDER:
			options.unordered = true;
			break;
		case 'q':
			report.quiet = true;
			break;
		case 'v':
			options.verbose = true;
			break;
		default:
			return tool_usage_hint(&check_tool);
		}
	}
	if (optind != argc - 1)
		return tool_usage_error(&check_tool, "one path is wanted");
	options.path = argv[optind];
	return 0;
}

int main(int argc, char **argv)
{
	int status = parse(argc, argv);

	if (status)
		return status;
	if (check_report_open(&report, options.path, options.json)) {
		tool_complain(&check_tool, "%s", strerror(ENOMEM));
		return TOOL_FAILED;
	}
	told_at = clock_now();
	tool_signals_catch();
	tool_unreadable_catch(on_unreadable);
	status = check_all();
	check_source_close(&source);
	check_report_close(&report);
	return tool_output_end(&check_tool, status);
}
