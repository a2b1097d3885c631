/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds and brings the pages of many announced keys at once.
 *
 * All keys go down the tree side by side, as far as its pages are in memory. Missing pages are
 * asked for in the order of the file, neighbours as one; as they come, the keys go on. An announced
 * place begins at its leaf.
 */
#include "prefetch/prefetch_private.h"

#include "format/page.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	KEYS_MAX = 1 << 20,         /* of an announcement */
	WAITING_MAX = 2 * KEYS_MAX, /* of all, but the first */
	KEYS_OF_ONE = 8, /* keys that take as much memory as an announcement without any */
};
#define ENTRY_UNKNOWN UINT64_MAX
#define ENTRY_NONE    (UINT64_MAX - 1) /* the page alone is wanted */
#define ENTRY_FIRST   (UINT64_MAX - 2) /* the first entry below the page */

struct pending {
	MDB_val key;
	uint64_t number; /* the page to look at next */
	uint64_t entry;  /* of a leaf page that is known, or ENTRY_UNKNOWN ... */
	unsigned depth;
	bool asked; /* the page was asked for */
};

struct announcement {
	struct announcement *next;
	size_t weight; /* its part of prefetch->waiting */
	const struct snapshot *owner;
	struct snapshot snapshot; /* a view that does not wait */
	struct comparator order;
	size_t left;          /* keys that are not yet down */
	uint64_t landed;      /* reads that had come at the last round */
	bool moved;           /* the last round took a key further */
	size_t wanted, asked; /* ranges found, and given to the prefetch thread */
	uint64_t bytes_wanted; /* in all rounds */
	struct wanted_range *ranges;
	uint8_t *bytes; /* of the keys */
	struct pending keys[];
};

static void announcement_free(struct announcement *announcement)
{
	free(announcement->ranges);
	free(announcement->bytes);
	free(announcement);
}

/* Takes an announcement out of the list, and frees it. */
static void announcement_end(struct prefetch *prefetch, struct announcement **link)
{
	struct announcement *announcement = *link;

	*link = announcement->next;
	if (!*link)
		prefetch->announcements_end = link;
	prefetch->waiting -= announcement->weight;
	announcement_free(announcement);
}

