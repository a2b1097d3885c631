/* SPDX-License-Identifier: OLDAP-2.8 */
/* Renumbers the pages of a snapshot for a compacted copy.
 *
 * The order is the original's (mdb_env_copy2() with MDB_CP_COMPACT): depth first, an entry's
 * overflow run or sub-tree before the leaf that holds it, children before their branch page, the
 * root last. So the root's number, which the meta page in front needs before the walk, is the
 * number of pages in use. Unused space inside pages is written as zeroes.
 *
 * With borders that no value may cross (compact_places.c), the number of pages is known only when
 * all have been placed. So the trees are walked twice. The first walk does not look at values, and
 * skips trees that have none in overflow pages. Runs get as many pages as they need.
 */
#include "env/compact_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	COMPACT_BUFFER = 1 << 20, /* bytes */
	COMPACT_NESTING = 4,      /* main tree, named database, duplicates */
};

int compact_put(struct compactor *compactor, const uint8_t *bytes, size_t size)
{
	int rc = 0;

	if (compactor->planning)
		return 0;
	if (size > COMPACT_BUFFER - compactor->used) {
		rc = compactor->put(compactor->to, compactor->buffer, compactor->used);
		compactor->used = 0;
		if (rc)
			return rc;
	}
	if (size > COMPACT_BUFFER)
		return compactor->put(compactor->to, bytes, size);
	memcpy(compactor->buffer + compactor->used, bytes, size);
	compactor->used += size;
	return 0;
}

/* Puts free pages until the next page to put is `number`. */
static int compact_go(struct compactor *compactor, uint64_t number)
{
	int rc = 0;

	while (!compactor->planning && compactor->at < number && !rc) {
		rc = compact_put(compactor, compactor->zeroes, compactor->snapshot->page_size);
		compactor->at++;
	}
	return rc;
}

/* Counts `count` more pages. If they exceed the promised number, pages are leaked or one was
 * reached twice. */
static int compact_count(struct compactor *compactor, uint64_t count)
{
	if (count > compactor->left)
		return MDB_INCOMPATIBLE;
	compactor->left -= count;
	return 0;
}

/* Numbers the next `count` pages. */
static int compact_number(struct compactor *compactor, uint64_t count, uint64_t *number)
{
	*number = compactor->next;
	compactor->next += count;
	return compact_count(compactor, count);
}

/* Finds an overflow run in the source. *pages: as many as its header says. */
static int compact_run_find(struct compactor *compactor, uint64_t number, uint64_t needed,
			    const uint8_t **run, uint64_t *pages)
{
	struct snapshot *snapshot = compactor->snapshot;
	int rc = window_pages(&snapshot->view, number, needed, run);

	if (rc)
		return rc;
	*pages = page_run(compactor->layout, *run);
	if (load64(*run) != number || !(page_flags(compactor->layout, *run) & PAGE_OVERFLOW) ||
	    *pages < needed)
		return MDB_CORRUPTED;
	return 0;
}

static void run_header(const struct page_layout *layout, uint8_t *header, uint64_t pages,
		       uint64_t moved)
{
	compact_header(layout, header, moved);
	store32(header + layout->shift + PAGE_RUN, (uint32_t)pages);
}

/* Puts a run with a checksum, which covers all its pages: so they are copied first. */
static int compact_summed_run_put(struct compactor *compactor, const uint8_t *run, uint64_t pages,
				  uint64_t moved)
{
	size_t size = pages * compactor->snapshot->page_size;
	uint8_t *copy = malloc(size);
	int rc;

	if (!copy)
		return ENOMEM;
	memcpy(copy, run, size);
	run_header(compactor->layout, copy, pages, moved);
	sums_put(compactor->sums, copy, size);
	rc = compact_put(compactor, copy, size);
	free(copy);
	return rc;
}

static int compact_run_put(struct compactor *compactor, const uint8_t *run, uint64_t pages,
			   uint64_t moved)
{
	const struct page_layout *layout = compactor->layout;
	uint8_t header[HEADER_MOST];
	int rc;

	compactor->at += pages;
	if (compactor->sums)
		return compact_summed_run_put(compactor, run, pages, moved);
	memcpy(header, run, layout->header);
	run_header(layout, header, pages, moved);
	rc = compact_put(compactor, header, layout->header);
	return rc ? rc
		  : compact_put(compactor, run + layout->header,
				pages * compactor->snapshot->page_size - layout->header);
}

