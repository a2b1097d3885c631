/* SPDX-License-Identifier: OLDAP-2.8 */
/* Begins and ends a look-ahead, and sets the pace at which its program tells where it is. */
#include "prefetch/prefetch_private.h"

#include "cursor/cursor_private.h"
#include "util/stats.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
	PACES_PER_WINDOW = 16,   /* how often the program reports, per window of look-ahead */
	PROBE_AHEAD = 512 << 10, /* bytes */
	AGAIN_AFTER = 16 << 20,  /* bytes at most before looking again for anything to gain */
	DENSE_PERCENT = 90,
	FOLLOWERS = 8,          /* entries, or leaves, whose order is looked at */
	KERNEL_AHEAD = 2 << 20, /* bytes: a kernel that reads so far ahead, without a thread, is as
				   fast as any look-ahead, in huge folios too, and takes half the
				   processor time */
};

/* What a look-ahead would do for a program. */
enum gain {
	GAIN_NOTHING,
	GAIN_READS,  /* the next bytes are not in memory */
	GAIN_FAULTS, /* they are, but the program's page faults for them are expensive */
};

bool find_next(const struct prefetch *prefetch, const struct cursor *cursor, bool forward,
	       uint64_t *ret)
{
	const struct window_view *view = &cursor->snapshot->view;
	const struct level *level = &cursor->levels[cursor->depth - 1];
	const struct level *up = cursor->depth > 1 ? level - 1 : NULL;
	uint64_t number, offset;
	struct entry entry = {0};

	if (!(level->flags & PAGE_LEAF2) &&
	    !page_leaf_entry(snapshot_layout(cursor->snapshot), level->page, cursor->page_size,
			     level->index, &entry))
		return false;
	if (entry.flags & ENTRY_BIG) {
		number = load64(entry.data);
	} else if (entry.flags & ENTRY_DUPS && entry.data_size == TREE_SIZE &&
		   entry.flags & ENTRY_SUBTREE) {
		struct tree_record record;

		tree_record_parse(&record, entry.data);
		number = record.root;
	} else if (!up) {
		return false;
	} else if (forward ? up->index + 1 >= up->count : up->index == 0) {
		return false;
	} else if (!page_child(snapshot_layout(cursor->snapshot), up->page, cursor->page_size,
			       (unsigned)(forward ? up->index + 1 : up->index - 1), &number)) {
		return false;
	}
	if (number >= view->limit)
		number = view->limit - 1;
	offset = number << view->page_shift;
	/* Look behind the next bytes, which the kernel may have brought along. */
	if (forward)
		offset += offset + PROBE_AHEAD < store_size(prefetch->store) ? PROBE_AHEAD : 0;
	else
		offset -= offset > PROBE_AHEAD ? PROBE_AHEAD : 0;
	*ret = offset;
	return true;
}

/* Finds the page of the large value, or of the leaf, that is n places behind the cursor's. Returns
 * false if another page leads to it, or there is none. */
static bool page_behind(const struct cursor *cursor, bool big, unsigned n, uint64_t *number)
{
	const struct level *level = &cursor->levels[cursor->depth - 1];
	const struct level *up = cursor->depth > 1 ? level - 1 : NULL;
	struct entry entry;

	if (!big)
		return up && up->index + n < up->count &&
		       page_child(snapshot_layout(cursor->snapshot), up->page, cursor->page_size,
				  up->index + n, number);
	if (level->index + n >= level->count ||
	    !page_leaf_entry(snapshot_layout(cursor->snapshot), level->page, cursor->page_size,
			     level->index + n, &entry) ||
	    !(entry.flags & ENTRY_BIG))
		return false;
	*number = load64(entry.data);
	return true;
}

/* Whether the values or leaves behind a cursor's lie close behind it in the file. It looks at two,
 * and one is enough: here and there a free page was used again. */
