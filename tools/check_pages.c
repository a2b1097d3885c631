/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges the free list, and reports pages that nothing refers to. */
#include "check_pages.h"

#include "check_index.h"
#include "tool_common.h"

#include "format/page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PROGRESS_STEPS = 1024 };

struct checker {
	struct check_pages *pages;
	struct walker walker;
	struct page_map used, free;
	uint64_t free_behind; /* pages in the free list that are behind the end of the file */
	uint64_t steps, reached;
	struct check_index *index; /* of the tree that the walk is in */
};

static uint64_t place_byte(const struct checker *checker, struct walk_place where)
{
	return (where.page << checker->pages->snapshot->view.page_shift) + where.offset;
}

static void on_damage(void *context, const char *label, struct walk_place where, const char *format,
		      va_list arguments)
{
	struct checker *checker = context;

	check_found_list(checker->pages->report, CHECK_DAMAGE, label, place_byte(checker, where),
			 format, arguments);
}

static void on_doubt(void *context, const char *label, struct walk_place where, const char *format,
		     va_list arguments)
{
	struct checker *checker = context;

	check_found_list(checker->pages->report, CHECK_WARNING, label, place_byte(checker, where),
			 format, arguments);
}

static void on_step(void *context, uint64_t page, uint64_t pages)
{
	struct checker *checker = context;

	(void)page;
	checker->reached += pages;
	if (tool_signal)
		checker->walker.rc = EINTR;
	if (checker->pages->progress && ++checker->steps % PROGRESS_STEPS == 0)
		checker->pages->progress(checker->pages, checker->reached);
}

/* Judges the page numbers that one transaction freed: `count` of them, falling. */
static void judge_freed(struct checker *checker, const struct walk_tree *tree,
			struct walk_place where, const uint8_t *ids, uint64_t count)
{
	const struct window_view *view = &checker->pages->snapshot->view;
	uint64_t before = UINT64_MAX, page;

	for (uint64_t i = 0; i < count; i++, before = page) {
		page = load64(ids + i * sizeof(page));
		if (page >= before)
			walk_damage(&checker->walker, tree, where,
				    "page %" PRIu64 " does not come below page %" PRIu64, page,
				    before);
		if (page < FORMAT_METAS || page >= view->pages) {
			walk_damage(&checker->walker, tree, where,
				    "page %" PRIu64 " is free, of pages 2 to %" PRIu64, page,
				    view->pages - 1);
			continue;
		}
		checker->pages->free++;
		if (page >= view->limit)
			checker->free_behind++;
		else if (page_map_has(&checker->used, page))
			walk_damage(&checker->walker, tree, where,
				    "page %" PRIu64 " is free and in use", page);
		if (page_map_add(&checker->free, page))
			walk_damage(&checker->walker, tree, where, "page %" PRIu64 " is free twice",
				    page);
	}
}

/* Judges a record of the free list: a transaction's number and the pages that it freed. */
static void on_freed(void *context, const struct walk_tree *tree, const struct walk_value *value)
{
	struct checker *checker = context;
	const struct page_layout *layout = snapshot_layout(checker->pages->snapshot);
	struct window_view *view = &checker->pages->snapshot->view;
	const uint8_t *data = value->data;
	uint64_t txnid, count, pages;

	if (value->key.mv_size != sizeof(txnid)) {
		walk_damage(&checker->walker, tree, value->where, "a key of %zu bytes",
			    value->key.mv_size);
	} else {
		txnid = load64(value->key.mv_data);
		if (txnid == 0 || txnid > checker->pages->txnid)
			walk_damage(&checker->walker, tree, value->where,
				    "transaction %" PRIu64 ", but the newest is %" PRIu64, txnid,
				    checker->pages->txnid);
	}
	if (!data) {
		pages = value_pages(layout, value->size, view->page_shift);
		if (!value->pages || window_pages(view, value->run, pages, &data))
			return; /* the walk has reported it */
		data = page_value(layout, data);
	}
	count = value->size < sizeof(count) ? 0 : load64(data);
	if (value->size < sizeof(count) || count > value->size / sizeof(count) - 1) {
		walk_damage(&checker->walker, tree, value->where,
			    "%" PRIu64 " page numbers in %" PRIu64 " bytes", count, value->size);
		return;
	}
	judge_freed(checker, tree, value->where, data + sizeof(count), count);
}

static void on_leaf(void *context, uint64_t page, uint64_t first)
{
	struct checker *checker = context;

	check_index_leaf(checker->index, page, first);
}

