/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds and brings the pages of many announced keys at once.
 *
 * All keys go down the tree side by side, as far as the pages are there. What is missing is asked
 * for in the order of the file, neighbours as one; as it comes they go on. What is announced by its
 * place begins at the leaf.
 */
#include "prefetch/prefetch_private.h"

#include "format/page.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 1 << 20, BATCH_GAP = 4 << 10 };
#define ENTRY_UNKNOWN UINT64_MAX
#define ENTRY_NONE    (UINT64_MAX - 1) /* the page alone is wanted */
#define ENTRY_FIRST   (UINT64_MAX - 2) /* the first one below the page */

struct pending {
	MDB_val key;
	uint64_t number; /* the page to look at next */
	uint64_t entry;  /* of a leaf page that is known, or ENTRY_UNKNOWN ... */
	unsigned depth;
	bool asked; /* for that page */
};

struct batch {
	struct batch *next;
	const struct snapshot *owner;
	struct snapshot snapshot; /* a view that does not wait */
	struct comparator order;
	size_t left;          /* keys not yet down */
	uint64_t landed;      /* reads that had come at the last round */
	bool moved;           /* the last round took a key on */
	size_t wanted, asked; /* ranges found, and given to the prefetch thread */
	struct wanted_range *ranges;
	uint8_t *bytes; /* of the keys */
	struct pending keys[];
};

static void batch_free(struct batch *batch)
{
	free(batch->ranges);
	free(batch->bytes);
	free(batch);
}

static int by_offset(const void *a, const void *b)
{
	const struct wanted_range *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Sorts and merges what one round has found. */
static void ranges_merge(struct batch *batch)
{
	size_t kept = 0;

	qsort(batch->ranges, batch->wanted, sizeof(*batch->ranges), by_offset);
	for (size_t i = 0; i < batch->wanted; i++) {
		struct wanted_range *range = &batch->ranges[i];
		struct wanted_range *last = kept ? &batch->ranges[kept - 1] : NULL;

		if (last && range->offset <= last->offset + last->length + BATCH_GAP) {
			uint64_t end = range->offset + range->length;

			if (end > last->offset + last->length)
				last->length = end - last->offset;
		} else {
			batch->ranges[kept++] = *range;
		}
	}
	batch->wanted = kept;
}

static void range_add(struct batch *batch, uint64_t number, uint64_t pages)
{
	const struct window_view *view = &batch->snapshot.view;

	if (number < view->limit && pages <= view->limit - number)
		batch->ranges[batch->wanted++] = (struct wanted_range){
			.offset = number << view->page_shift, .length = pages << view->page_shift};
}

/* A page of the tree. */
static void page_want(struct prefetch *prefetch, struct batch *batch, uint64_t number)
{
	const struct window_view *view = &batch->snapshot.view;

	if (number >= view->limit || !prefetch_want_tree(prefetch, number << view->page_shift,
							 (uint64_t)1 << view->page_shift))
		range_add(batch, number, 1);
}

/* The value of an entry whose leaf page is known. Returns as tree_step(). */
static int place_step(struct snapshot *snapshot, uint64_t wanted, uint64_t *number, uint64_t *pages,
		      enum tree_step *step)
{
	const uint8_t *page;
	struct entry entry;
	unsigned count;
	int rc = tree_page(snapshot, *number, &page, &count);

	*step = TREE_END;
	if (rc || wanted >= count || (page_flags(page) & (PAGE_LEAF | PAGE_LEAF2)) != PAGE_LEAF ||
	    !page_leaf_entry(page, snapshot->page_size, (unsigned)wanted, &entry))
		return rc;
	tree_run(snapshot, &entry, number, pages);
	if (*pages)
		*step = TREE_RUN;
	return 0;
}

/* From the page that a key has come to, one on. Returns as tree_step(). */
static int pending_step(struct batch *batch, struct pending *key, uint64_t *pages,
			enum tree_step *step)
{
	if (key->entry == ENTRY_FIRST)
		return tree_step_first(&batch->snapshot, &key->number, step);
	if (key->entry != ENTRY_UNKNOWN)
		return place_step(&batch->snapshot, key->entry, &key->number, pages, step);
	return tree_step(&batch->snapshot, &batch->order, &key->key, &key->number, pages, step);
}

/* Takes every key as far down as the pages are there. */
static void batch_round(struct prefetch *prefetch, struct batch *batch)
{
	size_t still = 0;

	batch->moved = false;
	batch->wanted = batch->asked = 0;
	for (size_t i = 0; i < batch->left; i++) {
		struct pending key = batch->keys[i];
		enum tree_step step = TREE_CHILD;
		uint64_t pages;
		int rc = 0;

		while ((step == TREE_CHILD || step == TREE_FIRST) && !rc &&
		       key.depth < 2 * FORMAT_DEPTH_MAX) {
			uint64_t here = key.number;

			rc = pending_step(batch, &key, &pages, &step);
			if (rc == EAGAIN) {
				if (!key.asked)
					page_want(prefetch, batch, here);
				batch->moved |= !key.asked;
				key.asked = true;
			} else {
				key.depth++;
				key.asked = false;
				if (step == TREE_FIRST)
					key.entry = ENTRY_FIRST;
				batch->moved = true;
			}
		}
		if (rc == EAGAIN)
			batch->keys[still++] = key;
		else if (!rc && step == TREE_RUN)
			range_add(batch, key.number, pages);
	}
	batch->left = still;
	ranges_merge(batch);
}

bool batches_advance(struct prefetch *prefetch)
{
	bool busy = false;

	for (struct batch **link = &prefetch->batches; *link;) {
		struct batch *batch = *link;

		while (batch->asked < batch->wanted &&
		       prefetch_want(prefetch, batch->ranges[batch->asked])) {
			batch->asked++;
			busy = true;
		}
		if (batch->asked < batch->wanted)
			return busy;
		if (!batch->left) {
			*link = batch->next;
			batch_free(batch);
			continue;
		}
		if (batch->landed != prefetch->landed || batch->moved) {
			batch->landed = prefetch->landed;
			batch_round(prefetch, batch);
			busy = true;
		} else if (!prefetch->ranges.count && !prefetch->later.count &&
			   !prefetch->trees.count && !prefetch->in_flight) {
			/* Nothing more will come: a read has failed, or there is no room. */
			batch->left = 0;
		} else {
			link = &batch->next;
		}
	}
	return busy;
}

void batches_free(struct prefetch *prefetch, const struct snapshot *owner)
{
	for (struct batch **link = &prefetch->batches; *link;) {
		struct batch *batch = *link;

		if (owner && batch->owner != owner) {
			link = &batch->next;
			continue;
		}
		*link = batch->next;
		batch_free(batch);
	}
}

/* A batch of n, and memory for so many bytes of keys. */
static struct batch *batch_new(struct snapshot *snapshot, size_t n, size_t bytes)
{
	struct batch *batch = calloc(1, sizeof(*batch) + n * sizeof(batch->keys[0]));

	if (!batch)
		return NULL;
	batch->bytes = malloc(bytes + 1);
	batch->ranges = malloc(n * sizeof(*batch->ranges));
	if (!batch->bytes || !batch->ranges) {
		batch_free(batch);
		return NULL;
	}
	batch->left = n;
	batch->moved = true;
	batch->owner = snapshot;
	batch->snapshot = *snapshot;
	batch->snapshot.watch = NULL;
	batch->snapshot.view.nowait = true;
	batch->snapshot.view.store = snapshot->view.runs;
	batch->snapshot.view.sure = NULL;
	return batch;
}

static struct batch *batch_of_keys(struct snapshot *snapshot, const struct tree *tree,
				   const struct comparator *order, const MDB_val *keys, size_t n)
{
	size_t bytes = 0, used = 0;
	struct batch *batch;

	for (size_t i = 0; i < n; i++)
		bytes += keys[i].mv_size;
	batch = batch_new(snapshot, n, bytes);
	if (!batch)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		memcpy(batch->bytes + used, keys[i].mv_data, keys[i].mv_size);
		batch->keys[i].key = (MDB_val){keys[i].mv_size, batch->bytes + used};
		batch->keys[i].number = tree->record.root;
		batch->keys[i].entry = ENTRY_UNKNOWN;
		used += keys[i].mv_size;
	}
	batch->order = *order;
	return batch;
}

