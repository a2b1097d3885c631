/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts the kernel's maps that the windows of this process take.
 *
 * The kernel gives a process so many (vm.max_map_count, 65,530 by default), and after that not even
 * malloc() gets memory. A window that shows one file is one map; each border between file and arena
 * in it makes one more. So borders are counted, over all windows, and half of the kernel's number
 * is for the program. A window that comes when the others have the rest gets a few all the same,
 * for with none it could show nothing; all such ones together half as much again.
 */
#include "window/store_private.h"

#include "util/kernel_file.h"

#include <stdlib.h>

enum { MAPS_DEFAULT = 65530, MAPS_SHARE = 2, WINDOW_SHARE = 64, LEASTS_SHARE = 2, WORD = 64 };

static _Atomic int64_t process_borders;

static int64_t kernel_maps(void)
{
	char text[32];
	long maps = kernel_file_read("/proc/sys/vm/max_map_count", text, sizeof(text))
			    ? strtol(text, NULL, 10)
			    : 0;

	return maps > 0 ? maps : MAPS_DEFAULT;
}

bool borders_are_many(const struct store *store)
{
	static _Atomic int64_t limit;
	int64_t most = atomic_load_explicit(&limit, memory_order_relaxed), more;

	if (!most) {
		most = kernel_maps() / MAPS_SHARE;
		atomic_store_explicit(&limit, most, memory_order_relaxed);
	}
	more = atomic_load_explicit(&process_borders, memory_order_relaxed) - most;
	return more >= most / LEASTS_SHARE ||
	       (more >= 0 && store->shown.borders >= most / WINDOW_SHARE);
}

/* Whether a block shows the arena. */
static bool shows_arena(const struct store *store, uint64_t block)
{
	uint64_t chunk = block / ARENA_BLOCKS;

	if (block * ARENA_BLOCK < store->file.low || chunk >= store->shown.chunks ||
	    !is_shown(store, chunk))
		return false;
	return get_state(store, chunk) != CHUNK_RUNS ||
	       store->shown.runs[block / WORD] >> block % WORD & 1;
}

int64_t borders_around(const struct store *store, uint64_t chunk)
{
	uint64_t first = chunk * ARENA_BLOCKS, next = first + ARENA_BLOCKS;
	bool before = shows_arena(store, first);
	int64_t n = first && shows_arena(store, first - 1) != before;

	n += shows_arena(store, next - 1) != shows_arena(store, next);
	if (get_state(store, chunk) != CHUNK_RUNS)
		return n;
	for (uint64_t word = first / WORD; word < next / WORD; word++) {
		uint64_t bits = store->shown.runs[word];

		n += __builtin_popcountll(bits ^ (bits << 1 | before));
		before = bits >> (WORD - 1);
	}
	return n;
}

void borders_add(struct store *store, int64_t more)
{
	store->shown.borders += more;
	atomic_fetch_add_explicit(&process_borders, more, memory_order_relaxed);
}

void borders_clear(struct store *store)
{
	borders_add(store, -store->shown.borders);
}
