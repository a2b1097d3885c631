/* SPDX-License-Identifier: OLDAP-2.8 */
/* Maps the arena over the window, and puts the file back. */
#include "window/residency_private.h"

#include "util/descriptor.h"
#include "util/stats.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { MAPPED_KEEP = 4 }; /* chunks that stay mapped however short memory is */

/* The same without a descriptor, which the program has closed. The window's front is always the
 * file's; of a shared map Linux makes a second one, which may be longer and begins where the first
 * does, and of that a part can be moved. */
static bool show_file_again(const struct residency *residency, uint64_t offset, uint64_t end)
{
	size_t length = end - offset;
	uint8_t *twin = mremap(residency->base, 0, end, MREMAP_MAYMOVE);
	bool shown;

	if (twin == MAP_FAILED)
		return false;
	shown = mremap(twin + offset, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
		       residency->base + offset) != MAP_FAILED;
	munmap(twin, end);
	return shown;
}

/* Lays the file under [offset, end) of the window, whatever has become of its descriptor. false: as
 * show_file_whole(). */
static bool show_file(const struct residency *residency, uint64_t offset, uint64_t end)
{
	if (!descriptor_is(residency->fd, residency->device, residency->inode))
		return show_file_again(residency, offset, end);
	return mmap(residency->base + offset, end - offset, PROT_READ, MAP_SHARED | MAP_FIXED,
		    residency->fd, (off_t)offset) != MAP_FAILED;
}

bool show_file_whole(const struct residency *residency)
{
	if (!show_file(residency, 0, residency->length))
		return false;
	if (residency->random)
		(void)madvise(residency->base, residency->length, MADV_RANDOM);
	return true;
}

static bool show_arena(struct residency *residency, uint64_t offset, uint64_t end)
{
	return mmap(residency->base + offset, end - offset, PROT_READ, MAP_SHARED | MAP_FIXED,
		    arena_fd(residency->arena), (off_t)offset) != MAP_FAILED;
}

void chunk_span(const struct residency *residency, uint64_t chunk, uint64_t *start, uint64_t *end)
{
	*start = chunk * ARENA_CHUNK;
	if (*start < residency->low)
		*start = residency->low;
	*end = round_up(chunk_end(residency, chunk), ARENA_BLOCK);
}

void runs_clear(struct residency *residency, uint64_t chunk)
{
	for (unsigned i = 0; i < ARENA_BLOCKS / 64; i++)
		atomic_store_explicit(&residency->runs[chunk * (ARENA_BLOCKS / 64) + i], 0,
				      memory_order_relaxed);
}

/* Takes a chunk out of the arena's hands: what was handed out goes on being right. false: the
 * kernel refuses, and the arena stays under it. */
static bool chunk_rest(struct residency *residency, uint64_t chunk)
{
	enum chunk_state before = get_state(residency, chunk);
	bool spilled = false;
	uint64_t start, end;
	int64_t borders;

	residency->taints[chunk] = residency->epoch;
	if (!is_shown(residency, chunk))
		return true;
	if (residency->spill >= 0 && chunk_spill(residency, chunk, &spilled))
		return false;
	chunk_span(residency, chunk, &start, &end);
	borders = borders_around(residency, chunk);
	/* The state changes before the map does, so that no thread takes the chunk for the
	 * arena's. */
	set_state(residency, chunk, spilled ? CHUNK_WARM : CHUNK_REST);
	if (!show_file(residency, start, end)) {
		set_state(residency, chunk, before);
		return false;
	}
	runs_clear(residency, chunk);
	borders_add(residency, borders_around(residency, chunk) - borders);
	arena_unpin(residency->arena, chunk);
	return true;
}

bool chunk_leave(struct residency *residency, uint64_t chunk)
{
	if (get_state(residency, chunk) != CHUNK_RUNS || residency->spill >= 0)
		return chunk_rest(residency, chunk);
	/* Between its runs it shows the file already. */
	residency->taints[chunk] = residency->epoch;
	return true;
}

/* Room for two chunks more in the ring. */
static bool ring_room(struct residency *residency)
{
	uint64_t room = residency->mapped_room ? residency->mapped_room * 2 : 64, *ring;

	if (residency->mapped_count + ARENA_PAIR <= residency->mapped_room)
		return true;
	ring = malloc(room * sizeof(*ring));
	if (!ring)
		return false;
	for (uint64_t i = 0; i < residency->mapped_count; i++)
		ring[i] = residency->mapped[(residency->mapped_first + i) % residency->mapped_room];
	free(residency->mapped);
	residency->mapped = ring;
	residency->mapped_room = room;
	residency->mapped_first = 0;
	return true;
}

