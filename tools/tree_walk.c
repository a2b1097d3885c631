/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges whether each page of a tree is as the tree needs it. */
#include "tree_walk_private.h"

#include <errno.h>

static const uint16_t tree_flags = MDB_REVERSEKEY | MDB_DUPSORT | MDB_INTEGERKEY | MDB_DUPFIXED |
				   MDB_INTEGERDUP | MDB_REVERSEDUP;

void walk_damage(struct walker *walker, const struct walk_tree *tree, struct walk_place where,
		 const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	walker->damage(walker->context, tree->label, where, format, arguments);
	va_end(arguments);
}

static void walk_doubt(struct walker *walker, const struct walk_tree *tree, struct walk_place where,
		       const char *format, ...) __attribute__((format(printf, 4, 5)));

static void walk_doubt(struct walker *walker, const struct walk_tree *tree, struct walk_place where,
		       const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	walker->doubt(walker->context, tree->label, where, format, arguments);
	va_end(arguments);
}

/* Finds the bytes of `count` pages that something at `from` leads to. Returns whether they
 * exist. */
static bool pages_reach(struct walker *walker, struct walk_tree *tree, struct walk_place from,
			uint64_t number, uint64_t count, const uint8_t **bytes)
{
	struct window_view *view = &walker->snapshot->view;
	int rc;

	if (number < FORMAT_METAS || number >= view->pages || count > view->pages - number) {
		walk_damage(
			walker, tree, from, "leads to page %llu, of pages 2 to %llu",
			(unsigned long long)(number < view->pages ? number + count - 1 : number),
			(unsigned long long)view->pages - 1);
		return false;
	}
	if (number >= view->limit || count > view->limit - number) {
		walk_damage(walker, tree, from,
			    "leads to page %llu, which is behind the end of the file",
			    (unsigned long long)(number + count - 1));
		return false;
	}
	rc = window_pages(view, number, count, bytes);
	if (rc == MDB_CORRUPTED || (rc == EIO && walker->lenient))
		walk_damage(walker, tree, (struct walk_place){number, 0}, "cannot be read: %s",
			    rc == EIO ? "I/O error" : "damaged");
	else if (rc == MDB_BAD_CHECKSUM)
		walk_damage(walker, tree, (struct walk_place){number, 0},
			    "does not have the checksum of its bytes");
	else if (rc)
		walker->rc = rc;
	return !rc || (rc == MDB_BAD_CHECKSUM && walker->lenient);
}

/* Takes a page for a tree. Returns whether no tree had it before. */
static bool page_take(struct walker *walker, struct walk_tree *tree, struct walk_place from,
		      uint64_t number)
{
	if (page_map_add(walker->used, number)) {
		walk_damage(walker, tree, from, "leads to page %llu, which is in use already",
			    (unsigned long long)number);
		return false;
	}
	if (walker->free && page_map_has(walker->free, number))
		walk_damage(walker, tree, (struct walk_place){number, 0},
			    "is in use and in the free list");
	return true;
}

/* Walks an overflow run. *pages: the pages of the run, 0 if it must not be used. */
static void walk_run(struct walker *walker, struct walk_tree *tree, struct walk_place from,
		     const struct entry *entry, uint64_t *pages)
{
	const struct window_view *view = &walker->snapshot->view;
	uint64_t number = load64(entry->data), needed, i;
	struct walk_place where = {number, 0};
	const uint8_t *run;

	*pages = 0;
	needed = value_pages(walk_layout(walker), entry->data_size, view->page_shift);
	if (!pages_reach(walker, tree, from, number, 1, &run))
		return;
	if (load64(run + PAGE_NUMBER) != number ||
	    page_flags(walk_layout(walker), run) != PAGE_OVERFLOW) {
		walk_damage(walker, tree, where,
			    "should begin a value of %u bytes, but is no overflow page",
			    entry->data_size);
		page_take(walker, tree, from, number);
		if (walker->lenient && needed <= view->limit - number)
			*pages = needed;
		return;
	}
	*pages = page_run(walk_layout(walker), run);
	if (*pages < needed) {
		walk_damage(walker, tree, where,
			    "a value of %u bytes has %llu pages where it needs %llu",
			    entry->data_size, (unsigned long long)*pages,
			    (unsigned long long)needed);
		*pages = needed;
	}
	if (*pages > view->pages - number || needed > view->limit - number) {
		walk_damage(walker, tree, where, "%llu pages of a value are more than there are",
			    (unsigned long long)*pages);
		page_take(walker, tree, from, number);
		*pages = walker->lenient && needed <= view->limit - number ? needed : 0;
		return;
	}
	/* Pages behind the end of the file are spare. */
	for (i = number; i < view->limit && i - number < *pages; i++) {
		if (!page_take(walker, tree, from, i)) {
			if (!walker->lenient)
				*pages = 0;
			return;
		}
	}
	tree->counts.overflow_pages += *pages;
	if (walker->step)
		walker->step(walker->context, number, needed);
}

