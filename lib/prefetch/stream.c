/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds out from the tree what a moving cursor will read.
 *
 * Two cursors walk in front of the program's. The scout goes along the branch pages above the
 * leaves and asks for leaf pages. The walker follows over the leaves that have come and asks for
 * the overflow runs of their values, in the order in which the program will want them. Neither
 * waits: where a page is missing, the walk goes on when the page has come.
 */
#include "prefetch/prefetch_private.h"

#include "cursor/cursor_private.h"

#include <errno.h>
#include <stdlib.h>

/* --- what a walk wants, as few and large requests --- */

enum {
	RANGES_SPARE = 8,     /* places in the queue that one more request may take */
	SCATTERED = 64 << 10, /* bytes a request, over so many requests: */
	SCATTERED_AFTER = 64,
	COPIED_NEAR = 4 << 20, /* bytes */
	SCATTERED_SHARE =
		4, /* of the chunks read then, at least one part in so many must be wanted */
};

bool queue_is_full(const struct prefetch *prefetch)
{
	return prefetch->engine.ranges.count >= AHEAD_RANGES - RANGES_SPARE;
}

/* Goes over to whole chunks for a tree that was written in no order. Each of its pages would be a
 * request, and the bytes between them are of this tree, too. */
static void stream_densify(struct prefetch *prefetch, struct stream *stream)
{
	if (stream->wants.bounded ||
	    stream->wants.requested / stream->wants.requests >= SCATTERED ||
	    stream->pages * SCATTERED_SHARE < stream->snapshot.view.pages ||
	    !store_holds_all(prefetch->store))
		return;
	stream->wants.dense = true;
	store_scan(prefetch->store, 1);
}

/* Pages that a leaf leads to, the leaf included. This is the average, for the first leaf and the
 * last may lead to far less. At least 1, whatever the record says. */
static uint64_t pages_of_leaf(const struct stream *stream)
{
	const struct tree_record *record = &stream->tree.record;
	uint64_t pages = stream->subtrees ? stream->pages : pages_of(record);

	pages /= record->leaf_pages ? record->leaf_pages : 1;
	return pages ? pages : 1;
}

/* Whether the walk needs no map: only the program looks at a value, and a page that lies near its
 * values will be read by the program soon. Between large values a chunk with a page of the tree
 * would leave memory before the program comes to the page. */
static bool is_copied(const struct stream *stream, enum want want)
{
	return want == WANT_VALUE ||
	       (stream->copies.bytes &&
		pages_of_leaf(stream) << stream->snapshot.view.page_shift < COPIED_NEAR);
}

/* Asks for bytes that a walk has come to; with `map` also for their page-table entries. Returns
 * false if the queue is full. Under the prefetch lock. */
static bool stream_want(struct prefetch *prefetch, struct stream *stream, enum want want,
			uint64_t offset, uint64_t length, bool map)
{
	struct want_last *asked = &stream->wants.last[want];
	uint64_t first = offset / ARENA_CHUNK, last = (offset + length - 1) / ARENA_CHUNK;

	if (!stream->wants.dense) {
		stream->wants.requested += length;
		if (++stream->wants.requests % SCATTERED_AFTER == 0)
			stream_densify(prefetch, stream);
		return prefetch_want(
			prefetch, (struct wanted_range){.offset = offset,
							.length = length,
							.map = map,
							.unmapped = !map && is_copied(stream, want),
							.whose = stream->whose});
	}
	/* In the order of the walk, so that two neighbours that share a chunk ask for it once. */
	for (uint64_t n = 0; n <= last - first; n++) {
		uint64_t chunk = stream->forward ? first + n : last - n;
		uint64_t start = chunk * ARENA_CHUNK, end = start + ARENA_CHUNK;
		bool map_now = map && chunk != asked->mapped;

		if (chunk == asked->chunk && !map_now)
			continue;
		if (end > store_size(prefetch->store))
			end = store_size(prefetch->store);
		if (start >= end ||
		    !prefetch_want(prefetch, (struct wanted_range){
						     .offset = start,
						     .length = end - start,
						     .map = map_now,
						     .unmapped = !map && is_copied(stream, want),
						     .whose = stream->whose}))
			return false;
		asked->chunk = chunk;
		if (map_now)
			asked->mapped = chunk;
	}
	return true;
}

bool stream_gathered(struct prefetch *prefetch, struct stream *stream, struct gathered *run)
{
	struct extent extent = run->extent;

	run->extent = (struct extent){0};
	return extent.from == extent.end || stream_want(prefetch, stream, run->want, extent.from,
							extent.end - extent.from, run->map);
}