/* The pages that a value in overflow pages needs. */
static uint64_t run_needed(const struct compactor *compactor, const struct entry *entry)
{
	return value_pages(compactor->layout, entry->data_size,
			   compactor->snapshot->view.page_shift);
}

static int compact_overflow(struct compactor *compactor, const struct entry *entry, uint8_t *where)
{
	uint64_t number = load64(entry->data), moved, pages;
	const uint8_t *run;
	int rc = compact_run_find(compactor, number, run_needed(compactor, entry), &run, &pages);

	if (rc || (rc = window_pages(&compactor->snapshot->view, number, pages, &run)) ||
	    (rc = compact_number(compactor, pages, &moved)))
		return rc;
	compact_reference(compactor->layout, where, moved, pages);
	return compact_run_put(compactor, run, pages, moved);
}

/* Puts all of a leaf's runs, each at its place, and the leaf among them if its number is given. */
static int compact_runs_put(struct compactor *compactor, const uint8_t *page, uint64_t leaf)
{
	const struct places *places = compactor->places;
	uint32_t size = compactor->snapshot->page_size;
	int rc = 0;

	for (unsigned i = 0; i <= places->n && !rc; i++) {
		const struct compact_run *run;
		const uint8_t *from;
		uint64_t pages;

		if (leaf && i == places->before_leaf) {
			rc = compact_go(compactor, leaf);
			if (!rc)
				rc = compact_put(compactor, page, size);
			compactor->at++;
		}
		if (rc || i == places->n)
			break;
		run = &places->runs[places->order[i]];
		rc = compact_run_find(compactor, run->from, run->pages, &from, &pages);
		if (!rc)
			rc = compact_go(compactor, run->number);
		if (!rc)
			rc = compact_run_put(compactor, from, run->pages, run->number);
	}
	return rc;
}

static void page_clear_unused(const struct page_layout *layout, uint8_t *page, uint32_t size,
			      unsigned count)
{
	uint32_t used = page_lower(layout, page), end = page_upper(layout, page);

	if (page_flags(layout, page) & PAGE_LEAF2) {
		used = layout->header + count * page_pad(layout, page);
		end = size;
	}
	if (used < end)
		memset(page + used, 0, end - used);
}

/* Places the overflow runs of a leaf's entries, and the leaf among them if it fills a gap: *number
 * is then the leaf's, else 0. */
static int compact_runs(struct compactor *compactor, uint8_t *page, unsigned count,
			uint64_t *number)
{
	struct places *places = compactor->places;
	uint32_t size = compactor->snapshot->page_size;
	bool leaf_may = true;
	struct entry entry;
	int rc = 0;

	*number = 0;
	places->n = 0;
	for (unsigned i = 0; i < count && !rc; i++) {
		uint64_t pages;

		if (!page_leaf_entry(compactor->layout, page, size, i, &entry))
			return MDB_CORRUPTED;
		leaf_may &= !(entry.flags & ENTRY_SUBTREE);
		if (!(entry.flags & ENTRY_BIG))
			continue;
		pages = run_needed(compactor, &entry);
		places->runs[places->n++] = (struct compact_run){
			.where = page + (entry.data - page),
			.from = load64(entry.data),
			.pages = (uint32_t)pages,
		};
		compactor->overflow += pages;
		rc = compact_count(compactor, pages);
	}
	/* Runs come first, then trees: without borders the order is another. */
	places->used |= places->n && !leaf_may;
	if (!rc)
		rc = places_leaf(places, &compactor->next, leaf_may, number);
	if (rc || compactor->planning)
		return rc;
	for (unsigned i = 0; i < places->n; i++)
		compact_reference(compactor->layout, places->runs[i].where, places->runs[i].number,
				  places->runs[i].pages);
	if (*number) {
		compact_header(compactor->layout, page, *number);
		page_clear_unused(compactor->layout, page, size, count);
	}
	return compact_runs_put(compactor, page, *number);
}

static int compact_tree(struct compactor *compactor, uint64_t *root, bool of_duplicates,
			unsigned nesting);

/* Whether no value of a tree can cross a border. Such a tree needs no walk to know where it
 * ends. */
static bool tree_is_plain(const uint8_t *record, const struct entry *entry)
{
	return !load64(record + TREE_OVERFLOW_PAGES) &&
	       (entry->flags & ENTRY_DUPS || !(load16(record + TREE_FLAGS) & MDB_DUPSORT));
}

