/* What only this file knows: how the pages of a snapshot are renumbered for a compacted copy.
 *
 * The order is the original's (mdb_env_copy2() with MDB_CP_COMPACT): depth first, a node's overflow
 * run or sub-tree before the leaf that holds it, children before their branch page, the root last.
 * So the root's number, which the meta page in front must tell before the walk, is the number of
 * pages in use. Unused space inside pages is written as zeroes.
 */
#include "env/env.h"

#include "format/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	COMPACT_BUFFER = 1 << 20,
	COMPACT_NESTING = 4, /* main tree, named database, duplicates */
};

struct compactor {
	struct snapshot *snapshot;
	compact_put_fn *put;
	void *to;
	uint64_t next; /* the number that the next page gets */
	uint64_t end;  /* one above the last number that the meta page promises */
	size_t used;
	uint8_t *buffer;
	uint8_t *pages; /* a page of scratch for each level of each nested tree */
};

static int compact_put(struct compactor *compactor, const uint8_t *bytes, size_t size)
{
	int rc = 0;

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

/* A number for `count` pages. More than were promised means a leak, or a page reached twice. */
static int compact_number(struct compactor *compactor, uint64_t count, uint64_t *number)
{
	if (count > compactor->end - compactor->next)
		return MDB_INCOMPATIBLE;
	*number = compactor->next;
	compactor->next += count;
	return 0;
}

static int compact_overflow(struct compactor *compactor, const struct node *node, uint8_t *where)
{
	struct snapshot *snapshot = compactor->snapshot;
	uint64_t number = load64(node->data), moved, needed, pages;
	uint8_t header[PAGE_HEADER];
	const uint8_t *run;
	int rc;

	needed = ((PAGE_HEADER - 1 + (uint64_t)node->data_size) >> snapshot->view.page_shift) + 1;
	if ((rc = window_pages(&snapshot->view, number, needed, &run)))
		return rc;
	pages = load32(run + PAGE_RUN);
	if (load64(run) != number || !(page_flags(run) & PAGE_OVERFLOW) || pages < needed)
		return MDB_CORRUPTED;
	if ((rc = window_pages(&snapshot->view, number, pages, &run)) ||
	    (rc = compact_number(compactor, pages, &moved)))
		return rc;
	memcpy(header, run, sizeof(header));
	store64(header + PAGE_NUMBER, moved);
	store64(where, moved);
	rc = compact_put(compactor, header, sizeof(header));
	return rc ? rc
		  : compact_put(compactor, run + PAGE_HEADER,
				pages * snapshot->page_size - PAGE_HEADER);
}

static int compact_tree(struct compactor *compactor, uint64_t *root, bool of_duplicates,
			unsigned nesting);

/* Moves what a leaf's nodes refer to, and tells the copy of the leaf. */
static int compact_leaf(struct compactor *compactor, uint8_t *page, unsigned count,
			unsigned nesting)
{
	uint32_t size = compactor->snapshot->page_size;
	struct node node;
	int rc = 0;

	for (unsigned i = 0; i < count && !rc; i++) {
		uint8_t *where;
		uint64_t root;

		if (!page_leaf_node(page, size, i, &node))
			return MDB_CORRUPTED;
		where = page + (node.data - page);
		if (node.flags & NODE_BIG) {
			rc = compact_overflow(compactor, &node, where);
		} else if (node.flags & NODE_SUBTREE) {
			if (node.data_size != TREE_SIZE)
				return MDB_CORRUPTED;
			root = load64(where + TREE_ROOT);
			rc = compact_tree(compactor, &root, node.flags & NODE_DUPS, nesting + 1);
			store64(where + TREE_ROOT, root);
		}
	}
	return rc;
}

static void page_clear_unused(uint8_t *page, uint32_t size, unsigned count)
{
	unsigned used = load16(page + PAGE_LOWER), end = load16(page + PAGE_UPPER);

	if (page_flags(page) & PAGE_LEAF2) {
		used = PAGE_HEADER + count * load16(page + PAGE_PAD);
		end = size;
	}
	if (used < end)
		memset(page + used, 0, end - used);
}

static int compact_page(struct compactor *compactor, uint64_t *number, bool of_duplicates,
			unsigned nesting, unsigned depth)
{
	uint32_t size = compactor->snapshot->page_size;
	uint8_t *page = compactor->pages + (size_t)(nesting * FORMAT_DEPTH_MAX + depth) * size;
	const uint8_t *source;
	unsigned count;
	int rc = window_pages(&compactor->snapshot->view, *number, 1, &source);

	if (rc)
		return rc;
	count = page_count(source, size);
	if (!count || !page_is_sound(source, *number))
		return MDB_CORRUPTED;
	memcpy(page, source, size);
	if (page_flags(page) & PAGE_BRANCH) {
		for (unsigned i = 0; i < count; i++) {
			uint64_t child;
			uint8_t *at;

			if (depth + 1 == FORMAT_DEPTH_MAX || !page_child(page, size, i, &child))
				return MDB_CORRUPTED;
			rc = compact_page(compactor, &child, of_duplicates, nesting, depth + 1);
			if (rc)
				return rc;
			at = page + (page_node(page, size, i) - page);
			store16(at + NODE_LOW, (uint16_t)child);
			store16(at + NODE_HIGH, (uint16_t)(child >> 16));
			store16(at + NODE_FLAGS, (uint16_t)(child >> 32));
		}
	} else if (page_flags(page) & PAGE_LEAF2) {
		if (!page_items_fit(size, count, load16(page + PAGE_PAD)))
			return MDB_CORRUPTED;
	} else if (!of_duplicates && (rc = compact_leaf(compactor, page, count, nesting))) {
		return rc;
	}
	if ((rc = compact_number(compactor, 1, number)))
		return rc;
	store64(page + PAGE_NUMBER, *number);
	page_clear_unused(page, size, count);
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

/* Pages that the snapshot has but nothing reaches: those on the free list, and the list's own. */
static int count_free(MDB_txn *txn, uint64_t *count)
{
	struct tree *tree = &txn->trees[DBI_FREE];
	struct duplicates duplicates; /* no sound free list has them */
	MDB_val key, ids;
	struct cursor cursor;
	int rc;

	*count = tree->record.branch_pages + tree->record.leaf_pages + tree->record.overflow_pages;
	cursor_init(&cursor, &txn->snapshot, tree, &txn->env->slots[DBI_FREE].order, &duplicates);
	while (!(rc = cursor_get(&cursor, &key, &ids, MDB_NEXT))) {
		if (ids.mv_size < sizeof(uint64_t))
			return MDB_CORRUPTED;
		*count += load64(ids.mv_data);
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static void meta_fill(uint8_t *page, uint64_t number, MDB_txn *txn, const MDB_envinfo *info)
{
	store64(page + PAGE_NUMBER, number);
	store16(page + PAGE_FLAGS, PAGE_META);
	store32(page + META_MAGIC, FORMAT_MAGIC);
	store32(page + META_VERSION, FORMAT_VERSION);
	store64(page + META_ADDRESS, (uintptr_t)info->me_mapaddr);
	store64(page + META_MAPSIZE, info->me_mapsize);
	store32(page + META_FREE_TREE + TREE_PAD, txn->snapshot.page_size);
	store16(page + META_FREE_TREE + TREE_FLAGS,
		(uint16_t)((txn->env->flags & 0xffff) | MDB_INTEGERKEY));
	store64(page + META_FREE_TREE + TREE_ROOT, PAGE_NONE);
	store64(page + META_MAIN_TREE + TREE_ROOT, PAGE_NONE);
	store64(page + META_LAST_PAGE, FORMAT_METAS - 1);
}

static void meta_fill_tree(uint8_t *page, const struct tree_record *record, uint64_t root)
{
	uint8_t *at = page + META_MAIN_TREE;

	store32(at + TREE_PAD, record->pad);
	store16(at + TREE_FLAGS, record->flags);
	store16(at + TREE_DEPTH, record->depth);
	store64(at + TREE_BRANCH_PAGES, record->branch_pages);
	store64(at + TREE_LEAF_PAGES, record->leaf_pages);
	store64(at + TREE_OVERFLOW_PAGES, record->overflow_pages);
	store64(at + TREE_ENTRIES, record->entries);
	store64(at + TREE_ROOT, root);
	store64(page + META_LAST_PAGE, root);
}

/* The two pages in front; *root is where the main tree's root will come to stand. */
static int compact_metas(struct compactor *compactor, MDB_txn *txn, uint64_t *root)
{
	const struct tree_record *record = &txn->trees[DBI_MAIN].record;
	uint32_t size = txn->snapshot.page_size;
	uint8_t *first = calloc(2, size), *second = first + size;
	uint64_t unreached;
	MDB_envinfo info;
	int rc;

	if (!first)
		return ENOMEM;
	rc = lmdbio_orig_mdb_env_info(txn->env->orig, &info);
	if (rc)
		goto fail;
	meta_fill(first, 0, txn, &info);
	meta_fill(second, 1, txn, &info);
	*root = record->root;
	if (record->root != PAGE_NONE) {
		if ((rc = count_free(txn, &unreached)))
			goto fail;
		rc = MDB_CORRUPTED;
		if (unreached >= txn->snapshot.view.pages - FORMAT_METAS)
			goto fail;
		*root = txn->snapshot.view.pages - 1 - unreached;
		compactor->end = *root + 1;
		meta_fill_tree(second, record, *root);
	} else {
		store16(second + META_MAIN_TREE + TREE_FLAGS, record->flags);
	}
	if (record->root != PAGE_NONE || record->flags)
		store64(second + META_TXNID, 1);
	rc = compact_put(compactor, first, 2 * (size_t)size);
fail:
	free(first);
	return rc;
}

int copy_compact_to(MDB_txn *txn, compact_put_fn *put, void *to)
{
	uint32_t size = txn->snapshot.page_size;
	struct compactor compactor = {
		.snapshot = &txn->snapshot,
		.put = put,
		.to = to,
		.next = FORMAT_METAS,
		.end = FORMAT_METAS,
		.buffer = malloc(COMPACT_BUFFER),
		.pages = malloc((size_t)COMPACT_NESTING * FORMAT_DEPTH_MAX * size),
	};
	uint64_t root = txn->trees[DBI_MAIN].record.root, promised;
	int rc = ENOMEM;

	if (!compactor.buffer || !compactor.pages)
		goto fail;
	if (txn->snapshot.blocked) {
		rc = MDB_BAD_TXN;
		goto fail;
	}
	rc = compact_metas(&compactor, txn, &promised);
	if (!rc)
		rc = compact_tree(&compactor, &root, false, 0);
	if (!rc && root != promised)
		rc = MDB_INCOMPATIBLE;
	if (!rc)
		rc = put(to, compactor.buffer, compactor.used);
fail:
	free(compactor.buffer);
	free(compactor.pages);
	return rc;
}

static int put_into_file(void *to, const uint8_t *bytes, size_t left)
{
	int fd = *(const int *)to;

	while (left) {
		ssize_t n = write(fd, bytes, left);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n == 0)
			return EIO;
		if (n > 0) {
			bytes += n;
			left -= (size_t)n;
		}
	}
	return 0;
}

int copy_compact(MDB_txn *txn, int fd)
{
	return copy_compact_to(txn, put_into_file, &fd);
}
