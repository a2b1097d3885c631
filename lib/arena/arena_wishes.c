/* SPDX-License-Identifier: OLDAP-2.8 */
/* Passes wishes for chunks from the members to the server, and its answers back.
 *
 * Each process puts its wishes into a ring of its own. So a process that dies at any instruction
 * leaves nothing but wishes that no process waits for. A wish may be lost (the ring is full, the
 * server has just died): a process that waits wishes again every so often.
 */
#include "arena/arena_private.h"

#include "util/clock.h"

#include <errno.h>

static const uint64_t wish_again = 20000000, answer_slice = 50000000; /* ns */

/* --- the server ------------------------------------------------------------------------------ */

int arena_serve(struct arena *arena, uint64_t keeps, bool whole)
{
	uint32_t now = atomic_load(&arena->head->server), mine = arena->row | (whole ? SERVER_WHOLE : 0);

	if (arena->alone)
		return ENOTSUP;
	while (now != mine) {
		unsigned row = now & WORD_OWNER;

		if (row && row != arena->row && arena_row_lives(arena, row) &&
		    atomic_load(&arena->head->server) == now)
			return EBUSY;
		now = atomic_load(&arena->head->server);
		/* Only a stray store leaves flags without a row. */
		if ((!(now & WORD_OWNER) || (now & WORD_OWNER) == arena->row) &&
		    atomic_compare_exchange_strong(&arena->head->server, &now, mine))
			break;
	}
	atomic_store(&arena->head->keeps, keeps);
	return 0;
}

static void answers_tell(struct arena *arena)
{
	atomic_fetch_add(&arena->head->answers, 1);
	if (atomic_exchange(&arena->head->awaited, 0))
		clock_futex_wake(&arena->head->answers);
}

void arena_serve_end(struct arena *arena, unsigned row)
{
	uint32_t now = atomic_load(&arena->head->server);

	if ((now & WORD_OWNER) == row && atomic_compare_exchange_strong(&arena->head->server, &now, 0))
		answers_tell(arena);
}

static bool wish_take(struct arena *arena, unsigned row, uint64_t *chunk, bool *urgent)
{
	struct arena_wishes *ring = &arena->wishes[row];
	uint32_t in, out;
	uint64_t wish;

	if (!atomic_load_explicit(&arena->rows[row].wishes, memory_order_acquire))
		return false;
	in = atomic_load_explicit(&ring->in, memory_order_acquire);
	out = atomic_load_explicit(&ring->out, memory_order_relaxed);
	if (in - out > ARENA_WISHES)
		out = in - ARENA_WISHES;
	do {
		if (in == out)
			return false;
		wish = atomic_load_explicit(&ring->wishes[out++ % ARENA_WISHES], memory_order_relaxed);
		atomic_store_explicit(&ring->out, out, memory_order_release);
	} while (wish >> 1 >= arena->chunks);
	*chunk = wish >> 1;
	*urgent = wish & 1;
	return true;
}

bool arena_wish_next(struct arena *arena, uint64_t *chunk, bool *urgent)
{
	unsigned high = arena_rows_high(arena);

	for (unsigned i = 0; i <= high; i++) {
		unsigned row = (arena->asked + i) % (high + 1);

		if (wish_take(arena, row, chunk, urgent)) {
			arena->asked = row + 1;
			return true;
		}
	}
	return false;
}

bool arena_serve_sleeps(struct arena *arena, bool asleep)
{
	atomic_store(&arena->head->asleep, asleep);
	if (!asleep)
		return true;
	for (unsigned row = 1; row <= arena_rows_high(arena); row++)
		if (atomic_load(&arena->rows[row].wishes) &&
		    atomic_load(&arena->wishes[row].in) != atomic_load(&arena->wishes[row].out)) {
			atomic_store(&arena->head->asleep, 0);
			return false;
		}
	return true;
}

void arena_answer(struct arena *arena, uint64_t chunk, bool refused)
{
	struct arena_group *group = arena_group_need(arena, chunk, arena->row);
	uint64_t bit = UINT64_C(1) << chunk % 64;

	if (!group)
		return;
	if (refused)
		atomic_fetch_or(&group->refused[chunk % ARENA_GROUP / 64], bit);
	answers_tell(arena);
}

void arena_beat(struct arena *arena)
{
	arena_account_begin(arena);
	arena_account_end(arena);
}

void arena_keep(struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = arena_group_need(arena, chunk, arena->row);
	uint64_t bit = UINT64_C(1) << chunk % 64;

	if (!group || atomic_load(&group->kept[chunk % ARENA_GROUP / 64]) & bit)
		return;
	/* A process that dies in the middle leaves the count too high. Too low is worse: while the
	 * count is 0, no chunk with the mark is evicted. */
	atomic_fetch_add(&arena->head->kept, 1);
	if (atomic_fetch_or(&group->kept[chunk % ARENA_GROUP / 64], bit) & bit)
		atomic_fetch_sub(&arena->head->kept, 1);
}

