/* SPDX-License-Identifier: OLDAP-2.8 */
/* Dumps the readable part of a damaged database.
 *
 * The walk is lmdbio-check's: it trusts nothing, and skips damage. Unlike a cursor it does not end
 * at a page with a wrong number, at which LMDB 0.9 never looks. It does not end at a lost page
 * either: only the pages below that one are left out.
 */
#include "dump_salvage.h"

#include "env/env.h"
#include "format/page.h"
#include "tree_walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOLD_MOST = 100 };

struct salvaging {
	const struct salvage *salvage;
	MDB_txn *txn;
	struct walker walker;
	struct page_map used;
	uint64_t damages, found; /* found: databases that the user asked for */
};

static void on_damage(void *context, const char *label, struct walk_place where, const char *format,
		      va_list arguments)
{
	struct salvaging *salvaging = context;
	char what[512];

	if (salvaging->damages++ >= TOLD_MOST)
		return;
	vsnprintf(what, sizeof(what), format, arguments);
	tool_complain(salvaging->salvage->tool, "%s: page %" PRIu64 ": %s: %s",
		      salvaging->salvage->path, where.page, label, what);
}

/* LMDB itself may have left this state, so it is no damage. */
static void on_doubt(void *context, const char *label, struct walk_place where, const char *format,
		     va_list arguments)
{
	(void)context;
	(void)label;
	(void)where;
	(void)format;
	(void)arguments;
}

static void on_step(void *context, uint64_t page, uint64_t pages)
{
	struct salvaging *salvaging = context;

	(void)page;
	(void)pages;
	if (tool_signal || ferror(stdout))
		salvaging->walker.rc = EINTR;
}

static void on_value(void *context, const struct walk_tree *tree, const struct walk_value *value)
{
	struct salvaging *salvaging = context;
	const struct page_layout *layout = snapshot_layout(&salvaging->txn->snapshot);
	struct window_view *view = &salvaging->txn->snapshot.view;
	MDB_val data = {value->size, (void *)(uintptr_t)value->data};
	const uint8_t *run;
	uint64_t pages;

	if (!value->data) {
		pages = value_pages(layout, value->size, view->page_shift);
		if (!value->pages || window_pages(view, value->run, pages, &run)) {
			walk_damage(&salvaging->walker, tree, value->where,
				    "the value of %" PRIu64 " bytes is lost", value->size);
			return;
		}
		data.mv_data = (void *)(uintptr_t)page_value(layout, run);
	}
	dump_bytes(salvaging->salvage->form, &salvaging->walker.key);
	dump_bytes(salvaging->salvage->form, &data);
}

/* Takes a database's record, which is a record of the main database. */
static void on_record(void *context, const MDB_val *name, const struct tree_record *record,
		      struct walk_place where)
{
	struct salvaging *salvaging = context;
	const uint8_t *page;
	MDB_val data = {TREE_SIZE, NULL};

	(void)record;
	if (window_pages(&salvaging->txn->snapshot.view, where.page, 1, &page))
		return;
	data.mv_data = (void *)(uintptr_t)(page + where.offset);
	dump_bytes(salvaging->salvage->form, name);
	dump_bytes(salvaging->salvage->form, &data);
}

static void tree_dump(struct salvaging *salvaging, struct walk_tree *tree, const char *name)
{
	struct walker walker = salvaging->walker;

	dump_header(salvaging->salvage->form, &tree->record, name);
	comparators_default(&tree->order, tree->record.flags);
	salvaging->walker.value = on_value;
	salvaging->walker.database = tree->kind == WALK_MAIN ? on_record : NULL;
	walk_tree(&salvaging->walker, tree);
	walker.rc = salvaging->walker.rc;
	salvaging->walker = walker;
	if (!walker.rc)
		printf("DATA=END\n");
}

static void on_database(void *context, const MDB_val *name, const struct tree_record *record,
			struct walk_place where)
{
	struct salvaging *salvaging = context;
	const struct salvage *salvage = salvaging->salvage;
	struct walk_tree tree = {.kind = WALK_NAMED, .where = where, .record = *record};
	char label[TOOL_ESCAPED_TEXT], *text;

	if (memchr(name->mv_data, 0, name->mv_size) ||
	    (salvage->subdb && (strlen(salvage->subdb) != name->mv_size ||
				memcmp(salvage->subdb, name->mv_data, name->mv_size) != 0)))
		return;
	salvaging->found++;
	text = strndup(name->mv_data, name->mv_size);
	if (!text) {
		salvaging->walker.rc = ENOMEM;
	} else if (salvage->list) {
		printf("%s\n", text);
	} else {
		tree.label = tool_escape(text, name->mv_size, label, sizeof(label));
		tree_dump(salvaging, &tree, text);
	}
	free(text);
}

static void walk_all(struct salvaging *salvaging)
{
	MDB_txn *txn = salvaging->txn;
	struct walk_tree main = {.kind = WALK_MAIN,
				 .label = "main database",
				 .where = {txn->id % FORMAT_METAS,
					   snapshot_layout(&txn->snapshot)->shift + META_MAIN_TREE},
				 .record = txn->trees[DBI_MAIN].record};

	if (!salvaging->salvage->all && !salvaging->salvage->subdb) {
		salvaging->found++;
		tree_dump(salvaging, &main, NULL);
		return;
	}
	comparators_default(&main.order, main.record.flags);
	salvaging->walker.database = on_database;
	walk_tree(&salvaging->walker, &main);
}

static int status_of(const struct salvaging *salvaging)
{
	const struct salvage *salvage = salvaging->salvage;

	if (salvaging->damages > TOLD_MOST)
		tool_complain(salvage->tool, "%s: and %" PRIu64 " more", salvage->path,
			      salvaging->damages - TOLD_MOST);
	if (salvaging->walker.rc) {
		if (!tool_signal && !ferror(stdout))
			tool_complain(salvage->tool, "%s: %s", salvage->path,
				      strerror(salvaging->walker.rc));
		return TOOL_FAILED;
	}
	if (!salvaging->found) {
		tool_complain(salvage->tool, "%s: there is no %s%s to be found", salvage->path,
			      salvage->subdb ? "database " : "named database",
			      salvage->subdb ? salvage->subdb : "");
		return TOOL_FAILED;
	}
	return salvaging->damages ? TOOL_PROBLEM : TOOL_OK;
}

int salvage_run(const struct salvage *salvage, MDB_txn *txn)
{
	struct salvaging salvaging = {.salvage = salvage, .txn = txn};
	int status = page_map_open(&salvaging.used, txn->snapshot.view.limit);

	if (status) {
		tool_complain(salvage->tool, "%s: %s", salvage->path, strerror(status));
		return TOOL_FAILED;
	}
	salvaging.walker = (struct walker){.snapshot = &txn->snapshot,
					   .used = &salvaging.used,
					   .unordered = true,
					   .lenient = true,
					   .context = &salvaging,
					   .damage = on_damage,
					   .doubt = on_doubt,
					   .step = on_step};
	walk_all(&salvaging);
	status = status_of(&salvaging);
	page_map_close(&salvaging.used);
	return status;
}