static void ring_put(struct residency *residency, uint64_t chunk)
{
	residency->mapped[(residency->mapped_first + residency->mapped_count++) %
			  residency->mapped_room] = chunk;
}

/* The oldest one becomes the newest. */
static void ring_turn(struct residency *residency)
{
	uint64_t chunk = residency->mapped[residency->mapped_first];

	residency->mapped_first = (residency->mapped_first + 1) % residency->mapped_room;
	residency->mapped_count--;
	ring_put(residency, chunk);
}

/* The oldest map; false when the kernel does not let it go. */
static bool shed_one(struct residency *residency)
{
	if (!chunk_rest(residency, residency->mapped[residency->mapped_first]))
		return false;
	residency->mapped_first = (residency->mapped_first + 1) % residency->mapped_room;
	residency->mapped_count--;
	return true;
}

/* Whether this process has more than its share. Where a server brings chunks, those in front of the
 * program are the newest, and must not go for want of room that others take. */
static bool has_too_much(const struct residency *residency)
{
	uint64_t share;

	if (residency->mapped_count <= MAPPED_KEEP)
		return false;
	if (residency->link.fd < 0)
		return arena_pressed(residency->arena);
	share = arena_share(residency->arena);
	return share == UINT64_MAX ? arena_pressed(residency->arena)
				   : residency->mapped_count > share / ARENA_CHUNK;
}

/* Whether a cursor stands there: its leaf is read for as long as all of its values last. */
static bool is_stood_on(const struct residency *residency, uint64_t chunk)
{
	uint32_t since = atomic_load_explicit(&residency->maps, memory_order_relaxed) -
			 atomic_load_explicit(&residency->uses[chunk], memory_order_relaxed);

	return since < residency->mapped_count / 2;
}

/* A chunk that was used since the last look is passed over once; one that a cursor stands on,
 * always. If all were used, the oldest of them goes. */
static void pass_over_used(struct residency *residency)
{
	for (uint64_t n = 2 * residency->mapped_count; n > 0; n--) {
		uint64_t chunk = residency->mapped[residency->mapped_first];
		unsigned char full = CHUNK_FULL;

		if (!is_stood_on(residency, chunk) &&
		    !atomic_compare_exchange_strong(&residency->states[chunk], &full, CHUNK_IDLE))
			return;
		ring_turn(residency);
	}
}

static bool shed_oldest(struct residency *residency)
{
	if (!has_too_much(residency))
		return false;
	pass_over_used(residency);
	if (!shed_one(residency))
		return false;
	stats_add(STATS_EVICTIONS, 1);
	return true;
}

void shed(struct residency *residency)
{
	while (shed_oldest(residency))
		;
}

bool shed_all(struct residency *residency)
{
	while (residency->mapped_count > 0)
		if (!shed_one(residency))
			return false;
	return true;
}

/* In one piece: a call for each chunk would split each huge page, and wait each time for the locks
 * of the files, which the node's processes share. */
bool rest_all(struct residency *residency)
{
	if (!residency->mapped_count)
		return true;
	if (residency->spill >= 0 || !show_file_whole(residency))
		return shed_all(residency);
	for (; residency->mapped_count > 0; residency->mapped_count--) {
		uint64_t chunk = residency->mapped[residency->mapped_first];

		set_state(residency, chunk, CHUNK_REST);
		runs_clear(residency, chunk);
		arena_unpin(residency->arena, chunk);
		residency->mapped_first = (residency->mapped_first + 1) % residency->mapped_room;
	}
	borders_clear(residency);
	return true;
}

/* Whether a chunk may have a map more: the oldest ones go for it. */
static bool maps_make_room(struct residency *residency, uint64_t chunk)
{
	while (borders_are_many(residency)) {
		if (!residency->mapped_count)
			return false;
		if (residency->mapped[residency->mapped_first] == chunk) {
			if (residency->mapped_count == 1)
				return false;
			ring_turn(residency);
		}
		if (!shed_one(residency))
			return false;
		stats_add(STATS_EVICTIONS, 1);
	}
	return true;
}

void mark_run(struct residency *residency, uint64_t first, uint64_t end)
{
	for (uint64_t block = first; block < end; block++)
		atomic_fetch_or_explicit(&residency->runs[block / 64], 1ull << (block % 64),
					 memory_order_release);
}

bool is_half(const struct residency *residency, uint64_t chunk)
{
	return (uintptr_t)residency->base % (ARENA_PAIR * ARENA_CHUNK) == 0 &&
	       arena_is_huge(residency->arena, chunk);
}

