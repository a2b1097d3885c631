/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts the memory that the node keeps, and evicts chunks when there is no room.
 *
 * head->used counts blocks that are published or reserved. Every change is made in such an order
 * that a process which dies in the middle leaves the count too high, never too low. The count is
 * then in doubt, and the next process that needs room counts again.
 */
#include "arena/arena_private.h"

#include "util/descriptor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	SAMPLE = 32,        /* chunks that are compared before the oldest of them goes */
	MEMBER_ROOM = 4,    /* chunks that a member needs at least */
	READER_WINDOW = 20, /* chunks that one reader uses at a time */
	STALE = 2,          /* a retained chunk is stale after claims of STALE times the file */
	AHEAD = 8 /* chunks that one call evicts beyond its need while the node is pressed */
};

/* --- accounts ------------------------------------------------------------------------------- */

void arena_account_begin(struct arena *arena)
{
	atomic_fetch_add(&arena_own_row(arena)->began, 1);
}

void arena_account_end(struct arena *arena)
{
	atomic_fetch_add(&arena_own_row(arena)->ended, 1);
}

/* Takes up to `blocks` off what this process has reserved. */
static uint64_t reserved_take(struct arena *arena, uint64_t blocks)
{
	_Atomic int64_t *reserved = &arena_own_row(arena)->reserved;
	int64_t has = atomic_load(reserved), take;

	do {
		take = has < 0 ? 0 : has;
		if ((uint64_t)take > blocks)
			take = (int64_t)blocks;
	} while (!atomic_compare_exchange_weak(reserved, &has, has - take));
	return (uint64_t)take;
}

/* Blocks that were not reserved become the node's when they are published. */
void arena_account_published(struct arena *arena, uint64_t blocks)
{
	uint64_t taken = reserved_take(arena, blocks);

	if (taken < blocks)
		atomic_fetch_add(&arena->head->used, blocks - taken);
}

static bool is_roomy(const struct arena *arena, uint64_t used)
{
	return used < arena_limit(arena) - arena_limit(arena) / 8;
}

void arena_lower(struct arena *arena, uint64_t blocks)
{
	uint64_t used = atomic_fetch_sub(&arena->head->used, blocks) - blocks;

	if (is_roomy(arena, used) && atomic_load(&arena->head->pressed))
		atomic_store(&arena->head->pressed, 0);
}

static bool is_anybody_counting(const struct arena *arena, const uint64_t *began, unsigned high)
{
	for (unsigned row = 1; row <= high; row++)
		if (atomic_load(&arena->rows[row].began) != began[row])
			return true;
	return false;
}

static uint64_t published_in_all(const struct arena *arena)
{
	uint64_t total = 0;

	for (uint64_t chunk = 0; chunk < arena->chunks; chunk++) {
		struct arena_group *group = arena_group_of(arena, chunk);

		if (!group)
			chunk |= ARENA_GROUP - 1;
		else if (!atomic_load(&group->pins[0][chunk % ARENA_GROUP / 64]))
			chunk |= 63;
		else
			total += arena_published(group, chunk);
	}
	return total;
}

/* Counts again after a process died, if no process changes the accounts meanwhile (else the next
 * caller tries). The result replaces only the number that head->used had when the counting began.
 * For each row, `ended` is read first and `began` last: if they are equal, no change was under way
 * in between. */
bool arena_recount(struct arena *arena)
{
	uint64_t began[ARENA_ROWS], used, total;
	int64_t reserved = 0;
	unsigned high;

	if (!atomic_exchange(&arena->head->doubt, 0))
		return false;
	used = atomic_load(&arena->head->used);
	high = arena_rows_high(arena);
	for (unsigned row = 1; row <= high; row++) {
		uint64_t ended = atomic_load(&arena->rows[row].ended);
		int64_t has = atomic_load(&arena->rows[row].reserved);

		arena_step("recounting");
		began[row] = atomic_load(&arena->rows[row].began);
		if (ended != began[row])
			goto busy;
		reserved += has > 0 ? has : 0;
	}
	total = published_in_all(arena) + (uint64_t)reserved;
	if (is_anybody_counting(arena, began, high) || arena_rows_high(arena) != high)
		goto busy;
	if (atomic_compare_exchange_strong(&arena->head->used, &used, total))
		return total < used;
busy:
	atomic_store(&arena->head->doubt, 1);
	return false;
}