static void visit_duplicates(struct walker *walker, const struct walk_tree *tree,
			     const struct walk_page *page)
{
	struct walk_value value = {.where = page->where,
				   .size = page_pad(walk_layout(walker), page->bytes)};
	bool items = page_flags(walk_layout(walker), page->bytes) & PAGE_LEAF2;
	struct entry entry;

	if (!walker->value)
		return;
	for (unsigned i = 0; i < page->count; i++) {
		value.data = page_item(walk_layout(walker), page->bytes, i, (uint32_t)value.size);
		if (!items) {
			if (!page_leaf_entry(walk_layout(walker), page->bytes, page->size, i,
					     &entry))
				continue;
			value.data = entry.key;
			value.size = entry.key_size;
		}
		walker->value(walker->context, tree, &value);
	}
}

/* Walks the duplicates of one key inside the entry. Returns how many there are. */
static uint64_t walk_sub_page(struct walker *walker, struct walk_tree *tree,
			      const struct walk_page *leaf, const struct entry *entry)
{
	static const struct walk_range anything;
	struct walk_tree duplicates = {
		.kind = WALK_DUPLICATES, .label = tree->label, .order = tree->order};
	struct walk_page page = {.bytes = entry->data,
				 .size = entry->data_size,
				 .where = walk_inside(leaf, entry->data)};
	unsigned kind = PAGE_LEAF | PAGE_SUB;
	unsigned flags;

	if (entry->data_size >= walk_layout(walker)->header)
		page.count = page_count(walk_layout(walker), entry->data, entry->data_size);
	if (!page.count) {
		walk_damage(walker, tree, page.where, "the page of duplicates has a bad header");
		return 0;
	}
	if (tree->record.flags & MDB_DUPFIXED)
		kind |= PAGE_LEAF2;
	flags = page_flags(walk_layout(walker), entry->data);
	if ((flags & (PAGE_BRANCH | PAGE_LEAF | PAGE_OVERFLOW | PAGE_META | PAGE_LEAF2 |
		      PAGE_SUB)) != kind) {
		walk_damage(walker, tree, page.where, "the page of duplicates has flags %#x",
			    flags);
		return page.count;
	}
	if (flags & PAGE_LEAF2) {
		if (page_pad(walk_layout(walker), entry->data) == sizeof(uint64_t) &&
		    duplicates.order.data.kind == COMPARE_UINT)
			duplicates.order.data.kind = COMPARE_ULONG;
		walk_judge_items(walker, &duplicates, &page, &anything);
	} else {
		walk_judge_entries(walker, &duplicates, &page, &anything);
	}
	visit_duplicates(walker, &duplicates, &page);
	return page.count;
}

/* Walks the duplicates of one key in a tree of their own. Returns how many there are. */
static uint64_t walk_duplicates(struct walker *walker, struct walk_tree *tree,
				struct walk_place where, const struct entry *entry)
{
	struct walk_tree duplicates = {.kind = WALK_DUPLICATES,
				       .label = tree->label,
				       .where = where,
				       .order = tree->order,
				       .items = tree->record.flags & MDB_DUPFIXED};

	tree_record_parse(&duplicates.record, entry->data);
	if (duplicates.order.data.kind == COMPARE_UINT && duplicates.record.pad == sizeof(uint64_t))
		duplicates.order.data.kind = COMPARE_ULONG;
	walk_tree(walker, &duplicates);
	tree->counts.duplicate_branch_pages += duplicates.counts.branch_pages;
	tree->counts.duplicate_leaf_pages += duplicates.counts.leaf_pages;
	return duplicates.counts.entries;
}

static void walk_record(struct walker *walker, struct walk_tree *tree, const struct walk_page *page,
			const struct entry *entry)
{
	struct walk_place where = walk_inside(page, entry->key - ENTRY_KEY);
	struct walk_value value = {.where = where,
				   .key = {entry->key_size, (void *)(uintptr_t)entry->key},
				   .size = entry->data_size,
				   .data = entry->data};
	struct tree_record record;

	walker->key = value.key;
	tree->counts.keys++;
	tree->counts.key_bytes += entry->key_size;
	switch (entry->flags) {
	case ENTRY_BIG:
		if (tree->record.flags & MDB_DUPSORT)
			break;
		value.data = NULL;
		value.run = load64(entry->data);
		walk_run(walker, tree, where, entry, &value.pages);
		/* fall through */
	case 0:
		tree->counts.entries++;
		if (walker->value)
			walker->value(walker->context, tree, &value);
		return;
	case ENTRY_SUBTREE:
		tree->counts.entries++;
		if (tree->kind != WALK_MAIN || entry->data_size != TREE_SIZE ||
		    tree->record.flags & MDB_DUPSORT)
			break;
		tree_record_parse(&record, entry->data);
		if (walker->database)
			walker->database(walker->context, &value.key, &record,
					 walk_inside(page, entry->data));
		return;
	case ENTRY_DUPS:
		if (!(tree->record.flags & MDB_DUPSORT))
			break;
		tree->counts.entries += walk_sub_page(walker, tree, page, entry);
		return;
	case ENTRY_DUPS | ENTRY_SUBTREE:
		if (!(tree->record.flags & MDB_DUPSORT) || entry->data_size != TREE_SIZE)
			break;
		tree->counts.entries +=
			walk_duplicates(walker, tree, walk_inside(page, entry->data), entry);
		return;
	default:
		break;
	}
	walk_damage(walker, tree, where, "an entry of flags %#x and %u bytes has no place here",
		    entry->flags, entry->data_size);
}

