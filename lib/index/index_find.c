/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns a record's number into a page and an entry, and these into a record. */
#include "index/index_private.h"

#include <stdlib.h>

struct record_index *index_new(size_t leaves, size_t owners, uint64_t records)
{
	struct record_index *index = calloc(1, sizeof(*index));

	if (!index)
		return NULL;
	index->records = records;
	index->count = leaves;
	index->owner_count = owners;
	if (leaves)
		index->leaves = calloc(leaves, sizeof(*index->leaves));
	if (owners)
		index->owners = calloc(owners, sizeof(*index->owners));
	if ((leaves && !index->leaves) || (owners && !index->owners)) {
		index_free(index);
		return NULL;
	}
	return index;
}

void index_free(struct record_index *index)
{
	if (!index)
		return;
	free(index->leaves);
	free(index->owners);
	free(index);
}

uint64_t index_records(const struct record_index *index)
{
	return index->records;
}

size_t index_size(const struct record_index *index)
{
	return index->count;
}

const struct index_leaf *index_leaf(const struct record_index *index, size_t number)
{
	return &index->leaves[number];
}

/* Returns the last leaf that begins at or before a record. The first leaf begins at 0. */
static size_t leaf_of(const struct record_index *index, uint64_t number)
{
	size_t low = 0, high = index->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (index->leaves[middle].first <= number)
			low = middle;
		else
			high = middle;
	}
	return low;
}

size_t index_leaf_from(const struct record_index *index, uint64_t number)
{
	size_t at = leaf_of(index, number);

	while (at < index->count && index->leaves[at].first < number)
		at++;
	return at;
}

/* Returns the last owner whose leaves begin at or before a leaf. */
static const struct index_owner *owner_of(const struct record_index *index, size_t leaf)
{
	size_t low = 0, high = index->owner_count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (index->owners[middle].leaf <= leaf)
			low = middle;
		else
			high = middle;
	}
	return &index->owners[low];
}

int index_find(const struct record_index *index, uint64_t number, struct index_place *place)
{
	const struct index_leaf *leaf;
	const struct index_owner *owner;
	size_t at;

	if (number >= index->records)
		return MDB_NOTFOUND;
	at = leaf_of(index, number);
	leaf = &index->leaves[at];
	*place = (struct index_place){
		.page = leaf->page,
		.entry = leaf->place,
		.skip = number - leaf->first,
		.nested = leaf->nested,
	};
	if (leaf->nested) {
		owner = owner_of(index, at);
		place->owner_page = owner->page;
		place->owner_entry = (uint32_t)owner->place;
	}
	return 0;
}

static int entry_at(struct snapshot *snapshot, uint64_t number, uint64_t place, struct entry *entry)
{
	const struct page_layout *layout = snapshot_layout(snapshot);
	const uint8_t *page;
	unsigned count;
	int rc = tree_page(snapshot, number, &page, &count);

	if (rc)
		return rc;
	if ((page_flags(layout, page) & (PAGE_LEAF | PAGE_LEAF2)) != PAGE_LEAF || place >= count ||
	    !page_leaf_entry(layout, page, snapshot->page_size, (unsigned)place, entry))
		return MDB_CORRUPTED;
	return 0;
}

static void key_of(const struct entry *entry, MDB_val *key)
{
	if (key)
		*key = (MDB_val){entry->key_size, (void *)(uintptr_t)entry->key};
}

/* Finds duplicate `i` of a page or sub-page of `size` bytes; `pad` is an item's size there. */
static int duplicate_at(const struct page_layout *layout, const uint8_t *page, uint32_t size,
			unsigned count, uint32_t pad, uint64_t i, MDB_val *data)
{
	struct entry entry;

	if (i >= count)
		return MDB_CORRUPTED;
	if (page_flags(layout, page) & PAGE_LEAF2) {
		if (!page_items_fit(layout, size, count, pad))
			return MDB_CORRUPTED;
		*data = (MDB_val){pad, (void *)(uintptr_t)page_item(layout, page, i, pad)};
		return 0;
	}
	if (!page_leaf_entry(layout, page, size, (unsigned)i, &entry))
		return MDB_CORRUPTED;
	key_of(&entry, data);
	return 0;
}