bool stream_gather(struct prefetch *prefetch, struct stream *stream, struct gathered *run,
		   uint64_t number, uint64_t pages)
{
	const struct window_view *view = &stream->snapshot.view;
	uint64_t from = number << view->page_shift, end = from + (pages << view->page_shift);
	bool taken = true;

	if (number >= view->limit || pages > view->limit - number)
		return true; /* damage is the program's to find */
	if (run->extent.from == run->extent.end ||
	    !extent_join(&run->extent, from, end, gap_bytes(GAP_STREAM, NULL), UINT64_MAX)) {
		taken = stream_gathered(prefetch, stream, run);
		run->extent = (struct extent){from, end};
	}
	if (run->extent.end - run->extent.from >= ARENA_CHUNK)
		taken &= stream_gathered(prefetch, stream, run);
	return taken;
}

/* --- the walks --- */

enum {
	AHEAD_FIRST = 2 << 20,  /* bytes, while the length of the walk is unknown */
	AHEAD_MAPPED = 8 << 20, /* bytes, for a walk that finds all in memory */
	LEAVES_AHEAD = 64,      /* from walker to scout, when values are in overflow runs */
	RANGE_SHARE = 2,        /* an announced range may take so many times a cursor's share */
};

/* Whether a walk that maps bytes in memory maps the leaves; otherwise it maps the values that they
 * lead to. It maps the kind that takes more of the tree's pages: those of the other kind lie among
 * them, or are too few to matter. */
static bool maps_leaves(const struct stream *stream)
{
	const struct tree_record *record = &stream->tree.record;

	return stream->mapped && record->leaf_pages >= record->overflow_pages;
}

static bool maps_values(const struct stream *stream)
{
	return stream->mapped && !maps_leaves(stream);
}

static uint64_t ahead_limit(const struct prefetch *prefetch, const struct stream *stream,
			    uint64_t taken_bytes, uint64_t room)
{
	uint64_t limit = AHEAD_FIRST + 2 * taken_bytes;

	if (limit > room)
		limit = room;
	/* A walk that maps goes no farther until something is missing. */
	if (stream->mapped && !prefetch->engine.in_flight && limit > AHEAD_MAPPED)
		limit = AHEAD_MAPPED;
	if (!stream->cursor && !stream->lookup)
		return prefetch->options.ahead * RANGE_SHARE;
	return limit < prefetch->options.ahead ? limit : prefetch->options.ahead;
}

/* Bytes between the program and the walker, from their steps. */
static uint64_t bytes_ahead(const struct stream *stream, uint64_t taken)
{
	uint64_t steps = stream->steps > taken ? stream->steps - taken : 0;

	return stream->steps
		       ? clamp_u64((double)stream->bytes / (double)stream->steps * (double)steps)
		       : 0;
}

/* --- walking --- */

/* Takes a cursor one page on at its lowest level, or leaves it as it was. */
static int step_page(struct cursor *cursor, bool forward)
{
	struct page_copies *copies = cursor->snapshot->copies;
	struct cursor before = *cursor;
	int rc;

	copies->cursors[2] = &before;
	rc = cursor_sibling(cursor, forward);
	copies->cursors[2] = NULL;
	if (rc)
		*cursor = before;
	return rc;
}

/* Whether a key lies behind the end of an announced range. */
static bool is_behind(const struct stream *stream, const uint8_t *bytes, size_t size)
{
	MDB_val key = {.mv_size = size, .mv_data = (void *)(uintptr_t)bytes};

	return stream->to.mv_data && compare(&stream->order, &key, &stream->to) > 0;
}

/* Whether all of a leaf lies behind the end of an announced range, by the leaf's key in its branch
 * page; the first leaf has no key there. */
static bool leaf_is_behind(const struct stream *stream, const struct level *level)
{
	const uint8_t *key;
	uint32_t size;

	return stream->to.mv_data && level->index &&
	       page_entry_key(snapshot_layout(&stream->snapshot), level->page,
			      stream->scout.page_size, level->index, &key, &size) &&
	       is_behind(stream, key, size);
}

/* Moves the scout to the branch above the next leaf. Returns 0, EAGAIN (the branch was asked for)
 * or MDB_NOTFOUND. */
