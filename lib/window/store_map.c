/* SPDX-License-Identifier: OLDAP-2.8 */
/* Maps the arena over the window, and puts the file back. */
#include "window/store_private.h"

#include "util/descriptor.h"
#include "util/kernel_file.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* --- the kernel's maps that the windows of this process take --- */

/* The kernel limits the maps of a process (vm.max_map_count, 65,530 by default); beyond that not
 * even malloc() gets memory. A window that shows one file is one map; each border between file and
 * arena in it adds one. So the store counts borders over all windows, and leaves half of the limit
 * to the program. A window that comes when the others have used up the rest still gets a few, for
 * with none it could show nothing; all such windows together get half as much again. */
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

bool shows_arena(const struct store *store, uint64_t block)
{
	uint64_t chunk = block / ARENA_BLOCKS;

	if (block * ARENA_BLOCK < store->file.low || chunk >= store->shown.chunks ||
	    !is_shown(store, chunk))
		return false;
	return get_state(store, chunk) != CHUNK_RUNS ||
	       store->shown.runs[block / WORD] >> block % WORD & 1;
}

/* Borders between file and arena in a chunk and at its two ends: each costs the kernel a map. */
static int64_t borders_around(const struct store *store, uint64_t chunk)
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

/* Counts so many more borders. */
static void borders_add(struct store *store, int64_t more)
{
	store->shown.borders += more;
	atomic_fetch_add_explicit(&process_borders, more, memory_order_relaxed);
}

void borders_clear(struct store *store)
{
	borders_add(store, -store->shown.borders);
}

enum { MAPPED_KEEP = 4 }; /* chunks that stay mapped however short memory is */

/* show_file() without a descriptor, which the program has closed. The window's front always shows
 * the file. From a shared map Linux makes a second map, which begins at the same byte of the file
 * and may be longer. The wanted part of the second map is moved into the window, and the rest is
 * unmapped. As soon as a part has been moved away, another thread may map memory in its place. */
static bool show_file_again(const struct store *store, uint64_t offset, uint64_t end)
{
	size_t length = end - offset;
	uint8_t *twin = mremap(store->file.base, 0, end, MREMAP_MAYMOVE);
	bool shown;

	if (twin == MAP_FAILED)
		return false;
	shown = mremap(twin + offset, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
		       store->file.base + offset) != MAP_FAILED;
	if (!shown || offset)
		munmap(twin, shown ? offset : end);
	return shown;
}

/* show_file() by the descriptor. For a program that has its maps locked (mlockall(2)), the kernel
 * would read all of a new map within the call, or refuse it. A second map of the window's front is
 * locked only if the front is. */
static bool show_file_by(const struct store *store, uint64_t offset, uint64_t end)
{
	if (!store->file.locks) {
		if (mmap(store->file.base + offset, end - offset, PROT_READ, MAP_SHARED | MAP_FIXED,
			 store->file.fd, (off_t)offset) != MAP_FAILED)
			return true;
		if (errno != EAGAIN)
			return false;
	}
	(void)munlock(store->file.base, store->file.low);
	return show_file_again(store, offset, end);
}

