/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts the records of a leaf page, its trees of duplicates included. */
#include "index/index_private.h"

#include <errno.h>
#include <stdlib.h>

enum {
	BRING_GAP = 32 << 10, /* bytes between two pages, at most, that are read with them */
	BRING_MAX = 8 << 20,  /* bytes of one read of several pages */
	GAPS_SHARE = 64,      /* of a shelf's reads 1/64 may be gaps: other processes' pages */
	SHELF_LEADS =
		256, /* a leaf page that leads to so many pages of values is not put on a shelf */
};

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Grows an array of elements of `size` bytes to hold one more. */
static bool make_room(void **array, size_t *room, size_t count, size_t size)
{
	size_t more = *room ? *room * 2 : 64;
	void *grown;

	if (count < *room)
		return true;
	grown = reallocarray(*array, more, size);
	if (!grown)
		return false;
	*array = grown;
	*room = more;
	return true;
}

static int add_leaf(struct counter *counter, uint64_t page, unsigned place, bool nested)
{
	struct index_part *part = &counter->part;
	void *leaves = part->leaves, *weights = part->weights;
	size_t room = part->room;

	if (counter->shelf) {
		if (!make_room(&weights, &room, part->count, sizeof(*part->weights)))
			return ENOMEM;
		part->weights = weights;
		part->weights[part->count] = (struct index_weight){0};
	}
	if (!make_room(&leaves, &part->room, part->count, sizeof(*part->leaves)))
		return ENOMEM;
	part->leaves = leaves;
	part->leaves[part->count++] = (struct index_leaf){
		.page = page & 0xffffffffffff,
		.place = place & 0x7fff,
		.nested = nested, .first = part->records};
	return 0;
}

static int add_owner(struct index_part *part, uint64_t page, unsigned place)
{
	void *owners = part->owners;

	if (!make_room(&owners, &part->owner_room, part->owner_count, sizeof(*part->owners)))
		return ENOMEM;
	part->owners = owners;
	part->owners[part->owner_count++] =
		(struct index_owner){.leaf = part->count, .page = page, .place = place};
	return 0;
}

void index_part_free(struct index_part *part)
{
	free(part->leaves);
	free(part->weights);
	free(part->owners);
	*part = (struct index_part){0};
}

/* Returns up to how many bytes between two pages are read with them. Where each process reads a
 * part for all of them, another process reads the gaps. */
static uint64_t gap_of(const struct counter *counter, const uint64_t *sorted, size_t n)
{
	unsigned shift = counter->snapshot.view.page_shift;
	uint64_t gaps = 0;

	if (!counter->shelf)
		return BRING_GAP;
	for (size_t i = 1; i < n; i++) {
		uint64_t gap = (sorted[i] - sorted[i - 1]) << shift;

		if (gap > UINT64_C(1) << shift && gap <= BRING_GAP)
			gaps += gap;
	}
	return gaps > ((uint64_t)n << shift) / GAPS_SHARE ? 0 : BRING_GAP;
}

int counter_bring(struct counter *counter, const uint64_t *numbers, size_t n)
{
	const struct window_view *view = &counter->snapshot.view;
	unsigned shift = view->page_shift;
	uint64_t *sorted, from, end, gap;
	int rc = 0;

	if (!view->runs || !n)
		return 0;
	sorted = malloc(n * sizeof(*sorted));
	if (!sorted)
		return ENOMEM;
	for (size_t i = 0; i < n; i++)
		sorted[i] = numbers[i];
	qsort(sorted, n, sizeof(*sorted), by_number);
	gap = gap_of(counter, sorted, n);
	for (size_t i = 0, next; i < n && sorted[i] < view->limit && !rc; i = next) {
		from = sorted[i] << shift;
		end = from + (UINT64_C(1) << shift);
		for (next = i + 1; next < n && sorted[next] < view->limit; next++) {
			uint64_t there = sorted[next] << shift;

			if (there > end + gap || there + (UINT64_C(1) << shift) > from + BRING_MAX)
				break;
			end = there + (UINT64_C(1) << shift);
		}
		if (!store_covers(view->runs, from, end - from))
			rc = store_bring(view->runs, from, end - from);
	}
	free(sorted);
	/* Pages that could not be brought are read again, one by one. */
	return rc == ENOMEM ? rc : 0;
}

int counter_branch(struct counter *counter, uint64_t number)
{
	const uint8_t *page;
	unsigned count;
	uint64_t child;
	int rc = tree_page(&counter->snapshot, number, &page, &count);

	if (!rc && !(page_flags(snapshot_layout(&counter->snapshot), page) & PAGE_BRANCH))
		rc = MDB_CORRUPTED;
	/* No tree has more pages than the file: a ring of branches ends here. */
	if (!rc && counter->part.count + count > counter->snapshot.view.limit)
		rc = MDB_CORRUPTED;
	for (unsigned i = 0; i < count && !rc; i++) {
		if (!page_child(snapshot_layout(&counter->snapshot), page,
				counter->snapshot.page_size, i, &child))
			return MDB_CORRUPTED;
		rc = add_leaf(counter, child, 0, false);
	}
	return rc;
}