/* Gives a batch to the prefetch thread. Returns 0 or an errno. */
static int batch_put(struct prefetch *prefetch, struct batch *batch)
{
	struct batch **link;
	int rc;

	store_guess(prefetch->store, GUESS_NOTHING);
	pthread_mutex_lock(&prefetch->lock);
	rc = prefetch_wake(prefetch);
	if (rc) {
		batch_free(batch);
	} else {
		for (link = &prefetch->batches; *link; link = &(*link)->next)
			;
		*link = batch;
		atomic_store(&prefetch->owned, true);
		prefetch->keys += batch->left;
		prefetch_announce(prefetch);
	}
	pthread_mutex_unlock(&prefetch->lock);
	return rc;
}

int prefetch_places(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		    const struct prefetch_place *places, size_t n)
{
	struct batch *batch;

	if (!n || tree->record.root == PAGE_NONE)
		return 0;
	if (n > KEYS_MAX)
		n = KEYS_MAX;
	batch = batch_new(snapshot, n, 0);
	if (!batch)
		return ENOMEM;
	for (size_t i = 0; i < n; i++) {
		batch->keys[i].number = places[i].page;
		batch->keys[i].entry = places[i].page_alone ? ENTRY_NONE : places[i].entry;
	}
	return batch_put(prefetch, batch);
}

int prefetch_keys(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		  const struct comparator *order, const MDB_val *keys, size_t n)
{
	struct batch *batch;

	if (!n || tree->record.root == PAGE_NONE)
		return 0;
	if (n > KEYS_MAX)
		n = KEYS_MAX;
	batch = batch_of_keys(snapshot, tree, order, keys, n);
	return batch ? batch_put(prefetch, batch) : ENOMEM;
}
