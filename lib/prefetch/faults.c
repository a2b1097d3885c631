/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides when the page faults of a scan alone are worth a look-ahead.
 *
 * Where the bytes are in the page cache there is nothing to read, but a page fault for every 64 KiB
 * makes their page-table entries. Over large folios that costs little. Over single pages it is more
 * than half of a scan's time, and another processor can do it ahead of the program. Many kernels
 * have only single pages for a local file; parallel reads or a writer leave nothing else. So that
 * no look-ahead begins in vain, each scan is judged after a while. It must take such a fault for
 * all that it reads, a fault must cost enough, and a processor must be free.
 */
#include "prefetch/prefetch_private.h"

#include "cursor/cursor.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/group.h"

#include <sys/resource.h>

enum {
	LOOKED_AT = 4 << 20, /* bytes that a scan has gone over before it is judged */
	LEFT = 32 << 20,     /* bytes of a tree: a smaller one does not repay a thread's start */
	FAULTS = 2,          /* of a probe: a large folio takes only the first */
	PROBE = FAULTS * STORE_FAULT,
	PROBES = 8,            /* ... the cheapest counts: readahead begins with small folios */
	APART = LEFT / PROBES, /* bytes from one probe to the next */
	SHARE = 8,             /* faults take at least one part in so many of the program's time */
	TAKEN = 4,             /* ... and mapping takes at least one in so many of the possible
				  faults */
};

uint64_t bytes_of_step(const struct cursor *cursor, uint64_t *all)
{
	const struct tree_record *record = &cursor->tree->record;
	uint64_t pages = record->leaf_pages + record->overflow_pages;

	*all = pages << cursor->snapshot->view.page_shift;
	return record->entries ? *all / record->entries : 0;
}

/* 0 where the kernel does not tell. */
uint64_t faults_taken(void)
{
	struct rusage usage = {0};

	(void)getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* Nanoseconds of a page fault that the program is about to take. It takes some to measure them: the
 * first at `offset`, the others behind it, or before it for a backward scan. Returns 0 where a page
 * is not in memory, or where most faults are not needed because the pages are mapped. */
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
	/* A smaller count than before is another thread's, or a forked child's. */
	if (!seen.at || bytes < LOOKED_AT || now.faults < seen.faults)
		return false;
	faults = now.faults - seen.faults;
	most = bytes / STORE_FAULT;
	offset &= ~(uint64_t)(PROBE - 1);
	/* If the program leaves pages out, they would be mapped in vain. */
	if (faults < most * 3 / 4 || !store_knows(store) ||
	    (forward ? offset + LEFT > store_size(store) : offset < LEFT))
		return false;
	/* The other faults are for the program's own memory. */
	if (faults > most)
		faults = most;
	return fault_cost(store, offset, forward) * SHARE * faults >= now.at - seen.at &&
	       processor_is_free();
}

bool faults_were_worth_it(uint64_t faults, uint64_t bytes)
{
	return faults * TAKEN >= bytes / STORE_FAULT;
}