/* Walks a database, also in the middle of another one's walk. */
static void walk_whole(struct checker *checker, struct walk_tree *tree, const MDB_val *name)
{
	struct check_pages *pages = checker->pages;
	struct check_index index, *before = checker->index;

	check_index_begin(&index, pages->report, pages->container, name, tree->label);
	checker->index = &index;
	walk_tree(&checker->walker, tree);
	checker->index = before;
	if (checker->walker.rc)
		return;
	check_index_end(&index, tree->counts.entries);
	pages->databases++;
	pages->entries += tree->counts.entries;
	if (pages->database)
		pages->database(pages, tree, tree->kind == WALK_NAMED ? name : NULL);
}

static void on_database(void *context, const MDB_val *name, const struct tree_record *record,
			struct walk_place where)
{
	struct checker *checker = context;
	struct walk_tree tree = {.kind = WALK_NAMED, .where = where, .record = *record};
	char text[TOOL_ESCAPED_TEXT], label[TOOL_ESCAPED_TEXT + 16];

	tool_escape(name->mv_data, name->mv_size, text, sizeof(text));
	snprintf(label, sizeof(label), "database %s", text);
	tree.label = label;
	comparators_default(&tree.order, record->flags);
	walk_whole(checker, &tree, name);
}

static void walk_all(struct checker *checker)
{
	const struct check_pages *pages = checker->pages;
	const MDB_val no_name = {0, NULL};
	uint32_t shift = snapshot_layout(pages->snapshot)->shift;
	uint64_t meta = pages->txnid % FORMAT_METAS;
	struct walk_tree free_list = {.kind = WALK_FREE,
				      .label = "free list",
				      .where = {meta, shift + META_FREE_TREE},
				      .record = *pages->free_tree};
	struct walk_tree main = {.kind = WALK_MAIN,
				 .label = "main database",
				 .where = {meta, shift + META_MAIN_TREE},
				 .record = *pages->main_tree};

	/* The record's own flags are the environment's, not this tree's. */
	free_list.record.flags = MDB_INTEGERKEY;
	comparators_default(&free_list.order, MDB_INTEGERKEY);
	checker->walker.value = on_freed;
	walk_tree(&checker->walker, &free_list);
	checker->walker.value = NULL;
	checker->walker.leaf = on_leaf;
	comparators_default(&main.order, pages->main_tree->flags);
	walk_whole(checker, &main, &no_name);
}

/* Reports pages without an owner. LMDB never uses them again; otherwise they do no harm. */
static void judge_leaks(struct checker *checker)
{
	const struct window_view *view = &checker->pages->snapshot->view;
	uint64_t first = 0, behind = view->pages - view->limit;

	for (uint64_t page = FORMAT_METAS; page <= view->limit; page++) {
		bool has = page == view->limit || page_map_has(&checker->used, page) ||
			   page_map_has(&checker->free, page);

		if (!has && !first)
			first = page;
		if (!has || !first)
			continue;
		checker->pages->leaked += page - first;
		check_found(checker->pages->report, CHECK_WARNING, "the file",
			    first << view->page_shift,
			    "%" PRIu64 " pages, up to page %" PRIu64
			    ", are neither in use nor free",
			    page - first, page - 1);
		first = 0;
	}
	if (behind > checker->free_behind) {
		checker->pages->leaked += behind - checker->free_behind;
		check_found(checker->pages->report, CHECK_WARNING, "the file",
			    view->limit << view->page_shift,
			    "%" PRIu64 " pages behind the end of the file are not free",
			    behind - checker->free_behind);
	}
}

/* Reads the size of LMDB 1.0's checksums from the end of the first page. */
static uint32_t sum_size(const struct snapshot *snapshot)
{
	enum { SUM_MOST = 256 };
	unsigned size = load16(snapshot->view.base + snapshot->page_size - sizeof(uint16_t));

	return snapshot->format == FORMAT_1_0 && size <= SUM_MOST ? size : 0;
}

int check_pages(struct check_pages *pages)
{
	struct checker checker = {.pages = pages};
	uint64_t size = pages->snapshot->view.limit;
	int rc = page_map_open(&checker.used, size);

	if (!rc)
		rc = page_map_open(&checker.free, size);
	if (rc)
		goto fail;
	checker.walker = (struct walker){.snapshot = pages->snapshot,
					 .sum = sum_size(pages->snapshot),
					 .used = &checker.used,
					 .free = &checker.free,
					 .unordered = pages->unordered,
					 .context = &checker,
					 .damage = on_damage,
					 .doubt = on_doubt,
					 .step = on_step,
					 .database = on_database};
	for (uint64_t page = 0; page < FORMAT_METAS; page++)
		page_map_add(&checker.used, page);
	walk_all(&checker);
	rc = checker.walker.rc;
	pages->used = page_map_count(&checker.used);
	pages->disorders = checker.walker.disorders;
	if (!rc)
		judge_leaks(&checker);
fail:
	page_map_close(&checker.free);
	page_map_close(&checker.used);
	return rc;
}