/* --- the other members ------------------------------------------------------------------------ */

bool arena_is_served(const struct arena *arena, uint64_t chunk, bool *whole)
{
	uint32_t server = atomic_load_explicit(&arena->head->server, memory_order_relaxed);
	struct arena_group *group;

	*whole = server & SERVER_WHOLE;
	if (!server || (server & WORD_OWNER) == arena->row || chunk >= arena->chunks ||
	    atomic_load_explicit(&arena->ring_lacks_memory, memory_order_relaxed))
		return false;
	group = arena_group_of(arena, chunk);
	return !group || !(atomic_load_explicit(&group->refused[chunk % ARENA_GROUP / 64],
						memory_order_relaxed) >>
				   chunk % 64 &
			   1);
}

/* Whether a wish is worth passing on: not if the same was passed on within the last 20 ms. */
static bool is_new(struct arena *arena, uint64_t wish)
{
	unsigned place = (unsigned)(wish >> 1) % ARENA_RECENT;
	uint64_t now = clock_now(), before = atomic_load(&arena->recent[place].wish);

	/* After an urgent wish, neither an urgent nor an ordinary one is new. */
	if ((before == wish + 1 || before == (wish | 1) + 1) &&
	    now - arena->recent[place].at < wish_again)
		return false;
	atomic_store(&arena->recent[place].wish, wish + 1);
	arena->recent[place].at = now;
	return true;
}

static struct arena_wishes *ring_need(struct arena *arena)
{
	struct arena_wishes *ring = &arena->wishes[arena->row];

	if (atomic_load_explicit(&arena_own_row(arena)->wishes, memory_order_relaxed))
		return ring;
	if (!arena_give_memory(arena, ring, sizeof(*ring))) {
		atomic_store(&arena->ring_lacks_memory, true);
		return NULL;
	}
	/* Drops the wishes that an earlier owner of the row has left. */
	atomic_store(&ring->in, atomic_load(&ring->out));
	atomic_store(&arena_own_row(arena)->wishes, 1);
	return ring;
}

bool arena_wish(struct arena *arena, uint64_t chunk, bool urgent)
{
	uint64_t wish = chunk << 1 | urgent;
	struct arena_wishes *ring = ring_need(arena);
	uint32_t in;

	if (!ring || !is_new(arena, wish))
		return false;
	in = atomic_load_explicit(&ring->in, memory_order_relaxed);
	if (in - atomic_load_explicit(&ring->out, memory_order_acquire) < ARENA_WISHES) {
		atomic_store_explicit(&ring->wishes[in % ARENA_WISHES], wish, memory_order_relaxed);
		arena_step("wishing");
		/* Sequentially consistent with the server's look at the ring and this process's at
		 * `asleep`. */
		atomic_store(&ring->in, in + 1);
	}
	arena_step("wished");
	return atomic_load(&arena->head->asleep) && atomic_exchange(&arena->head->asleep, 0);
}

/* Reads without the caller's lock: a wish that is forgotten too soon costs a look. */
static bool has_wished(const struct arena *arena, uint64_t chunk)
{
	return (atomic_load_explicit(&arena->recent[chunk % ARENA_RECENT].wish, memory_order_relaxed) -
		1) >> 1 == chunk;
}

static bool is_answered(const struct arena *arena, uint64_t chunk)
{
	uint64_t first = chunk * ARENA_BLOCKS, end = first + ARENA_BLOCKS, run;
	uint64_t blocks = (arena->identity.size + ARENA_BLOCK - 1) / ARENA_BLOCK;
	bool whole;

	return !has_wished(arena, chunk) || !arena_is_served(arena, chunk, &whole) ||
	       !arena_missing(arena, first, end < blocks ? end : blocks, &run);
}

bool arena_wish_wait(struct arena *arena, uint64_t chunk, unsigned milliseconds)
{
	uint64_t now = clock_now(), end = now + milliseconds * UINT64_C(1000000);

	for (;; now = clock_now()) {
		uint32_t answers = atomic_load(&arena->head->answers);
		unsigned server = atomic_load(&arena->head->server) & WORD_OWNER;

		if (is_answered(arena, chunk))
			return true;
		if (server && !arena_row_lives(arena, server))
			continue; /* the server has died */
		if (now >= end)
			return false;
		atomic_store(&arena->head->awaited, 1);
		/* Returns at once if an answer has come since `answers` was read. */
		clock_futex_wait(&arena->head->answers, answers,
				 end - now < answer_slice ? end - now : answer_slice);
	}
}
