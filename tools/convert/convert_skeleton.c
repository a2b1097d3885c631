/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps the pages of a data file that show the order of its leaves.
 *
 * Of a leaf page it keeps the number and the count of records. It keeps branch pages, and leaf
 * pages that name databases, whole. Both lists come in the order of page numbers, so bisection
 * finds a page. Bytes that only look like a page (a value's bytes, a page long free) are in the
 * lists too; no tree leads there.
 */
#include "convert_skeleton.h"
#include "convert_spill.h"

#include "container/container.h"
#include "format/meta.h"
#include "format/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct skeleton {
	enum format format;
	const struct page_layout *layout;
	uint32_t page_size;
	uint64_t next; /* number of the page that comes or is in work */
	size_t have;   /* bytes of it so far */
	uint8_t *page;
	uint8_t *metas; /* two pages */
	struct spill leaves, pages;
	/* of a walk: */
	const struct skeleton_listener *listener; /* NULL: only check that the trees are sound */
	uint64_t steps; /* pages left to visit before the trees must have a circle */
};

enum { NOT_SOUND = -1 }; /* no errno and no code of a listener */

int skeleton_open(struct skeleton **result, enum format format, uint32_t page_size, int leaves,
		  int pages)
{
	struct skeleton *skeleton = calloc(1, sizeof(*skeleton));

	if (skeleton)
		skeleton->page = malloc(3 * (size_t)page_size);
	if (!skeleton || !skeleton->page) {
		free(skeleton);
		close(leaves);
		close(pages);
		return ENOMEM;
	}
	skeleton->format = format;
	skeleton->layout = &page_layouts[format];
	skeleton->page_size = page_size;
	skeleton->metas = skeleton->page + page_size;
	spill_open(&skeleton->leaves, leaves);
	spill_open(&skeleton->pages, pages);
	*result = skeleton;
	return 0;
}

/* Returns how many records an entry stands for; 0 if it makes no sense. */
static uint64_t records_under(const struct page_layout *layout, const struct entry *entry)
{
	if (!(entry->flags & ENTRY_DUPS))
		return 1;
	if (!(entry->flags & ENTRY_SUBTREE))
		return entry->data_size < layout->header
			       ? 0
			       : page_count(layout, entry->data, entry->data_size);
	return entry->data_size == TREE_SIZE ? load64(entry->data + TREE_ENTRIES) : 0;
}

/* Returns whether page `number` is a leaf page of records. *names: its entries name databases. */
static bool leaf_look(const struct page_layout *layout, const uint8_t *page, uint64_t number,
		      uint32_t page_size, struct skeleton_leaf *leaf, bool *names)
{
	struct entry entry;
	unsigned count;

	if (number < FORMAT_METAS || !page_is_sound(layout, page, number) ||
	    page_flags(layout, page) & (PAGE_BRANCH | PAGE_LEAF2))
		return false;
	*leaf = (struct skeleton_leaf){.page = number};
	*names = false;
	count = page_count(layout, page, page_size);
	for (unsigned i = 0; i < count; i++) {
		uint64_t records;

		if (!page_leaf_entry(layout, page, page_size, i, &entry))
			return false;
		records = records_under(layout, &entry);
		if (!records || !checked_add(leaf->records, records, &leaf->records))
			return false;
		*names |= entry_is_database(entry.flags);
	}
	return count > 0;
}

size_t skeleton_leaves(enum format format, uint32_t page_size, const void *data, size_t length,
		       uint64_t offset, struct skeleton_leaf *leaves)
{
	const uint8_t *page = data;
	uint64_t first = offset / page_size;
	size_t n = 0;
	bool names;

	for (size_t i = 0; i < length / page_size; i++, page += page_size)
		n += leaf_look(&page_layouts[format], page, first + i, page_size, &leaves[n],
			       &names);
	return n;
}

int skeleton_add_leaves(struct skeleton *skeleton, const struct skeleton_leaf *leaves,
			size_t length)
{
	return spill_append(&skeleton->leaves, leaves, length);
}

int skeleton_add_page(struct skeleton *skeleton, uint64_t number, const void *page)
{
	struct skeleton_leaf leaf;
	bool names = false;

	if (number < FORMAT_METAS)
		memcpy(skeleton->metas + number * skeleton->page_size, page, skeleton->page_size);
	else if (page_is_sound(skeleton->layout, page, number) &&
		 (page_flags(skeleton->layout, page) & PAGE_BRANCH ||
		  (leaf_look(skeleton->layout, page, number, skeleton->page_size, &leaf, &names) &&
		   names)))
		return spill_append(&skeleton->pages, page, skeleton->page_size);
	return 0;
}

void skeleton_end(struct skeleton *skeleton, uint64_t pages)
{
	skeleton->next = pages;
}

static int page_note(struct skeleton *skeleton, const uint8_t *page)
{
	struct skeleton_leaf leaf;
	bool names;
	int rc = 0;

	if (leaf_look(skeleton->layout, page, skeleton->next, skeleton->page_size, &leaf, &names))
		rc = skeleton_add_leaves(skeleton, &leaf, sizeof(leaf));
	if (!rc)
		rc = skeleton_add_page(skeleton, skeleton->next, page);
	skeleton->next++;
	return rc;
}

int skeleton_feed(struct skeleton *skeleton, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	uint32_t size = skeleton->page_size;
	int rc = 0;

	while (length && !rc) {
		size_t n = size - skeleton->have;

		if (!skeleton->have && length >= size) {
			rc = page_note(skeleton, at);
			at += size;
			length -= size;
			continue;
		}
		if (n > length)
			n = length;
		memcpy(skeleton->page + skeleton->have, at, n);
		at += n;
		length -= n;
		skeleton->have += n;
		if (skeleton->have == size) {
			skeleton->have = 0;
			rc = page_note(skeleton, skeleton->page);
		}
	}
	return rc;
}

