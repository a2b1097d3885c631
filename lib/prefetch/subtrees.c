/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings the duplicates of keys along with the keys.
 *
 * Many duplicates of one key are a tree of their own. If a program goes through them, the trees
 * that are not too large come as wholes, many side by side, level by level, because each page names
 * its children. If it goes from key to key, and for larger trees, the way to the first value comes
 * (to the last one, for a backward walk).
 */
#include "prefetch/prefetch_private.h"

#include "cursor/cursor_private.h"

enum {
	WHOLE_MOST = 1 << 20,  /* bytes of a tree that comes as a whole, */
	WHOLE_SHARE = 4,       /* and at most one part in so many of what may be ahead */
	LONE_FROM = 256 << 10, /* bytes of a tree: from so many on, its first value comes alone */
	SPARE = 64,            /* places that are left to the pages below the trees' roots */
};

static uint64_t bytes_of(const struct stream *stream, const struct tree_record *record)
{
	return (record->branch_pages + record->leaf_pages) << stream->snapshot.view.page_shift;
}

bool subtree_comes_whole(const struct stream *stream, const struct tree_record *record)
{
	uint64_t limit = atomic_load_explicit(&stream->told.limit, memory_order_relaxed);
	uint64_t bytes = bytes_of(stream, record);

	return bytes <= WHOLE_MOST && bytes <= limit / WHOLE_SHARE;
}

bool subtrees_are_full(const struct stream *stream)
{
	return stream->subtrees && stream->subtrees->count >= PREFETCH_SUBTREES - SPARE;
}

static void page_put(struct subtrees *subtrees, struct subtree_page page)
{
	if (subtrees->count < PREFETCH_SUBTREES)
		subtrees->pages[(subtrees->first + subtrees->count++) % PREFETCH_SUBTREES] = page;
}

static struct subtree_page page_take(struct subtrees *subtrees)
{
	struct subtree_page page = subtrees->pages[subtrees->first];

	subtrees->first = (subtrees->first + 1) % PREFETCH_SUBTREES;
	subtrees->count--;
	return page;
}

uint64_t subtrees_add(struct stream *stream, const struct entry *entry)
{
	bool inside = atomic_load_explicit(&stream->told.inside, memory_order_relaxed);
	struct tree_record record;
	uint64_t bytes;

	if (entry->data_size != TREE_SIZE)
		return 0; /* damage is the program's to find */
	tree_record_parse(&record, entry->data);
	if (!record.depth || record.depth > FORMAT_DEPTH_MAX)
		return 0;
	bytes = bytes_of(stream, &record);
	page_put(stream->subtrees,
		 (struct subtree_page){.number = record.root,
				       .below = (uint16_t)(record.depth - 1),
				       .edge = !inside || !subtree_comes_whole(stream, &record),
				       .lone = !inside && bytes >= LONE_FROM});
	/* The rest of a larger tree has a look-ahead of its own. */
	return inside ? bytes : (uint64_t)record.depth << stream->snapshot.view.page_shift;
}

static void page_want(struct prefetch *prefetch, struct stream *stream, struct gathered *run,
		      struct subtree_page *at)
{
	const struct window_view *view = &stream->snapshot.view;

	at->asked = true;
	if (!at->lone)
		stream_gather(prefetch, stream, run, at->number, 1);
	else if (at->number < view->limit)
		prefetch_want(prefetch,
			      (struct wanted_range){.offset = at->number << view->page_shift,
						    .length = (uint64_t)1 << view->page_shift,
						    .whose = stream->whose});
}

/* Asks for the children of a page that has come, and keeps those that lead on. */
static void page_open(struct prefetch *prefetch, struct stream *stream, struct gathered *run,
		      const struct subtree_page *at, const uint8_t *page, unsigned count)
{
	unsigned first = at->edge && !stream->forward ? count - 1 : 0;
	unsigned end = at->edge ? first + 1 : count;

	if (!(page_flags(snapshot_layout(&stream->snapshot), page) & PAGE_BRANCH) || !at->below)
		return;
	for (unsigned i = first; i < end; i++) {
		unsigned n = stream->forward ? i : first + end - 1 - i;
		struct subtree_page child = *at;

		child.below--;
		if (!page_child(snapshot_layout(&stream->snapshot), page,
				stream->snapshot.page_size, n, &child.number))
			return;
		page_want(prefetch, stream, run, &child);
		if (child.below)
			page_put(stream->subtrees, child);
	}
}

void subtrees_advance(struct prefetch *prefetch, struct stream *stream)
{
	struct subtrees *subtrees = stream->subtrees;
	struct gathered run = {.want = WANT_SUBTREE, .map = stream->mapped};

	if (!subtrees || !subtrees->count)
		return;
	for (unsigned n = subtrees->count; n && !queue_is_full(prefetch); n--) {
		struct subtree_page at = page_take(subtrees);
		const uint8_t *page;
		unsigned count;
		int rc = tree_page(&stream->snapshot, at.number, &page, &count);

		if (!rc) {
			page_open(prefetch, stream, &run, &at, page, count);
		} else if (rc == EAGAIN && (!at.asked || !ahead_is_quiet(&prefetch->engine))) {
			if (!at.asked)
				page_want(prefetch, stream, &run, &at);
			page_put(subtrees, at);
		}
	}
	stream_gathered(prefetch, stream, &run);
}

uint64_t subtrees_estimate(const struct cursor *cursor)
{
	const struct tree_record *record = &cursor->tree->record;
	const struct level *level;
	uint64_t pages = 0, values = 0;

	if (!(record->flags & MDB_DUPSORT) || !cursor->depth)
		return 0;
	level = &cursor->levels[cursor->depth - 1];
	for (unsigned i = 0; i < level->count; i++) {
		struct tree_record one;
		struct entry entry;

		if (!page_leaf_entry(snapshot_layout(cursor->snapshot), level->page,
				     cursor->page_size, i, &entry))
			break;
		values++;
		if (!(entry.flags & ENTRY_SUBTREE) || entry.data_size != TREE_SIZE)
			continue;
		tree_record_parse(&one, entry.data);
		pages += one.branch_pages + one.leaf_pages;
		values += one.entries - 1;
	}
	/* The numbers of a damaged file may be anything. */
	return clamp_u64((double)pages / (double)(values ? values : 1) * (double)record->entries);
}