static int scout_step(struct prefetch *prefetch, struct stream *stream)
{
	struct level *level = cursor_top(&stream->scout);
	int rc = 0;

	if (stream->forward ? level->index + 1 < level->count : level->index > 0)
		level->index = (uint16_t)(stream->forward ? level->index + 1 : level->index - 1);
	else if (!(rc = step_page(&stream->scout, stream->forward)) && stream->branches_ahead)
		stream->branches_ahead--;
	if (rc == EAGAIN)
		stream_want(prefetch, stream, WANT_BRANCH, stream->snapshot.view.wanted_offset,
			    stream->snapshot.view.wanted_length, false);
	return rc;
}

/* Asks for the branches behind the scout's, which the branch above names. Where whole chunks come,
 * most of their leaves come along. Otherwise the scout would wait for one branch after another,
 * each only a chunk or so from the last. */
static void branches_want(struct prefetch *prefetch, struct stream *stream, uint64_t limit)
{
	const struct cursor *scout = &stream->scout;
	struct gathered run = {.want = WANT_BRANCH};
	const struct level *level, *above;
	uint64_t each, most;

	if (!stream->wants.dense || stream->big || stream->limited || stream->to.mv_data ||
	    scout->depth < 2)
		return;
	level = &scout->levels[scout->depth - 1];
	above = level - 1;
	each = (uint64_t)level->count << stream->snapshot.view.page_shift;
	most = limit / (each > ARENA_CHUNK ? each : ARENA_CHUNK);
	while (stream->branches_ahead < most && !queue_is_full(prefetch)) {
		unsigned step = stream->branches_ahead + 1;
		uint64_t number;

		if (stream->forward ? above->index + step >= above->count : above->index < step)
			break;
		if (!page_child(snapshot_layout(&stream->snapshot), above->page, scout->page_size,
				stream->forward ? above->index + step : above->index - step,
				&number) ||
		    !stream_gather(prefetch, stream, &run, number, 1))
			break;
		stream->branches_ahead++;
	}
	stream_gathered(prefetch, stream, &run);
}

/* Whether the program has passed the scout's leaf, and faulted for it. */
static bool scout_is_behind(const struct stream *stream, uint64_t taken)
{
	const struct level *level = &stream->walker.levels[stream->walker.depth - 1];

	return stream->steps + (uint64_t)stream->leaves_ahead * level->count < taken;
}

static void scout_advance(struct prefetch *prefetch, struct stream *stream, uint64_t limit,
			  uint64_t taken)
{
	uint64_t ahead = maps_leaves(stream) ? bytes_ahead(stream, taken) : 0;
	uint64_t most = (limit > ahead ? limit - ahead : 0) >> stream->snapshot.view.page_shift;
	uint64_t fit = (limit >> stream->snapshot.view.page_shift) / pages_of_leaf(stream);
	struct gathered run = {.want = WANT_LEAF};

	if (!stream->scout_done)
		branches_want(prefetch, stream, limit);
	/* Where leaves only lead to values elsewhere, a few leaves lead far. */
	if (stream->big || most < LEAVES_AHEAD)
		most = LEAVES_AHEAD;
	/* Where whole chunks come and memory cannot keep all, leaves are as far ahead as their
	 * values. */
	if (stream->wants.dense && !stream->held && most > 1 + fit)
		most = 1 + fit;
	while (!stream->scout_done && stream->leaves_ahead < most && !queue_is_full(prefetch)) {
		struct level *level;
		uint64_t leaf;
		bool map;
		int rc = scout_step(prefetch, stream);

		if (rc == EAGAIN)
			break;
		level = cursor_top(&stream->scout);
		if (rc || leaf_is_behind(stream, level) ||
		    !page_child(snapshot_layout(&stream->snapshot), level->page,
				stream->scout.page_size, level->index, &leaf)) {
			stream->scout_done = true;
			break;
		}
		map = maps_leaves(stream) && !scout_is_behind(stream, taken);
		if (map != run.map)
			stream_gathered(prefetch, stream, &run);
		run.map = map;
		stream_gather(prefetch, stream, &run, leaf, 1);
		stream->leaves_ahead++;
	}
	stream_gathered(prefetch, stream, &run);
}

static bool leaf_is_done(const struct stream *stream, const struct level *level)
{
	return level->flags & PAGE_LEAF2 ||
	       (stream->forward ? level->index >= level->count : level->index == UINT16_MAX);
}

/* Counts the rest of a leaf without a look at its entries. */
static void skip_leaf(struct stream *stream, struct level *level)
{
	unsigned index = level->index;
	uint64_t left = stream->forward ? level->count - index : index + 1;

	stream->steps += left;
	stream->bytes += stream->snapshot.page_size * left / level->count;
	level->index = stream->forward ? level->count : UINT16_MAX;
}