/* Finds the piece that begins with this page number among `count` pieces of `each` bytes, or
 * NULL. */
static const uint8_t *find(const uint8_t *list, uint64_t count, size_t each, uint64_t page)
{
	uint64_t low = 0, high = count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		uint64_t found = load64(list + middle * each);

		if (found == page)
			return list + middle * each;
		if (found < page)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static const uint8_t *page_find(const struct skeleton *skeleton, uint64_t page)
{
	return find(skeleton->pages.view, skeleton->pages.size / skeleton->page_size,
		    skeleton->page_size, page);
}

static int leaf_visit(struct skeleton *skeleton, uint64_t page, uint64_t *records)
{
	const uint8_t *found =
		find(skeleton->leaves.view, skeleton->leaves.size / sizeof(struct skeleton_leaf),
		     sizeof(struct skeleton_leaf), page);
	struct skeleton_leaf leaf;

	if (!found)
		return NOT_SOUND;
	memcpy(&leaf, found, sizeof(leaf));
	if (!checked_add(*records, leaf.records, records))
		return NOT_SOUND;
	if (!skeleton->listener)
		return 0;
	return skeleton->listener->leaf(skeleton->listener->to, page, leaf.records);
}

/* `depth` counts the levels from this page down, itself included. */
static int page_visit(struct skeleton *skeleton, uint64_t number, unsigned depth, uint64_t *records)
{
	const uint8_t *page;
	unsigned count;
	int rc = 0;

	if (!skeleton->steps--)
		return NOT_SOUND;
	if (depth == 1)
		return leaf_visit(skeleton, number, records);
	page = page_find(skeleton, number);
	if (!page || !(page_flags(skeleton->layout, page) & PAGE_BRANCH))
		return NOT_SOUND;
	count = page_count(skeleton->layout, page, skeleton->page_size);
	for (unsigned i = 0; i < count && !rc; i++) {
		uint64_t child;

		if (!page_child(skeleton->layout, page, skeleton->page_size, i, &child))
			return NOT_SOUND;
		rc = page_visit(skeleton, child, depth - 1, records);
	}
	return count ? rc : NOT_SOUND;
}

static int tree_visit(struct skeleton *skeleton, const void *name, size_t name_size,
		      const struct tree_record *record)
{
	const struct skeleton_listener *listener = skeleton->listener;
	uint64_t records = 0;
	int rc;

	rc = listener ? listener->tree(listener->to, name, name_size, record->flags) : 0;
	if (!rc && record->root != PAGE_NONE) {
		if (!record->depth || record->depth > FORMAT_DEPTH_MAX)
			return NOT_SOUND;
		rc = page_visit(skeleton, record->root, record->depth, &records);
	}
	return rc ? rc : records == record->entries ? 0 : NOT_SOUND;
}

/* Visits the databases that the leaves of the main tree name, in key order. */
static int names_visit(struct skeleton *skeleton, uint64_t number, unsigned depth)
{
	const uint8_t *page = page_find(skeleton, number);
	unsigned count = page ? page_count(skeleton->layout, page, skeleton->page_size) : 0;
	struct tree_record record;
	struct entry entry;
	int rc = 0;

	/* A leaf without names is not kept, and is no error. */
	for (unsigned i = 0; i < count && !rc; i++) {
		uint64_t child;

		if (depth > 1) {
			if (!page_child(skeleton->layout, page, skeleton->page_size, i, &child))
				return NOT_SOUND;
			rc = names_visit(skeleton, child, depth - 1);
			continue;
		}
		if (!page_leaf_entry(skeleton->layout, page, skeleton->page_size, i, &entry))
			return NOT_SOUND;
		if (!entry_is_database(entry.flags))
			continue;
		if (entry.data_size != TREE_SIZE)
			return NOT_SOUND;
		/* LMDB 1.0 allows longer names than the index. */
		if (entry.key_size > CONTAINER_NAME_MAX)
			continue;
		tree_record_parse(&record, entry.data);
		rc = tree_visit(skeleton, entry.key, entry.key_size, &record);
	}
	return rc;
}

static int all_visit(struct skeleton *skeleton, const struct skeleton_listener *listener)
{
	const uint8_t *second = skeleton->metas + skeleton->page_size;
	struct meta a, b, *newer;
	int rc;

	skeleton->listener = listener;
	skeleton->steps = skeleton->next;
	if (skeleton->next < FORMAT_METAS || meta_parse(&a, skeleton->metas, skeleton->format) ||
	    meta_parse(&b, second, skeleton->format))
		return NOT_SOUND;
	newer = b.txnid > a.txnid ? &b : &a;
	rc = tree_visit(skeleton, NULL, 0, &newer->main_tree);
	if (!rc && newer->main_tree.root != PAGE_NONE)
		rc = names_visit(skeleton, newer->main_tree.root, newer->main_tree.depth);
	return rc;
}

int skeleton_walk(struct skeleton *skeleton, const struct skeleton_listener *listener,
		  bool *damaged)
{
	int rc = spill_look(&skeleton->leaves);

	*damaged = false;
	if (!rc)
		rc = spill_look(&skeleton->pages);
	if (rc)
		return rc;
	rc = all_visit(skeleton, NULL);
	if (rc == NOT_SOUND) {
		*damaged = true;
		return 0;
	}
	return rc ? rc : all_visit(skeleton, listener);
}

void skeleton_close(struct skeleton *skeleton)
{
	if (!skeleton)
		return;
	spill_close(&skeleton->leaves);
	spill_close(&skeleton->pages);
	free(skeleton->page);
	free(skeleton);
}
