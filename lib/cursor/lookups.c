/* SPDX-License-Identifier: OLDAP-2.8 */
/* Recognises lookups in equal steps: samplers go through a data set in order, or take each n-th
 * record. */
#include "cursor/cursor_private.h"

#include "util/at_fork.h"

#include <stdatomic.h>

enum { STEP_MOST = 4096 }; /* entries; a longer distance is no step */

/* Returns the entries from one place forward to another, or 0 if the second is not ahead or too
 * far. It takes all leaves between the two to be like the first, and a second branch page to be the
 * next one. This is a guess that must come out the same time after time. */
static uint64_t distance(const struct lookup_place *from, const struct lookup_place *to)
{
	uint64_t leaves;

	if (to->leaf == from->leaf)
		return to->index > from->index ? to->index - from->index : 0;
	if (to->above != from->above)
		leaves = (uint64_t)from->places - from->place + to->place;
	else if (to->place > from->place)
		leaves = to->place - from->place;
	else
		return 0;
	leaves = from->count - from->index + (leaves - 1) * from->count + to->index;
	return leaves <= STEP_MOST ? leaves : 0;
}

static void lookup_lose(struct lookup *lookup, struct cursor_watch *watch)
{
	if (lookup->ahead)
		watch->lost(watch, lookup);
	lookup->pace = lookup->paced = CURSOR_PACE_FIRST;
}

void lookups_end(struct lookups *lookups, struct cursor_watch *watch)
{
	for (unsigned i = 0; i < LOOKUPS; i++) {
		lookup_lose(&lookups->each[i], watch);
		lookups->each[i].root = 0;
	}
}

/* Returns the series that a record continues. If there is none, returns a series to begin anew: an
 * empty one, the one with the shortest step, or the older. */
static struct lookup *lookup_find(struct lookups *lookups, uint64_t root,
				  const struct lookup_place *place, uint64_t *step)
{
	struct lookup *found = NULL;

	*step = 0;
	for (unsigned i = 0; i < LOOKUPS; i++) {
		struct lookup *lookup = &lookups->each[i];
		uint64_t d = lookup->root == root ? distance(&lookup->last, place) : 0;

		if (d && d == lookup->step) {
			*step = d;
			return lookup;
		}
		if (d && (!found || d < *step)) {
			found = lookup;
			*step = d;
		}
	}
	if (!found || !lookups->each[lookups->next].root) {
		*step = 0;
		found = &lookups->each[lookups->next];
		lookups->next = (lookups->next + 1) % LOOKUPS;
	}
	return found;
}

static bool is_again(const struct lookups *lookups, const struct lookup_place *place)
{
	for (unsigned i = 0; i < LOOKUPS; i++)
		if (lookups->each[i].last.leaf == place->leaf &&
		    lookups->each[i].last.index == place->index)
			return true;
	return false;
}

static void take(struct snapshot *snapshot, struct tree *tree, const struct comparator *order,
		 const MDB_val *key, const struct lookup_place *place)
{
	struct lookup *lookup;
	uint64_t step;

	if (is_again(snapshot->lookups, place))
		return;
	lookup = lookup_find(snapshot->lookups, tree->record.root, place, &step);
	if (unlikely(!step || step != lookup->step)) {
		lookup_lose(lookup, snapshot->watch);
		lookup->root = tree->record.root;
		lookup->step = step;
	} else if (--lookup->pace <= 0) {
		snapshot->watch->looked_up(snapshot->watch, snapshot, tree, order, key, lookup);
	}
	lookup->last = *place;
}

void lookups_take(struct snapshot *snapshot, struct tree *tree, const struct comparator *order,
		  const MDB_val *key, const struct lookup_place *place)
{
	if (unlikely(atomic_load_explicit(&snapshot->view.misses, memory_order_relaxed))) {
		snapshot->watch->missed(snapshot->watch, snapshot, tree, order, key);
		atomic_store_explicit(&snapshot->view.misses, 0, memory_order_relaxed);
	}
	/* Lookups of another thread at the same time are not counted, unless it is one that a forked
	 * child does not have. Where no threads share the transaction the exchange would cost a
	 * lookup of cached data 2 %. */
	if (snapshot->lookups->shared &&
	    atomic_exchange_explicit(&snapshot->lookups->busy, fork_generation + 1,
				     memory_order_acquire) == fork_generation + 1)
		return;
	take(snapshot, tree, order, key, place);
	if (snapshot->lookups->shared)
		atomic_store_explicit(&snapshot->lookups->busy, 0, memory_order_release);
}