static bool is_whole(const struct residency *residency, uint64_t chunk)
{
	uint64_t start, stop;

	chunk_span(residency, chunk, &start, &stop);
	return arena_present(residency->arena, block_of(start), block_of(stop - start));
}

/* Adds the other half of a huge page to the range that shows all of a chunk, if that shows it, or
 * may: the kernel maps the page with one entry, but only where both halves are laid at once, for
 * those of the first would stand in the way. true: the other half was at rest, and is pinned now.
 */
static bool join_halves(const struct residency *residency, uint64_t chunk, uint64_t *start,
			uint64_t *stop)
{
	uint64_t other = chunk ^ (ARENA_PAIR - 1), other_start, other_stop;
	enum chunk_state state;

	if (!is_half(residency, chunk))
		return false;
	state = get_state(residency, other);
	if (state == CHUNK_REST) {
		if (!is_whole(residency, other) || !arena_pin(residency->arena, other))
			return false;
		/* Only a pin makes the look last. */
		if (!is_whole(residency, other)) {
			arena_unpin(residency->arena, other);
			return false;
		}
	} else if (state != CHUNK_FULL && state != CHUNK_IDLE) {
		return false;
	}
	chunk_span(residency, other, &other_start, &other_stop);
	if (other < chunk)
		*start = other_start;
	else
		*stop = other_stop;
	return state == CHUNK_REST;
}

/* What is known of a chunk that has come to show the arena. */
static void chunk_shown(struct residency *residency, uint64_t chunk, enum chunk_state state,
			bool fresh)
{
	int64_t borders = borders_around(residency, chunk);

	set_state(residency, chunk, state);
	borders_add(residency, borders_around(residency, chunk) - borders);
	if (fresh) {
		ring_put(residency, chunk);
		atomic_fetch_add_explicit(&residency->maps, 1, memory_order_relaxed);
	}
}

/* Lays all of a chunk, and the other half of a huge page with it. */
static bool chunk_map(struct residency *residency, uint64_t chunk, bool fresh)
{
	uint64_t other = chunk ^ (ARENA_PAIR - 1), start, stop;
	bool both;

	chunk_span(residency, chunk, &start, &stop);
	both = join_halves(residency, chunk, &start, &stop);
	if (!show_arena(residency, start, stop)) {
		if (both)
			arena_unpin(residency->arena, other);
		return false;
	}
	chunk_shown(residency, chunk, CHUNK_FULL, fresh);
	if (both) {
		runs_clear(residency, other);
		chunk_shown(residency, other, CHUNK_FULL, true);
		stats_add(is_own(residency, other) ? STATS_HITS_ARENA_OWN : STATS_HITS_ARENA_PEER,
			  1);
	}
	return true;
}

/* Lays blocks [first, end) of a chunk of which not all is there; the holes too, where no old
 * pointer could lead into one. */
static bool chunk_map_part(struct residency *residency, uint64_t chunk, uint64_t first,
			   uint64_t end, bool fresh)
{
	uint64_t start, stop;
	int64_t borders;

	chunk_span(residency, chunk, &start, &stop);
	if (!is_tainted(residency, chunk)) {
		if (!show_arena(residency, start, stop))
			return false;
		chunk_shown(residency, chunk, CHUNK_PART, fresh);
		return true;
	}
	if (first * ARENA_BLOCK < start)
		first = block_of(start);
	if (first < end && !show_arena(residency, first * ARENA_BLOCK, end * ARENA_BLOCK))
		return false;
	borders = borders_around(residency, chunk);
	mark_run(residency, first, end);
	borders_add(residency, borders_around(residency, chunk) - borders);
	chunk_shown(residency, chunk, CHUNK_RUNS, fresh);
	return true;
}

/* Shows the blocks [first, end) of a pinned chunk, all of which are published. */
bool chunk_show(struct residency *residency, uint64_t chunk, uint64_t first, uint64_t end)
{
	enum chunk_state state = get_state(residency, chunk);
	bool fresh = !is_shown(residency, chunk), whole = is_whole(residency, chunk);

	if (state == CHUNK_FULL || state == CHUNK_IDLE || (state == CHUNK_PART && !whole))
		return true;
	if (state == CHUNK_PART) {
		set_state(residency, chunk, CHUNK_FULL);
		return true;
	}
	if (!maps_make_room(residency, chunk) || !ring_room(residency))
		return false;
	/* Of what is warm pointers have been handed out unasked, in any epoch since it is. */
	if (state == CHUNK_WARM)
		residency->taints[chunk] = residency->epoch;
	if (fresh)
		runs_clear(residency, chunk); /* those told of the page cache */
	return whole ? chunk_map(residency, chunk, fresh)
		     : chunk_map_part(residency, chunk, first, end, fresh);
}