static bool is_in_order(const struct cursor *cursor, unsigned page_shift)
{
	const struct level *level = &cursor->levels[cursor->depth - 1];
	uint64_t here, then;
	struct entry entry;
	bool big;

	if (level->flags & PAGE_LEAF2 ||
	    !page_leaf_entry(snapshot_layout(cursor->snapshot), level->page, cursor->page_size,
			     level->index, &entry))
		return false;
	big = entry.flags & ENTRY_BIG;
	if ((!big && (entry.flags & ENTRY_DUPS || cursor->depth < 2)) ||
	    !page_behind(cursor, big, 0, &here))
		return false;
	if (!page_behind(cursor, big, 1, &then))
		return big;
	for (unsigned n = 1; n <= FOLLOWERS; n += FOLLOWERS - 1)
		if (page_behind(cursor, big, n, &then) && then > here &&
		    ((then - here) << page_shift) / n <= KERNEL_AHEAD / 2)
			return true;
	return false;
}

uint64_t prefetch_kernel_ahead(struct prefetch *prefetch)
{
	uint64_t ahead;

	if (!prefetch->options.kernel)
		return 0;
	ahead = atomic_load_explicit(&prefetch->kernel_ahead, memory_order_relaxed);
	if (!ahead) {
		ahead = store_kernel_ahead(prefetch->store) + 1;
		atomic_store_explicit(&prefetch->kernel_ahead, ahead, memory_order_relaxed);
	}
	return ahead > KERNEL_AHEAD ? ahead - 1 : 0;
}

bool kernel_reads(struct prefetch *prefetch, const struct cursor *cursor)
{
	return prefetch->options.kernel &&
	       is_in_order(cursor, cursor->snapshot->view.page_shift) &&
	       prefetch_kernel_ahead(prefetch);
}

/* Tells what a look-ahead would gain: tries a few pages in memory, and for a scan some page
 * faults. */
static enum gain gain_try(struct prefetch *prefetch, struct cursor *cursor, bool forward)
{
	uint64_t offset;

	if (cursor->tree->pattern != PATTERN_UNKNOWN)
		return cursor->tree->pattern == PATTERN_RANDOM ? GAIN_NOTHING : GAIN_READS;
	if (!find_next(prefetch, cursor, forward, &offset))
		return GAIN_NOTHING;
	if (!store_idle(prefetch->store, offset, 1))
		return forward && kernel_reads(prefetch, cursor) ? GAIN_NOTHING : GAIN_READS;
	return faults_are_dear(prefetch, cursor, offset, forward) ? GAIN_FAULTS : GAIN_NOTHING;
}

/* The pages of a tree without those of its duplicates' trees. */
uint64_t pages_of(const struct tree_record *record)
{
	return record->branch_pages + record->leaf_pages + record->overflow_pages;
}

/* Not all of the snapshot is copied: other threads that share the transaction change its atomic
 * fields. */
struct snapshot snapshot_ahead(const struct snapshot *snapshot)
{
	const struct window_view *view = &snapshot->view;

	return (struct snapshot){
		.view = {.base = view->base,
			 .limit = view->limit,
			 .pages = view->pages,
			 .page_shift = view->page_shift,
			 .nowait = true,
			 .store = view->runs,
			 .runs = view->runs,
			 /* No page is taken without a call (window_locate()). */
			 .sure = view->runs ? store_sure(view->runs) : NULL,
			 .sums = view->sums},
		.page_size = snapshot->page_size,
		.format = snapshot->format,
		.blocked = snapshot->blocked,
		.serial = snapshot->serial,
		.answers = snapshot->answers,
	};
}