/* --- shares of the room ------------------------------------------------------------- */

/* Returns how many blocks the server may keep; the rest is for members. */
static uint64_t arena_keep_limit(const struct arena *arena)
{
	uint64_t members = atomic_load_explicit(&arena->members, memory_order_relaxed);
	uint64_t room = members * MEMBER_ROOM * ARENA_BLOCKS, all = arena_limit(arena);

	if (room < all / 8)
		room = all / 8;
	return room < all ? all - room : 0;
}

static bool is_served(const struct arena *arena)
{
	return atomic_load_explicit(&arena->head->server, memory_order_relaxed);
}

/* Returns the blocks for copies of chunks that other nodes keep, beside what the server keeps. */
static uint64_t room_of_copies(const struct arena *arena)
{
	uint64_t keeps = atomic_load(&arena->head->keeps) * ARENA_BLOCKS;
	uint64_t limit = arena_keep_limit(arena);

	return arena_limit(arena) - (keeps < limit ? keeps : limit);
}

/* Counts the members without the server. */
static uint64_t readers(const struct arena *arena)
{
	uint64_t members = atomic_load_explicit(&arena->members, memory_order_relaxed);

	return members > 2 ? members - 1 : 1;
}

/* Returns how much of room_of_copies() is for chunks that come and go; the rest is for retained
 * chunks. */
static uint64_t room_to_pass(const struct arena *arena)
{
	uint64_t room = room_of_copies(arena);
	uint64_t window = readers(arena) * READER_WINDOW * ARENA_BLOCKS;

	if (window < room / 4)
		window = room / 4;
	return window < room ? window : room;
}

uint64_t arena_share(struct arena *arena)
{
	const uint64_t least = MEMBER_ROOM * ARENA_BLOCKS;
	uint64_t room;

	if (!is_served(arena) || arena->needs <= arena_limit(arena))
		return UINT64_MAX;
	(void)arena_members(arena); /* counts the members */
	room = room_to_pass(arena);
	/* The server pins little, but chunks on their way have their room already. */
	room = room > 2 * least ? room - least : least;
	return room / readers(arena) * ARENA_BLOCK;
}

/* --- eviction ------------------------------------------------------------------------------- */

static uint64_t pinned_in(const struct arena *arena, uint64_t group, unsigned word)
{
	unsigned high = arena_rows_high(arena);
	uint64_t pinned = 0;

	for (unsigned row = 1; row <= high; row++) {
		if (!arena_row_has_pins(arena, group, row)) {
			row |= ARENA_PAGE_ROWS - 1;
			continue;
		}
		pinned |= atomic_load(&arena->groups[group].pins[row][word]);
	}
	return pinned;
}

/* Punches through the descriptor, for a sandbox that refuses madvise(2). The program may have given
 * the descriptor's number to a file of its own. So the check and the hole use a duplicate that the
 * program has never seen. */
static bool punch(const struct arena *arena, uint64_t offset, uint64_t length)
{
	int fd = descriptor_twin(arena->file.fd);
	bool punched = fd >= 0 && descriptor_is(fd, arena->file.device, arena->file.inode) &&
		       !fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
				  (off_t)length);

	if (fd >= 0)
		close(fd);
	return punched;
}

/* Frees the memory through the map, not the descriptor: whatever a program has done to its
 * descriptors, the hole is in the arena alone. */
bool arena_give_back(const struct arena *arena, uint64_t offset, uint64_t length)
{
	return !madvise(arena->base + offset, length, MADV_REMOVE) || punch(arena, offset, length);
}

