/* SPDX-License-Identifier: OLDAP-2.8 */
/* Publishes blocks, and gives the pages of the table their memory. */
#include "arena/arena_private.h"

#include "util/checked.h"
#include "util/descriptor.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- groups --------------------------------------------------------------------------------- */

bool arena_give_memory(const struct arena *arena, const void *start, size_t length)
{
	off_t offset = (const uint8_t *)start - arena->base;
	int rc;

	if (!descriptor_is_kept(&arena->file))
		return false;
	do {
		rc = fallocate(arena->file.fd, FALLOC_FL_KEEP_SIZE, offset, (off_t)length);
	} while (rc && errno == EINTR);
	return !rc;
}

static bool group_grow(struct arena *arena, uint64_t number, unsigned page)
{
	struct arena_group *group = &arena->groups[number];
	uint32_t bits = atomic_load(&arena->ready[number]);

	if (!(bits & 1) && !arena_give_memory(arena, group, offsetof(struct arena_group, pins) + 4096))
		return false;
	if (page && !arena_give_memory(arena, group->pins[page * ARENA_PAGE_ROWS], 4096))
		return false;
	atomic_fetch_or(&arena->ready[number], 1U | 1U << page);
	return true;
}

struct arena_group *arena_group_need(struct arena *arena, uint64_t chunk, unsigned row)
{
	uint64_t number = chunk / ARENA_GROUP;
	unsigned page = row / ARENA_PAGE_ROWS;
	uint32_t wanted = 1U | 1U << page;

	if (chunk >= arena->chunks)
		return NULL;
	if ((atomic_load_explicit(&arena->ready[number], memory_order_acquire) & wanted) != wanted &&
	    !group_grow(arena, number, page))
		return NULL;
	return &arena->groups[number];
}

bool arena_tables_make(struct arena *arena)
{
	for (uint64_t chunk = 0; chunk < arena->chunks; chunk += ARENA_GROUP)
		if (!arena_group_need(arena, chunk, arena->row))
			return false;
	return true;
}

unsigned arena_pieces(const struct arena *arena, uint64_t chunk)
{
	const struct arena_group *group = arena_group_of(arena, chunk);

	return group ? atomic_load_explicit(&group->pieces[chunk % ARENA_GROUP],
					    memory_order_relaxed)
		     : 0;
}

uint64_t arena_pieces_blocks(const struct arena *arena)
{
	return atomic_load_explicit(&arena->head->pieces, memory_order_relaxed);
}

void arena_pieces_add(struct arena *arena, uint64_t chunk, uint64_t blocks)
{
	struct arena_group *group = arena_group_need(arena, chunk, arena->row);
	unsigned pieces = arena_pieces(arena, chunk);

	atomic_fetch_add_explicit(&arena->head->pieces, blocks, memory_order_relaxed);
	if (group && pieces < UINT8_MAX)
		atomic_store_explicit(&group->pieces[chunk % ARENA_GROUP], (uint8_t)(pieces + 1),
				      memory_order_relaxed);
}

/* Writes through the descriptor, unless there is a huge page: making a page for bytes at hand costs
 * half as much as mapping an empty page and reading into it. */
int arena_fill(struct arena *arena, uint64_t offset, const void *bytes, uint64_t length)
{
	uint8_t *place;

	if (offset + length > arena->data_length || !limits_allow_file(offset + length) ||
	    !descriptor_is_kept(&arena->file))
		return ENOMEM;
	place = length ? arena_place(arena, offset, length) : NULL;
	if (place) {
		memcpy(place, bytes, length);
		return 0;
	}
	return whole_write(arena->file.fd, bytes, length, offset) ? ENOMEM : 0;
}

/* --- blocks --------------------------------------------------------------------------------- */

/* Returns the word of 64 bits that holds a block's bit. */
static _Atomic uint64_t *bits_of(struct arena_group *group, uint64_t block)
{
	return &group->published[block / ARENA_BLOCKS % ARENA_GROUP][block % ARENA_BLOCKS / 64];
}

static uint64_t bits_load(const struct arena *arena, uint64_t block)
{
	struct arena_group *group = arena_group_of(arena, block / ARENA_BLOCKS);

	return group ? atomic_load_explicit(bits_of(group, block), memory_order_acquire) : 0;
}

