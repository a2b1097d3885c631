/* SPDX-License-Identifier: OLDAP-2.8 */
/* Divides one budget among the data sets of a node.
 *
 * The purse is an arena without a file. Processes meet there as at any other arena, and its rows
 * are processes. In place of data it has a table with a line for each arena that the user has on
 * this node: how much the arena could use, and how much it has. From the table every process
 * computes the same shares: an arena that wants more has no less than any other, and what one arena
 * does not need is divided among the others (max-min fairness). An arena gets as much of its share
 * as the others have left, because an arena that loads nothing new gives nothing back, even above
 * its share. It always has an even part of the budget, 16 chunks at most, to read through.
 *
 * A process that cannot meet the purse does not know what other arenas need. It counts them instead
 * (arena_count()), assumes at least one for each processor, and gives its own arena an even part.
 *
 * A line belongs to the processes whose bits are set in it, as far as they live. Lines are given
 * out under the claim on the purse's only chunk, which is lost with its holder. The chunk's
 * unpublished bytes are freed with such a claim, so the table is published before any process looks
 * at it.
 */
#include "arena/arena_private.h"

#include "util/at_fork.h"
#include "util/checked.h"
#include "util/clock.h"

#include <string.h>
#include <unistd.h>

enum {
	LINES = 512,
	READ_THROUGH = 16 * ARENA_BLOCKS, /* blocks: an arena has at least this, or its even part */
	LEAST = ARENA_PAIR * ARENA_BLOCKS, /* blocks: the smallest even part */
	LOCK_WAIT = 50,                    /* milliseconds of each of the LOCK_TRIES waits */
	LOCK_TRIES = 20,
};

static const uint64_t refresh_every = 250000000; /* ns */
static const uint64_t count_every = 2000000000;  /* ns: for arena_count(), which takes longer */

struct line {
	uint64_t key[2];
	_Atomic uint64_t wants;  /* blocks */
	_Atomic uint64_t budget; /* blocks that its maker lets all arenas have together */
	_Atomic uint64_t used;   /* blocks */
	_Atomic uint64_t holders[ARENA_ROWS / 64];
};

struct purse_table {
	_Atomic uint64_t changes; /* counts the lines that processes take and leave */
	struct line lines[LINES];
};

/* This process's attachment. The mutex guards joining and leaving. */
static struct {
	pthread_mutex_t lock;
	struct arena *arena;
	uint64_t node;
	unsigned users[LINES]; /* arenas of this process that have that line */
	unsigned total;
} purse = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct purse_table *table(void)
{
	return (struct purse_table *)arena_bytes(purse.arena);
}

static bool is_live(const struct line *line)
{
	for (unsigned word = 0; word < ARENA_ROWS / 64; word++) {
		uint64_t rows = atomic_load(&line->holders[word]);

		for (; rows; rows &= rows - 1) {
			unsigned row = word * 64 + (unsigned)__builtin_ctzll(rows);

			if (atomic_load(&purse.arena->rows[row].used))
				return true;
		}
	}
	return false;
}

static void hold(struct line *line, bool on)
{
	uint64_t bit = UINT64_C(1) << purse.arena->row % 64;
	_Atomic uint64_t *word = &line->holders[purse.arena->row / 64];

	if (on)
		atomic_fetch_or(word, bit);
	else
		atomic_fetch_and(word, ~bit);
}

/* --- shares ----------------------------------------------------------------------------------- */

/* Returns the share of `budget` for each arena that wants more than it. Overwrites `wants`. */
static uint64_t fair_share(uint64_t *wants, unsigned n, uint64_t budget)
{
	for (unsigned before = n + 1; n && n < before;) {
		uint64_t share = budget / n;

		before = n;
		for (unsigned i = 0; i < n;) {
			if (wants[i] > share) {
				i++;
				continue;
			}
			budget -= wants[i];
			wants[i] = wants[--n];
		}
	}
	return n ? budget / n : UINT64_MAX;
}

/* Returns an even part of the budget of n arenas, at least LEAST. */
static uint64_t even_part(uint64_t budget, unsigned n)
{
	uint64_t part = budget / n;

	return part < LEAST ? LEAST : part;
}

