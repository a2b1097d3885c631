/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides which meta pages are sound. */
#include "format/meta.h"

#include "format/layout.h"
#include "util/checked.h"

#include <lmdb.h>

void tree_record_parse(struct tree_record *record, const uint8_t *bytes)
{
	record->pad = load32(bytes + TREE_PAD);
	record->flags = load16(bytes + TREE_FLAGS);
	record->depth = load16(bytes + TREE_DEPTH);
	record->branch_pages = load64(bytes + TREE_BRANCH_PAGES);
	record->leaf_pages = load64(bytes + TREE_LEAF_PAGES);
	record->overflow_pages = load64(bytes + TREE_OVERFLOW_PAGES);
	record->entries = load64(bytes + TREE_ENTRIES);
	record->root = load64(bytes + TREE_ROOT);
}

int meta_parse(struct meta *meta, const uint8_t *page, enum format format)
{
	const struct page_layout *layout = &page_layouts[format];

	page += layout->shift;
	if (!(load16(page + PAGE_FLAGS) & PAGE_META) || load32(page + META_MAGIC) != FORMAT_MAGIC)
		return MDB_INVALID;
	if (load32(page + META_VERSION) != layout->version)
		return MDB_VERSION_MISMATCH;
	meta->format = format;
	tree_record_parse(&meta->free_tree, page + META_FREE_TREE);
	tree_record_parse(&meta->main_tree, page + META_MAIN_TREE);
	meta->page_size = meta->free_tree.pad;
	meta->env_flags = meta->free_tree.flags;
	meta->address = load64(page + META_ADDRESS);
	meta->mapsize = load64(page + META_MAPSIZE);
	meta->last_page = load64(page + META_LAST_PAGE);
	meta->txnid = load64(page + META_TXNID);
	if (!is_power_of_two(meta->page_size) || meta->page_size < FORMAT_PAGE_MIN ||
	    meta->page_size > layout->page_max)
		return MDB_INVALID;
	return 0;
}

int meta_judge(const uint8_t *first, const uint8_t *second, struct meta *newer, enum format format)
{
	struct meta a, b;
	int rc;

	if ((rc = meta_parse(&a, first, format)) || (rc = meta_parse(&b, second, format)))
		return rc;
	/* The original looks for the second page at the newer meta's page size. */
	if (a.page_size != b.page_size)
		return MDB_INVALID;
	*newer = b.txnid > a.txnid ? b : a;
	/* The map is as long as last_page says, and must hold both meta pages. */
	return newer->last_page < FORMAT_METAS - 1 ||
			       newer->last_page >= UINT64_MAX / newer->page_size
		       ? MDB_INVALID
		       : 0;
}