/* Skips entries that are not wanted, as far as the leaf goes. */
static void skip_entries(struct stream *stream, struct level *level)
{
	uint64_t left = (uint64_t)level->count - level->index;
	uint64_t n = stream->step.skip < left ? stream->step.skip : left;

	level->index = (uint16_t)(level->index + n);
	stream->step.skip -= n;
}

/* Asks for the values of the walker's leaf, from where the walker stands. Returns false when the
 * walker must stop for now. */
static bool walk_leaf(struct prefetch *prefetch, struct stream *stream, uint64_t limit,
		      uint64_t taken)
{
	struct cursor *walker = &stream->walker;
	struct level *level = cursor_top(walker);
	unsigned shift = stream->snapshot.view.page_shift;
	struct gathered run = {.want = WANT_VALUE, .map = maps_values(stream)};
	bool more = true;

	/* No entry leads to another page, and none can be the last one wanted. */
	if (!stream->tree.record.overflow_pages && !stream->to.mv_data && !stream->subtrees &&
	    stream->step.stride == 1) {
		skip_leaf(stream, level);
		return bytes_ahead(stream, taken) < limit;
	}
	while (more && !leaf_is_done(stream, level) && !queue_is_full(prefetch) &&
	       !subtrees_are_full(stream)) {
		struct entry entry;
		uint64_t bytes;

		if (stream->step.skip) {
			skip_entries(stream, level);
			continue;
		}
		if (!page_leaf_entry(snapshot_layout(&stream->snapshot), level->page,
				     walker->page_size, level->index, &entry))
			break;
		if (is_behind(stream, entry.key, entry.key_size)) {
			stream->walker_done = stream->scout_done = true;
			more = false;
			break;
		}
		if (entry.flags & ENTRY_BIG) {
			uint64_t number, pages;

			tree_run(&stream->snapshot, &entry, &number, &pages);
			/* The program has faulted for values that it has passed. */
			if (!stream->mapped || stream->steps >= taken)
				stream_gather(prefetch, stream, &run, number, pages);
			bytes = pages << shift;
			stream->big = true;
		} else if (stream->subtrees && entry.flags & ENTRY_SUBTREE) {
			bytes = subtrees_add(stream, &entry);
			stream->big = true;
		} else {
			bytes = ENTRY_KEY + entry.key_size + entry.data_size;
		}
		stream->bytes += stream->step.bytes ? stream->step.bytes : bytes;
		stream->steps++;
		stream->step.skip = stream->step.stride - 1;
		/* Before the first entry: an index that no leaf has. */
		level->index = (uint16_t)(stream->forward ? level->index + 1 : level->index - 1);
		more = bytes_ahead(stream, taken) < limit;
	}
	stream_gathered(prefetch, stream, &run);
	subtrees_advance(prefetch, stream);
	return more && !queue_is_full(prefetch) && !subtrees_are_full(stream);
}

/* A range has no program that takes steps, so at its limit it goes no farther. */
bool stream_is_over(const struct stream *stream)
{
	uint64_t limit = atomic_load_explicit(&stream->told.limit, memory_order_relaxed);

	return !stream->cursor && (stream->walker_done || bytes_ahead(stream, 0) >= limit) &&
	       (!stream->subtrees || !stream->subtrees->count);
}

/* Brings the walker of a range to its first leaf. Returns false as long as pages on the way are
 * missing. */
static bool range_place(struct prefetch *prefetch, struct stream *stream)
{
	struct cursor *walker = &stream->walker;
	bool found;
	int rc = cursor_descend(walker, stream->from.mv_data ? DESCEND_KEY : DESCEND_FIRST,
				&stream->from);

	if (rc == EAGAIN) {
		stream_want(prefetch, stream, WANT_BRANCH, stream->snapshot.view.wanted_offset,
			    stream->snapshot.view.wanted_length, false);
		return false;
	}
	if (!rc && stream->from.mv_data)
		rc = level_search(walker, cursor_top(walker), &stream->from, &found);
	else if (!rc)
		cursor_top(walker)->index = 0;
	if (rc) {
		stream->walker_done = true;
		return false;
	}
	stream->scout = *walker;
	stream->scout.depth--;
	stream->scout_done = walker->depth < 2;
	stream->pages += subtrees_estimate(walker);
	stream->placed = true;
	return true;
}

void levels_use(struct prefetch *prefetch, const struct cursor *cursor)
{
	for (unsigned i = 0; i < cursor->depth; i++)
		store_use(prefetch->store, cursor->levels[i].page);
}

/* Has a cursor of the walk stand on copies, where the store gives some: the window may show the
 * file again before the next step, which would then take a page fault. */
