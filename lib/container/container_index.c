/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a page of the index and checks it.
 *
 * The place of every page follows from its number, so a lookup of an entry reads one page. A page
 * is checked once, when it is read; a thread that takes it from the cache need not check it again.
 */
#include "container/container_private.h"

#include <errno.h>
#include <lmdb.h>
#include <string.h>

/* Returns how many entries page `number` must have; 0 for leaves, whose number a tree page has. */
static uint64_t expected_entries(const struct container *container, enum layout_kind kind,
				 uint64_t number)
{
	uint64_t per, all;

	switch (kind) {
	case LAYOUT_TREES:
		per = TREES_PER_PAGE;
		all = container->info.trees;
		break;
	case LAYOUT_CHUNKS:
		per = CHUNKS_PER_PAGE;
		all = container->info.chunks;
		break;
	case LAYOUT_COPIES:
		per = GROUPS_PER_PAGE;
		all = container->info.groups;
		break;
	default:
		return 0;
	}
	return all - number * per < per ? all - number * per : per;
}

/* Whether frames follow each other from the page's base on, each of a possible length. */
static bool are_chunks_good(const struct container_info *info, const uint8_t *page, uint64_t number,
			    uint32_t entries)
{
	const uint8_t *entry = page + INDEX_BODY;
	uint64_t at = get64(page + INDEX_BASE);
	uint32_t i;

	if (number == 0 ? at != info->data_offset : at < info->data_offset)
		return false;
	for (i = 0; i < entries; i++, entry += CHUNK_ENTRY) {
		uint32_t size = container_chunk_size(info, number * CHUNKS_PER_PAGE + i);
		uint32_t length = get32(entry + CHUNK_ENTRY_LENGTH);

		if (length == 0 || length > container_frame_bound(size))
			return false;
		if (at > info->data_end || info->data_end - at < length)
			return false;
		at += length;
	}
	return number * CHUNKS_PER_PAGE + entries < info->chunks || at == info->data_end;
}

static bool are_leaves_good(const struct container_info *info, const uint8_t *page,
			    uint32_t entries)
{
	const uint8_t *leaf = page + INDEX_BODY;
	uint64_t before = 0;
	uint32_t i;

	if (get64(page + INDEX_BASE) >= info->trees)
		return false;
	for (i = 0; i < entries; i++, leaf += LEAF_ENTRY) {
		if (get64(leaf + LEAF_ENTRY_PAGE) >= layout_pages(info->size, info->page_size))
			return false;
		if (i > 0 && get64(leaf + LEAF_ENTRY_FIRST) <= before)
			return false;
		before = get64(leaf + LEAF_ENTRY_FIRST);
	}
	return true;
}

static bool are_trees_good(const struct container *container, const uint8_t *page, uint32_t entries)
{
	uint64_t pages = container->sections[LAYOUT_LEAVES].pages;
	const uint8_t *tree = page + INDEX_BODY;
	uint32_t i;

	for (i = 0; i < entries; i++, tree += TREE_ENTRY) {
		uint64_t leaves = get64(tree + TREE_ENTRY_LEAVES);
		uint64_t first = get64(tree + TREE_ENTRY_FIRST);
		uint64_t needed = layout_pages(leaves, LEAVES_PER_PAGE);

		if (get16(tree + TREE_ENTRY_NAME_SIZE) > CONTAINER_NAME_MAX)
			return false;
		if (first > pages || needed > pages - first)
			return false;
		if (get64(tree + TREE_ENTRY_RECORDS) < leaves ||
		    !get64(tree + TREE_ENTRY_RECORDS) != !leaves)
			return false;
	}
	return true;
}

/* Whether groups follow each other from the page's base on, up to the end of all groups, and their
 * first page numbers rise. */
static bool are_groups_good(const struct container *container, const uint8_t *page, uint64_t number,
			    uint32_t entries)
{
	uint64_t size = container->info.groups_size, at = get64(page + INDEX_BASE), before = 0;
	size_t bound = container_frame_bound(copies_size(container));
	const uint8_t *entry = page + INDEX_BODY;
	uint32_t i;

	if (number == 0 && at != 0)
		return false;
	for (i = 0; i < entries; i++, entry += GROUP_ENTRY) {
		uint32_t length = get32(entry + GROUP_ENTRY_LENGTH);
		uint64_t first = get64(entry + GROUP_ENTRY_FIRST);

		if (length == 0 || length > bound || first <= before)
			return false;
		if (at > size || size - at < LAYOUT_FRAME + (uint64_t)length)
			return false;
		at += LAYOUT_FRAME + (uint64_t)length;
		before = first;
	}
	return number * GROUPS_PER_PAGE + entries < container->info.groups || at == size;
}