struct stream *stream_make(const struct snapshot *snapshot, const struct tree *tree, uint64_t pages,
			   bool forward, size_t key_bytes)
{
	size_t room = tree->record.flags & MDB_DUPSORT ? sizeof(struct subtrees) : 0;
	struct stream *stream = calloc(1, sizeof(*stream) + room + key_bytes);

	if (!stream)
		return NULL;
	if (room)
		stream->subtrees = (struct subtrees *)(stream + 1);
	stream->owner = snapshot;
	stream->whose = stream;
	stream->snapshot = snapshot_ahead(snapshot);
	stream->snapshot.copies = &stream->copies;
	stream->copies.cursors[0] = &stream->walker;
	stream->copies.cursors[1] = &stream->scout;
	stream->tree = *tree;
	stream->forward = forward;
	stream->step.stride = 1;
	stream->pages = pages;
	stream->wants.dense = pages * 100 >= stream->snapshot.view.pages * DENSE_PERCENT;
	stream->wants.asked = UINT64_MAX;
	for (unsigned i = 0; i < WANTS; i++)
		stream->wants.last[i] = (struct want_last){UINT64_MAX, UINT64_MAX};
	return stream;
}

/* Whether a program that goes over keys has gone through the duplicates of the last one. */
static bool steps_inside(const struct cursor *cursor)
{
	const struct cursor *inner = cursor->duplicates ? &cursor->duplicates->cursor : NULL;

	return inner && (inner->pace != inner->paced || inner->paced != CURSOR_PACE_FIRST);
}

/* Puts the walk where the program's cursor stands. */
static void walk_from(struct stream *stream, const struct cursor *cursor)
{
	stream->walker = *cursor;
	stream->walker.snapshot = &stream->snapshot;
	stream->walker.tree = &stream->tree;
	stream->walker.duplicates = NULL;
	stream->walker.ahead = NULL;
	stream->scout = stream->walker;
	stream->scout.depth--;
	stream->scout_done = !stream->scout.depth;
	stream->walker_done = false;
	stream->leaves_ahead = stream->branches_ahead = 0;
	stream->step.skip = 0;
	stream->placed = true;
}

static struct stream *stream_follow(struct cursor *cursor, bool forward)
{
	const struct cursor *outer = cursor_outer(cursor);
	const struct cursor *keys = outer ? outer : cursor;
	uint64_t pages = pages_of(&keys->tree->record) + subtrees_estimate(keys);
	struct stream *stream = stream_make(cursor->snapshot, cursor->tree, pages, forward, 0);

	if (!stream)
		return NULL;
	/* A program that has come so far without a step inside goes from key to key. */
	atomic_init(&stream->told.inside, outer || steps_inside(cursor));
	stream->cursor = cursor;
	walk_from(stream, cursor);
	return stream;
}

int stream_start(struct prefetch *prefetch, struct stream *stream)
{
	unsigned i;
	int rc = EAGAIN;

	pthread_mutex_lock(&prefetch->lock);
	for (i = 0; i < PREFETCH_STREAMS && prefetch->streams[i]; i++)
		;
	if (i < PREFETCH_STREAMS)
		rc = prefetch_wake(prefetch);
	if (!rc) {
		prefetch->streams[i] = stream;
		if (!stream->lookup)
			atomic_store(&prefetch->owned, true);
		stream->brought = prefetch->engine.brought;
		if (stream->wants.dense)
			store_scan(prefetch->store, 1);
		if (stream->cursor)
			stream->cursor->ahead = stream;
		if (stream->lookup)
			stream->lookup->ahead = stream;
	}
	pthread_mutex_unlock(&prefetch->lock);
	if (rc)
		free(stream);
	else
		stats_add(STATS_STREAMS_STARTED, 1);
	return rc;
}

static void key_keep(MDB_val *kept, const MDB_val *key, uint8_t *room)
{
	if (!key)
		return;
	if (key->mv_size)
		memcpy(room, key->mv_data, key->mv_size);
	*kept = (MDB_val){.mv_size = key->mv_size, .mv_data = room};
}