int entry_records(const struct page_layout *layout, const struct tree *tree,
		  const struct entry *entry, uint64_t *records, struct tree_record *nested,
		  bool *is_tree)
{
	uint32_t pad;

	*records = 1;
	*is_tree = false;
	if (!(entry->flags & ENTRY_DUPS))
		return 0;
	if (!(tree->record.flags & MDB_DUPSORT) || entry->flags & ENTRY_BIG)
		return MDB_CORRUPTED;
	if (entry->flags & ENTRY_SUBTREE) {
		if (entry->data_size != TREE_SIZE)
			return MDB_CORRUPTED;
		tree_record_parse(nested, entry->data);
		*records = nested->entries;
		*is_tree = true;
		return nested->entries && nested->root != PAGE_NONE &&
				       nested->depth - 1u < FORMAT_DEPTH_MAX
			       ? 0
			       : MDB_CORRUPTED;
	}
	if (entry->data_size < layout->header)
		return MDB_CORRUPTED;
	*records = page_count(layout, entry->data, entry->data_size);
	pad = page_pad(layout, entry->data);
	if (page_flags(layout, entry->data) & PAGE_LEAF2 &&
	    !page_items_fit(layout, entry->data_size, (unsigned)*records, pad))
		return MDB_CORRUPTED;
	return *records ? 0 : MDB_CORRUPTED;
}

/* Adds bytes to the weight of the last leaf. */
static void weigh(struct counter *counter, bool kept, uint64_t bytes)
{
	struct index_weight *weight = &counter->part.weights[counter->part.count - 1];

	weight->all += bytes;
	weight->kept += kept ? bytes : 0;
}

/* Counts the pages of one level of a tree of duplicates, and the records below them. */
static int count_nested(struct counter *counter, const uint64_t *numbers, size_t n, unsigned depth)
{
	uint64_t *children = NULL;
	int rc = counter_bring(counter, numbers, n);

	for (size_t i = 0; i < n && !rc; i++) {
		const uint8_t *page;
		unsigned count;

		rc = tree_page(&counter->snapshot, numbers[i], &page, &count);
		if (!rc && (!(page_flags(snapshot_layout(&counter->snapshot), page) &
			      PAGE_BRANCH) != (depth == 1) ||
			    counter->pages++ > counter->snapshot.view.limit))
			rc = MDB_CORRUPTED;
		if (rc)
			break;
		if (depth == 1) {
			rc = add_leaf(counter, numbers[i], 0, true);
			counter->part.records += count;
			if (!rc && counter->shelf)
				weigh(counter, shelf_put(counter->shelf, numbers[i], page),
				      counter->snapshot.page_size);
			continue;
		}
		free(children);
		children = malloc(count * sizeof(*children));
		rc = children ? 0 : ENOMEM;
		for (unsigned j = 0; j < count && !rc; j++)
			if (!page_child(snapshot_layout(&counter->snapshot), page,
					counter->snapshot.page_size, j, &children[j]))
				rc = MDB_CORRUPTED;
		if (!rc)
			rc = count_nested(counter, children, count, depth - 1);
	}
	free(children);
	return rc;
}

/* Counts the entries of a leaf page in a database with duplicates. */
static int count_entries(struct counter *counter, uint64_t number, const uint8_t *page,
			 unsigned count)
{
	struct index_part *part = &counter->part;
	struct tree_record nested;
	bool open = false, is_tree, kept;
	uint64_t records, before;
	struct entry entry;
	int rc = 0;

	kept = counter->shelf && shelf_put(counter->shelf, number, page);
	for (unsigned i = 0; i < count && !rc; i++) {
		if (!page_leaf_entry(snapshot_layout(&counter->snapshot), page,
				     counter->snapshot.page_size, i, &entry))
			return MDB_CORRUPTED;
		rc = entry_records(snapshot_layout(&counter->snapshot), counter->tree, &entry,
				   &records, &nested, &is_tree);
		if (rc)
			return rc;
		if (!is_tree) {
			if (!open)
				rc = add_leaf(counter, number, i, false);
			open = true;
			part->records += records;
			if (!rc && counter->shelf)
				weigh(counter, kept, records * entry.key_size + entry.data_size);
			continue;
		}
		open = false;
		before = part->records;
		rc = add_owner(part, number, i);
		if (!rc)
			rc = count_nested(counter, &nested.root, 1, nested.depth);
		if (!rc && part->records - before != records)
			rc = MDB_CORRUPTED;
	}
	return rc;
}

/* Leaves out an entry that is not sound: reading its record reports it. */
static void weigh_leaf(struct counter *counter, uint64_t number, const uint8_t *page,
		       unsigned count)
{
	struct index_weight *weight = &counter->part.weights[counter->part.count - 1];
	uint32_t size = counter->snapshot.page_size;
	struct entry entry;

	for (unsigned i = 0; i < count; i++)
		if (page_leaf_entry(snapshot_layout(&counter->snapshot), page, size, i, &entry))
			weight->all += (uint64_t)entry.key_size + entry.data_size;
	if (weight->all < (uint64_t)size * SHELF_LEADS && shelf_put(counter->shelf, number, page))
		weight->kept = size;
}

int counter_leaf(struct counter *counter, uint64_t number)
{
	const uint8_t *page;
	unsigned count;
	int rc = tree_page(&counter->snapshot, number, &page, &count);

	if (!rc && (page_flags(snapshot_layout(&counter->snapshot), page) &
		    (PAGE_LEAF | PAGE_LEAF2)) != PAGE_LEAF)
		rc = MDB_CORRUPTED;
	if (rc)
		return rc;
	if (counter->tree->record.flags & MDB_DUPSORT)
		return count_entries(counter, number, page, count);
	rc = add_leaf(counter, number, 0, false);
	counter->part.records += count;
	if (!rc && counter->shelf)
		weigh_leaf(counter, number, page, count);
	return rc;
}