/* Returns whether a page has the header of a tree's page. */
static bool judge_header(struct walker *walker, struct walk_tree *tree, struct walk_page *page)
{
	unsigned flags = page_flags(walk_layout(walker), page->bytes),
		 kind = flags & (PAGE_BRANCH | PAGE_LEAF);

	if (load64(page->bytes + PAGE_NUMBER) != page->where.page) {
		walk_damage(walker, tree, page->where,
			    "calls itself page %llu, at which LMDB does not look: lmdbio-dump "
			    "--salvage reads it",
			    (unsigned long long)load64(page->bytes + PAGE_NUMBER));
		if (!walker->lenient)
			return false;
	}
	if (flags != PAGE_BRANCH && flags != PAGE_LEAF && flags != (PAGE_LEAF | PAGE_LEAF2)) {
		walk_damage(walker, tree, page->where, "has flags %#x, which no page of a tree has",
			    flags);
		if (kind != PAGE_BRANCH && kind != PAGE_LEAF)
			return false;
	}
	page->count = page_count(walk_layout(walker), page->bytes, page->size);
	if (!page->count) {
		walk_damage(walker, tree, page->where, "is empty or has bounds %u and %u",
			    page_lower(walk_layout(walker), page->bytes),
			    page_upper(walk_layout(walker), page->bytes));
		return false;
	}
	if (kind == PAGE_LEAF && tree->items != !!(flags & PAGE_LEAF2)) {
		walk_damage(walker, tree, page->where, "%s items of one size",
			    tree->items ? "has no" : "has");
		return false;
	}
	if (tree->items && kind == PAGE_LEAF &&
	    page_pad(walk_layout(walker), page->bytes) != tree->record.pad) {
		walk_damage(walker, tree, page->where, "has items of %u bytes where all have %u",
			    page_pad(walk_layout(walker), page->bytes), tree->record.pad);
		return false;
	}
	/* The original asserts this, except in the free list. */
	if (kind == PAGE_BRANCH && page->count < 2 && tree->kind != WALK_FREE)
		walk_damage(walker, tree, page->where, "is a branch page of one child");
	return true;
}

static void walk_page(struct walker *walker, struct walk_tree *tree, struct walk_place from,
		      uint64_t number, unsigned depth, const struct walk_range *range);

static void walk_branch(struct walker *walker, struct walk_tree *tree, const struct walk_page *page,
			unsigned depth, const struct walk_range *range)
{
	struct walk_range below;
	const uint8_t *key;
	uint32_t key_size;
	uint64_t child;

	tree->counts.branch_pages++;
	if (depth == FORMAT_DEPTH_MAX) {
		walk_damage(walker, tree, page->where, "is deeper than a tree can be");
		return;
	}
	for (unsigned i = 0; i < page->count && !walker->rc; i++) {
		if (!page_child(walk_layout(walker), page->bytes, page->size, i, &child))
			continue;
		below = *range;
		if (i && page_entry_key(walk_layout(walker), page->bytes, page->size, i, &key,
					&key_size))
			below.low = (MDB_val){key_size, (void *)(uintptr_t)key};
		if (i + 1 < page->count && page_entry_key(walk_layout(walker), page->bytes,
							  page->size, i + 1, &key, &key_size))
			below.high = (MDB_val){key_size, (void *)(uintptr_t)key};
		walk_page(walker, tree,
			  walk_inside(page,
				      page_entry(walk_layout(walker), page->bytes, page->size, i)),
			  child, depth + 1, &below);
	}
}