static void levels_copy(struct stream *stream, struct cursor *cursor)
{
	const struct window_view *view = &stream->snapshot.view;

	for (unsigned i = 0; i < cursor->depth; i++) {
		uint64_t number =
			(uint64_t)(cursor->levels[i].page - view->base) >> view->page_shift;
		const uint8_t *page;

		if (number < view->limit && !page_copy(&stream->snapshot, number, &page))
			cursor->levels[i].page = page;
	}
}

static void walk_copy(struct stream *stream)
{
	struct page_copies *copies = &stream->copies;

	if (!copies->bytes)
		copies->bytes = malloc((size_t)PAGE_COPIES * stream->snapshot.page_size);
	levels_copy(stream, &stream->walker);
	levels_copy(stream, &stream->scout);
}

/* Keeps the leaf that the scout has asked for last until the walker comes to it. Where values
 * follow one another, that leaf is far from what is read meanwhile. */
static void leaf_use(struct prefetch *prefetch, const struct stream *stream)
{
	const struct cursor *scout = &stream->scout;
	const struct window_view *view = &stream->snapshot.view;
	const struct level *level;
	uint64_t leaf;

	if (stream->scout_done || !scout->depth || !stream->leaves_ahead)
		return;
	level = &scout->levels[scout->depth - 1];
	if (page_child(snapshot_layout(&stream->snapshot), level->page, scout->page_size,
		       level->index, &leaf) &&
	    leaf < view->limit)
		store_use(prefetch->store, view->base + (leaf << view->page_shift));
}

void stream_advance(struct prefetch *prefetch, struct stream *stream)
{
	uint64_t taken = atomic_load_explicit(&stream->told.taken, memory_order_relaxed);
	uint64_t average = stream->steps ? stream->bytes / stream->steps : 0;
	uint64_t front = stream->wants.last[stream->big ? WANT_VALUE : WANT_LEAF].chunk;
	uint64_t room = store_ahead(prefetch->store, front, stream->forward);
	uint64_t limit = ahead_limit(prefetch, stream, taken * average, room);

	atomic_store_explicit(&stream->told.average, average, memory_order_relaxed);
	atomic_store_explicit(&stream->told.limit, limit, memory_order_relaxed);
	stream->limited = room < prefetch->options.ahead;
	stream->held = store_holds_all(prefetch->store);
	if (stream->placed && store_maps_few(prefetch->store))
		walk_copy(stream);
	if (!stream->held && stream->placed) {
		levels_use(prefetch, &stream->walker);
		levels_use(prefetch, &stream->scout);
		if (store_maps_few(prefetch->store))
			leaf_use(prefetch, stream);
	}

	if (!stream->placed && !range_place(prefetch, stream))
		return;
	subtrees_advance(prefetch, stream);
	while (!stream->walker_done && bytes_ahead(stream, taken) < limit &&
	       prefetch->engine.ranges.count < AHEAD_RANGES / 2) {
		struct level *level = cursor_top(&stream->walker);
		int rc;

		scout_advance(prefetch, stream, limit, taken);
		if (!leaf_is_done(stream, level)) {
			if (!walk_leaf(prefetch, stream, limit, taken))
				return;
			if (!leaf_is_done(stream, level)) {
				stream->walker_done = true; /* an entry that leaves its page */
				return;
			}
		}
		if (level->flags & PAGE_LEAF2) {
			stream->steps += level->count;
			stream->bytes += stream->snapshot.page_size;
		}
		rc = step_page(&stream->walker, stream->forward);
		if (rc == EAGAIN) {
			/* The page is a leaf that the scout has asked for; or a branch that the
			 * program found in the page cache, so that it was never brought. No read of
			 * that branch is in flight: the walker asks for it once. */
			const struct window_view *view = &stream->snapshot.view;

			/* Where memory cannot hold the file, the page may have left it. */
			stream->overtaken = stream->steps < taken && !stream->subtrees &&
					    store_maps_few(prefetch->store);
			if (store_shows_file(prefetch->store) &&
			    ahead_is_quiet(&prefetch->engine) &&
			    stream->wants.asked != view->wanted_offset &&
			    prefetch_want(prefetch,
					  (struct wanted_range){.offset = view->wanted_offset,
								.length = view->wanted_length,
								.whose = stream->whose}))
				stream->wants.asked = view->wanted_offset;
			return;
		}
		if (rc) {
			stream->walker_done = true;
			return;
		}
		if (stream->leaves_ahead)
			stream->leaves_ahead--;
	}
}
