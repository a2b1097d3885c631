/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads announced values into the page cache when other processes read them.
 *
 * A value that goes through shared memory is copied there, and each process that reads it maps its
 * chunk. For a scan, large requests outweigh this. A value that the kernel reads by one request
 * costs less in the page cache. The announcing process asks the kernel to begin the read
 * (readahead(2)) and goes on, with no thread that waits and no copy. Processes that read the value
 * find its pages in the page cache, there or being read (cachestat(2)), and wait for them as for a
 * page fault. The announcing process itself would take page faults, so values go through shared
 * memory as soon as one of its transactions has handed out a value.
 */
#include "prefetch/prefetch_private.h"

enum {
	LEAST = 16 << 10, /* bytes of a value: one thread reads smaller ones faster */
	LONG_PARTS = 8,   /* one part in so many of the ranges may be longer than one request */
	JUDGED = 32,      /* ranges at a time */
};

/* Whether values are, on the average, neither small nor more than the kernel reads by one request.
 */
static bool is_one_request(const struct prefetch *prefetch, const struct snapshot *snapshot,
			   const struct tree *tree)
{
	const struct tree_record *record = &tree->record;
	uint64_t value;

	if (!record->overflow_pages || !record->entries)
		return false;
	value = record->overflow_pages / record->entries * snapshot->page_size;
	return value >= LEAST && value <= prefetch->passed_on.most;
}

void passed_on_read(struct prefetch *prefetch, const struct snapshot *snapshot)
{
	if (snapshot->served)
		atomic_store_explicit(&prefetch->passed_on.read, true, memory_order_relaxed);
}

void passed_on_note(struct prefetch *prefetch, const struct snapshot *snapshot,
		    const struct tree *tree)
{
	struct passed_on *passed_on = &prefetch->passed_on;

	passed_on_read(prefetch, snapshot);
	if (!passed_on->most)
		passed_on->most = store_kernel_ahead(prefetch->store) + 1;
	passed_on->wanted = !passed_on->dense &&
			    !atomic_load_explicit(&passed_on->read, memory_order_relaxed) &&
			    is_one_request(prefetch, snapshot, tree) &&
			    store_may_pass_on(prefetch->store);
}

void passed_on_judge(struct prefetch *prefetch, const struct wanted_range *ranges, size_t n)
{
	struct passed_on *passed_on = &prefetch->passed_on;

	for (size_t i = 0; passed_on->wanted && i < n; i++) {
		passed_on->ranges += ranges[i].for_others;
		passed_on->longer += ranges[i].for_others && ranges[i].length > passed_on->most;
	}
	if (passed_on->ranges < JUDGED)
		return;
	passed_on->dense = passed_on->longer * LONG_PARTS > passed_on->ranges;
	passed_on->ranges = passed_on->longer = 0;
}

void passed_on_turn(struct prefetch *prefetch)
{
	struct passed_on *passed_on = &prefetch->passed_on;

	/* Without announcements, this process itself wants what is read ahead. */
	passed_on->wanted = passed_on->wanted && prefetch->small && !passed_on->dense &&
			    !atomic_load_explicit(&passed_on->read, memory_order_relaxed) &&
			    store_may_pass_on(prefetch->store);
	if (passed_on->on == passed_on->wanted)
		return;
	passed_on->on = passed_on->wanted;
	store_pass_on(prefetch->store, passed_on->on);
}

void passed_on_forked(struct prefetch *prefetch)
{
	prefetch->passed_on.wanted = prefetch->passed_on.on = false;
}