static bool is_page_good(const struct container *container, enum layout_kind kind, uint64_t number,
			 const uint8_t *page)
{
	static const uint32_t most[] = {
		[LAYOUT_LEAVES] = LEAVES_PER_PAGE,
		[LAYOUT_TREES] = TREES_PER_PAGE,
		[LAYOUT_CHUNKS] = CHUNKS_PER_PAGE,
		[LAYOUT_COPIES] = GROUPS_PER_PAGE,
	};
	uint64_t expected = expected_entries(container, kind, number);
	uint32_t entries = get32(page + INDEX_ENTRIES);

	if (hash_seeded(page, LAYOUT_PAGE_HASH, container->header_hash) !=
	    get64(page + LAYOUT_PAGE_HASH))
		return false;
	if (get32(page) != LAYOUT_SKIPPABLE || get32(page + 4) != LAYOUT_PAGE - LAYOUT_FRAME ||
	    get32(page + INDEX_KIND) != (uint32_t)kind || get64(page + INDEX_NUMBER) != number)
		return false;
	if (entries == 0 || entries > most[kind] || (expected && entries != expected))
		return false;
	if (kind == LAYOUT_CHUNKS)
		return are_chunks_good(&container->info, page, number, entries);
	if (kind == LAYOUT_TREES)
		return are_trees_good(container, page, entries);
	if (kind == LAYOUT_COPIES)
		return are_groups_good(container, page, number, entries);
	return are_leaves_good(&container->info, page, entries);
}

int index_take(struct container *container, enum layout_kind kind, uint64_t number,
	       struct cache_slot **slot)
{
	const struct section *section = &container->sections[kind];
	uint64_t offset = section->offset + number * LAYOUT_PAGE;
	int rc;

	if (number >= section->pages)
		return EBADMSG;
	*slot = cache_take(&container->pages, offset, CACHE_WAIT);
	if (!*slot)
		return ENOMEM;
	if ((*slot)->state == SLOT_READY)
		return 0;
	rc = container_read_below(container, offset, LAYOUT_PAGE, (*slot)->bytes);
	if (!rc && !is_page_good(container, kind, number, (*slot)->bytes))
		rc = EBADMSG;
	cache_fill(&container->pages, *slot, !rc);
	return rc;
}

void index_keep(struct container *container, enum layout_kind kind, uint64_t number,
		const uint8_t *page)
{
	uint64_t offset = container->sections[kind].offset + number * LAYOUT_PAGE;
	struct cache_slot *slot;

	if (!is_page_good(container, kind, number, page))
		return;
	slot = cache_take(&container->pages, offset, CACHE_TRY);
	if (!slot)
		return;
	if (slot->state == SLOT_FILLING) {
		memcpy(slot->bytes, page, LAYOUT_PAGE);
		cache_fill(&container->pages, slot, true);
	}
	cache_release(&container->pages, slot);
}

int index_chunks(struct container *container, uint64_t first, size_t n,
		 struct container_chunk *chunks, size_t *given)
{
	uint32_t i, from = (uint32_t)(first % CHUNKS_PER_PAGE), entries;
	uint64_t at, number = first / CHUNKS_PER_PAGE;
	const uint8_t *entry;
	struct cache_slot *slot;
	int rc = index_take(container, LAYOUT_CHUNKS, number, &slot);

	*given = 0;
	if (rc)
		return rc;
	entries = get32(slot->bytes + INDEX_ENTRIES);
	at = get64(slot->bytes + INDEX_BASE);
	entry = slot->bytes + INDEX_BODY;
	for (i = 0; i < entries && *given < n; i++, entry += CHUNK_ENTRY) {
		uint32_t length = get32(entry + CHUNK_ENTRY_LENGTH);

		if (i >= from)
			chunks[(*given)++] = (struct container_chunk){
				.offset = at,
				.length = length,
				.check = get32(entry + CHUNK_ENTRY_CHECK),
				.size = container_chunk_size(&container->info, first + (i - from)),
				.hash = get64(entry + CHUNK_ENTRY_HASH),
			};
		at += length;
	}
	cache_release(&container->pages, slot);
	return *given ? 0 : EBADMSG;
}

int container_chunk(struct io *io, uint64_t number, struct container_chunk *chunk)
{
	struct container *container = io->state;
	size_t given;

	container_enter(container);
	if (number >= container->info.chunks)
		return EINVAL;
	return container_code(index_chunks(container, number, 1, chunk, &given));
}

/* --- the list of trees and, of each tree, the array of its leaf pages in key order ------------ */
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
	struct container *container = io->state;
	uint64_t i, trees = container->info.trees, number = atomic_load(&container->tree_next);

	/* Most callers ask for one database after another, in the order of the index. */
	for (i = 0; i < trees; i++, number++) {
		int rc;

		if (number >= trees)
			number = 0;
		rc = container_tree(io, number, tree);
		if (rc)
			return rc;
		if (tree->name_size == size && (!size || memcmp(tree->name, name, size) == 0)) {
			atomic_store(&container->tree_next, number + 1);
			return 0;
		}
	}
	return MDB_NOTFOUND;
}

/* Takes page `number` of a tree's leaf list, which must be full and within the tree. */
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