int prefetch_range(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		   const struct comparator *order, const MDB_val *first, const MDB_val *last)
{
	size_t from = first ? first->mv_size : 0, to = last ? last->mv_size : 0;
	struct stream *stream;
	uint8_t *keys;

	if ((first && !key_is_sane(snapshot, first)) || (last && !key_is_sane(snapshot, last)))
		return 0;
	if (tree->record.root == PAGE_NONE || (first && last && compare(order, first, last) > 0))
		return 0;
	stream = stream_make(snapshot, tree, pages_of(&tree->record), true, from + to + 2);
	if (!stream)
		return ENOMEM;
	keys = (uint8_t *)(stream + 1) + (stream->subtrees ? sizeof(*stream->subtrees) : 0);
	key_keep(&stream->from, first, keys);
	key_keep(&stream->to, last, keys + from + 1);
	atomic_init(&stream->told.inside, true);
	stream->order = *order;
	stream->whose = snapshot; /* the stream ends when it has asked for all that it wants */
	stream->walker.snapshot = &stream->snapshot;
	stream->walker.tree = &stream->tree;
	stream->walker.order = &stream->order;
	stream->walker.page_size = snapshot->page_size;
	/* The range's end is known, so its neighbours are not worth reading along. */
	stream->wants.bounded = first || last;
	stream->wants.dense = stream->wants.dense && !stream->wants.bounded;
	return stream_start(prefetch, stream);
}

void stream_free(struct prefetch *prefetch, struct stream *stream)
{
	uint64_t used = atomic_load(&stream->told.taken) * atomic_load(&stream->told.average);
	uint64_t brought = prefetch->engine.brought - stream->brought;

	/* Bytes that another stream has reported are not reported again. */
	if (brought > prefetch->engine.brought - prefetch->used)
		brought = prefetch->engine.brought - prefetch->used;
	if (used > stream->bytes)
		used = stream->bytes;
	/* The rest was in memory before. */
	if (used > brought)
		used = brought;
	prefetch->used += used;
	stats_add(STATS_PREFETCH_USED, used);
	if (stream->wants.dense)
		store_scan(prefetch->store, -1);
	if (stream->step.counted)
		store_step(prefetch->store, -1);
	if (stream->mapped)
		prefetch->engine.there.count = 0;
	free(stream->copies.bytes);
	free(stream);
}

int pace_of(const struct prefetch *prefetch, const struct stream *stream)
{
	uint64_t average = atomic_load_explicit(&stream->told.average, memory_order_relaxed);
	uint64_t limit = atomic_load_explicit(&stream->told.limit, memory_order_relaxed);
	uint64_t ahead = prefetch->options.ahead < limit ? prefetch->options.ahead : limit;
	uint64_t steps = ahead / PACES_PER_WINDOW / (average ? average : 1);
	uint64_t taken = atomic_load_explicit(&stream->told.taken, memory_order_relaxed);

	/* At first the window is small, and so must be the pace. */
	if (steps > taken / 2 + CURSOR_PACE_FIRST)
		steps = taken / 2 + CURSOR_PACE_FIRST;
	return steps < CURSOR_PACE_FIRST ? CURSOR_PACE_FIRST
	       : steps > 1 << 20         ? 1 << 20
					 : (int)steps;
}

/* The pace of a cursor with nothing to gain as yet. */
static int pace_alone(const struct cursor *cursor)
{
	uint64_t all, each = bytes_of_step(cursor, &all), most = AGAIN_AFTER / (each ? each : 1);
	int pace = cursor->paced < PREFETCH_PACE_COLD / 2 ? 2 * cursor->paced : PREFETCH_PACE_COLD;

	if (most < CURSOR_PACE_FIRST)
		most = CURSOR_PACE_FIRST;
	return (uint64_t)pace < most ? pace : (int)most;
}

static void stream_begin(struct prefetch *prefetch, struct cursor *cursor, bool forward)
{
	struct cursor *outer = cursor_outer(cursor);
	struct stream *stream = outer ? outer->ahead : NULL;
	enum gain gain;

	/* The duplicates come with the keys. */
	if (stream && subtree_comes_whole(stream, &cursor->tree->record)) {
		cursor->pace = cursor->paced = INT_MAX;
		return;
	}
	gain = gain_try(prefetch, cursor, forward);
	if (gain == GAIN_NOTHING) {
		cursor->pace = cursor->paced = pace_alone(cursor);
		return;
	}
	cursor->pace = cursor->paced = PREFETCH_PACE_COLD;
	stream = stream_follow(cursor, forward);
	if (stream)
		stream->mapped = gain == GAIN_FAULTS;
	if (stream && !stream_start(prefetch, stream))
		cursor->pace = cursor->paced = CURSOR_PACE_FIRST;
}