/* Returns the bits of a word that stand for blocks from `block` up to `end`. */
static uint64_t bits_between(uint64_t block, uint64_t end)
{
	uint64_t from = block % 64, length = end - block < 64 - from ? end - block : 64 - from;

	return (length < 64 ? (UINT64_C(1) << length) - 1 : ~UINT64_C(0)) << from;
}

static uint64_t next_word(uint64_t block)
{
	return (block | 63) + 1;
}

static uint64_t all_blocks(const struct arena *arena)
{
	return arena->chunks * ARENA_BLOCKS;
}

bool arena_present(const struct arena *arena, uint64_t first, uint64_t count)
{
	uint64_t end;

	if (unlikely(!checked_add(first, count, &end) || end > all_blocks(arena)))
		return false;
	for (uint64_t block = first; block < end; block = next_word(block)) {
		uint64_t wanted = bits_between(block, end);

		if ((bits_load(arena, block) & wanted) != wanted)
			return false;
	}
	return true;
}

uint64_t arena_missing(const struct arena *arena, uint64_t first, uint64_t end, uint64_t *run)
{
	uint64_t block = first;

	if (end > all_blocks(arena))
		end = all_blocks(arena);
	for (; block < end; block = next_word(block)) {
		uint64_t missing = ~bits_load(arena, block) & bits_between(block, end);

		if (missing) {
			block = (block & ~UINT64_C(63)) + (unsigned)__builtin_ctzll(missing);
			break;
		}
	}
	*run = block < end ? block : end;
	for (; block < end; block = next_word(block)) {
		uint64_t present = bits_load(arena, block) & bits_between(block, end);

		if (present) {
			block = (block & ~UINT64_C(63)) + (unsigned)__builtin_ctzll(present);
			break;
		}
	}
	return (block < end ? block : end) - (*run < end ? *run : end);
}

uint64_t arena_published(struct arena_group *group, uint64_t chunk)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < ARENA_BLOCKS / 64; i++)
		count += (unsigned)__builtin_popcountll(
			atomic_load(&group->published[chunk % ARENA_GROUP][i]));
	return count;
}

/* Counts first and sets the bits afterwards. A process that dies in between leaves the node's
 * account too high, which a recount corrects. Too low, the account would let the node grow over its
 * budget. */
static void publish_in_chunk(struct arena *arena, uint64_t first, uint64_t end)
{
	uint64_t chunk = first / ARENA_BLOCKS, expected = 0, set = 0;
	struct arena_group *group = arena_group_of(arena, chunk);

	if (!group || (atomic_load_explicit(&group->words[chunk % ARENA_GROUP], memory_order_relaxed) &
		       (WORD_OWNER | WORD_EVICTING)) != arena->row)
		return; /* this process has not claimed the chunk */
	for (uint64_t block = first; block < end; block = next_word(block))
		expected += (unsigned)__builtin_popcountll(~bits_load(arena, block) &
							   bits_between(block, end));
	atomic_fetch_or(&group->pins[0][chunk % ARENA_GROUP / 64], UINT64_C(1) << chunk % 64);
	arena_account_published(arena, expected);
	arena_step("publish-counted");
	for (uint64_t block = first; block < end; block = next_word(block)) {
		uint64_t wanted = bits_between(block, end);
		uint64_t old = atomic_fetch_or(bits_of(group, block), wanted);

		set += (unsigned)__builtin_popcountll(wanted & ~old);
	}
	if (set < expected) /* another thread published some of them meanwhile */
		arena_lower(arena, expected - set);
}

void arena_publish(struct arena *arena, uint64_t first, uint64_t count)
{
	uint64_t end;

	if (!checked_add(first, count, &end) || end > all_blocks(arena))
		return;
	arena_account_begin(arena);
	while (first < end) {
		uint64_t next = (first / ARENA_BLOCKS + 1) * ARENA_BLOCKS;

		if (next > end)
			next = end;
		publish_in_chunk(arena, first, next);
		first = next;
	}
	arena_account_end(arena);
	arena_step("published");
}

void arena_free_unpublished(struct arena *arena, uint64_t chunk)
{
	uint64_t first = chunk * ARENA_BLOCKS, end = first + ARENA_BLOCKS, run, length;

	for (; (length = arena_missing(arena, first, end, &run)) > 0; first = run + length) {
		arena_huge_break(&arena->groups[chunk / ARENA_GROUP], chunk);
		(void)arena_give_back(arena, run * ARENA_BLOCK, length * ARENA_BLOCK);
	}
}
