/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the rules between pages of the index, which a reader of single pages cannot check. */
#include "container/container_private.h"

#include <errno.h>

/* The place that is checked, for a caller that hears of damage. */
struct check {
	struct container *container;
	uint64_t *bad;
};

static int check_take(struct check *check, enum layout_kind kind, uint64_t number,
		      struct cache_slot **slot)
{
	*check->bad = check->container->sections[kind].offset + number * LAYOUT_PAGE;
	return index_take(check->container, kind, number, slot);
}

/* Each page begins where the page before ended, and all entries give the content hash. */
static int check_chunks(struct check *check)
{
	struct container *container = check->container;
	uint64_t number, at = container->info.data_offset, content = 0;
	struct cache_slot *slot;

	for (number = 0; number < container->sections[LAYOUT_CHUNKS].pages; number++) {
		int rc = check_take(check, LAYOUT_CHUNKS, number, &slot);
		const uint8_t *entry;
		uint32_t i;

		if (rc)
			return rc;
		if (get64(slot->bytes + INDEX_BASE) != at)
			rc = EBADMSG;
		entry = slot->bytes + INDEX_BODY;
		for (i = 0; i < get32(slot->bytes + INDEX_ENTRIES); i++, entry += CHUNK_ENTRY) {
			at += get32(entry + CHUNK_ENTRY_LENGTH);
			content = hash_chain(content, get64(entry + CHUNK_ENTRY_HASH));
		}
		cache_release(&container->pages, slot);
		if (rc)
			return rc;
	}
	*check->bad = container->info.file_size - LAYOUT_END;
	if (at != container->info.data_end || content != container->info.content_hash)
		return EBADMSG;
	return 0;
}

/* Checks that the records of a tree are numbered on from page to page. */
static int check_leaves(struct check *check, const struct container_tree *tree)
{
	uint64_t number, next = 0;
	struct cache_slot *slot;

	for (number = 0; number < tree->pages; number++) {
		int rc = check_take(check, LAYOUT_LEAVES, tree->first + number, &slot);
		uint64_t left = tree->leaves - number * LEAVES_PER_PAGE, first, last;
		const uint8_t *entry;
		uint32_t entries;

		if (rc)
			return rc;
		entries = get32(slot->bytes + INDEX_ENTRIES);
		entry = slot->bytes + INDEX_BODY;
		first = get64(entry + LEAF_ENTRY_FIRST);
		last = get64(entry + (size_t)(entries - 1) * LEAF_ENTRY + LEAF_ENTRY_FIRST);
		if (get64(slot->bytes + INDEX_BASE) != tree->number ||
		    entries != (left < LEAVES_PER_PAGE ? left : LEAVES_PER_PAGE) ||
		    (number == 0 ? first != 0 : first < next) || last >= tree->records)
			rc = EBADMSG;
		next = last + 1;
		cache_release(&check->container->pages, slot);
		if (rc)
			return rc;
	}
	return 0;
}

static int check_trees(struct io *io, struct check *check)
{
	struct container *container = check->container;
	uint64_t i, pages = 0;
	struct container_tree tree;

	for (i = 0; i < container->info.trees; i++) {
		struct cache_slot *slot;
		int rc = check_take(check, LAYOUT_TREES, i / TREES_PER_PAGE, &slot);

		if (rc)
			return rc;
		cache_release(&container->pages, slot);
		rc = container_tree(io, i, &tree);
		if (!rc && tree.first != pages)
			rc = EBADMSG;
		if (!rc)
			rc = check_leaves(check, &tree);
		if (rc)
			return rc;
		pages += tree.pages;
	}
	*check->bad = container->info.file_size - LAYOUT_END;
	return pages == container->sections[LAYOUT_LEAVES].pages ? 0 : EBADMSG;
}

/* Checks that each group begins where the group before ended, with a larger page number. */
static int check_groups(struct check *check)
{
	struct container *container = check->container;
	uint64_t at = container->groups.offset, last = 0;
	struct copies copies;
	struct cache_slot *slot;

	for (uint64_t number = 0; number < container->info.groups; number++) {
		int rc = check_take(check, LAYOUT_COPIES, number / GROUPS_PER_PAGE, &slot);
		uint32_t length;

		if (rc)
			return rc;
		if (number % GROUPS_PER_PAGE == 0 &&
		    container->groups.offset + get64(slot->bytes + INDEX_BASE) != at)
			rc = EBADMSG;
		length = get32(slot->bytes + INDEX_BODY + number % GROUPS_PER_PAGE * GROUP_ENTRY +
			       GROUP_ENTRY_LENGTH);
		cache_release(&container->pages, slot);
		if (rc)
			return rc;
		*check->bad = at;
		at += LAYOUT_FRAME + (uint64_t)length;
		rc = copies_take(container, number, &copies);
		if (rc)
			return rc;
		if (copies_number(&copies, 0) <= last)
			rc = EBADMSG;
		last = copies_number(&copies, copies.n - 1);
		cache_release(&container->copies, copies.slot);
		if (rc)
			return rc;
	}
	return 0;
}

int container_check_index(struct io *io, uint64_t *bad)
{
	struct check check = {io->state, bad};
	int rc;

	container_enter(check.container);
	rc = check_chunks(&check);
	if (!rc)
		rc = check_trees(io, &check);
	if (!rc)
		rc = check_groups(&check);
	return container_code(rc);
}

/* Stores the hash as xxHash does: the high half first, each half big-endian. */
void container_source_hash(const void *bytes, size_t length, uint8_t hash[16])
{
	uint64_t both[2];

	hash_wide(bytes, length, 0, both);
	store64(hash, htobe64(both[1]));
	store64(hash + 8, htobe64(both[0]));
}