uint64_t arena_empty(struct arena *arena, struct arena_group *group, uint64_t chunk)
{
	uint64_t blocks = arena_published(group, chunk), bit = UINT64_C(1) << chunk % 64;

	for (unsigned i = 0; i < ARENA_BLOCKS / 64; i++)
		atomic_store(&group->published[chunk % ARENA_GROUP][i], 0);
	arena_step("evict-cleared");
	arena_huge_break(group, chunk);
	if (!arena_give_back(arena, chunk * ARENA_CHUNK, ARENA_CHUNK))
		blocks = 0; /* still there, so still counted */
	arena_step("evict-punched");
	atomic_fetch_and(&group->pins[0][chunk % ARENA_GROUP / 64], ~bit);
	atomic_fetch_and(&group->refused[chunk % ARENA_GROUP / 64], ~bit);
	if (atomic_fetch_and(&group->kept[chunk % ARENA_GROUP / 64], ~bit) & bit)
		atomic_fetch_sub(&arena->head->kept, 1);
	if (atomic_fetch_and(&group->retained[chunk % ARENA_GROUP / 64], ~bit) & bit)
		atomic_fetch_sub(&arena->head->retained, 1);
	return blocks;
}

static bool evict(struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = arena_group_of(arena, chunk);
	uint64_t blocks;
	bool pinned;

	arena_step("evict-chosen");
	if (!group || !arena_claim_as(arena, group, chunk, arena->row | WORD_EVICTING))
		return false;
	arena_step("evict-claimed");
	pinned = pinned_in(arena, chunk / ARENA_GROUP, chunk % ARENA_GROUP / 64) >> chunk % 64 & 1;
	if (!pinned) {
		atomic_fetch_or(&group->words[chunk % ARENA_GROUP], WORD_EMPTYING);
		arena_account_begin(arena);
		blocks = arena_empty(arena, group, chunk);
		arena_lower(arena, blocks);
		arena_account_end(arena);
		arena_step("evict-counted");
		atomic_fetch_add(&arena->head->evictions, 1);
	}
	arena_claim_end(arena, group, chunk, arena->row);
	return !pinned;
}

/* What may be evicted: each kind only when nothing is left of the kind before. */
enum reach {
	REACH_PASSING,  /* chunks neither retained nor kept, or retained and stale */
	REACH_RETAINED, /* retained chunks, too */
	REACH_KEPT,     /* and chunks that the server keeps for other nodes */
};

/* A search for chunks to evict: once around, in steps of 64 chunks. */
struct eviction {
	uint64_t at;   /* chunk */
	uint64_t left; /* chunks */
	enum reach reach;
	int32_t stale; /* claims since its last use that make a retained chunk stale */
	struct {
		uint64_t chunk;
		int32_t age;
	} found[SAMPLE];
	unsigned count;
};

static void search_begin(struct eviction *search, const struct arena *arena, enum reach reach)
{
	search->reach = reach;
	search->stale = STALE * arena->chunks < INT32_MAX ? (int32_t)(STALE * arena->chunks) : INT32_MAX;
	search->at = atomic_load(&arena->head->hand) % arena->chunks;
	search->left = arena->chunks + 64; /* the first word is looked at twice, in parts */
	search->count = 0;
}

static void search_skip(struct eviction *search, const struct arena *arena, uint64_t next)
{
	uint64_t passed;

	if (next > arena->chunks)
		next = arena->chunks;
	passed = next - search->at;
	search->left -= passed < search->left ? passed : search->left;
	search->at = next < arena->chunks ? next : 0;
}

static void search_word(struct eviction *search, const struct arena *arena,
			struct arena_group *group)
{
	unsigned word = search->at % ARENA_GROUP / 64;
	uint64_t first = search->at & ~UINT64_C(63);
	uint64_t bits = atomic_load(&group->pins[0][word]) >> search->at % 64 << search->at % 64;
	uint64_t retained = atomic_load(&group->retained[word]);
	uint32_t clock = atomic_load_explicit(&arena->head->clock, memory_order_relaxed);
	int32_t age;