void locks_look(struct store *store)
{
	unsigned char page = 0;
	void *map = mmap(NULL, ARENA_BLOCK, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* A new page is in memory before it is touched only if the kernel locks new maps. */
	store->file.locks = map == MAP_FAILED ? errno == EAGAIN
					      : !mincore(map, ARENA_BLOCK, &page) && page & 1;
	if (map != MAP_FAILED)
		munmap(map, ARENA_BLOCK);
}

/* Lays the file under [offset, end) of the window, even if the program has closed its descriptor.
 * Returns as show_file_whole(). */
static bool show_file(const struct store *store, uint64_t offset, uint64_t end)
{
	uint8_t *start = store->file.base + offset;
	bool shown = descriptor_is(store->file.fd, store->file.device, store->file.inode)
			     ? show_file_by(store, offset, end)
			     : show_file_again(store, offset, end);

	/* The kernel joins parts of the file to one map only if all have the same advice. */
	if (shown && store->file.random)
		(void)madvise(start, end - offset, MADV_RANDOM);
	return shown;
}

bool show_file_whole(const struct store *store)
{
	return show_file(store, 0, store->file.length);
}

static bool show_arena(struct store *store, uint64_t offset, uint64_t end)
{
	return mmap(store->file.base + offset, end - offset, PROT_READ, MAP_SHARED | MAP_FIXED,
		    arena_fd(store->arena), (off_t)offset) != MAP_FAILED;
}

void chunk_span(const struct store *store, uint64_t chunk, uint64_t *start, uint64_t *end)
{
	*start = chunk * ARENA_CHUNK;
	if (*start < store->file.low)
		*start = store->file.low;
	*end = round_up(chunk_end(store, chunk), ARENA_BLOCK);
}

bool chunk_lay(const struct store *store, uint64_t chunk)
{
	uint64_t start, end;

	chunk_span(store, chunk, &start, &end);
	return show_file(store, start, end);
}

/* Whether a chunk has any of these bits. */
static bool has_bits(const _Atomic uint64_t *bits, uint64_t chunk)
{
	for (unsigned i = 0; i < ARENA_BLOCKS / 64; i++)
		if (atomic_load_explicit(&bits[chunk * (ARENA_BLOCKS / 64) + i],
					 memory_order_relaxed))
			return true;
	return false;
}

/* Whether a chunk shows parts of the file that were seen in the page cache: pointers into these
 * parts are handed out without asking the store. */
static bool shows_cached(const struct store *store, uint64_t chunk, enum chunk_state state)
{
	return state == CHUNK_WARM || (state == CHUNK_REST && has_bits(store->shown.runs, chunk)) ||
	       (state == CHUNK_RUNS && has_bits(store->granted.sure, chunk));
}

static void runs_clear(struct store *store, uint64_t chunk)
{
	for (unsigned i = 0; i < ARENA_BLOCKS / 64; i++) {
		uint64_t at = chunk * (ARENA_BLOCKS / 64) + i;

		atomic_store_explicit(&store->shown.runs[at], 0, memory_order_relaxed);
		atomic_store_explicit(&store->granted.sure[at], 0, memory_order_relaxed);
	}
}

/* Puts the file back under a chunk; pointers that were handed out stay right. Returns false if the
 * kernel refuses: the arena stays under the chunk. */
static bool chunk_rest(struct store *store, uint64_t chunk)
{
	enum chunk_state before = get_state(store, chunk);
	bool spilled = false;
	uint64_t start, end;
	int64_t borders;

	store->shown.taints[chunk] = store->shown.epoch;
	if (!is_shown(store, chunk))
		return true;
	chunk_span(store, chunk, &start, &end);
	borders = borders_around(store, chunk);
	/* The state changes before save() looks which blocks are published: no thread hands out a
	 * block that another process publishes after that look (store_has()). It changes before the
	 * map does, so that no thread takes the chunk for the arena's. */
	set_state(store, chunk, CHUNK_REST);
	atomic_thread_fence(memory_order_seq_cst);
	if (store->ops->save && store->ops->save(store, chunk, &spilled))
		goto stay;
	if (spilled)
		set_state(store, chunk, CHUNK_WARM);
	if (!show_file(store, start, end))
		goto stay;
	runs_clear(store, chunk);
	borders_add(store, borders_around(store, chunk) - borders);
	arena_unpin(store->arena, chunk);
	return true;
stay:
	set_state(store, chunk, before);
	return false;
}

/* Makes room for two more chunks in the ring. */
static bool ring_room(struct store *store)
{
	uint64_t room = store->shown.mapped_room ? store->shown.mapped_room * 2 : 64, *ring;

	if (store->shown.mapped_count + ARENA_PAIR <= store->shown.mapped_room)
		return true;
	ring = malloc(room * sizeof(*ring));
	if (!ring)
		return false;
	for (uint64_t i = 0; i < store->shown.mapped_count; i++)
		ring[i] =
			store->shown
				.mapped[(store->shown.mapped_first + i) % store->shown.mapped_room];
	free(store->shown.mapped);
	store->shown.mapped = ring;
	store->shown.mapped_room = room;
	store->shown.mapped_first = 0;
	return true;
}

static void ring_put(struct store *store, uint64_t chunk)
{
	store->shown.mapped[(store->shown.mapped_first + store->shown.mapped_count++) %
			    store->shown.mapped_room] = chunk;
}

/* Takes the oldest chunk out. */
static uint64_t ring_take(struct store *store)
{
	uint64_t chunk = store->shown.mapped[store->shown.mapped_first];

	store->shown.mapped_first = (store->shown.mapped_first + 1) % store->shown.mapped_room;
	store->shown.mapped_count--;
	return chunk;
}

/* Makes the oldest chunk the newest. */
static void ring_turn(struct store *store)
{
	ring_put(store, ring_take(store));
}

static uint64_t *ring_at(const struct store *store, uint64_t n)
{
	return &store->shown.mapped[(store->shown.mapped_first + n) % store->shown.mapped_room];
}

/* Takes a chunk out wherever it stands: no chunk is in the ring twice. Older ones move up. */
static void ring_drop(struct store *store, uint64_t chunk)
{
	uint64_t n = 0;

	while (n < store->shown.mapped_count && *ring_at(store, n) != chunk)
		n++;
	if (n == store->shown.mapped_count)
		return;
	for (; n > 0; n--)
		*ring_at(store, n) = *ring_at(store, n - 1);
	(void)ring_take(store);
}

bool chunk_leave(struct store *store, uint64_t chunk)
{
	bool shown = is_shown(store, chunk);

	if (get_state(store, chunk) == CHUNK_RUNS && !store->ops->save) {
		/* Between its runs the chunk shows the file already. */
		store->shown.taints[chunk] = store->shown.epoch;
		return true;
	}
	if (!chunk_rest(store, chunk))
		return false;
	if (shown)
		ring_drop(store, chunk);
	return true;
}

/* Unmaps the oldest chunk. Returns false if the kernel refuses. */
static bool shed_one(struct store *store)
{
	if (!chunk_rest(store, store->shown.mapped[store->shown.mapped_first]))
		return false;
	(void)ring_take(store);
	return true;
}

/* Whether this process maps more than its share. Where a server brings chunks, those in front of
 * the program are the newest, and must not go because other processes take the room. */
static bool has_too_much(const struct store *store)
{
	uint64_t share;

	if (store->shown.mapped_count <= MAPPED_KEEP)
		return false;
	share = scan_share(store);
	if (share)
		return store->shown.mapped_count > share;
	if (store->link.socket.fd < 0)
		return arena_pressed(store->arena);
	share = arena_share(store->arena);
	return share == UINT64_MAX ? arena_pressed(store->arena)
				   : store->shown.mapped_count > share / ARENA_CHUNK;
}

/* Whether a cursor stands in a chunk: the program reads the cursor's leaf as long as the leaf has
 * values left. */
static bool is_stood_on(const struct store *store, uint64_t chunk)
{
	uint32_t since = atomic_load_explicit(&store->shown.maps, memory_order_relaxed) -
			 atomic_load_explicit(&store->shown.uses[chunk], memory_order_relaxed);

	return since < store->shown.mapped_count / 2;
}

/* Passes over a chunk once if it was used since the last look, and always if a cursor stands in it.
 * If all were used, the oldest of them goes. */
static void pass_over_used(struct store *store)
{
	for (uint64_t n = 2 * store->shown.mapped_count; n > 0; n--) {
		uint64_t chunk = store->shown.mapped[store->shown.mapped_first];
		unsigned char full = CHUNK_FULL;

		if (!is_stood_on(store, chunk) &&
		    !atomic_compare_exchange_strong(&store->shown.states[chunk], &full, CHUNK_IDLE))
			return;
		ring_turn(store);
	}
}

static bool shed_oldest(struct store *store)
{
	if (!has_too_much(store))
		return false;
	pass_over_used(store);
	if (!shed_one(store))
		return false;
	stats_add(STATS_EVICTIONS, 1);
	return true;
}

void shed(struct store *store)
{
	while (shed_oldest(store))
		;
}

bool shed_all(struct store *store)
{
	while (store->shown.mapped_count > 0)
		if (!shed_one(store))
			return false;
	return true;
}

void mapped_clear(struct store *store)
{
	while (store->shown.mapped_count > 0) {
		uint64_t chunk = ring_take(store);

		set_state(store, chunk, CHUNK_REST);
		runs_clear(store, chunk);
		if (store->arena)
			arena_unpin(store->arena, chunk);
	}
	borders_clear(store);
}

/* Lays the file in one call. A call for each chunk would split each huge page, and wait each time
 * for the kernel's locks of the files, which the node's processes share. */
bool rest_all(struct store *store)
{
	if (!store->shown.mapped_count)
		return true;
	locks_look(store);
	if (store->ops->save || !show_file_whole(store))
		return shed_all(store);
	mapped_clear(store);
	return true;
}

/* Gives up the oldest maps until a chunk may have one more. Returns false if it may not. */
static bool maps_make_room(struct store *store, uint64_t chunk)
{
	while (borders_are_many(store)) {
		if (!store->shown.mapped_count)
			return false;
		if (store->shown.mapped[store->shown.mapped_first] == chunk) {
			if (store->shown.mapped_count == 1)
				return false;
			ring_turn(store);
		}
		if (!shed_one(store))
			return false;
		stats_add(STATS_EVICTIONS, 1);
	}
	return true;
}

void mark_run(struct store *store, uint64_t first, uint64_t end)
{
	for (uint64_t block = first; block < end; block++)
		atomic_fetch_or_explicit(&store->shown.runs[block / 64], 1ull << (block % 64),
					 memory_order_release);
}

bool is_half(const struct store *store, uint64_t chunk)
{
	/* The arena has all of the file, but a window may end before the file does. */
	return (uintptr_t)store->file.base % (ARENA_PAIR * ARENA_CHUNK) == 0 &&
	       (chunk | (ARENA_PAIR - 1)) < chunks_used(store) &&
	       arena_is_huge(store->arena, chunk);
}

static bool is_whole(const struct store *store, uint64_t chunk)
{
	uint64_t start, stop;

	chunk_span(store, chunk, &start, &stop);
	return arena_present(store->arena, block_of(start), block_of(stop - start));
}

/* Adds the other half of a huge page to the range of a whole chunk, if that half shows the arena or
 * may. The kernel maps the page with one entry, but only where both halves are laid at once:
 * entries of the first half would prevent that. Returns true if the other half was at rest; it is
 * pinned now. */
static bool join_halves(const struct store *store, uint64_t chunk, uint64_t *start, uint64_t *stop)
{
	uint64_t other = chunk ^ (ARENA_PAIR - 1), other_start, other_stop;
	enum chunk_state state;

	if (!is_half(store, chunk))
		return false;
	state = get_state(store, other);
	if (state == CHUNK_REST) {
		if (!is_whole(store, other) || !arena_pin(store->arena, other))
			return false;
		/* Before the pin another process may have evicted the chunk. */
		if (!is_whole(store, other)) {
			arena_unpin(store->arena, other);
			return false;
		}
	} else if (state != CHUNK_FULL && state != CHUNK_IDLE) {
		return false;
	}
	chunk_span(store, other, &other_start, &other_stop);
	if (other < chunk)
		*start = other_start;
	else
		*stop = other_stop;
	return state == CHUNK_REST;
}

/* Records that a chunk has come to show the arena. */
static void chunk_shown(struct store *store, uint64_t chunk, enum chunk_state state, bool fresh)
{
	int64_t borders = borders_around(store, chunk);

	set_state(store, chunk, state);
	borders_add(store, borders_around(store, chunk) - borders);
	if (fresh) {
		ring_put(store, chunk);
		atomic_fetch_add_explicit(&store->shown.maps, 1, memory_order_relaxed);
	}
}

/* Lays the arena under all of a chunk, and under the other half of its huge page. */
static bool chunk_map(struct store *store, uint64_t chunk, bool fresh)
{
	uint64_t other = chunk ^ (ARENA_PAIR - 1), start, stop;
	bool both;

	chunk_span(store, chunk, &start, &stop);
	both = join_halves(store, chunk, &start, &stop);
	if (!show_arena(store, start, stop)) {
		if (both)
			arena_unpin(store->arena, other);
		return false;
	}
	chunk_shown(store, chunk, CHUNK_FULL, fresh);
	if (both) {
		runs_clear(store, other);
		chunk_shown(store, other, CHUNK_FULL, true);
		stats_add(is_own(store, other) ? STATS_HITS_ARENA_OWN : STATS_HITS_ARENA_PEER, 1);
	}
	return true;
}

/* Lays the arena under blocks [first, end) of an incomplete chunk; under its holes too, where no
 * old pointer could lead into one. */
static bool chunk_map_part(struct store *store, uint64_t chunk, uint64_t first, uint64_t end,
			   bool fresh)
{
	uint64_t start, stop;
	int64_t borders;

	chunk_span(store, chunk, &start, &stop);
	if (!is_tainted(store, chunk)) {
		if (!show_arena(store, start, stop))
			return false;
		chunk_shown(store, chunk, CHUNK_PART, fresh);
		return true;
	}
	if (first * ARENA_BLOCK < start)
		first = block_of(start);
	if (first < end && !show_arena(store, first * ARENA_BLOCK, end * ARENA_BLOCK))
		return false;
	borders = borders_around(store, chunk);
	mark_run(store, first, end);
	borders_add(store, borders_around(store, chunk) - borders);
	chunk_shown(store, chunk, CHUNK_RUNS, fresh);
	return true;
}

/* Shows the blocks [first, end) of a pinned chunk, all of which are published. */
bool chunk_show(struct store *store, uint64_t chunk, uint64_t first, uint64_t end)
{
	enum chunk_state state = get_state(store, chunk);
	bool fresh = !is_shown(store, chunk), whole = is_whole(store, chunk);

	if (state == CHUNK_FULL || state == CHUNK_IDLE || (state == CHUNK_PART && !whole))
		return true;
	if (state == CHUNK_PART) {
		set_state(store, chunk, CHUNK_FULL);
		return true;
	}
	if (!maps_make_room(store, chunk) || !ring_room(store))
		return false;
	/* Threads have handed out pointers into what the page cache had, without asking the store,
	 * in any epoch since. */
	if (shows_cached(store, chunk, state))
		store->shown.taints[chunk] = store->shown.epoch;
	if (fresh)
		runs_clear(store, chunk); /* the bits told of the page cache */
	return whole ? chunk_map(store, chunk, fresh)
		     : chunk_map_part(store, chunk, first, end, fresh);
}
