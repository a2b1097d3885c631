/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes page-table entries ahead, so that the program need not fault.
 *
 * With the page at which it asks the kernel maps all others of the same 64 KiB that are in memory;
 * asking for each of them makes it go over all, which takes half as long again. But an entry alone
 * is not always enough: the tables that the processor uses may be a hypervisor's, which an access
 * fills. With such shadow tables the first look at a page takes three quarters of a fault. So it is
 * found out what a look costs, and where it is dear each page is looked at, by another processor
 * than the program's; elsewhere that would take as long as the fault itself.
 */
#include "window/store_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum {
	LOOK_NS = 500, /* of a page that has an entry: with shadow tables 1500, else 100 */
	LOOKS = 8,     /* so many more say the one than the other */
};

/* In this process, whatever the file: pieces whose pages were dear to look at, less those whose
 * were not, until these are enough. */
static atomic_int looks_dear;

/* The part of a range that need not be left to the window's front; false: it is less than a fault.
 */
static bool clip_to_faults(const struct store *store, uint64_t *offset, uint64_t end)
{
	if (*offset < store->file.low)
		*offset = store->file.low;
	if (*offset >= end || end - *offset < STORE_FAULT)
		return false;
	*offset &= ~(uint64_t)(ARENA_BLOCK - 1);
	stats_add(STATS_POPULATE_CALLS, 1);
	return true;
}

/* A kernel that does not know the advice leaves the faults to the program. */
static void make_entries(const struct store *store, uint64_t offset, uint64_t end)
{
	for (; offset < end; offset = round_up(offset + 1, STORE_FAULT))
		(void)madvise(store->file.base + offset, ARENA_BLOCK, MADV_POPULATE_READ);
}

static void look_at(const struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t began = clock_now(), pages = block_of(end - offset);
	bool dear;

	for (; offset < end; offset += ARENA_BLOCK)
		(void)*(const volatile uint8_t *)(store->file.base + offset);
	dear = clock_now() - began > pages * LOOK_NS;
	if (!dear || atomic_load_explicit(&looks_dear, memory_order_relaxed) < LOOKS)
		atomic_fetch_add_explicit(&looks_dear, dear ? 1 : -1, memory_order_relaxed);
}

void store_map(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, next;

	if (!clip_to_faults(store, &offset, end))
		return;
	for (; offset < end; offset = next) {
		if (atomic_load_explicit(&looks_dear, memory_order_relaxed) <= -LOOKS) {
			make_entries(store, offset, end);
			return;
		}
		next = round_up(offset + 1, STORE_FAULT);
		if (next > end)
			next = round_up(end, ARENA_BLOCK);
		/* Of each page, so that a look at one that cannot be read is no signal. */
		if (madvise(store->file.base + offset, next - offset, MADV_POPULATE_READ))
			return;
		look_at(store, offset, next);
	}
}

void map_read(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;

	if (clip_to_faults(store, &offset, end))
		make_entries(store, offset, end);
}