	if (search->reach < REACH_KEPT)
		bits &= ~atomic_load(&group->kept[word]);
	if (bits)
		bits &= ~pinned_in(arena, search->at / ARENA_GROUP, word);
	for (; bits && search->count < SAMPLE; bits &= bits - 1) {
		uint64_t chunk = first + (unsigned)__builtin_ctzll(bits);

		if (chunk >= arena->chunks || atomic_load(&group->words[chunk % ARENA_GROUP]))
			continue;
		age = (int32_t)(clock - atomic_load_explicit(&group->stamps[chunk % ARENA_GROUP],
							     memory_order_relaxed));
		if (search->reach < REACH_RETAINED && retained >> chunk % 64 & 1 &&
		    age < search->stale)
			continue;
		search->found[search->count].chunk = chunk;
		search->found[search->count++].age = age;
	}
}

static void search_sample(struct eviction *search, const struct arena *arena)
{
	while (search->left && search->count < SAMPLE) {
		struct arena_group *group = arena_group_of(arena, search->at);

		if (!group) {
			search_skip(search, arena, (search->at | (ARENA_GROUP - 1)) + 1);
			continue;
		}
		search_word(search, arena, group);
		search_skip(search, arena, (search->at | 63) + 1);
	}
}

static uint64_t search_oldest(struct eviction *search)
{
	unsigned oldest = 0;
	uint64_t chunk;

	for (unsigned i = 1; i < search->count; i++)
		if (search->found[i].age > search->found[oldest].age)
			oldest = i;
	chunk = search->found[oldest].chunk;
	search->found[oldest] = search->found[--search->count];
	return chunk;
}

/* A reader that goes over a file again and again needs the least recently used chunk first. If that
 * chunk is evicted, the reader finds nothing, however much room there is. So on a served node the
 * first copies that would be evicted stay instead, a part of all, and later ones go (as in the
 * cache MinIO: Mohan et al., VLDB 2021). They stay whatever the order of the rounds, until no
 * reader uses them any more. Copies that are used more often stay among the passing ones, too. */
static bool retain(struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = arena_group_of(arena, chunk);
	uint64_t bit = UINT64_C(1) << chunk % 64, retained = atomic_load(&arena->head->retained);

	if (!group || !is_served(arena) ||
	    (retained + 1) * ARENA_BLOCKS > room_of_copies(arena) - room_to_pass(arena))
		return false;
	/* A process that dies in the middle leaves the count too high. */
	atomic_fetch_add(&arena->head->retained, 1);
	if (!(atomic_fetch_or(&group->retained[chunk % ARENA_GROUP / 64], bit) & bit))
		return true;
	atomic_fetch_sub(&arena->head->retained, 1);
	return false;
}

/* Evicts the oldest of the next few chunks that may go. Returns false if the arena has none. */
static bool evict_any(struct arena *arena, enum reach reach)
{
	struct eviction search;
	unsigned others = 1; /* chunks that must be left if one is retained */

	search_begin(&search, arena, reach);
	while (search.left) {
		search_sample(&search, arena);
		while (search.count) {
			uint64_t chunk = search_oldest(&search);

			/* Retains one at a time where there are few. */
			if (reach == REACH_PASSING && search.count >= others &&
			    retain(arena, chunk)) {
				others = SAMPLE / 2;
				continue;
			}
			if (evict(arena, chunk)) {
				atomic_store(&arena->head->hand, chunk + 1);
				return true;
			}
		}
	}
	return false;
}

/* Chunks that the server keeps are for other nodes too. They go only if they leave this node too
 * little room, and after the node's own copies. */
static bool may_kept_go(const struct arena *arena)
{
	uint64_t kept = atomic_load(&arena->head->kept);

	return kept && (!atomic_load(&arena->head->server) ||
			kept * ARENA_BLOCKS > arena_keep_limit(arena));
}