static int by_offset(const void *a, const void *b)
{
	const struct wanted_range *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Sorts and merges what one round has found. */
static void ranges_merge(struct announcement *announcement)
{
	size_t kept = 0;

	qsort(announcement->ranges, announcement->wanted, sizeof(*announcement->ranges), by_offset);
	for (size_t i = 0; i < announcement->wanted; i++) {
		struct wanted_range *range = &announcement->ranges[i];
		struct wanted_range *last = kept ? &announcement->ranges[kept - 1] : range;
		struct extent extent = {last->offset, last->offset + last->length};

		if (kept && extent_join(&extent, range->offset, range->offset + range->length,
					gap_bytes(GAP_KEYS, NULL), UINT64_MAX)) {
			last->length = extent.end - last->offset;
			last->for_others &= range->for_others;
		} else {
			announcement->ranges[kept++] = *range;
		}
	}
	announcement->wanted = kept;
}

static void range_add(struct announcement *announcement, uint64_t number, uint64_t pages,
		      bool for_others)
{
	const struct window_view *view = &announcement->snapshot.view;

	if (number < view->limit && pages <= view->limit - number)
		announcement->ranges[announcement->wanted++] =
			(struct wanted_range){.offset = number << view->page_shift,
					      .length = pages << view->page_shift,
					      .for_others = for_others,
					      .whose = announcement->owner};
}

/* Asks for a page of the tree. */
static void page_want(struct prefetch *prefetch, struct announcement *announcement, uint64_t number)
{
	const struct window_view *view = &announcement->snapshot.view;

	if (number >= view->limit || !ahead_want_tree(&prefetch->engine, number << view->page_shift,
						      (uint64_t)1 << view->page_shift))
		range_add(announcement, number, 1, false);
}

/* Finds the value of an entry whose leaf page is known. Returns as tree_step(). */
static int place_step(struct snapshot *snapshot, uint64_t wanted, uint64_t *number, uint64_t *pages,
		      enum tree_step *step)
{
	const struct page_layout *layout = snapshot_layout(snapshot);
	const uint8_t *page;
	struct entry entry;
	unsigned count;
	int rc = tree_page(snapshot, *number, &page, &count);

	*step = TREE_END;
	if (rc || wanted >= count ||
	    (page_flags(layout, page) & (PAGE_LEAF | PAGE_LEAF2)) != PAGE_LEAF ||
	    !page_leaf_entry(layout, page, snapshot->page_size, (unsigned)wanted, &entry))
		return rc;
	tree_run(snapshot, &entry, number, pages);
	if (*pages)
		*step = TREE_RUN;
	return 0;
}

/* Takes a key one page on. Returns as tree_step(). */
static int pending_step(struct announcement *announcement, struct pending *key, uint64_t *pages,
			enum tree_step *step)
{
	if (key->entry == ENTRY_FIRST)
		return tree_step_first(&announcement->snapshot, &key->number, step);
	if (key->entry != ENTRY_UNKNOWN)
		return place_step(&announcement->snapshot, key->entry, &key->number, pages, step);
	return tree_step(&announcement->snapshot, &announcement->order, &key->key, &key->number,
			 pages, step);
}

/* Drops what memory would not keep until this process reads it: records that evict each other are
 * read twice. If several transactions announce, those that an announcement brings are in memory only
 * if it is kept as a whole, for others bring as much meanwhile. */
static void drop_excess(struct prefetch *prefetch, struct announcement *announcement)
{
	uint64_t most = UINT64_MAX;
	bool alone = true;

	if (atomic_load_explicit(&prefetch->passed_on.read, memory_order_relaxed))
		most = store_announced_most(prefetch->store, &alone);
	most -= most < announcement->bytes_wanted ? most : announcement->bytes_wanted;
	for (size_t i = 0; i < announcement->wanted; i++) {
		struct wanted_range *range = &announcement->ranges[i];

		if (range->length > most) {
			range->length = most & ~(uint64_t)(announcement->snapshot.page_size - 1);
			announcement->wanted = alone ? i + !!range->length : 0;
			announcement->left = 0;
			prefetch->some_dropped = true;
			break;
		}
		most -= range->length;
		announcement->bytes_wanted += range->length;
	}
}

/* Takes every key as far down as the tree's pages are in memory. */
static void announcement_round(struct prefetch *prefetch, struct announcement *announcement)
{
	size_t still = 0;

	announcement->moved = false;
	announcement->wanted = announcement->asked = 0;
	for (size_t i = 0; i < announcement->left; i++) {
		struct pending key = announcement->keys[i];
		enum tree_step step = TREE_CHILD;
		uint64_t pages;
		int rc = 0;

		while ((step == TREE_CHILD || step == TREE_FIRST) && !rc &&
		       key.depth < 2 * FORMAT_DEPTH_MAX) {
			uint64_t here = key.number;

			rc = pending_step(announcement, &key, &pages, &step);
			if (rc == EAGAIN) {
				if (!key.asked)
					page_want(prefetch, announcement, here);
				announcement->moved |= !key.asked;
				key.asked = true;
			} else {
				key.depth++;
				key.asked = false;
				if (step == TREE_FIRST)
					key.entry = ENTRY_FIRST;
				announcement->moved = true;
			}
		}
		if (rc == EAGAIN)
			announcement->keys[still++] = key;
		else if (!rc && step == TREE_RUN)
			range_add(announcement, key.number, pages, true);
	}
	announcement->left = still;
	ranges_merge(announcement);
	drop_excess(prefetch, announcement);
	passed_on_judge(prefetch, announcement->ranges, announcement->wanted);
}

bool announcements_advance(struct prefetch *prefetch)
{
	bool busy = false;

	for (struct announcement **link = &prefetch->announcements; *link;) {
		struct announcement *announcement = *link;

		while (announcement->asked < announcement->wanted &&
		       prefetch_want(prefetch, announcement->ranges[announcement->asked])) {
			announcement->asked++;
			busy = true;
		}
		if (announcement->asked < announcement->wanted)
			return busy;
		if (!announcement->left) {
			announcement_end(prefetch, link);
			continue;
		}
		if (announcement->landed != prefetch->engine.landed || announcement->moved) {
			announcement->landed = prefetch->engine.landed;
			announcement_round(prefetch, announcement);
			busy = true;
		} else {
			link = &announcement->next;
		}
	}
	return busy;
}

/* No read is left for an announcement to wait for: one has failed, or memory has no room. */
bool announcements_settle(struct prefetch *prefetch)
{
	for (struct announcement **link = &prefetch->announcements; *link;) {
		struct announcement *announcement = *link;

		if (announcement->asked < announcement->wanted)
			return true;
		announcement_end(prefetch, link);
	}
	prefetch_announce(prefetch);
	return false;
}

void announcements_free(struct prefetch *prefetch, const struct snapshot *owner)
{
	for (struct announcement **link = &prefetch->announcements; *link;) {
		struct announcement *announcement = *link;

		if (owner && announcement->owner != owner) {
			link = &announcement->next;
			continue;
		}
		announcement_end(prefetch, link);
	}
}

/* Makes an announcement of n keys or places, with memory for so many bytes of keys. */
static struct announcement *announcement_new(struct snapshot *snapshot, size_t n, size_t bytes)
{
	struct announcement *announcement =
		calloc(1, sizeof(*announcement) + n * sizeof(announcement->keys[0]));

	if (!announcement)
		return NULL;
	announcement->bytes = malloc(bytes + 1);
	announcement->ranges = malloc(n * sizeof(*announcement->ranges));
	if (!announcement->bytes || !announcement->ranges) {
		announcement_free(announcement);
		return NULL;
	}
	announcement->left = n;
	announcement->moved = true;
	announcement->owner = snapshot;
	announcement->snapshot = snapshot_ahead(snapshot);
	return announcement;
}

static struct announcement *announcement_of_keys(struct snapshot *snapshot, const struct tree *tree,
						 const struct comparator *order,
						 const MDB_val *keys, size_t n)
{
	size_t bytes = 0, used = 0, kept = 0;
	struct announcement *announcement;

	for (size_t i = 0; i < n; i++)
		bytes += key_is_sane(snapshot, &keys[i]) ? keys[i].mv_size : 0;
	announcement = announcement_new(snapshot, n, bytes);
	if (!announcement)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		struct pending *key = &announcement->keys[kept];

		if (!key_is_sane(snapshot, &keys[i]))
			continue;
		if (keys[i].mv_size)
			memcpy(announcement->bytes + used, keys[i].mv_data, keys[i].mv_size);
		key->key = (MDB_val){keys[i].mv_size, announcement->bytes + used};
		key->number = tree->record.root;
		key->entry = ENTRY_UNKNOWN;
		used += keys[i].mv_size;
		kept++;
	}
	announcement->left = kept;
	announcement->order = *order;
	return announcement;
}

