/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings the rest of a branch page's children, after lookups in no order have waited for some.
 *
 * The next random lookup is unknown, but the pages on its way are few: a leaf page with references
 * to values outside it leads to a hundred values, a branch page to a hundred pages. A lookup waits
 * for each page by itself. Read side by side, all of them take as long as a few waits. So the rest
 * is read when lookups have waited as long (the ski-rental rule: Karlin et al., Algorithmica 3,
 * 1988). Each branch page has its own count. Leaf pages that hold values are data: they are not
 * read.
 */
#include "prefetch/prefetch_private.h"

#include "format/page.h"

#include <string.h>

enum {
	WAITS_LEAST = 4,
	WAITS_SHARE = 8, /* one wait for so many children is enough */
	INDEX_SHARE = 8, /* with so many pages of values per leaf page, leaf pages count as index */
};

static bool is_missed(const struct window_view *view, uint64_t number)
{
	unsigned n = atomic_load_explicit(&view->misses, memory_order_relaxed);

	n = n < WINDOW_MISSED ? n : WINDOW_MISSED;
	while (n--)
		if (atomic_load_explicit(&view->missed[n], memory_order_relaxed) == number)
			return true;
	return false;
}

/* Counts a wait below a branch page with so many children. Returns whether the other children are
 * due. Under the prefetch lock. */
static bool are_due(struct prefetch *prefetch, uint64_t page, unsigned children)
{
	struct waited_branch *branch = &prefetch->branches[page % SIBLINGS_BRANCHES];
	int enough = (int)(children / WAITS_SHARE);

	if (branch->page != page)
		*branch = (struct waited_branch){.page = page};
	if (++branch->waits < (enough > WAITS_LEAST ? enough : WAITS_LEAST))
		return false;
	/* Memory may lose the children: after as many waits they are read again. */
	branch->waits = -(int)children;
	return true;
}

/* Whether a page of a tree leads to others or to values elsewhere. */
static bool is_index(const struct snapshot *snapshot, const struct tree_record *record,
		     const uint8_t *page)
{
	return page_flags(snapshot_layout(snapshot), page) & PAGE_BRANCH ||
	       record->overflow_pages / INDEX_SHARE >= record->leaf_pages;
}

/* Finds where a child of a branch page stands in the file. Returns false for damage, which the
 * program is to find. */
static bool child_find(const struct snapshot *snapshot, const uint8_t *page, unsigned i,
		       uint64_t *offset)
{
	const struct window_view *view = &snapshot->view;
	uint64_t number;

	if (!page_child(snapshot_layout(snapshot), page, snapshot->page_size, i, &number) ||
	    number >= view->limit)
		return false;
	*offset = number << view->page_shift;
	return true;
}

/* Asks for the pages below a branch page. Where the kernel reads while the program goes on, the
 * prefetch thread would only cost: for 830 leaf pages 60 ms of processor time, and 3,300 context
 * switches. Under no lock. */
static void children_want(struct prefetch *prefetch, const struct snapshot *snapshot,
			  const uint8_t *page, unsigned count)
{
	const struct window_view *view = &snapshot->view;
	struct wanted_range range = {.length = (uint64_t)1 << view->page_shift};
	unsigned i = 0;
	bool begins = store_begins(prefetch->store), awake;

	while (begins && i < count && child_find(snapshot, page, i, &range.offset) &&
	       ((view->sure && store_is_sure(view->sure, range.offset)) ||
		store_begin(prefetch->store, range.offset, range.length)))
		i++;
	if (i == count)
		return;
	pthread_mutex_lock(&prefetch->lock);
	awake = !prefetch_wake(prefetch);
	for (; awake && i < count && child_find(snapshot, page, i, &range.offset); i++)
		if (!prefetch_want(prefetch, range))
			break;
	pthread_mutex_unlock(&prefetch->lock);
}

/* A lookup has waited for the page `child` below `parent`. */
static void child_missed(struct prefetch *prefetch, struct snapshot *snapshot,
			 const struct tree *tree, uint64_t parent, uint64_t child)
{
	const uint8_t *page, *below;
	unsigned count, unused;
	bool due;

	if (tree_page(snapshot, parent, &page, &count) ||
	    tree_page(snapshot, child, &below, &unused) ||
	    !is_index(snapshot, &tree->record, below))
		return;
	/* The prefetch thread is at work: the next wait counts. */
	if (pthread_mutex_trylock(&prefetch->lock))
		return;
	due = are_due(prefetch, parent, count);
	pthread_mutex_unlock(&prefetch->lock);
	if (due)
		children_want(prefetch, snapshot, page, count);
}

void siblings_missed(struct cursor_watch *watch, struct snapshot *snapshot, const struct tree *tree,
		     const struct comparator *order, const MDB_val *key)
{
	UNCANCELLED;
	struct prefetch *prefetch = (struct prefetch *)watch;
	enum tree_step step = TREE_CHILD;
	uint64_t number = tree->record.root, parent, pages;

	/* A container's tree pages come out of its index by themselves. Where neighbours are read
	 * along, one request more for each leaf page would gain little. */
	if (store_reads_around(prefetch->store))
		return;
	for (unsigned depth = 0; depth < FORMAT_DEPTH_MAX; depth++) {
		parent = number;
		if (tree_step(snapshot, order, key, &number, &pages, &step) || step != TREE_CHILD)
			return;
		if (is_missed(&snapshot->view, number))
			child_missed(prefetch, snapshot, tree, parent, number);
	}
}