bool stream_drop(struct prefetch *prefetch, const void *stream)
{
	bool found = false;

	pthread_mutex_lock(&prefetch->lock);
	for (unsigned i = 0; i < PREFETCH_STREAMS && !found; i++)
		if (prefetch->streams[i] == stream) {
			/* Ranges of this stream that were not begun are of no use now; those of
			 * other streams are. */
			ahead_forget(&prefetch->engine, stream);
			stream_free(prefetch, prefetch->streams[i]);
			prefetch->streams[i] = NULL;
			found = true;
		}
	pthread_mutex_unlock(&prefetch->lock);
	return found;
}

/* Ends the stream of a cursor. */
static bool cursor_drop(struct prefetch *prefetch, struct cursor *cursor)
{
	const void *stream = cursor->ahead;

	cursor->ahead = NULL;
	return stream_drop(prefetch, stream);
}

/* Has the walk go on from the program's cursor, which has overtaken it. Under the prefetch lock. */
static void walk_again(struct stream *stream, const struct cursor *cursor)
{
	uint64_t taken = atomic_load_explicit(&stream->told.taken, memory_order_relaxed);

	stream->overtaken = false;
	if (stream->steps >= taken)
		return;
	stream->bytes +=
		(taken - stream->steps) * (stream->bytes / (stream->steps ? stream->steps : 1));
	stream->steps = taken;
	walk_from(stream, cursor);
}

void stream_moved(struct cursor_watch *watch, struct cursor *cursor, bool forward)
{
	UNCANCELLED;
	struct prefetch *prefetch = (struct prefetch *)watch;
	struct stream *stream = cursor->ahead;

	levels_use(prefetch, cursor);
	if (!stream) {
		stream_begin(prefetch, cursor, forward);
		return;
	}
	if (atomic_load_explicit(&stream->told.vain, memory_order_relaxed)) {
		/* What comes next may be worth another stream. */
		cursor_drop(prefetch, cursor);
		cursor->pace = cursor->paced = CURSOR_PACE_FIRST;
		cursor->seen.at = 0;
		return;
	}
	/* A program that reads a page at a time may have taken more steps than the pace gave it. */
	atomic_fetch_add_explicit(&stream->told.taken, (uint64_t)(cursor->paced - cursor->pace),
				  memory_order_relaxed);
	if (cursor->duplicates)
		atomic_store_explicit(&stream->told.inside, steps_inside(cursor),
				      memory_order_relaxed);
	cursor->pace = cursor->paced = pace_of(prefetch, stream);
	/* If the prefetch lock is held, the prefetch thread has it and is awake. */
	if (!pthread_mutex_trylock(&prefetch->lock)) {
		if (stream->overtaken)
			walk_again(stream, cursor);
		crew_wake(&prefetch->crew);
		pthread_mutex_unlock(&prefetch->lock);
	}
}

/* Whether nothing lies ahead of a cursor any more. */
static bool is_at_end(const struct cursor *cursor)
{
	for (unsigned i = 0; i < cursor->depth; i++) {
		const struct level *level = &cursor->levels[i];

		if (cursor->forward ? level->index + 1 < level->count : level->index > 0)
			return false;
	}
	return true;
}

void stream_left(struct cursor_watch *watch, struct cursor *cursor)
{
	UNCANCELLED;
	bool ended = is_at_end(cursor);

	if (cursor_drop((struct prefetch *)watch, cursor) && !ended)
		stats_add(STATS_STREAMS_BROKEN, 1);
}