/* Puts an announcement behind the others. Returns false, and frees it, if too many keys wait: the
 * program announces them faster than storage gives their records. Under the prefetch lock. */
static bool announcement_add(struct prefetch *prefetch, struct announcement *announcement)
{
	announcement->weight = announcement->left + KEYS_OF_ONE;
	if (prefetch->waiting && prefetch->waiting + announcement->weight > WAITING_MAX) {
		announcement_free(announcement);
		return false;
	}
	if (!prefetch->announcements)
		prefetch->announcements_end = &prefetch->announcements;
	*prefetch->announcements_end = announcement;
	prefetch->announcements_end = &announcement->next;
	prefetch->waiting += announcement->weight;
	return true;
}

/* Gives an announcement, or NULL, to the prefetch thread. Returns 0 or an errno. */
static int announcement_put(struct prefetch *prefetch, const struct tree *tree,
			    struct announcement *announcement)
{
	size_t keys = announcement ? announcement->left : 0;
	int rc;

	if (!announcement)
		return ENOMEM;
	store_guess(prefetch->store, GUESS_NOTHING);
	pthread_mutex_lock(&prefetch->lock);
	passed_on_note(prefetch, announcement->owner, tree);
	rc = prefetch_wake(prefetch);
	if (rc) {
		announcement_free(announcement);
	} else if (announcement_add(prefetch, announcement)) {
		atomic_store(&prefetch->owned, true);
		prefetch->keys += keys;
		prefetch_announce(prefetch);
	}
	pthread_mutex_unlock(&prefetch->lock);
	return rc;
}

/* How many of n keys an announcement can have. */
static size_t keys_most(const struct tree *tree, size_t n)
{
	return tree->record.root == PAGE_NONE ? 0 : n < KEYS_MAX ? n : KEYS_MAX;
}

int prefetch_places(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		    const struct prefetch_place *places, size_t n)
{
	struct announcement *announcement;

	n = keys_most(tree, n);
	if (!n)
		return 0;
	announcement = announcement_new(snapshot, n, 0);
	for (size_t i = 0; announcement && i < n; i++) {
		announcement->keys[i].number = places[i].page;
		announcement->keys[i].entry = places[i].page_alone ? ENTRY_NONE : places[i].entry;
	}
	return announcement_put(prefetch, tree, announcement);
}

int prefetch_keys(struct prefetch *prefetch, struct snapshot *snapshot, struct tree *tree,
		  const struct comparator *order, const MDB_val *keys, size_t n)
{
	n = keys_most(tree, n);
	return n ? announcement_put(prefetch, tree,
				    announcement_of_keys(snapshot, tree, order, keys, n))
		 : 0;
}
