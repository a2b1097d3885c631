/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns the record index of a container into lmdbio's own.
 *
 * It names leaf pages of the database alone; where a key may have a tree of duplicates, the pages
 * themselves are asked.
 */
#include "container/container.h"
#include "index/index_private.h"

#include <errno.h>

/* Every leaf of it, in order: each index page is read once. */
static int leaves_read(struct record_index *index, struct io *container,
		       const struct container_tree *from)
{
	struct container_leaf leaf;
	uint64_t before = 0;
	int rc;

	for (uint64_t i = 0; i < from->leaves; i++) {
		rc = container_leaf(container, from, i, &leaf);
		if (rc)
			return rc;
		if (i ? leaf.first <= before : leaf.first != 0)
			return MDB_CORRUPTED;
		before = leaf.first;
		index->leaves[i] = (struct index_leaf){.page = leaf.page & 0xffffffffffff,
						       .first = leaf.first};
	}
	return before < index->records || !index->records ? 0 : MDB_CORRUPTED;
}

int index_read(struct record_index **ret, struct io *container, const struct tree *tree,
	       const MDB_val *name)
{
	struct record_index *index;
	struct container_tree from;
	int rc;

	if (tree->record.flags & MDB_DUPSORT)
		return ENOENT;
	rc = container_tree_find(container, name ? name->mv_data : NULL, name ? name->mv_size : 0,
				 &from);
	if (rc)
		return rc == MDB_NOTFOUND ? ENOENT : rc;
	if (from.records != tree->record.entries || from.leaves > tree->record.entries)
		return MDB_CORRUPTED;
	index = index_new(from.leaves, 0, from.records);
	if (!index)
		return ENOMEM;
	rc = leaves_read(index, container, &from);
	if (rc)
		index_free(index);
	else
		*ret = index;
	return rc;
}
