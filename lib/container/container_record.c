/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the list of trees and, of each tree, the array of its leaf pages in key order. */
#include "container/container_private.h"

#include <errno.h>
#include <lmdb.h>
#include <string.h>

static void tree_parse(const uint8_t *entry, uint64_t number, struct container_tree *tree)
{
	tree->number = number;
	tree->records = get64(entry + TREE_ENTRY_RECORDS);
	tree->leaves = get64(entry + TREE_ENTRY_LEAVES);
	tree->first = get64(entry + TREE_ENTRY_FIRST);
	tree->pages = layout_pages(tree->leaves, LEAVES_PER_PAGE);
	tree->flags = get16(entry + TREE_ENTRY_FLAGS);
	tree->name_size = get16(entry + TREE_ENTRY_NAME_SIZE);
	memcpy(tree->name, entry + TREE_ENTRY_NAME, tree->name_size);
	tree->name[tree->name_size] = '\0';
}

int container_tree(struct io *io, uint64_t number, struct container_tree *tree)
{
	struct container *container = io->state;
	struct cache_slot *slot;
	int rc;

	container_enter(container);
	if (number >= container->info.trees)
		return EINVAL;
	rc = index_take(container, LAYOUT_TREES, number / TREES_PER_PAGE, &slot);
	if (rc)
		return container_code(rc);
	tree_parse(slot->bytes + INDEX_BODY + number % TREES_PER_PAGE * TREE_ENTRY, number, tree);
	cache_release(&container->pages, slot);
	return 0;
}

int container_tree_find(struct io *io, const void *name, size_t size, struct container_tree *tree)
{
	uint64_t i, trees = container_info(io)->trees;

	for (i = 0; i < trees; i++) {
		int rc = container_tree(io, i, tree);

		if (rc)
			return rc;
		if (tree->name_size == size && (!size || memcmp(tree->name, name, size) == 0))
			return 0;
	}
	return MDB_NOTFOUND;
}

/* Page `number` of the tree's own, which must be full and within the tree. */
static int leaf_page_take(struct container *container, const struct container_tree *tree,
			  uint64_t number, struct cache_slot **slot)
{
	uint64_t left = tree->leaves - number * LEAVES_PER_PAGE;
	uint32_t entries = left < LEAVES_PER_PAGE ? (uint32_t)left : LEAVES_PER_PAGE;
	int rc = index_take(container, LAYOUT_LEAVES, tree->first + number, slot);
	const uint8_t *page, *last;

	if (rc)
		return rc;
	page = (*slot)->bytes;
	last = page + INDEX_BODY + (size_t)(entries - 1) * LEAF_ENTRY;
	if (get64(page + INDEX_BASE) == tree->number && get32(page + INDEX_ENTRIES) == entries &&
	    get64(last + LEAF_ENTRY_FIRST) < tree->records &&
	    !get64(page + INDEX_BODY + LEAF_ENTRY_FIRST) == !number)
		return 0;
	cache_release(&container->pages, *slot);
	return EBADMSG;
}

int container_leaf(struct io *io, const struct container_tree *tree, uint64_t number,
		   struct container_leaf *leaf)
{
	struct container *container = io->state;
	struct cache_slot *slot;
	const uint8_t *entry;
	int rc;

	container_enter(container);
	if (number >= tree->leaves)
		return EINVAL;
	rc = leaf_page_take(container, tree, number / LEAVES_PER_PAGE, &slot);
	if (rc)
		return container_code(rc);
	entry = slot->bytes + INDEX_BODY + number % LEAVES_PER_PAGE * LEAF_ENTRY;
	leaf->page = get64(entry + LEAF_ENTRY_PAGE);
	leaf->first = get64(entry + LEAF_ENTRY_FIRST);
	cache_release(&container->pages, slot);
	return 0;
}