static void walk_leaf(struct walker *walker, struct walk_tree *tree, const struct walk_page *page,
		      unsigned depth)
{
	struct entry entry;

	tree->counts.leaf_pages++;
	if (!tree->leaf_depth)
		tree->leaf_depth = depth;
	if (depth != tree->leaf_depth)
		walk_damage(walker, tree, page->where, "is a leaf at depth %u, others are at %u",
			    depth, tree->leaf_depth);
	if (walker->step)
		walker->step(walker->context, page->where.page, 1);
	if (tree->kind == WALK_DUPLICATES) {
		tree->counts.entries += page->count;
		visit_duplicates(walker, tree, page);
		return;
	}
	if (walker->leaf)
		walker->leaf(walker->context, page->where.page, tree->counts.entries);
	for (unsigned i = 0; i < page->count && !walker->rc; i++)
		if (page_leaf_entry(walk_layout(walker), page->bytes, page->size, i, &entry))
			walk_record(walker, tree, page, &entry);
}

/* Walks page `number` and all pages below it; `depth` counts from 1 at the root. */
static void walk_page(struct walker *walker, struct walk_tree *tree, struct walk_place from,
		      uint64_t number, unsigned depth, const struct walk_range *range)
{
	struct walk_page page = {.size = walker->snapshot->page_size, .where = {number, 0}};

	if (!pages_reach(walker, tree, from, number, 1, &page.bytes) ||
	    !page_take(walker, tree, from, number) || !judge_header(walker, tree, &page))
		return;
	if (depth > tree->counts.depth)
		tree->counts.depth = depth;
	if (page_flags(walk_layout(walker), page.bytes) & PAGE_LEAF2)
		walk_judge_items(walker, tree, &page, range);
	else
		walk_judge_entries(walker, tree, &page, range);
	if (page_flags(walk_layout(walker), page.bytes) & PAGE_BRANCH)
		walk_branch(walker, tree, &page, depth, range);
	else
		walk_leaf(walker, tree, &page, depth);
}

static void count_compare(struct walker *walker, const struct walk_tree *tree, const char *what,
			  uint64_t said, uint64_t found)
{
	if (said != found)
		walk_damage(walker, tree, tree->where, "the record says %llu %s, found are %llu",
			    (unsigned long long)said, what, (unsigned long long)found);
}

/* Compares a database's counts of pages. LMDB 0.9.36 includes the pages of duplicates' trees, other
 * releases do not, so a file that both have changed may have any number. */
static void count_compare_outer(struct walker *walker, const struct walk_tree *tree,
				const char *what, uint64_t said, uint64_t found, uint64_t more)
{
	if (said != found && said != found + more)
		walk_doubt(walker, tree, tree->where,
			   "the record says %llu %s, found are %llu, and %llu of duplicates",
			   (unsigned long long)said, what, (unsigned long long)found,
			   (unsigned long long)more);
}

static void compare_record(struct walker *walker, const struct walk_tree *tree)
{
	const struct tree_record *record = &tree->record;
	const struct walk_counts *counts = &tree->counts;

	count_compare(walker, tree, "levels", record->depth, counts->depth);
	count_compare(walker, tree, "entries", record->entries, counts->entries);
	count_compare(walker, tree, "overflow pages", record->overflow_pages,
		      counts->overflow_pages);
	if (record->flags & MDB_DUPSORT && tree->kind != WALK_DUPLICATES) {
		count_compare_outer(walker, tree, "branch pages", record->branch_pages,
				    counts->branch_pages, counts->duplicate_branch_pages);
		count_compare_outer(walker, tree, "leaf pages", record->leaf_pages,
				    counts->leaf_pages, counts->duplicate_leaf_pages);
		return;
	}
	count_compare(walker, tree, "branch pages", record->branch_pages, counts->branch_pages);
	count_compare(walker, tree, "leaf pages", record->leaf_pages, counts->leaf_pages);
}

/* Judges the fields of a record that count nothing. */
static void judge_record(struct walker *walker, const struct walk_tree *tree)
{
	unsigned flags = tree->record.flags, allowed = tree_flags, needed = 0;

	if (tree->kind == WALK_FREE)
		return; /* in a meta page these fields are the environment's */
	if (tree->kind == WALK_DUPLICATES) {
		allowed = needed = tree->items ? MDB_DUPFIXED : 0;
		if (tree->items && tree->order.data.kind >= COMPARE_UINT)
			allowed = needed |= MDB_INTEGERKEY;
	}
	if (flags & ~allowed || needed & ~flags)
		walk_damage(walker, tree, tree->where, "the record has flags %#x", flags);
	if (!tree->items && tree->record.pad)
		walk_doubt(walker, tree, tree->where, "the record has items of %u bytes",
			   tree->record.pad);
}

void walk_tree(struct walker *walker, struct walk_tree *tree)
{
	static const struct walk_range anything;

	if (walker->rc)
		return;
	judge_record(walker, tree);
	if (tree->record.root != PAGE_NONE)
		walk_page(walker, tree, tree->where, tree->record.root, 1, &anything);
	if (!walker->rc)
		compare_record(walker, tree);
}