/* Finds the entry of a place in a database with duplicates, and which duplicate it is. */
static int entry_of_place(struct snapshot *snapshot, const struct tree *tree,
			  const struct index_place *place, struct entry *entry, uint64_t *duplicate)
{
	uint64_t records, left = place->skip;
	struct tree_record nested;
	bool is_tree;

	for (uint64_t i = place->entry;; i++) {
		int rc = entry_at(snapshot, place->page, i, entry);

		if (!rc)
			rc = entry_records(snapshot_layout(snapshot), tree, entry, &records,
					   &nested, &is_tree);
		if (rc)
			return rc;
		if (left < records) {
			*duplicate = left;
			return is_tree ? MDB_CORRUPTED : 0;
		}
		left -= records;
	}
}

static int get_nested(struct snapshot *snapshot, const struct index_place *place, MDB_val *key,
		      MDB_val *data)
{
	const struct page_layout *layout = snapshot_layout(snapshot);
	struct tree_record nested;
	const uint8_t *page;
	struct entry owner;
	unsigned count;
	int rc = entry_at(snapshot, place->owner_page, place->owner_entry, &owner);

	if (rc)
		return rc;
	if (!(owner.flags & ENTRY_SUBTREE) || owner.data_size != TREE_SIZE)
		return MDB_CORRUPTED;
	key_of(&owner, key);
	if (!data)
		return 0;
	tree_record_parse(&nested, owner.data);
	rc = tree_page(snapshot, place->page, &page, &count);
	if (rc)
		return rc;
	return page_flags(layout, page) & PAGE_LEAF
		       ? duplicate_at(layout, page, snapshot->page_size, count, nested.pad,
				      place->skip, data)
		       : MDB_CORRUPTED;
}

int index_get_apart(struct snapshot *leaves, struct snapshot *values, const struct tree *tree,
		    const struct index_place *place, MDB_val *key, MDB_val *data)
{
	const struct page_layout *layout = snapshot_layout(leaves);
	uint64_t duplicate = 0;
	struct entry entry;
	int rc;

	if (place->nested) {
		rc = get_nested(leaves, place, key, data);
		if (!rc && data)
			values->served += data->mv_size;
		return rc;
	}
	if (tree->record.flags & MDB_DUPSORT)
		rc = entry_of_place(leaves, tree, place, &entry, &duplicate);
	else
		rc = entry_at(leaves, place->page, place->entry + place->skip, &entry);
	if (rc)
		return rc;
	key_of(&entry, key);
	if (!data)
		return 0;
	if (!(entry.flags & ENTRY_DUPS))
		return tree_value(values, &entry, data);
	if (!(tree->record.flags & MDB_DUPSORT))
		return MDB_CORRUPTED;
	rc = duplicate_at(layout, entry.data, entry.data_size,
			  page_count(layout, entry.data, entry.data_size),
			  page_pad(layout, entry.data), duplicate, data);
	if (!rc)
		values->served += data->mv_size;
	return rc;
}

int index_get(struct snapshot *snapshot, const struct tree *tree, const struct index_place *place,
	      MDB_val *key, MDB_val *data)
{
	return index_get_apart(snapshot, snapshot, tree, place, key, data);
}

int index_run(struct snapshot *snapshot, const struct tree *tree, const struct index_place *place,
	      uint64_t *number, uint64_t *pages)
{
	struct entry entry;
	int rc;

	*number = *pages = 0;
	/* Duplicates never have overflow pages. */
	if (place->nested || tree->record.flags & MDB_DUPSORT)
		return 0;
	rc = entry_at(snapshot, place->page, place->entry + place->skip, &entry);
	if (!rc)
		tree_run(snapshot, &entry, number, pages);
	return rc;
}
