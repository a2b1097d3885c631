/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads ahead of a program that looks records up by their keys, in equal steps.
 *
 * The walk is a stream's, but it goes on in the program's thread, each time that the program has
 * come some records further. A program that begins a transaction for each record holds no snapshot
 * between two of them, and no thread may look at its pages then. The prefetch thread still does the
 * reads.
 */
#include "prefetch/prefetch_private.h"

#include "cursor/cursor_private.h"
#include "util/stats.h"

#include <stdlib.h>

enum {
	PROBE_STEPS = 4,   /* records ahead that are looked for in memory */
	SCANNERS_SHARE = 2 /* one part in so many of what is read may be wanted by no process */
};

/* Brings the walk to the record that the program has found, along pages that it has just read,
 * wherever these are. Returns false if the record is gone. */
static bool walk_place(struct stream *stream, struct snapshot *snapshot, const MDB_val *key)
{
	struct cursor *walker = &stream->walker;
	bool found;

	walker->snapshot = snapshot;
	walker->tree = &stream->tree;
	walker->order = &stream->order;
	walker->page_size = stream->snapshot.page_size;
	if (cursor_descend(walker, DESCEND_KEY, key) || cursor_top(walker)->flags & PAGE_LEAF2 ||
	    level_search(walker, cursor_top(walker), key, &found) || !found)
		return false;
	walker->snapshot = &stream->snapshot;
	stream->scout = *walker;
	stream->scout.depth--;
	stream->scout_done = !stream->scout.depth;
	stream->placed = true;
	return true;
}

/* Finds where one of the next records is. Returns false if only the next leaf can tell. */
static bool find_step(const struct prefetch *prefetch, const struct stream *stream,
		      uint64_t *offset)
{
	const struct cursor *walker = &stream->walker;
	const struct window_view *view = &stream->snapshot.view;
	const struct level *level = &walker->levels[walker->depth - 1];
	uint64_t index = level->index + PROBE_STEPS * stream->step.stride;
	struct entry entry;

	if (stream->step.stride == 1 || index >= level->count)
		return find_next(prefetch, walker, true, offset);
	if (!page_leaf_entry(snapshot_layout(&stream->snapshot), level->page, walker->page_size,
			     (unsigned)index, &entry) ||
	    !(entry.flags & ENTRY_BIG) || load64(entry.data) >= view->limit)
		return false;
	*offset = load64(entry.data) << view->page_shift;
	return true;
}

/* Decides whether the bytes between the records come along. They do where the records lie in the
 * leaves, or too close together to leave bytes out, or where enough processes of the node want
 * them. Under the prefetch lock. */
static void density_set(struct prefetch *prefetch, struct stream *stream)
{
	const struct tree_record *record = &stream->tree.record;
	uint64_t bytes = pages_of(record) << stream->snapshot.view.page_shift;
	uint64_t each = bytes / (record->entries ? record->entries : 1);
	bool near = record->overflow_pages < record->leaf_pages ||
		    (stream->step.stride - 1) * each <= gap_bytes(GAP_STREAM, NULL);
	bool dense =
		stream->wants.whole &&
		(near || SCANNERS_SHARE * store_scanners(prefetch->store) > stream->step.stride);

	if (stream->step.stride == 1)
		return;
	stream->step.bytes = dense || near ? stream->step.stride * each : 0;
	if (dense == stream->wants.dense)
		return;
	stream->wants.dense = dense;
	store_scan(prefetch->store, dense ? 1 : -1);
}

/* Whether nothing has to be read for the next records, or the kernel reads it. */
static bool needs_nothing(struct prefetch *prefetch, const struct stream *stream)
{
	uint64_t offset;

	return !find_step(prefetch, stream, &offset) || store_idle(prefetch->store, offset, 1) ||
	       (stream->step.stride == 1 && kernel_reads(prefetch, &stream->walker));
}

static struct stream *look_ahead(struct prefetch *prefetch, struct snapshot *snapshot,
				 struct tree *tree, const struct comparator *order,
				 const MDB_val *key, struct lookup *lookup)
{
	struct stream *stream = stream_make(snapshot, tree, pages_of(&tree->record), true, 0);

	if (!stream)
		return NULL;
	stream->order = *order;
	stream->lookup = lookup;
	stream->step.stride = lookup->step;
	if (!walk_place(stream, snapshot, key) ||
	    (tree->pattern == PATTERN_UNKNOWN && needs_nothing(prefetch, stream))) {
		free(stream);
		return NULL;
	}
	stream->wants.whole = stream->wants.dense;
	stream->wants.bounded = stream->step.stride > 1;
	stream->wants.dense &= !stream->wants.bounded;
	if (stream_start(prefetch, stream))
		return NULL;
	/* No other thread looks into the stream. */
	stream->step.counted = stream->step.stride > 1;
	if (stream->step.counted)
		store_step(prefetch->store, 1);
	return stream;
}

void stream_looked_up(struct cursor_watch *watch, struct snapshot *snapshot, struct tree *tree,
		      const struct comparator *order, const MDB_val *key, struct lookup *lookup)
{
	UNCANCELLED;
	struct prefetch *prefetch = (struct prefetch *)watch;
	struct stream *stream = lookup->ahead;

	if (stream)
		atomic_fetch_add_explicit(&stream->told.taken,
					  (uint64_t)(lookup->paced - lookup->pace),
					  memory_order_relaxed);
	else if (tree->pattern != PATTERN_RANDOM)
		stream = look_ahead(prefetch, snapshot, tree, order, key, lookup);
	if (!stream) {
		lookup->paced =
			lookup->paced < PREFETCH_PACE_COLD ? 2 * lookup->paced : PREFETCH_PACE_COLD;
		lookup->pace = lookup->paced;
		return;
	}
	/* The prefetch thread is at work: try again a few records later. */
	if (pthread_mutex_trylock(&prefetch->lock)) {
		lookup->pace = lookup->paced = CURSOR_PACE_FIRST;
		return;
	}
	density_set(prefetch, stream);
	stream_advance(prefetch, stream);
	if (prefetch->engine.ranges.count)
		crew_wake(&prefetch->crew);
	pthread_mutex_unlock(&prefetch->lock);
	lookup->pace = lookup->paced = pace_of(prefetch, stream);
}

void stream_lost(struct cursor_watch *watch, struct lookup *lookup)
{
	UNCANCELLED;
	const void *stream = lookup->ahead;

	lookup->ahead = NULL;
	if (stream_drop((struct prefetch *)watch, stream))
		stats_add(STATS_STREAMS_BROKEN, 1);
}