static uint64_t limit_of(const struct arena *arena)
{
	const struct line *lines = table()->lines;
	uint64_t wants[LINES], budget = 0, others = 0, limit = arena->budget, share, left;
	uint64_t line_budget, least;
	unsigned n = 0, arenas;

	for (int i = 0; i < LINES; i++) {
		if (i != arena->line && !is_live(&lines[i]))
			continue;
		line_budget = atomic_load(&lines[i].budget);
		wants[n++] = atomic_load(&lines[i].wants);
		if (line_budget > budget)
			budget = line_budget;
		if (i != arena->line)
			others += atomic_load_explicit(&lines[i].used, memory_order_relaxed);
	}
	arenas = n; /* including this one */
	share = fair_share(wants, n, budget);
	left = budget > others ? budget - others : 0;
	if (limit > share)
		limit = share;
	if (limit > left)
		limit = left;
	least = even_part(budget, arenas);
	if (least > READ_THROUGH)
		least = READ_THROUGH;
	if (limit < least)
		limit = least;
	return limit < arena->budget ? limit : arena->budget;
}

/* Drops arenas without a member until they fit into the room that the living ones do not want. */
static void make_room(const struct arena *arena)
{
	uint64_t budget = arena_node_budget(arena), wants = arena->needs;

	if (wants > arena->budget)
		wants = arena->budget;
	for (int i = 0; arena->line >= 0 && i < LINES; i++) {
		struct line *line = &table()->lines[i];
		uint64_t theirs = atomic_load(&line->budget);

		if (i == arena->line || !is_live(line))
			continue;
		wants += atomic_load(&line->wants);
		budget = theirs > budget ? theirs : budget;
	}
	keeper_fit(arena, budget, wants);
}

/* Computes the limit of an arena that has no line. */
static void refresh_by_count(struct arena *arena)
{
	uint64_t at = atomic_load_explicit(&arena->refresh_at, memory_order_relaxed);
	uint64_t now = clock_coarse(), limit;
	long processors;
	unsigned n;

	if (now < at || !atomic_compare_exchange_strong(&arena->refresh_at, &at, now + count_every))
		return;
	n = arena_count();
	processors = sysconf(_SC_NPROCESSORS_ONLN);
	if (processors > 0 && n < (unsigned)processors)
		n = (unsigned)processors;
	limit = even_part(arena->budget, n ? n : 1);
	atomic_store(&arena->limit, limit < arena->budget ? limit : arena->budget);
}

void purse_refresh(struct arena *arena)
{
	uint64_t at, now, changes, limit;
	bool rises;

	if (arena->line < 0) {
		refresh_by_count(arena);
		return;
	}
	atomic_store_explicit(&table()->lines[arena->line].used, atomic_load(&arena->head->used),
			      memory_order_relaxed);
	at = atomic_load_explicit(&arena->refresh_at, memory_order_relaxed);
	now = clock_coarse();
	changes = atomic_load(&table()->changes);
	if (now < at && changes == atomic_load_explicit(&arena->changes, memory_order_relaxed))
		return;
	atomic_store_explicit(&arena->refresh_at, now + refresh_every, memory_order_relaxed);
	atomic_store_explicit(&arena->changes, changes, memory_order_relaxed);
	arena_look_around(purse.arena);
	limit = limit_of(arena);
	rises = limit > atomic_exchange(&arena->limit, limit);
	/* A share has become free, but the memory of the arena that its owner left has not. */
	if (rises && keeper_is_there())
		make_room(arena);
}

/* --- coming and going ------------------------------------------------------------------------- */

static bool purse_lock(void)
{
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (arena_claim(purse.arena, 0))
			return true;
		(void)arena_wait(purse.arena, 0, LOCK_WAIT);
	}
	return false;
}

/* In a forked child: the attachment is the parent's. */
static void purse_cut(void)
{
	pthread_mutex_init(&purse.lock, NULL); /* another thread of the parent may hold it */
	if (purse.arena)
		arena_cut(purse.arena);
	memset(purse.users, 0, sizeof(purse.users));
	purse.total = 0;
}

__attribute__((constructor)) static void purse_begin(void)
{
	static const struct fork_steps steps = {.child = purse_cut};

	at_fork(FORK_PURSE, &steps);
}

/* Makes the table and publishes it. If a process is killed in between, the memory is freed with its
 * claim, and the next process makes the table. */
