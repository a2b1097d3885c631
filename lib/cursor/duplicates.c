/* SPDX-License-Identifier: OLDAP-2.8 */
/* Walks both forms in which the duplicates of a key are kept. */
#include "cursor/instance.h"

/* A few duplicates are a small page inside the entry; many are a tree of their own. */
static int duplicates_enter_page(const struct tree *tree, struct duplicates *duplicates,
				 const struct entry *entry)
{
	struct tree_record *record = &duplicates->tree.record;
	struct cursor *cursor = &duplicates->cursor;
	struct level *level = &cursor->levels[0];

	if (entry->data_size < LAYOUT->header)
		return MDB_CORRUPTED;
	level->page = entry->data;
	level->count = (uint16_t)page_count(LAYOUT, entry->data, entry->data_size);
	level->index = 0;
	level->flags = (uint16_t)page_flags(LAYOUT, entry->data);
	if (!level->count || (level->flags & (PAGE_BRANCH | PAGE_LEAF)) != PAGE_LEAF)
		return MDB_CORRUPTED;
	*record = (struct tree_record){.entries = level->count, .root = PAGE_NONE};
	if (tree->record.flags & MDB_DUPFIXED)
		record->pad = page_pad(LAYOUT, entry->data);
	if (level->flags & PAGE_LEAF2 &&
	    !page_items_fit(LAYOUT, entry->data_size, level->count, record->pad))
		return MDB_CORRUPTED;
	duplicates->tree.inline_page = true;
	cursor->page_size = entry->data_size;
	cursor->depth = 1;
	cursor->state = CURSOR_PLACED;
	return 0;
}

int duplicates_enter(struct snapshot *snapshot, const struct tree *tree,
		     struct duplicates *duplicates, const struct entry *entry)
{
	int rc = 0;

	if (duplicates)
		cursor_leave(&duplicates->cursor);
	if (unlikely(!duplicates || entry->flags & ENTRY_BIG)) {
		rc = MDB_CORRUPTED;
	} else if (!(entry->flags & ENTRY_SUBTREE)) {
		rc = duplicates_enter_page(tree, duplicates, entry);
	} else if (entry->data_size != TREE_SIZE) {
		rc = MDB_CORRUPTED;
	} else {
		tree_record_parse(&duplicates->tree.record, entry->data);
		duplicates->tree.inline_page = false;
		duplicates->cursor.page_size = snapshot->page_size;
		duplicates->cursor.state = 0;
	}
	if (rc) {
		if (duplicates)
			duplicates->cursor.state = 0;
		return snapshot_fail(snapshot, rc);
	}
	/* MDB_INTEGERDUP does not tell the numbers' size; the items do. */
	if (duplicates->order.kind == COMPARE_UINT && duplicates->tree.record.pad == 8)
		duplicates->order.kind = COMPARE_ULONG;
	return 0;
}