static int compact_subtree(struct compactor *compactor, const struct entry *entry, uint8_t *record,
			   unsigned nesting)
{
	uint64_t root = load64(record + TREE_ROOT), outer = compactor->overflow, pages;
	int rc;

	if (root == PAGE_NONE)
		return 0;
	if (compactor->planning && tree_is_plain(record, entry)) {
		if (!checked_add(load64(record + TREE_BRANCH_PAGES),
				 load64(record + TREE_LEAF_PAGES), &pages))
			return MDB_CORRUPTED;
		return compact_number(compactor, pages, &root);
	}
	compactor->overflow = 0;
	rc = compact_tree(compactor, &root, entry->flags & ENTRY_DUPS, nesting + 1);
	store64(record + TREE_ROOT, root);
	if (compactor->places)
		store64(record + TREE_OVERFLOW_PAGES, compactor->overflow);
	compactor->overflow = outer;
	return rc;
}

/* Moves the pages that a leaf's entries refer to, and writes their numbers into the leaf's copy. */
static int compact_leaf(struct compactor *compactor, uint8_t *page, unsigned count,
			unsigned nesting)
{
	uint32_t size = compactor->snapshot->page_size;
	struct entry entry;
	int rc = 0;

	for (unsigned i = 0; i < count && !rc; i++) {
		uint8_t *where;

		if (!page_leaf_entry(compactor->layout, page, size, i, &entry))
			return MDB_CORRUPTED;
		where = page + (entry.data - page);
		if (entry.flags & ENTRY_BIG) {
			if (!compactor->places)
				rc = compact_overflow(compactor, &entry, where);
		} else if (entry.flags & ENTRY_SUBTREE) {
			if (entry.data_size != TREE_SIZE)
				return MDB_CORRUPTED;
			rc = compact_subtree(compactor, &entry, where, nesting);
		}
	}
	return rc;
}

static int compact_page(struct compactor *compactor, uint64_t *number, bool of_duplicates,
			unsigned nesting, unsigned depth)
{
	const struct page_layout *layout = compactor->layout;
	uint32_t size = compactor->snapshot->page_size;
	uint8_t *page = compactor->pages + (size_t)(nesting * FORMAT_DEPTH_MAX + depth) * size;
	const uint8_t *source;
	uint64_t placed = 0;
	unsigned count;
	int rc = window_pages(&compactor->snapshot->view, *number, 1, &source);

	if (rc)
		return rc;
	/* A writer may overwrite the page meanwhile: only the copy counts. */
	memcpy(page, source, size);
	count = page_count(layout, page, size);
	if (!count || !page_is_sound(layout, page, *number))
		return MDB_CORRUPTED;
	if (page_flags(layout, page) & PAGE_BRANCH) {
		for (unsigned i = 0; i < count; i++) {
			uint64_t child;
			uint8_t *at;

			if (depth + 1 == FORMAT_DEPTH_MAX ||
			    !page_child(layout, page, size, i, &child))
				return MDB_CORRUPTED;
			rc = compact_page(compactor, &child, of_duplicates, nesting, depth + 1);
			if (rc)
				return rc;
			at = page + (page_entry(layout, page, size, i) - page);
			store16(at + ENTRY_LOW, (uint16_t)child);
			store16(at + ENTRY_HIGH, (uint16_t)(child >> 16));
			store16(at + ENTRY_FLAGS, (uint16_t)(child >> 32));
		}
	} else if (page_flags(layout, page) & PAGE_LEAF2) {
		if (!page_items_fit(layout, size, count, page_pad(layout, page)))
			return MDB_CORRUPTED;
	} else if (!of_duplicates) {
		if (compactor->places)
			rc = compact_runs(compactor, page, count, &placed);
		if (!rc)
			rc = compact_leaf(compactor, page, count, nesting);
		if (rc)
			return rc;
	}
	if (placed) {
		*number = placed;
		return compact_count(compactor, 1);
	}
	if ((rc = compact_number(compactor, 1, number)) || (rc = compact_go(compactor, *number)))
		return rc;
	compact_header(layout, page, *number);
	page_clear_unused(layout, page, size, count);
	if (compactor->sums)
		sums_put(compactor->sums, page, size);
	compactor->at++;
	return compact_put(compactor, page, size);
}