static bool evict_one(struct arena *arena)
{
	return evict_any(arena, REACH_PASSING) ||
	       (atomic_load(&arena->head->retained) && evict_any(arena, REACH_RETAINED)) ||
	       (may_kept_go(arena) && evict_any(arena, REACH_KEPT));
}

static bool is_over(const struct arena *arena, uint64_t limit)
{
	return atomic_load(&arena->head->used) > limit;
}

/* After the node was short of room, evicts more than is needed now, so that the pressure ends. */
static void ease(struct arena *arena)
{
	for (unsigned i = 0; i < AHEAD && atomic_load(&arena->head->pressed); i++)
		if (!evict_one(arena))
			return;
}

static bool make_room(struct arena *arena, uint64_t limit)
{
	bool buried = false;

	while (is_over(arena, limit)) {
		if (evict_one(arena))
			continue;
		if (!buried && arena_bury_dead(arena)) {
			buried = true;
			continue;
		}
		if (!arena_recount(arena))
			return !is_over(arena, limit);
	}
	return true;
}

void arena_evict(struct arena *arena, uint64_t blocks)
{
	uint64_t used = atomic_load(&arena->head->used);

	(void)make_room(arena, used > blocks ? used - blocks : 0);
}

/* --- the door ------------------------------------------------------------------------------- */

static void give_back(struct arena *arena, uint64_t blocks)
{
	arena_account_begin(arena);
	arena_lower(arena, reserved_take(arena, blocks));
	arena_account_end(arena);
}

bool arena_reserve(struct arena *arena, uint64_t blocks)
{
	struct arena_head *head = arena->head;
	uint64_t limit, used;

	arena_look_around(arena);
	purse_refresh(arena);
	limit = arena_limit(arena);
	if (blocks > limit)
		return false;
	arena_account_begin(arena);
	used = atomic_fetch_add(&head->used, blocks);
	/* If the limit has fallen, two blocks go for each new one: not all at once. */
	if (used > limit + blocks)
		limit = used - blocks;
	arena_step("reserve-counted");
	atomic_fetch_add(&arena_own_row(arena)->reserved, (int64_t)blocks);
	arena_account_end(arena);
	arena_step("reserved");
	if (make_room(arena, limit)) {
		ease(arena);
		return true;
	}
	give_back(arena, blocks);
	atomic_store(&head->pressed, 1);
	return false;
}

bool arena_has_room(struct arena *arena, uint64_t blocks)
{
	purse_refresh(arena);
	return !arena_pressed(arena) &&
	       atomic_load(&arena->head->used) + blocks <= arena_limit(arena);
}

void arena_unreserve(struct arena *arena, uint64_t blocks)
{
	if (blocks)
		give_back(arena, blocks);
}

/* Stamps a chunk as used when the clock will have gone on by so much. */
static void stamp(struct arena *arena, uint64_t chunk, uint32_t later)
{
	struct arena_group *group = chunk < arena->chunks ? arena_group_of(arena, chunk) : NULL;
	uint32_t now = atomic_load_explicit(&arena->head->clock, memory_order_relaxed);

	if (group)
		atomic_store_explicit(&group->stamps[chunk % ARENA_GROUP], now + later,
				      memory_order_relaxed);
}

void arena_touch(struct arena *arena, uint64_t chunk)
{
	stamp(arena, chunk, 0);
}

void arena_expect(struct arena *arena, uint64_t chunk, uint64_t length)
{
	uint64_t reads = arena_budget(arena) / length;

	stamp(arena, chunk, reads < INT32_MAX / 2 ? (uint32_t)reads : INT32_MAX / 2);
}

bool arena_pressed(const struct arena *arena)
{
	return atomic_load_explicit(&arena->head->pressed, memory_order_relaxed);
}

uint64_t arena_budget(const struct arena *arena)
{
	return arena_limit(arena) * ARENA_BLOCK;
}

uint64_t arena_used(const struct arena *arena)
{
	return atomic_load(&arena->head->used) * ARENA_BLOCK;
}

uint64_t arena_evictions(const struct arena *arena)
{
	return atomic_load(&arena->head->evictions);
}
