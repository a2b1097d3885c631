/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides when the page faults of a scan alone are worth a look-ahead.
 *
 * Where the bytes are in the page cache there is nothing to read, but their page-table entries are
 * made by a fault for every 64 KiB. Over large folios that costs little. Over single pages, which
 * is all that many kernels have for a local file, and all that reads beside one another or a writer
 * leave, it is more than half of a scan's time, and another processor can do it ahead of the
 * program. So that nothing is begun in vain, a scan that has gone on for a while is looked at:
 * whether it takes such a fault for all that it goes over, what one costs here, and whether a
 * processor is free.
 */
#include "prefetch/prefetch_private.h"

#include "cursor/cursor.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/group.h"

#include <sys/resource.h>

enum {
	LOOKED_AT = 4 << 20, /* bytes that a scan has gone over before it is judged */
	LEFT = 32 << 20,     /* bytes of a tree: in less, a thread's start is not earned back */
	FAULTS = 2,          /* of a probe: a large folio is there with its first one */
	PROBE = FAULTS * STORE_FAULT,
	PROBES = 8,            /* the cheapest of which tells: readahead begins with small folios */
	APART = LEFT / PROBES, /* bytes from one to the next */
	SHARE = 8,             /* of the program's time at least one part in so many */
	TAKEN = 4,             /* of the faults for all that a thread maps, the same */
};

uint64_t bytes_of_step(const struct cursor *cursor, uint64_t *all)
{
	const struct tree_record *record = &cursor->tree->record;
	uint64_t pages = record->leaf_pages + record->overflow_pages;

	*all = pages << cursor->snapshot->view.page_shift;
	return record->entries ? *all / record->entries : 0;
}

/* A kernel that does not tell has none. */
uint64_t faults_taken(void)
{
	struct rusage usage = {0};

	(void)getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* Nanoseconds that a fault takes which the program is about to need, by taking some, the first at
 * `offset` and the others behind it, or backwards before it; 0 where one is not in memory or most
 * of them need not be taken, as what is mapped already. */
static uint64_t fault_cost(struct store *store, uint64_t offset, bool forward)
{
	uint64_t cheapest = UINT64_MAX, taken = faults_taken(), before, took;

	for (unsigned i = 0; i < PROBES; i++, offset += forward ? APART : -(uint64_t)APART) {
		if (!store_idle(store, offset, PROBE))
			return 0;
		before = clock_now();
		store_map(store, offset, PROBE);
		took = clock_now() - before;
		if (took < cheapest)
			cheapest = took;
	}
	taken = faults_taken() - taken;
	return taken < PROBES * FAULTS * 3 / 4 ? 0 : cheapest / FAULTS;
}

bool faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset,
		     bool forward)
{
	struct store *store = prefetch->store;
	struct cursor_seen seen = cursor->seen, now;
	uint64_t all, bytes = (uint64_t)cursor->paced * bytes_of_step(cursor, &all), faults, most;

	if (bytes < LOOKED_AT / 2 || all < LEFT)
		return false;
	now = (struct cursor_seen){clock_now(), faults_taken()};
	cursor->seen = now;
	/* Fewer than before are another thread's, or a forked child's. */
	if (!seen.at || bytes < LOOKED_AT || now.faults < seen.faults)
		return false;
	faults = now.faults - seen.faults;
	most = bytes / STORE_FAULT;
	offset &= ~(uint64_t)(PROBE - 1);
	/* A program that leaves pages out would have them mapped in vain. */
	if (faults < most * 3 / 4 || !store_knows(store) ||
	    (forward ? offset + LEFT > store_size(store) : offset < LEFT))
		return false;
	/* The others are for memory of the program's own. */
	if (faults > most)
		faults = most;
	return fault_cost(store, offset, forward) * SHARE * faults >= now.at - seen.at &&
	       processor_is_free();
}

bool faults_were_worth_it(uint64_t faults, uint64_t bytes)
{
	return faults * TAKEN >= bytes / STORE_FAULT;
}