static int compact_tree(struct compactor *compactor, uint64_t *root, bool of_duplicates,
			unsigned nesting)
{
	if (*root == PAGE_NONE)
		return 0;
	if (nesting == COMPACT_NESTING)
		return MDB_CORRUPTED;
	return compact_page(compactor, root, of_duplicates, nesting, 0);
}

/* Whether there may be values that cross a border. */
static bool may_cross(const MDB_txn *txn, const struct compact_plan *plan)
{
	const struct tree_record *record = &txn->trees[DBI_MAIN].record;

	/* Further pages are those of named databases, or of duplicates. */
	return record->root != PAGE_NONE &&
	       (record->overflow_pages ||
		(record->branch_pages + record->leaf_pages != plan->pages &&
		 !(record->flags & MDB_DUPSORT)));
}

/* Walks the trees to learn each page's place. If no value would cross a border, the plan without
 * borders stays. */
static int plan_places(struct compactor *compactor, MDB_txn *txn, uint32_t border,
		       struct compact_plan *plan)
{
	uint64_t root = txn->trees[DBI_MAIN].record.root;
	uint64_t most = compactor->snapshot->view.pages - FORMAT_METAS;
	struct places *places = compactor->places;
	int rc = places_open(places, border, compactor->snapshot->page_size);

	if (rc)
		return rc;
	compactor->planning = true;
	compactor->left = most;
	rc = compact_tree(compactor, &root, false, 0);
	if (!rc && places->used)
		*plan = (struct compact_plan){
			.root = root,
			.pages = most - compactor->left,
			.overflow = compactor->overflow,
			.end = compactor->next,
			.free = places->free,
		};
	places->planning = compactor->planning = false;
	compactor->next = compactor->at = FORMAT_METAS;
	compactor->overflow = 0;
	return rc;
}

int copy_compact_to(MDB_txn *txn, uint32_t border, compact_put_fn *put, void *to)
{
	uint32_t size = txn->snapshot.page_size;
	struct places places = {0};
	struct compactor compactor = {
		.snapshot = &txn->snapshot,
		.layout = snapshot_layout(&txn->snapshot),
		.sums = txn->env->sums,
		.put = put,
		.to = to,
		.next = FORMAT_METAS,
		.at = FORMAT_METAS,
		.buffer = malloc(COMPACT_BUFFER),
		.zeroes = calloc(1, size),
		.pages = malloc((size_t)COMPACT_NESTING * FORMAT_DEPTH_MAX * size),
	};
	uint64_t root = txn->trees[DBI_MAIN].record.root;
	struct compact_plan plan;
	struct sums *own = NULL;
	int rc = ENOMEM;

	if (!compactor.buffer || !compactor.zeroes || !compactor.pages)
		goto fail;
	if (txn->snapshot.blocked) {
		rc = MDB_BAD_TXN;
		goto fail;
	}
	rc = later_sums_copied(txn->env, &own);
	if (rc)
		goto fail;
	if (own)
		compactor.sums = own;
	/* Only a function that the program or the user names can compute checksums. */
	if (later_sum_size(txn->env) && (border || !compactor.sums)) {
		rc = MDB_INCOMPATIBLE;
		goto fail;
	}
	rc = compact_plan(txn, &plan);
	if (!rc && border && may_cross(txn, &plan)) {
		compactor.places = &places;
		rc = plan_places(&compactor, txn, border, &plan);
		if (!places.used)
			compactor.places = NULL;
	}
	compactor.left = plan.pages;
	if (!rc)
		rc = compact_metas(&compactor, txn, &plan);
	if (!rc)
		rc = compact_tree(&compactor, &root, false, 0);
	if (!rc && root != plan.root)
		rc = MDB_INCOMPATIBLE;
	if (!rc)
		rc = compact_free_list(&compactor, &plan);
	if (!rc)
		rc = put(to, compactor.buffer, compactor.used);
fail:
	sums_close(own);
	places_close(&places);
	free(compactor.buffer);
	free(compactor.zeroes);
	free(compactor.pages);
	return rc;
}

static int put_into_file(void *to, const uint8_t *bytes, size_t left)
{
	return copy_write(*(const int *)to, bytes, left);
}

int copy_compact(MDB_txn *txn, int fd)
{
	return copy_compact_to(txn, 0, put_into_file, &fd);
}