static bool table_make(void)
{
	enum { BLOCKS = (sizeof(struct purse_table) + ARENA_BLOCK - 1) / ARENA_BLOCK };
	bool made;

	if (arena_present(purse.arena, 0, BLOCKS))
		return true;
	if (!purse_lock())
		return false;
	made = arena_give_memory(purse.arena, table(), sizeof(struct purse_table));
	if (made)
		arena_publish(purse.arena, 0, BLOCKS);
	arena_release(purse.arena, 0);
	return made;
}

static void purse_drop(void)
{
	struct arena *arena = purse.arena;

	purse.arena = NULL; /* first: a fork may come at any time */
	arena_detach(arena);
}

static bool purse_open(uint64_t node)
{
	const struct identity identity = {.size = sizeof(struct purse_table), .snapshot = node};
	const struct arena_options options = {.budget = ARENA_CHUNK, .share = true};
	const char *why;

	if (purse.arena && !purse.arena->base) /* cut off by a fork */
		purse_drop();
	if (purse.arena)
		return purse.node == node;
	if (arena_attach(&purse.arena, &identity, &options, false, &why))
		return false;
	purse.node = node;
	if (purse.arena->alone || !table_make()) {
		purse_drop();
		return false;
	}
	/* The row's last owner may have been killed while it held lines. */
	for (unsigned i = 0; i < LINES; i++)
		hold(&table()->lines[i], false);
	return true;
}

static void purse_close(void)
{
	if (!purse.total && purse.arena)
		purse_drop();
}

static struct line *line_find(const uint64_t key[2])
{
	struct line *dead = NULL;

	for (struct line *line = table()->lines; line < table()->lines + LINES; line++) {
		if (!is_live(line))
			dead = dead ? dead : line;
		else if (line->key[0] == key[0] && line->key[1] == key[1])
			return line;
	}
	if (!dead)
		return NULL;
	dead->key[0] = key[0];
	dead->key[1] = key[1];
	atomic_store(&dead->wants, 0);
	atomic_store(&dead->budget, 0);
	atomic_store(&dead->used, 0);
	for (unsigned i = 0; i < ARENA_ROWS / 64; i++)
		atomic_store(&dead->holders[i], 0);
	return dead;
}

static void line_take(struct arena *arena)
{
	uint64_t key[2] = {arena->key[0], arena->key[1]}, wants = arena->needs;
	uint64_t budget = arena_node_budget(arena);
	struct line *line;

	if (arena->alone) { /* shares its line with no other process */
		key[0] ^= mix64((uint64_t)getpid());
		key[1] ^= mix64((uintptr_t)arena);
	}
	if (wants > arena->budget)
		wants = arena->budget;
	if (!purse_lock())
		return;
	line = line_find(key);
	if (line) {
		if (atomic_load(&line->wants) < wants)
			atomic_store(&line->wants, wants);
		if (atomic_load(&line->budget) < budget)
			atomic_store(&line->budget, budget);
		hold(line, true);
		arena->line = (int)(line - table()->lines);
		purse.users[arena->line]++;
		purse.total++;
		atomic_fetch_add(&table()->changes, 1);
	}
	arena_release(purse.arena, 0);
}

void purse_join(struct arena *arena)
{
	arena->line = -1;
	atomic_store(&arena->limit, arena->budget);
	atomic_store(&arena->refresh_at, 0);
	pthread_mutex_lock(&purse.lock);
	if (purse_open(arena->node))
		line_take(arena);
	else if (purse.arena) /* the purse is of another node, which has a budget of its own */
		atomic_store(&arena->refresh_at, UINT64_MAX);
	purse_close();
	pthread_mutex_unlock(&purse.lock);
	if (keeper_is_there())
		make_room(arena);
	purse_refresh(arena);
}

void purse_leave(struct arena *arena)
{
	if (arena->line < 0)
		return;
	pthread_mutex_lock(&purse.lock);
	if (!--purse.users[arena->line])
		hold(&table()->lines[arena->line], false);
	purse.total--;
	atomic_fetch_add(&table()->changes, 1);
	arena->line = -1;
	purse_close();
	pthread_mutex_unlock(&purse.lock);
}

void purse_forked(struct arena *arena)
{
	arena->line = -1;
}
